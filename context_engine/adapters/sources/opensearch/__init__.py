"""A knowledge base in OpenSearch: the adapter `opensearch`."""

from context_engine.adapters.sources.opensearch.adapter import OpenSearchSettings, check_opensearch, open_opensearch

__all__ = ["OpenSearchSettings", "check_opensearch", "open_opensearch"]
