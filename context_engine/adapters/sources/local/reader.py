"""Reading: a pool of connections, the index the state points to, and a view that holds the two together."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import tantivy

from context_engine.adapters.sources.local import index as indexing
from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.schema import BaseState
from context_engine.core.concurrency.forking import abandon, forget_in_child
from context_engine.errors import StoreCorrupt, StoreVersionMismatch

if TYPE_CHECKING:
    from context_engine.adapters.sources.local.loading import VectorCache
    from context_engine.adapters.sources.local.matrix import Matrix

__all__ = ["Pool", "View", "Viewer"]

_TRIES = 3
_MOST_IDLE = 16
"""Connections kept open between searches."""

_REBUILD = "run 'context-engine kb rebuild'"


class View(NamedTuple):
    """One moment of a base: a read transaction and a searcher.

    Attributes:
        held: the generation the searcher holds.
        vectors: of the rows the searcher holds; None without an embedder, or where the base has none.
        resolved: conditions that were turned into queries for this searcher before; shared by all its views.
    """

    connection: sqlite3.Connection
    state: BaseState
    searcher: tantivy.Searcher
    held: int
    resolved: dict[str, tantivy.Query]
    vectors: Matrix | None


class Pool:
    """Read-only connections, each used by one thread at a time: two open files for each search under way, the base and
    its log, and one for all of them.

    Args:
        root: folder of the base.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._epoch = 0
        forget_in_child(self)

    def forget(self) -> None:
        """Have no connection open; SQLite's may be neither used nor closed in a forked child."""
        abandon(self._idle)
        self._idle, self._lock, self._epoch = [], threading.Lock(), self._epoch + 1

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection in a read transaction of its own.

        Raises:
            StoreError: there is no base, or it cannot be opened.
        """
        with self._lock:
            epoch = self._epoch
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            if not (self._root / schema.DATABASE).is_file():
                raise schema.missing(self._root)
            connection = schema.connect(self._root, write=False)
        try:
            connection.execute("BEGIN")
            yield connection
        except BaseException:
            connection.close()
            raise
        connection.execute("ROLLBACK")
        with self._lock:
            if epoch == self._epoch and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close what is idle, and what is lent as soon as it comes back."""
        with self._lock:
            idle, self._idle, self._epoch = self._idle, [], self._epoch + 1
        for connection in idle:
            connection.close()


class _OpenIndex(NamedTuple):
    number: int
    stamp: tuple[int, int, int]
    handle: tantivy.Index
    searcher: tantivy.Searcher
    held: int
    resolved: dict[str, tantivy.Query]


class Viewer:
    """Opens views; shares one index between threads and reloads it when it has changed on disk.

    Args:
        root: folder of the base.
        pool: its connections.
        vectors: where an embedder is configured, its vectors.
    """

    def __init__(self, root: Path, pool: Pool, vectors: VectorCache | None = None) -> None:
        self._root, self._pool, self._vectors = root, pool, vectors
        self._opened: _OpenIndex | None = None
        self._lock = threading.Lock()
        forget_in_child(self)

    def forget(self) -> None:
        """Have no index open: the thread that watches it has stayed in the parent."""
        abandon(self._opened)
        self._opened, self._lock = None, threading.Lock()

    @contextmanager
    def view(self) -> Iterator[View]:
        """Hold one moment of the base; it is looked at again where the index is behind, never waited for.

        Raises:
            StoreVersionMismatch: another version wrote the tables or the index.
            StoreCorrupt: the database or the index cannot be read.
            StoreError: there is no base, or it cannot be opened.
        """
        try:
            with self._pool.snapshot() as connection:
                yield self._view(connection)
        except sqlite3.DatabaseError as error:
            raise schema.unusable(self._root, error) from error
        except ValueError as error:
            raise StoreCorrupt(f"{self._root} is damaged ({error}): run 'context-engine kb verify'") from error

    def close(self) -> None:
        """Let the index go; the next view opens it again."""
        with self._lock:
            self._opened = None
        if self._vectors is not None:
            self._vectors.close()

    def _view(self, connection: sqlite3.Connection) -> View:
        """Take a snapshot that knows every field value of the index: one that began after the index was opened.

        One that began before it may lack the last commit; where commits come too fast for another, what is read of
        it is not kept for later views.
        """
        for left in reversed(range(_TRIES)):
            before = self._opened
            state = self._state(connection)
            try:
                opened = self._current(state)
            except StoreCorrupt:
                if not left:
                    raise
            else:
                settled = opened is before
                if (settled and opened.held == state.generation) or not left:
                    break
            connection.execute("ROLLBACK")
            connection.execute("BEGIN")
        held, cache = min(opened.held, state.generation), self._vectors
        vectors = None if cache is None else cache.matrix(connection, state, held, self._root)
        return View(connection, state, opened.searcher, opened.held, opened.resolved if settled else {}, vectors)

    def _state(self, connection: sqlite3.Connection) -> BaseState:
        state = schema.read_state(connection, self._root)
        if state.analyser != indexing.INDEX_VERSION:
            raise StoreVersionMismatch(
                f"the index in {self._root} was built by index version {state.analyser}, this program has "
                f"{indexing.INDEX_VERSION}: {_REBUILD}"
            )
        return state

    def _current(self, state: BaseState) -> _OpenIndex:
        path = indexing.directory(self._root, state.index_number)
        with self._lock:
            opened = self._opened
            try:
                stamp = _stamp(path)
                if opened is None or opened.number != state.index_number or opened.stamp != stamp:
                    same = opened is not None and opened.number == state.index_number
                    index = opened.handle if opened is not None and same else indexing.opened(path)
                    index.reload()
                    searcher = index.searcher()
                    opened = _OpenIndex(state.index_number, stamp, index, searcher, self._held(searcher, state), {})
                    self._opened = opened
            except (OSError, ValueError) as error:
                self._opened = None
                raise _damaged(path, error) from error
            return opened

    def _held(self, searcher: tantivy.Searcher, state: BaseState) -> int:
        mark = indexing.read_mark(searcher)
        if mark is None or mark.base_id != state.base_id:
            raise StoreCorrupt(f"the index in {self._root} belongs to another base: {_REBUILD}")
        return mark.generation


def _damaged(path: Path, error: Exception) -> StoreCorrupt:
    """Return the error for an index that cannot be read."""
    return StoreCorrupt(f"the index in {path} cannot be read ({error}): {_REBUILD}")


def _stamp(path: Path) -> tuple[int, int, int]:
    found = (path / "meta.json").stat()
    return found.st_mtime_ns, found.st_ino, found.st_size
