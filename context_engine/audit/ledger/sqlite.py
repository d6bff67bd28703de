"""A ledger in a file: SQLite with a write-ahead log, durable at each commit."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from context_engine.errors import AuditError

WRITES: Final = "writes"
"""The execution option of a connection whose transactions write: they wait for the lock before they read."""

_BUSY_S: Final = 10.0
_POOL: Final = 16
_CACHE_KIB: Final = 16_384


def make_file(path: Path) -> None:
    """Make an empty file that its owner alone may read, where there is none, and the folder it stands in.

    Args:
        path: of the file.

    Raises:
        AuditError: it cannot be made.
    """
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise AuditError(
            f"the ledger {path} cannot be made ({reason}): let the user who runs this write to {path.parent}, or name "
            "another place in CONTEXT_ENGINE_AUDIT_LEDGER"
        ) from error


def sqlite_engine(path: Path, *, writable: bool) -> Engine:
    """Return an engine over a file that is there; its transactions are begun by SQLAlchemy, not by the driver.

    Args:
        path: of the file.
        writable: whether its user may write to it.
    """
    engine = create_engine(
        "sqlite://",
        creator=lambda: _connect(path, writable=writable),
        poolclass=QueuePool,
        pool_size=_POOL,
        max_overflow=_POOL,
        pool_timeout=_BUSY_S,
        hide_parameters=True,
    )
    event.listen(engine, "begin", _begin)
    return engine


def last_look(path: Path) -> sqlite3.Connection | None:
    """Return a connection that only reads; where it is the last to be closed, SQLite leaves the log and its index.

    Without the two nobody can read the ledger who may not write to its folder.
    """
    with suppress(sqlite3.Error):
        connection = _connect(path, writable=False)
        try:
            connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.Error:
            connection.close()
        else:
            return connection
    return None


def _connect(path: Path, *, writable: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={'rw' if writable else 'ro'}",
        uri=True,
        timeout=_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        if writable:
            _use_log(connection)
            connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_log(connection: sqlite3.Connection) -> None:
    """Have a write-ahead log; SQLite does not wait for another process that is just about to set it up."""
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            with closing(connection.execute("PRAGMA journal_mode = WAL")) as answer:
                answer.fetchone()
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get(WRITES) else "BEGIN")
