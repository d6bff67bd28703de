"""Stores of the cache of answers: in this process, and in Redis for several processes."""

from context_engine.adapters.result_caches.memory import ErasableCache, MemoryCache, TieredCache

__all__ = ["ErasableCache", "MemoryCache", "TieredCache"]
