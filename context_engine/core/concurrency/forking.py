"""Resets locks, threads and connections in a forked child, which has its parent's memory and open files, but no
threads.

A lock that another thread held at the fork would stay locked in the child for ever, and a connection that both
processes use would mix up their calls. So every object with locks, threads or connections registers itself here and
drops them in the child.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import WeakSet


class Forgetful(Protocol):
    """Has something that a child must not use."""

    def forget(self) -> None:
        """Make new locks; drop threads, connections, and data that a thread was just changing."""


_REGISTERED: Final[WeakSet[Forgetful]] = WeakSet()
_ABANDONED: Final[list[Any]] = []
_MOST_WAIT_S: Final = 10.0
"""A fork waits so long for calls of other threads; they may wait for something that the forking thread holds."""


def forget_in_child(thing: Forgetful) -> None:
    """Call `forget` in every child that is forked while the thing lives."""
    _REGISTERED.add(thing)


def abandon(thing: Any) -> None:
    """Keep an object that must be neither used nor closed in this process: a database connection, an index with its own
    thread.
    """
    if thing is not None:
        _ABANDONED.append(thing)


T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801  used like the one of functools
    """A property computed once for each object, without the lock of `functools.cached_property`.

    Until Python 3.12 that lock is shared by all objects of the class, so a fork during one computation would block
    every later one in the child. Here two threads may both compute the value; the last one is kept.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        if instance is None:
            return self  # type: ignore[return-value]  # of the class, for documentation
        value: T = self._compute(instance)
        vars(instance)[self._name] = value
        return value


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

    A fork waits until no other thread is in such a block, for ten seconds at most. Threads that reach a block wait for
    the fork.
    """

    def __init__(self) -> None:
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Count no thread as inside the block."""
        self._changed, self._forking = threading.Condition(), 0
        self._inside: list[int] = []  # the ids of threads

    def __enter__(self) -> None:
        own = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: not self._forking or own in self._inside)
            self._inside.append(own)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            with suppress(ValueError):  # entered before the process was forked
                self._inside.remove(threading.get_ident())
            self._changed.notify_all()

    def before_fork(self) -> None:
        """Wait until no other thread is inside the block, and let none enter."""
        own = {threading.get_ident()}
        with self._changed:
            self._forking += 1
            self._changed.wait_for(lambda: own.issuperset(self._inside), _MOST_WAIT_S)

    def after_fork(self) -> None:
        """Let waiting threads enter."""
        with self._changed:
            self._forking -= 1
            self._changed.notify_all()


UNFORKED: Final = _Unforked()
"""For calls of SQLite: `with UNFORKED: ...`."""


def _forget_all() -> None:
    for thing in list(_REGISTERED):
        thing.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=UNFORKED.before_fork, after_in_parent=UNFORKED.after_fork, after_in_child=_forget_all)
