"""Kept results that an erasure in the ledger makes unusable, in this process and in all others that share them."""

from __future__ import annotations

from collections.abc import Callable

from context_engine.core.models import KeptSearch
from context_engine.core.protocols import ResultCache


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
