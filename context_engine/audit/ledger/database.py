"""The database of a ledger: open or create it, read snapshots, write in transactions and in bulk."""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    LargeBinary,
    Table,
    Text,
    func,
    select,
    text,
)

from context_engine.audit.ledger.engines import (
    WRITES,
    Locks,
    failures,
    is_dsn,
    last_look,
    locks_of,
    make_file,
    postgresql_engine,
    sqlite_engine,
    write_back,
)
from context_engine.audit.ledger.schema import VERSION, create_tables, meta, migrate, version_of
from context_engine.core.concurrency.forking import abandon, forget_in_child
from context_engine.errors import AuditError, LedgerCorrupt, LedgerNotFound
from context_engine.presence import is_there
from context_engine.settings.sqlite_copy import rewritten

_SALT_BYTES: Final = 32
_LOCK: Final = text("SELECT pg_advisory_xact_lock(:number)")
_SHARE: Final = text("SELECT pg_advisory_xact_lock_shared(:number)")
_PATIENT: Final = text("SET LOCAL statement_timeout = 0")
_TRY: Final = text("SELECT pg_try_advisory_xact_lock(:number)")
logger = logging.getLogger(__name__)


class About(NamedTuple):
    """The ledger's description of itself.

    Attributes:
        origin: its name in checkpoints, given at creation.
        pseudonym_salt: for pseudonyms of callers if there is no key.
        minimum_index: index of the first record that was not pruned.
    """

    origin: str
    pseudonym_salt: bytes
    minimum_index: int


class Database:
    """The connections to a ledger's database; a forked child opens its own.

    Args:
        place: the file or server, without a password.
        writable: whether this user may write.
        path: the file; None for PostgreSQL.
    """

    def __init__(self, engine: Engine, place: str, *, writable: bool, path: Path | None = None) -> None:
        self.engine, self.place, self.writable = engine, place, writable
        self._path = path
        self._locks: Locks | None = None
        self._writing = engine.execution_options(**{WRITES: True})
        self._reading = engine if path else engine.execution_options(isolation_level="REPEATABLE READ")
        forget_in_child(self)

    def __repr__(self) -> str:
        return f"Database({self.place!r})"

    def forget(self) -> None:
        """Drop the parent's connections, which a child may neither use nor close."""
        abandon(self.engine.pool)
        self.engine.dispose(close=False)

    @contextmanager
    def connect(self, *, patient: bool = False) -> Iterator[Connection]:
        """Lend a connection that reads one snapshot of the ledger.

        Args:
            patient: lift the statement timeout, for reading the whole ledger.

        Raises:
            LedgerCorrupt: stored data cannot be read.
            AuditError: the database cannot be used.
        """
        with failures(self.place), self._reading.connect() as connection:
            if patient and self._path is None:
                connection.execute(_PATIENT)
            yield connection

    @contextmanager
    def begin(self, *, alone: bool = False) -> Iterator[Connection]:
        """Lend a connection in a write transaction, committed at the end and rolled back on an error.

        Args:
            alone: exclude appending and integrating meanwhile, needed to remove addenda; always so in SQLite.

        Raises:
            LedgerCorrupt: stored data cannot be read.
            AuditError: the database cannot be used, or this user may not write.
        """
        if not self.writable:
            raise AuditError(f"this user may only read the ledger {self.place}: write as another, or change the rights")
        with failures(self.place), self._writing.begin() as connection:
            if self._path is None:
                locks = self.locks(connection)
                if alone:
                    connection.execute(_PATIENT)
                    connection.execute(_LOCK, {"number": locks.integration})
                connection.execute(_LOCK if alone else _SHARE, {"number": locks.contents})
            yield connection

    @contextmanager
    def lease(self) -> Iterator[Connection | None]:
        """Lend a connection in the one transaction that may assign indices; None if another process holds it.

        Raises:
            LedgerCorrupt: stored data cannot be read.
            AuditError: the database cannot be used.
        """
        with failures(self.place), self._writing.begin() as connection:
            if self._path is None:
                number = self.locks(connection).integration
                locked = connection.scalar(_TRY, {"number": number})
                yield connection if locked else None
            else:
                yield connection

    def locks(self, connection: Connection) -> Locks:
        """Return the numbers of the advisory locks (PostgreSQL only)."""
        if self._locks is None:
            self._locks = locks_of(connection)
        return self._locks

    def about(self, connection: Connection) -> About:
        """Return the ledger's description of itself.

        Raises:
            LedgerCorrupt: it is missing or invalid.
        """
        values = {row.name: row.value for row in connection.execute(select(meta.c.name, meta.c.value))}
        try:
            return About(values["origin"], bytes.fromhex(values["pseudonym_salt"]), int(values["minimum_index"]))
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorrupt(
                f"the ledger {self.place} has lost its own description ({type(error).__name__}): restore a backup"
            ) from error

    def close(self) -> None:
        """Close the idle connections, and write the log of a file back into it."""
        last = last_look(self._path) if self._path is not None and self.writable else None
        self.engine.dispose()
        if self._path is not None and self.writable:
            write_back(self._path)
        if last is not None:
            last.close()


