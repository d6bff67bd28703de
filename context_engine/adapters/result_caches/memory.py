"""Kept results in the memory of this process, alone or in front of a store that processes share, until an erasure."""

from __future__ import annotations

import logging
import pickle
import zlib
from collections.abc import Callable
from contextlib import suppress

from cachetools import LRUCache

from context_engine.core.concurrency.forking import Lock, forget_in_child
from context_engine.core.models import KeptSearch
from context_engine.core.protocols import ResultCache

logger = logging.getLogger(__name__)
_LEVEL = 1
_LEAST_BYTES = 4096
"""The size at which a smaller entry counts, so that `most_bytes` also limits the number of entries."""


class MemoryCache:
    """Keeps results packed, which takes a tenth of the memory; a `ResultCache`. Emptied in a forked child.

    Args:
        most_bytes: of all packed results; the longest unused ones are dropped first.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._lock = most_bytes, Lock()
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Drop all results."""
        self._kept: LRUCache[str, bytes] = LRUCache(
            self._most_bytes, getsizeof=lambda packed: max(_LEAST_BYTES, len(packed))
        )

    def get(self, key: str) -> KeptSearch | None:
        """Return the result of a key."""
        with self._lock:
            packed = self._kept.get(key)
        if packed is None:
            return None
        kept: KeptSearch = pickle.loads(zlib.decompress(packed))
        return kept

    def put(self, key: str, kept: KeptSearch) -> None:
        """Keep a result; one larger than `most_bytes` is not kept."""
        try:
            packed = zlib.compress(pickle.dumps(kept, pickle.HIGHEST_PROTOCOL), _LEVEL)
        except (pickle.PicklingError, TypeError, AttributeError) as error:  # a source used a type of its own
            logger.debug("search %s is not kept: %s", kept.result.search_id, type(error).__name__)
            return
        with self._lock, suppress(ValueError):
            self._kept[key] = packed

    def close(self) -> None:
        """Drop all results."""
        with self._lock:
            self._kept.clear()


class TieredCache:
    """A store of this process in front of a shared one; a `ResultCache`."""

    def __init__(self, near: ResultCache, shared: ResultCache) -> None:
        self._near, self._shared = near, shared

    def get(self, key: str) -> KeptSearch | None:
        """Return the result of a key from the near store, else from the shared one, and keep it near."""
        kept = self._near.get(key)
        if kept is not None:
            return kept
        kept = self._shared.get(key)
        if kept is not None:
            self._near.put(key, kept)
        return kept

    def put(self, key: str, kept: KeptSearch) -> None:
        """Keep a result in both."""
        self._near.put(key, kept)
        self._shared.put(key, kept)

    def close(self) -> None:
        """Close both."""
        self._near.close()
        self._shared.close()


class ErasableCache:
    """A store whose results are used only as long as nothing is erased; an `EpochCache`.

    Args:
        store: keeps the results.
        mark: returns a text that every erasure replaces; None if it cannot be told now.
        forget: drops the results in the memory of this process.
        close: closes what `mark` reads.
    """

    def __init__(
        self,
        store: ResultCache,
        mark: Callable[[], str | None],
        *,
        forget: Callable[[], None],
        close: Callable[[], None],
    ) -> None:
        self._store, self._mark, self._forget, self._close = store, mark, forget, close
        self._last: str | None = None

    def epoch(self) -> str | None:
        """Return the mark, and drop what this process kept under another one."""
        mark = self._mark()
        if mark is not None and mark != self._last:
            if self._last is not None:
                self._forget()
            self._last = mark
        return mark

    def get(self, key: str) -> KeptSearch | None:
        """Return what the store keeps under a key."""
        return self._store.get(key)

    def put(self, key: str, kept: KeptSearch) -> None:
        """Keep a result in the store."""
        self._store.put(key, kept)

    def close(self) -> None:
        """Close the store; may be called twice."""
        self._store.close()
        self._close()
