"""The embedded knowledge base: BM25 over rows in SQLite, indexed by tantivy."""

from context_engine.sources.local.base import BaseStats, LocalBase, SourceStats
from context_engine.sources.local.source import LocalSource
from context_engine.sources.local.verify import VerifyReport
from context_engine.sources.local.writer import Writer

__all__ = ["BaseStats", "LocalBase", "LocalSource", "SourceStats", "VerifyReport", "Writer"]
