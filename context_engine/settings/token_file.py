"""The SQLite file of a deployment's tokens: its owner's alone, and written while others read it."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from context_engine.errors import ConfigError

VERSION: Final = 1
_BUSY_S: Final = 10.0
TABLE: Final = """
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, principal TEXT NOT NULL, sha256 TEXT NOT NULL,
    created INTEGER NOT NULL, expires INTEGER, revoked INTEGER, used INTEGER
) WITHOUT ROWID
"""


def make_file(path: Path) -> None:
    """Make an empty file that its owner alone may read, where there is none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def connect(path: Path) -> sqlite3.Connection:
    """Open the file; transactions are begun and ended by hand.

    Raises:
        ConfigError: others may read it, or a newer version has written it.
    """
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"is open to others: run chmod 600 {path}, and replace the tokens", file=str(path))
    uri = f"file:{quote(str(path.absolute()))}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        _use_log(connection)
        connection.execute("PRAGMA synchronous = FULL")
        if version_of(connection) > VERSION:
            raise ConfigError("was written by a newer version: run that one", file=str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _use_log(connection: sqlite3.Connection) -> None:
    """Have a write-ahead log, so that no request waits for a writer; SQLite itself does not wait for who sets it up."""
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


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the form that a file has; 0 for one that is just being made."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
