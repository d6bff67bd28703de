"""Copies of SQLite files that other processes are using, and the test that nobody uses one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from context_engine.errors import BackupError

_BUSY_S: Final = 10.0
_OTHERS_S: Final = 0.5  # how long another process may take to end


def copy_database(path: Path, to: Path) -> None:
    """Write one snapshot of a database to a new file; writers and readers are not disturbed.

    Pages that deletions have freed are not copied, so no deleted text is in the copy.

    Raises:
        sqlite3.Error: the database cannot be read, or the copy cannot be written.
    """
    with closing(_connected(path, "ro", _BUSY_S)) as connection:
        connection.execute("VACUUM INTO ?", (str(to),))


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
