"""A small SQLite file that the threads and processes of a deployment share; only its owner may read it."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from context_engine.errors import ConfigError

_BUSY_S: Final = 10.0


class SharedDatabase:
    """A file with a few tables. Safe for threads and processes: each use opens a connection of its own.

    Args:
        path: the first write creates the file.
        tables: the statements that create its tables.
        version: of its tables; a file of a higher version is refused.
        holds: names what it holds, for messages.
        if_exposed: what to do if others could read it, besides taking that right away.
    """

    def __init__(self, path: Path, tables: Sequence[str], *, version: int, holds: str, if_exposed: str = "") -> None:
        self.path = path
        self._tables, self._version, self._holds, self._if_exposed = tables, version, holds, if_exposed

    @contextmanager
    def written(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection within a transaction that no other process writes in.

        Raises:
            ConfigError: the file cannot be used.
        """
        with self.problems_named():
            _make_file(self.path)
            with closing(self.connect()) as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    if not _version_of(connection):
                        for table in self._tables:
                            connection.execute(table)
                        connection.execute(f"PRAGMA user_version = {self._version}")
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")

    def reader(self) -> sqlite3.Connection | None:
        """Return an open connection for reading; None if the file is just being created.

        Raises:
            ConfigError, OSError, sqlite3.Error: the file cannot be used; see `problems_named`.
        """
        connection = self.connect()
        if _version_of(connection):
            return connection
        connection.close()
        return None

    def connect(self) -> sqlite3.Connection:
        """Open the file; transactions are begun and ended by hand.

        Raises:
            ConfigError: others may read it, or a newer version has written it.
        """
        if os.name == "posix" and self.path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            remedy = f"run chmod 600 {self.path}{self._if_exposed}"
            raise ConfigError(f"can be read by others: {remedy}", file=str(self.path))
        uri = f"file:{quote(str(self.path.absolute()))}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            _use_log(connection)
            connection.execute("PRAGMA synchronous = FULL")
            if _version_of(connection) > self._version:
                raise ConfigError("was written by a newer version: use that version", file=str(self.path))
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def problems_named(self) -> Iterator[None]:
        """Turn errors of the file into a ConfigError that says what to do."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            mend = "make room on the disk" if _is_full(error) else "let the user who runs this write to its folder"
            problem = f"{self._holds} cannot be read or written ({reason}): {mend}"
            raise ConfigError(problem, file=str(self.path)) from error


def _is_full(error: sqlite3.Error | OSError) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL


def _make_file(path: Path) -> None:
    """Create an empty file readable by its owner only, unless it exists."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch on the write-ahead log, so that no reader waits for a writer. SQLite does not retry this switch itself."""
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the tables; 0 if the file is just being created."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
