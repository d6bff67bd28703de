"""Remove deleted data from a ledger's SQLite file for good, by rewriting the file.

Overwriting in place (`secure_delete`) is not enough: SQLite moves rows between pages and leaves copies in unused parts
of a page. Measured: after about 150 random erasures one complete text was still there.
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
_LONGEST_S: Final = 30.0  # other processes may keep the file locked meanwhile
_PAUSE_S: Final = 0.1
_PASSING: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def overwrites_deleted(connection: Connection) -> None:
    """Make this connection overwrite deleted data in a SQLite file with zeros."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")


def overwrite_freed(database: Database) -> bool | None:
    """Rewrite the ledger's file and empty its write-ahead log; return whether both succeeded.

    Takes the time and free disk space of copying the file; writers wait. While another process reads an older
    snapshot the write-ahead log cannot be emptied.

    Returns:
        None for PostgreSQL: there `VACUUM FULL addendum` rewrites the table, and WAL archives, replicas and backups
        keep the data until they are recycled.

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
            return _retry(lambda: _vacuum(driver), until) and _retry(lambda: _empty_log(driver), until)
        except sqlite3.Error as error:  # the deletion itself is committed; only the file was not rewritten
            logger.warning("the file of the ledger %s could not be rewritten: %s", database.place, error)
            return False


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
