"""SQLAlchemy engines for a ledger in SQLite or PostgreSQL, and database failures as errors of this package."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from context_engine.errors import AuditError, LedgerCorrupt, MissingExtra
from context_engine.secrecy import has_unencoded_password, keep_secret, redacted
from context_engine.settings.environment_secrets import SECRET_PARAMETERS

_DSN: Final = "CONTEXT_ENGINE_AUDIT_LEDGER"
_SQLITE_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_SQLITE_MEND: Final = {
    sqlite3.SQLITE_BUSY: "another process has been writing for a long time; try again",
    sqlite3.SQLITE_LOCKED: "another process has been writing for a long time; try again",
    sqlite3.SQLITE_FULL: "free some disk space",
    sqlite3.SQLITE_READONLY: "give this user write access to the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "give this user read and write access to the file and its folder",
    sqlite3.SQLITE_IOERR: "check the disk, its free space and its permissions",
}

_POSTGRESQL_DAMAGE: Final = ("XX001", "XX002")

_POSTGRESQL_MEND: Final = {
    "25006": "this server is read-only; name the primary",
    "28": f"check user and password in {_DSN}",
    "3D": f"create the database, or check its name in {_DSN}",
    "40": "try again",
    "42501": "grant its user the rights on the ledger's tables",
    "53": "the server is short of disk space, memory or connections",
    "55P03": "another process has been writing for a long time; try again",
    "57014": "the server was too slow; try again",
}

_POSTGRESQL_ELSE: Final = f"check that the server runs, and host, port, user, password and database in {_DSN}"


@contextmanager
def failures(place: str) -> Iterator[None]:
    """Turn database errors raised inside into errors of this package.

    Raises:
        LedgerCorrupt: stored data cannot be read.
        AuditError: any other database failure.
    """
    try:
        yield
    except SQLAlchemyError as error:
        raise failure(place, error) from error


def failure(place: str, error: SQLAlchemyError) -> AuditError:
    """Return this package's error for an error of SQLAlchemy."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    reason = redacted(str(cause).strip().partition("\n")[0]) or type(cause).__name__
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
            f"the ledger {place} is damaged or is not a ledger ({reason}): restore it from a backup, and compare the "
            "backup with a checkpoint kept elsewhere ('context-engine audit verify --against FILE')"
        )
    return AuditError(f"the ledger {place} cannot be used ({reason}): {mend}")


WRITES: Final = "writes"
"""The execution option of connections whose transactions write: they take the lock before they read."""

_BUSY_S: Final = 10.0  # how long SQLite waits for a lock
_POOL: Final = 16  # connections kept open, and as many more on demand
_CACHE_KIB: Final = 16_384  # page cache of a connection


def make_file(path: Path) -> None:
    """Create an empty file that only its owner may read, with its folder, if it does not exist.

    Raises:
        AuditError: it cannot be created.
    """
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise AuditError(
            f"the ledger {path} cannot be created ({reason}): give this user write access to {path.parent}, or name "
            "another place in CONTEXT_ENGINE_AUDIT_LEDGER"
        ) from error


def sqlite_engine(path: Path, *, writable: bool) -> Engine:
    """Return an engine over an existing file; SQLAlchemy begins its transactions, not the driver."""
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


def write_back(path: Path) -> None:
    """Move the records of the write-ahead log into the file, so that a copy of it alone is whole; wait for nobody."""
    with suppress(sqlite3.Error), closing(_connect(path, writable=True)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


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
    """Switch to a write-ahead log; retries, because SQLite does not wait for another process that is doing so."""
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


_SCHEMES: Final = ("postgresql", "postgres", "postgresql+psycopg")
_CONNECT_S: Final = 5  # fail early: searches may be waiting

_CONNECTION: Final = {
    "connect_timeout": _CONNECT_S,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # ms
    "application_name": "context-engine audit",
}

_SESSION: Final = (
    "SET statement_timeout = '30s'; SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '60s'; "
    "SET client_min_messages = 'warning'; "
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')"
)
"""The third timeout ends the transaction of a stopped process, so that it cannot keep the integration lease for ever.

The last statement makes commits durable and keeps stricter server settings.
"""


class Locks:
    """The advisory locks of a ledger; each schema of a database has its own.

    Attributes:
        integration: held to move pending records into the log.
        contents: shared for appending; exclusive for removing addenda, so that no new record names a removed addendum.
        tables: held to create or migrate the tables.
    """

    def __init__(self, schema: str) -> None:
        self.integration = _lock_number("integration", schema)
        self.contents = _lock_number("contents", schema)
        self.tables = _lock_number("tables", schema)


def is_dsn(url: str) -> bool:
    """Return whether a ledger is named by a URL, not by a file path."""
    return "://" in url


def postgresql_engine(url: str) -> tuple[Engine, str]:
    """Return an engine, and the place without a password.

    Args:
        url: postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with libpq options after a question mark.

    Raises:
        AuditError: the URL is not a PostgreSQL URL.
        MissingExtra: psycopg is not installed.
    """
    scheme = url.partition("://")[0]
    if scheme not in _SCHEMES:
        raise AuditError(f"a ledger is a file or a PostgreSQL database (postgresql://...), not {scheme}://")
    if find_spec("psycopg") is None:
        raise MissingExtra("a ledger in PostgreSQL", "audit")
    if has_unencoded_password(url):
        raise AuditError("the ledger's URL has more than one '@': percent-encode the password ('@' is %40)")
    try:
        parsed = make_url(f"postgresql+psycopg://{url.partition('://')[2]}")
    except (ArgumentError, ValueError):  # not chained: its text contains the URL
        raise AuditError("the ledger's URL is not of the form postgresql://USER:PASSWORD@HOST/DATABASE") from None
    query = parsed.normalized_query
    for secret in (parsed.password, *(value for name in SECRET_PARAMETERS for value in query.get(name, ()))):
        if secret:
            keep_secret(secret)
    options = {key: value for key, value in _CONNECTION.items() if key not in parsed.query}
    engine = create_engine(
        parsed,
        connect_args=options,
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
        pool_size=5,
        max_overflow=10,
        pool_timeout=2 * _CONNECT_S,
        hide_parameters=True,
    )
    event.listen(engine, "connect", _prepare)
    host = parsed.host or parsed.query.get("host") or "local socket"
    port = f":{parsed.port}" if parsed.port else ""
    return engine, f"postgresql://{host}{port}/{parsed.database or ''}"


def locks_of(connection: Connection) -> Locks:
    """Return the locks of the ledger in the connection's current schema."""
    return Locks(str(connection.scalar(text("SELECT current_schema()"))))


def _prepare(connection: object, _record: ConnectionPoolEntry) -> None:
    before, connection.autocommit = connection.autocommit, True  # type: ignore[attr-defined]
    with connection.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute(_SESSION)
    connection.autocommit = before  # type: ignore[attr-defined]


def _lock_number(purpose: str, schema: str) -> int:
    digest = hashlib.sha256(f"context-engine ledger\n{purpose}\n{schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
