"""What was deleted from a ledger's file is gone from it: the file is written anew from what is left.

To overwrite what is deleted where it stood (`secure_delete`) is not enough: SQLite moves rows between pages, and leaves
copies of them in the unused part of a page. Measured: after some 150 random erasures a whole text stood there.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from typing import Final

from sqlalchemy import Connection

from context_engine.audit.ledger.database import Database
from context_engine.audit.ledger.engines import failures

logger = logging.getLogger(__name__)

_LONGEST_S: Final = 30.0
_PAUSE_S: Final = 0.1
_PASSING: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def overwrites_deleted(connection: Connection) -> None:
    """Have what this connection deletes from a file overwritten with zeros, before the disk gets its place back."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")


def overwrite_freed(database: Database) -> bool | None:
    """Write the ledger's file anew and empty its write-ahead log; return whether both was done.

    It takes about as long as the file takes to be copied, and as much free disk again; writers wait for it. While
    another process reads an older state the log cannot be emptied.

    Args:
        database: of the ledger.

    Returns:
        None where the ledger is in PostgreSQL: there `VACUUM FULL addendum` writes the table anew, and WAL archives,
        replicas and backups keep what they have until they are recycled.

    Raises:
        AuditError: the database cannot be used.
    """
    if database.engine.dialect.name != "sqlite":
        return None
    until = time.monotonic() + _LONGEST_S
    with failures(database.place), closing(database.engine.raw_connection()) as connection:
        driver = connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        try:
            return _retried(lambda: _vacuumed(driver), until) and _retried(lambda: _emptied(driver), until)
        except sqlite3.Error as error:  # what was deleted stays deleted: only the file is as it was
            logger.warning("the ledger %s could not be written anew: %s", database.place, error)
            return False


def _vacuumed(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("VACUUM")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in _PASSING:
            return False
        raise
    return True


def _emptied(connection: sqlite3.Connection) -> bool:
    busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def _retried(step: Callable[[], bool], until: float) -> bool:
    while not step():
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE_S)
    return True
