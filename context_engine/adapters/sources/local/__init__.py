"""The embedded knowledge base: rows in SQLite, found by BM25 and by vectors."""

from context_engine.adapters.sources.local.base import LocalBase
from context_engine.adapters.sources.local.source import LocalSource
from context_engine.adapters.sources.stores.options import SearchOptions

__all__ = ["LocalBase", "LocalSource", "SearchOptions"]
