"""Remove deleted data from a ledger's SQLite file for good, by rewriting the file."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing

from sqlalchemy import Connection

from context_engine.audit.ledger.database import Database
from context_engine.audit.ledger.engines import failures
from context_engine.settings.sqlite_copy import rewritten

logger = logging.getLogger(__name__)


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
    with failures(database.place), closing(database.engine.raw_connection()) as connection:
        driver = connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        try:
            return rewritten(driver)
        except sqlite3.Error as error:  # the deletion itself is committed; only the file was not rewritten
            logger.warning("the file of the ledger %s could not be rewritten: %s", database.place, error)
            return False
