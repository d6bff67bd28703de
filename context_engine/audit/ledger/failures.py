"""What went wrong in a database, in our words: what, where without a password, and how to mend it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from context_engine.errors import AuditError, LedgerCorrupt
from context_engine.secrecy import redacted

_DSN: Final = "CONTEXT_ENGINE_AUDIT_LEDGER"
_SQLITE_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_SQLITE_MEND: Final = {
    sqlite3.SQLITE_BUSY: "another process has been writing for long; try again",
    sqlite3.SQLITE_LOCKED: "another process has been writing for long; try again",
    sqlite3.SQLITE_FULL: "make room on the disk",
    sqlite3.SQLITE_READONLY: "let the user who runs this write to the file and to its folder",
    sqlite3.SQLITE_CANTOPEN: "let the user who runs this read and write the file and its folder",
    sqlite3.SQLITE_IOERR: "check the disk, its free space and its permissions",
}
_POSTGRESQL_DAMAGE: Final = ("XX001", "XX002")
_POSTGRESQL_MEND: Final = {
    "25006": "this server only reads; name the primary",
    "28": f"check user and password in {_DSN}",
    "3D": f"create the database, or check its name in {_DSN}",
    "40": "try again",
    "42501": "grant its user the rights on the ledger's tables",
    "53": "the server is short of disk, memory or connections",
    "55P03": "another process has been writing for long; try again",
    "57014": "the server was too slow; try again",
}
_POSTGRESQL_ELSE: Final = f"check that the server runs, and host, port, user, password and database in {_DSN}"


@contextmanager
def failures(place: str) -> Iterator[None]:
    """Turn what the database raises inside into an error of ours.

    Args:
        place: the ledger's file or server, without a password.

    Raises:
        LedgerCorrupt: what is stored cannot be read.
        AuditError: anything else that a database may fail with.
    """
    try:
        yield
    except SQLAlchemyError as error:
        raise failure(place, error) from error


def failure(place: str, error: SQLAlchemyError) -> AuditError:
    """Return our error for one of the database's.

    Args:
        place: the ledger's file or server, without a password.
        error: what SQLAlchemy raised.
    """
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    said = redacted(str(cause).strip().partition("\n")[0]) or type(cause).__name__
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        damaged = code in _SQLITE_DAMAGE
        mend = _SQLITE_MEND.get(code, "check the file and its permissions")
    else:
        state = getattr(cause, "sqlstate", None) or ""
        damaged = state in _POSTGRESQL_DAMAGE
        mend = _POSTGRESQL_MEND.get(state) or _POSTGRESQL_MEND.get(state[:2]) or _POSTGRESQL_ELSE
    if damaged:
        return LedgerCorrupt(
            f"the ledger {place} is damaged, or is none ({said}): bring it back from a backup, and compare that with a "
            "checkpoint kept elsewhere ('context-engine audit verify --against FILE')"
        )
    return AuditError(f"the ledger {place} cannot be used ({said}): {mend}")
