"""Dify datasets as sources, over Dify's Service API."""

from context_engine.adapters.sources.dify.adapter import dify_kb_adapter, open_dify
from context_engine.adapters.sources.dify.settings import DifySettings, MetadataNames, check_dify
from context_engine.adapters.sources.dify.source import DifySource

__all__ = ["DifySettings", "DifySource", "MetadataNames", "check_dify", "dify_kb_adapter", "open_dify"]
