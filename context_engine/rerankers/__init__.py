"""Adapters to models that read query and text together."""

from context_engine.rerankers.simple import CallableReranker, NoOpReranker

__all__ = ["CallableReranker", "NoOpReranker"]