def open_database(url: str, *, origin: str, create: bool = True) -> Database:
    """Open a ledger's database, creating it or migrating older tables if needed.

    Args:
        url: path of a file, or postgresql://USER:PASSWORD@HOST/DATABASE.
        create: False: it must exist.

    Raises:
        LedgerNotFound: it does not exist and is not to be created.
        AuditError: it cannot be opened or created, or is not a ledger.
        LedgerCorrupt: it is damaged.
        LedgerVersionMismatch: a newer version of this package wrote it.
        MissingExtra: psycopg is not installed.
    """
    if is_dsn(url):
        database = Database(*postgresql_engine(url), writable=True)
    else:
        database = _in_file(Path(url).expanduser().absolute(), create=create)
    try:
        with database.connect() as connection:
            version = version_of(connection, database.place)
        if version < VERSION:
            if version == 0 and not create:
                raise LedgerNotFound(_absent(database.place))
            if version and not database.writable:
                raise AuditError(
                    f"the ledger {database.place} has schema version {version}, and this user may not migrate it"
                )
            _set_up(database, origin)
        if is_dsn(url):
            with database.connect() as connection:
                database.writable = _may_write(connection)
    except BaseException:
        database.engine.dispose()
        raise
    return database


def _in_file(path: Path, *, create: bool) -> Database:
    if not _has_ledger(path):
        if not create:
            raise LedgerNotFound(_absent(str(path)))
        make_file(path)
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return Database(sqlite_engine(path, writable=writable), str(path), writable=writable, path=path)


def _has_ledger(path: Path) -> bool:
    try:
        return is_there(path)
    except OSError as error:  # this user may not enter a folder above it
        raise AuditError(
            f"the ledger {path} cannot be reached ({error.strerror}): give this user access to {path.parent}, or name "
            "another place in CONTEXT_ENGINE_AUDIT_LEDGER"
        ) from error


def _set_up(database: Database, origin: str) -> None:
    """Create or migrate the tables; a process that comes second finds them done."""
    with failures(database.place), database.engine.execution_options(**{WRITES: True}).begin() as connection:
        if connection.dialect.name != "sqlite":
            connection.execute(_LOCK, {"number": database.locks(connection).tables})
        version = version_of(connection, database.place)
        if version == 0:
            salt = secrets.token_bytes(_SALT_BYTES).hex()
            create_tables(connection, {"origin": origin, "pseudonym_salt": salt, "minimum_index": "0"})
        else:
            migrate(connection, version)


def _may_write(connection: Connection) -> bool:
    """Whether the server accepts writes and this user may write to all tables."""
    if connection.scalar(text("SELECT pg_is_in_recovery()")):
        return False
    names = ("pending", "log", "record", "chunk", "mention", "addendum", "erasure", "tile", "checkpoint")
    return all(connection.scalar(select(func.has_table_privilege(name, "INSERT"))) for name in names)


def _absent(place: str) -> str:
    advice = "the first recorded search creates it"
    if Path(place).is_file():
        advice = f"if the file is a copy, copy {Path(place).name}-wal from beside the original too, or use 'backup'"
    return f"there is no ledger in {place}: {advice}"


_Item = TypeVar("_Item")
Value = str | bytes | int | float | None
_MOST_PARAMETERS: Final = 500  # some statements use the list twice; SQLite allows 32,766 parameters
_ARRAYS: Final = ((BigInteger, "int8"), (Integer, "int4"), (Float, "float8"), (LargeBinary, "bytea"), (Text, "text"))


def insert_rows(connection: Connection, table: Table, rows: Sequence[tuple[Value, ...]], *, conflict: str = "") -> None:
    """Insert rows with a value for each column that is not numbered by the database.

    Args:
        conflict: SQL after ON CONFLICT; "": a conflict is an error.
    """
    if not rows:
        return
    statement = _insertion(table, connection.dialect.name, conflict)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(statement, list(rows))
    else:
        connection.exec_driver_sql(statement, tuple(list(column) for column in zip(*rows, strict=True)))


def rows_where(
    connection: Connection, statement: str, values: Collection[str] | Collection[bytes]
) -> Iterator[Sequence[Any]]:
    """Yield the rows of a statement for any number of values.

    Args:
        statement: with {values} in place of the condition: "WHERE name {values}".
    """
    for part in parts(values):
        if connection.dialect.name == "sqlite":
            rows = connection.exec_driver_sql(_one_of(statement, len(part)), tuple(part) * statement.count("{"))
        else:
            parameters = tuple(part for _ in range(statement.count("{")))
            rows = connection.exec_driver_sql(statement.replace("{values}", "= ANY(%s)"), parameters)
        yield from rows.all()


def parts(items: Collection[_Item], most: int = _MOST_PARAMETERS) -> Iterator[list[_Item]]:
    """Yield items in lists small enough to be parameters of one statement."""
    left = iter(items)
    while part := list(islice(left, most)):
        yield part


@cache
def _insertion(table: Table, dialect: str, conflict: str) -> str:
    columns = [column for column in table.columns if column.autoincrement is not True]
    head = f"INSERT INTO {table.name} ({', '.join(column.name for column in columns)})"
    if dialect == "sqlite":
        values = f"VALUES ({', '.join('?' * len(columns))})"
    else:  # one statement, whatever the number of rows
        values = f"SELECT * FROM unnest({', '.join(f'%s::{_array(column)}[]' for column in columns)})"
    return f"{head} {values}" + (f" ON CONFLICT {conflict}" if conflict else "")


@cache
def _one_of(statement: str, number: int) -> str:
    return statement.replace("{values}", f"IN ({', '.join('?' * number)})")


def _array(column: Column[Any]) -> str:
    return next(name for kind, name in _ARRAYS if isinstance(column.type, kind))


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
