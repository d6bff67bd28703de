"""Resets locks, threads and connections in a forked child, which has its parent's memory and open files, but no
threads.

A lock that another thread held at the fork would stay locked in the child for ever, and a connection that both
processes use would mix up their calls. So every object with locks, threads or connections registers itself here and
drops them in the child.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any, Final, Protocol
from weakref import WeakSet


class Forgetful(Protocol):
    """Has something that a child must not use."""

    def forget(self) -> None:
        """Make new locks; drop threads, connections, and data that a thread was just changing."""


_REGISTERED: Final[WeakSet[Forgetful]] = WeakSet()
_ABANDONED: Final[list[Any]] = []
_MOST_WAIT_S: Final = 1.0
"""A fork waits so long for calls at work; it may have been made by one of them."""


def forget_in_child(thing: Forgetful) -> None:
    """Call `forget` in every child that is forked while the thing lives."""
    _REGISTERED.add(thing)


def abandon(thing: Any) -> None:
    """Keep an object that must be neither used nor closed in this process: a database connection, an index with its own
    thread.
    """
    if thing is not None:
        _ABANDONED.append(thing)


class Lock:
    """A lock that is free in a forked child.

    Args:
        reentrant: whether the thread that holds the lock may take it again.
    """

    def __init__(self, *, reentrant: bool = False) -> None:
        self._reentrant = reentrant
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Be free."""
        self._lock: Any = threading.RLock() if self._reentrant else threading.Lock()

    def acquire(self) -> None:
        """Wait for the lock and take it."""
        self._lock.acquire()

    def release(self) -> None:
        """Give it back."""
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


class _Unforked:
    """A block of calls into a library with its own locks, which a child could not free.

    A fork waits until no thread is in such a block, for a second at most. Threads that reach a block wait for the fork.
    """

    def __init__(self) -> None:
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Count no thread as inside the block."""
        self._changed, self._inside, self._forking = threading.Condition(), 0, False

    def __enter__(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._forking, _MOST_WAIT_S)
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._inside = max(0, self._inside - 1)
            self._changed.notify_all()

    def before_fork(self) -> None:
        """Wait until no thread is inside the block, and let none enter."""
        with self._changed:
            self._forking = True
            self._changed.wait_for(lambda: self._inside == 0, _MOST_WAIT_S)

    def after_fork(self) -> None:
        """Let waiting threads enter."""
        with self._changed:
            self._forking = False
            self._changed.notify_all()


UNFORKED: Final = _Unforked()
"""For calls of SQLite: `with UNFORKED: ...`."""


def _forget_all() -> None:
    for thing in list(_REGISTERED):
        thing.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=UNFORKED.before_fork, after_in_parent=UNFORKED.after_fork, after_in_child=_forget_all)
