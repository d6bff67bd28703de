"""SQLite files that other processes are using: copied, rewritten without what was deleted, tested for use."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from context_engine.errors import BackupError

_BUSY_S: Final = 10.0
_OTHERS_S: Final = 0.5  # how long another process may take to end
_LONGEST_S: Final = 30.0  # other processes may keep the file locked meanwhile
_PAUSE_S: Final = 0.1
_PASSING: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def copy_database(path: Path, to: Path) -> None:
    """Write one snapshot of a database to a new file; writers and readers are not disturbed.

    Pages that deletions have freed are not copied, so no deleted text is in the copy.

    Raises:
        sqlite3.Error: the database cannot be read, or the copy cannot be written.
    """
    with closing(_connected(path, "ro", _BUSY_S)) as connection:
        connection.execute("VACUUM INTO ?", (str(to),))


def rewritten(connection: sqlite3.Connection) -> bool:
    """Rewrite a database without what was deleted, and empty its write-ahead log; return whether both succeeded.

    Overwriting in place (`secure_delete`) is not enough: SQLite moves rows between pages and leaves copies in unused
    parts of a page. Measured: after about 150 random erasures one complete text was still there. It takes the time and
    free disk space of copying the file; writers wait. While another process reads an older snapshot, the log cannot be
    emptied.

    Args:
        connection: in autocommit mode, outside a transaction.

    Raises:
        sqlite3.Error: the file cannot be rewritten.
    """
    until = time.monotonic() + _LONGEST_S
    return _retry(lambda: _vacuum(connection), until) and _retry(lambda: _empty_log(connection), until)


def _vacuum(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("VACUUM")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in _PASSING:
            return False
        raise
    return True


def _empty_log(connection: sqlite3.Connection) -> bool:
    busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def _retry(step: Callable[[], bool], until: float) -> bool:
    while not step():
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE_S)
    return True


def require_unused(path: Path) -> None:
    """Refuse a database that another process has open. It is left without a write-ahead log, in one file.

    Raises:
        BackupError: another process has it open, or it cannot be opened.
    """
    try:
        with closing(_connected(path, "rw", _OTHERS_S)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return  # no process can use it
        raise BackupError(
            f"{path} is in use, or this user may not write to it ({error}): stop the service and every ingestion first"
        ) from error


def _connected(path: Path, mode: str, busy_s: float) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=busy_s, isolation_level=None)
