"""Engines that calls share: one for each set of credentials, a few of them kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

from context_engine.apps.dify.credentials import Credentials
from context_engine.core.concurrency.forking import Lock

_MOST_KEPT: Final = 8


class Closable(Protocol):
    """What is closed when nobody uses it any more."""

    def close(self) -> None:
        """Close it; called once."""
        ...


T = TypeVar("T", bound=Closable)


class _Kept(Generic[T]):
    """One engine and who uses it; it is closed when it is let go and nobody uses it any more."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.opened: T | None = None
        self.users = 0
        self.let_go = False


class Engines(Generic[T]):
    """Keeps engines, or what asks them in a server, by their credentials. Safe for many threads.

    Args:
        make: opens one; called once for each set of credentials, and again after a failure.
        most: how many are kept; the one used longest ago goes first.
    """

    def __init__(self, make: Callable[[Credentials], T], *, most: int = _MOST_KEPT) -> None:
        self._make, self._most = make, most
        self._lock = Lock()
        self._kept: OrderedDict[str, _Kept[T]] = OrderedDict()

    @contextmanager
    def use(self, credentials: Credentials) -> Iterator[T]:
        """Yield the engine of these credentials; it stays open at least until the end of the block.

        Raises:
            ConfigError: the credentials cannot be used.
        """
        kept, surplus = self._taken(credentials.fingerprint)
        try:
            for one in surplus:
                self._close_if_unused(one)
            with kept.lock:
                if kept.opened is None:
                    kept.opened = self._make(credentials)
            yield kept.opened
        finally:
            with self._lock:
                kept.users -= 1
            self._close_if_unused(kept)

    def _taken(self, key: str) -> tuple[_Kept[T], list[_Kept[T]]]:
        with self._lock:
            kept = self._kept.setdefault(key, _Kept())
            kept.users += 1
            self._kept.move_to_end(key)
            surplus = [self._kept.popitem(last=False)[1] for _ in range(len(self._kept) - self._most)]
            for one in surplus:
                one.let_go = True
            return kept, surplus

    def _close_if_unused(self, kept: _Kept[T]) -> None:
        with self._lock:
            opened = kept.opened if kept.let_go and kept.users == 0 else None
            if opened is not None:
                kept.opened = None
        if opened is not None:
            opened.close()
