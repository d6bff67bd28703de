"""Reading: a pool of connections, the current indexes, and a view that combines them.

A view holds only the partitions that its caller may read, so everything found, counted or suggested comes from them.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import tantivy
from cachetools import LRUCache

from context_engine.adapters.sources.local import index as indexing
from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.index import union
from context_engine.adapters.sources.local.partitions import held_by, readable
from context_engine.adapters.sources.local.schema import BaseState
from context_engine.adapters.sources.local.view import FoundWords, HeldFields, KeptChunks, NearWords, View
from context_engine.core.concurrency.forking import UNFORKED, abandon, forget_in_child
from context_engine.core.models import AccessScope
from context_engine.errors import StoreCorrupt, StoreError, StoreVersionMismatch

if TYPE_CHECKING:
    from context_engine.adapters.sources.local.loading import VectorCache


_TRIES = 3
_MOST_IDLE = 16
"""Connections kept open between searches."""
_MOST_LOOKS = 20
_SHARED_WITHIN_S = 0.5
_MOST_OPEN = 16
"""Sets of partitions kept open; many callers share a few sets."""
_REBUILD = "run 'context-engine kb rebuild'"
_FileId = tuple[int, int]
_FileStamp = tuple[int, int, int]
_Stamp = tuple[_FileStamp, ...]
_Name = tuple[int, tuple[int, ...]]
_Moment = tuple[BaseState, _Stamp]


class Pool:
    """Read-only connections to the file that is the database now, each used by one thread at a time.

    Each search in progress has two open files, the base and its log; one more is shared by all.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._epoch = 0
        self._file: _FileId | None = None
        forget_in_child(self)

    def forget(self) -> None:
        """Drop all connections: SQLite's may be neither used nor closed in a forked child."""
        abandon(self._idle)
        self._idle, self._lock, self._epoch = [], threading.Lock(), self._epoch + 1

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a read transaction.

        Raises:
            StoreError: the base is missing or cannot be opened.
        """
        with UNFORKED, self._snapshot() as connection:
            yield connection

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        file = _file_id(self._root)
        if file != self._file:  # the folder was replaced by another one
            self.close()
        with self._lock:
            self._file, epoch = file, self._epoch
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            if not schema.has_database(self._root):
                raise schema.missing(self._root)
            connection = schema.connect(self._root, write=False)
        try:
            connection.execute("BEGIN")
            _await_log(connection)
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
        """Close the idle connections now and the others when they are returned."""
        with self._lock:
            idle, self._idle, self._epoch = self._idle, [], self._epoch + 1
        for connection in idle:
            connection.close()


class _OpenIndex(NamedTuple):
    """The open indexes of some partitions.

    Attributes:
        stamps: of their files, taken before they were opened.
        marks: the generation of each index.
    """

    paths: tuple[Path, ...]
    stamps: tuple[_Stamp, ...]
    searcher: tantivy.Searcher
    marks: tuple[int, ...]
    resolved: dict[str, tantivy.Query]
    near: NearWords
    words: FoundWords
    fields: HeldFields


class Viewer:
    """Opens views; shares the indexes between threads and reopens them after changes on disk."""

    def __init__(self, root: Path, pool: Pool, vectors: VectorCache | None = None) -> None:
        self._root, self._pool, self._vectors = root, pool, vectors
        self._opened: LRUCache[_Name, _OpenIndex] = LRUCache(_MOST_OPEN)
        self._kept: tuple[_Moment | None, KeptChunks] = (None, {})
        self._lock = threading.Lock()
        forget_in_child(self)

    def forget(self) -> None:
        """Drop all indexes: their threads do not exist in a forked child."""
        abandon(self._opened)
        self._opened, self._lock = LRUCache(_MOST_OPEN), threading.Lock()

    @contextmanager
    def view(self, access: AccessScope | None = None, *, only: int | None = None) -> Iterator[View]:
        """Yield a snapshot of what a caller may read; retried a few times if an index lags, without waiting for it.

        Args:
            access: of the caller; None admits everything.

        Raises:
            StoreVersionMismatch: another version wrote the tables or the index.
            StoreCorrupt: the database or an index is unreadable.
            StoreError: the base is missing or cannot be opened, or the partition no longer exists.
        """
        try:
            stamp = _database_stamp(self._root)
            with self._pool.snapshot() as connection:
                yield self._view(connection, access, only, stamp)
        except sqlite3.DatabaseError as error:
            raise schema.unusable(self._root, error) from error
        except ValueError as error:
            raise StoreCorrupt(f"{self._root} is damaged ({error}): run 'context-engine kb verify'") from error

    def close(self) -> None:
        """Close the indexes; the next view opens them again."""
        with self._lock:
            self._opened.clear()
            self._kept = None, {}
        if self._vectors is not None:
            self._vectors.close()

    def _view(
        self, connection: sqlite3.Connection, access: AccessScope | None, only: int | None, stamp: _Stamp
    ) -> View:
        """Take a snapshot that has every field value of the indexes, one that began after they were opened.

        A snapshot that began earlier may lack the last commit; if commits come too fast for a later one, its resolved
        queries are not kept for other views.

        Args:
            stamp: of the database, taken before the snapshot.
        """
        for left in reversed(range(_TRIES)):
            state = self._state(connection)
            parts = readable(connection, access, only)
            if not parts:
                raise StoreError(f"{self._root} no longer has partition {only}: its documents were moved; try again")
            keys = tuple(part.key for part in parts)
            before = self._opened.get((state.index_number, keys))
            try:
                opened = self._current(state, keys)
            except StoreCorrupt:
                if not left:
                    raise
            else:
                settled = opened is before
                if (settled and opened.marks == tuple(part.generation for part in parts)) or not left:
                    break
            connection.execute("ROLLBACK")
            connection.execute("BEGIN")
        marked = ((part.key, held_by(connection, part, mark)) for part, mark in zip(parts, opened.marks, strict=True))
        behind = {key: generation for key, generation in marked if generation is not None}
        cache = self._vectors
        vectors = None if cache is None else cache.matrices(connection, state, parts, behind, self._root)
        return View(
            connection=connection,
            state=state,
            searcher=opened.searcher,
            behind=behind,
            resolved=opened.resolved if settled else {},
            vectors=vectors,
            partitions=keys,
            near=opened.near,
            words=opened.words,
            fields=opened.fields if settled else {},
            chunks={} if behind else self._chunks_of((state, stamp)),
            known={},
        )

    def _chunks_of(self, moment: _Moment) -> KeptChunks:
        """Return the cached chunks of this state of the database; cached chunks of another state are dropped."""
        of, chunks = self._kept
        if of != moment:
            chunks = {}
            self._kept = moment, chunks
        return chunks

    def _state(self, connection: sqlite3.Connection) -> BaseState:
        state = schema.read_state(connection, self._root)
        if state.analyser != indexing.INDEX_VERSION:
            raise StoreVersionMismatch(
                f"the index in {self._root} was built by index version {state.analyser}, this program has "
                f"{indexing.INDEX_VERSION}: {_REBUILD}"
            )
        return state

    def _current(self, state: BaseState, keys: tuple[int, ...]) -> _OpenIndex:
        name = (state.index_number, keys)
        with self._lock:
            opened = self._opened.get(name)
            paths = opened.paths if opened is not None else self._paths(state, keys)
            try:
                if opened is None or opened.stamps != _stamps(paths):
                    opened = self._open(paths, state.base_id)
            except (OSError, ValueError) as error:
                self._opened.pop(name, None)
                raise _unreadable(paths[0].parent, error) from error
            self._keep(name, opened)
            return opened

    def _paths(self, state: BaseState, keys: tuple[int, ...]) -> tuple[Path, ...]:
        return tuple(indexing.directory(self._root, state.index_number, key) for key in keys)

    def _keep(self, name: _Name, opened: _OpenIndex) -> None:
        """Keep the indexes as the most recently used; drop those that a rebuild has replaced."""
        for former in [opened_name for opened_name in self._opened if opened_name[0] != name[0]]:
            del self._opened[former]
        self._opened[name] = opened

    def _open(self, paths: tuple[Path, ...], base_id: str) -> _OpenIndex:
        """Open indexes; retry if a commit removed a file after the list of files was read."""
        for left in reversed(range(_MOST_LOOKS)):
            stamps = _stamps(paths)
            try:
                return self._opened_at(paths, stamps, base_id)
            except PermissionError:  # the writer has just created the list and is about to share it
                if not left:
                    raise
                time.sleep(_SHARED_WITHIN_S / _MOST_LOOKS)
            except (OSError, ValueError):
                if not left or stamps == _stamps(paths):
                    raise
        raise AssertionError("the last look returns or raises")

    def _opened_at(self, paths: tuple[Path, ...], stamps: tuple[_Stamp, ...], base_id: str) -> _OpenIndex:
        metas = [indexing.read_meta(path) for path in paths]
        marks = [indexing.read_mark(path, meta) for path, meta in zip(paths, metas, strict=True)]
        if any(mark.base_id != base_id for mark in marks):
            raise StoreCorrupt(f"the index in {self._root} belongs to another base: {_REBUILD}")
        return _OpenIndex(paths, stamps, union(paths, metas), tuple(mark.generation for mark in marks), {}, {}, {}, {})


def _file_id(root: Path) -> _FileId | None:
    """Return the device and the number of the database's file, or None if it cannot be reached."""
    try:
        status = os.stat(f"{root}/{schema.DATABASE}")  # noqa: PTH116  in every search
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _await_log(connection: sqlite3.Connection) -> None:
    """Give a writer a moment to create the log, which a reader without write permission cannot do.

    Other errors are left to the first query.
    """
    for _ in range(_TRIES):
        try:
            connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_READONLY:
                return
            time.sleep(_SHARED_WITHIN_S / _MOST_LOOKS)
        else:
            return


def _unreadable(path: Path, error: Exception) -> StoreError:
    """Return the error for an index that cannot be read."""
    if isinstance(error, PermissionError):
        return StoreError(
            f"no permission to read the index in {path} ({error}): let the user who runs this read all of "
            f"{path.parent}; if only its owner may read some of its files, 'context-engine kb rebuild' gives them the "
            "same permissions"
        )
    return StoreCorrupt(f"the index in {path} is unreadable ({error}): {_REBUILD}")


def _database_stamp(root: Path) -> _Stamp:
    """Return a stamp of the database and its log that changes with every commit of any process."""
    files = (f"{root}/{schema.DATABASE}", f"{root}/{schema.DATABASE}-wal")
    return tuple(_stamp(file) for file in files if os.path.exists(file))  # noqa: PTH110  in every search


def _stamps(paths: Iterable[Path]) -> tuple[_Stamp, ...]:
    return tuple(tuple(_stamp(f"{path}/{name}") for name in (indexing.META, indexing.MARK)) for path in paths)


def _stamp(file: str) -> _FileStamp:
    status = os.stat(file)  # noqa: PTH116  in every search
    return status.st_mtime_ns, status.st_ino, status.st_size
