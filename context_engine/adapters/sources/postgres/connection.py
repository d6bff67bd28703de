"""Connections to a PostgreSQL server, and its failures as errors of this package."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any, Final, Literal, LiteralString, NamedTuple

import psycopg
from psycopg import sql

from context_engine.adapters.sources.stores.copies import StoreName
from context_engine.adapters.sources.stores.served_store import NOT_TRUSTED, UNREACHED, turn
from context_engine.core.concurrency.forking import abandon, forget_in_child
from context_engine.errors import (
    ConfigError,
    SourceAuthError,
    SourceBusy,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceTimeout,
    SourceUnavailable,
)
from context_engine.secrecy import redacted
from context_engine.settings.connections import Connection, database_name, hosts_of, is_local

logger = logging.getLogger(__name__)
Session = psycopg.Connection[Any]
ReadFrom = Literal["primary", "standby"]
_CONNECT_S: Final = 5
_SESSION: Final = (
    "SET search_path = {schema}, public; SET jit = off; SET client_min_messages = error; SET timezone = 'UTC';"
)
BY_WORDS: Final = "SET LOCAL random_page_cost = 0.01"
"""Makes the server look words up in their index also while entries of a writer wait to be sorted into it.

At its own costs it then reads every row, many times as slowly, because it does not count that the terms of a row are
stored outside the row.
"""
AT_USUAL_COSTS: Final = f"SET LOCAL random_page_cost TO DEFAULT; {{}}; {BY_WORDS}"
"""Runs the query in the place of {} at the server's own costs."""
_WRITES: Final = (
    "SET lock_timeout = '10s'; SET statement_timeout = '10min'; SET synchronous_commit = on;"
    " SELECT set_config(name, '2s', false) FROM pg_settings"
    " WHERE name = 'client_connection_check_interval' AND version() LIKE '%linux%'"
)
"""The server of PostgreSQL 14 and newer also ends the statement of a writer that was killed, which else locks the store
for as long as it takes to build an index."""
_REFUSED: Final = re.compile(r"authentication failed|no password supplied|SCRAM|pg_hba\.conf", re.IGNORECASE)
_UNTRUSTED: Final = re.compile(r"certificate verify failed|does not match host name|root certificate file")
_NO_TLS: Final = "the server does not speak TLS, as a server on another machine must: set ssl = on there"

INGEST: Final = "context-engine ingest PATH --to postgres"
"""The command that makes, fills and mends the tables."""
NOT_LOADED: Final = "an index needs a library that is not loaded: add pg_textsearch to shared_preload_libraries"
NOTHING_WRITTEN: Final = f"nothing was ingested into its schema: run '{INGEST}'"
_LOCKED: Final = "55P03"
_LOCKS: Final = (
    "SELECT DISTINCT relname FROM pg_locks JOIN pg_class ON pg_class.oid = relation"
    " WHERE granted AND relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace"
    " AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') ORDER BY relname"
)
"""The tables of the store that a writer or a reader may have to wait for."""
_LOCK_SHARE: Final = 0.8
"""Share of a search's time for which it waits for a lock; with the rest it says whose lock that was."""
_MEANINGS: Final[dict[str, tuple[type[SourceError], str, bool]]] = {
    "25006": (SourceUnavailable, "the server is read-only: name the primary in base_url", False),
    "28": (SourceAuthError, "the server refuses the user or the password: correct user and api_key", False),
    "3D": (SourceNotFound, "there is no such database: create it, or correct base_url", False),
    "3F": (SourceNotFound, NOTHING_WRITTEN, False),
    "42P01": (SourceNotFound, NOTHING_WRITTEN, False),
    "42501": (SourceForbidden, "its user lacks a right on the tables: grant it", False),
    "42": (SourceUnavailable, f"its tables are not as they were made: run '{INGEST} --repair'", False),
    "40": (SourceUnavailable, "the server ended the transaction: ask again", True),
    "53": (SourceUnavailable, "the server is short of disk space, memory or connections", True),
    "55000": (SourceUnavailable, f"{NOT_LOADED}, and restart the server", False),
    _LOCKED: (SourceBusy, "another process holds a lock on {locked}: ask again", True),
    "57014": (SourceTimeout, "the statement took longer than its time limit: ask again, or raise it", True),
    "57P": (SourceUnavailable, "the server is stopping or starting: ask again", True),
}


@contextmanager
def failures(locked: Callable[[], str] = lambda: "the tables") -> Iterator[None]:
    """Turn errors of the driver into a `SourceError` of the right kind.

    Args:
        locked: returns the names of the tables that another process has locked.

    Raises:
        SourceError: the database failed; the message has the remedy and no credentials.
    """
    try:
        yield
    except psycopg.Error as error:
        raise _failure(error, locked) from error


def _failure(error: psycopg.Error, locked: Callable[[], str]) -> SourceError:
    """Return the error for callers; the server's own words, which may name hosts, are only logged."""
    state, reason = error.sqlstate or "", str(error).strip().partition("\n")[0]
    level = logging.WARNING if _is_news(reason) else logging.DEBUG
    logger.log(level, "PostgreSQL: %s %s", state, redacted(reason) or type(error).__name__)
    if not state and _REFUSED.search(reason):
        state = "28"
    known = next((_MEANINGS[state[:length]] for length in (5, 3, 2) if state[:length] in _MEANINGS), None)
    if known is not None:
        kind, meaning, retryable = known
        return kind(meaning.format(locked=locked()) if state == _LOCKED else meaning, retryable=retryable)
    if _UNTRUSTED.search(str(error)):
        return SourceUnavailable(NOT_TRUSTED)
    if "server does not support SSL" in str(error):
        return SourceUnavailable(_NO_TLS)
    if isinstance(error, psycopg.OperationalError):
        return SourceUnavailable(UNREACHED, retryable=True)
    return SourceUnavailable(f"the database failed (SQLSTATE {state or 'unknown'}): its words are in the log")


_LOGGED_AT: Final[dict[str, float]] = {}
"""When each message of a server was last logged, in seconds."""
_AGAIN_AFTER_S: Final = 60.0
_MOST_MESSAGES: Final = 100


def _is_news(reason: str) -> bool:
    """Return whether a message was not logged in the last minute; while a server is down, every call has the same."""
    now = time.monotonic()
    is_news = now - _LOGGED_AT.get(reason, -_AGAIN_AFTER_S) >= _AGAIN_AFTER_S
    if is_news:
        if len(_LOGGED_AT) >= _MOST_MESSAGES:
            _LOGGED_AT.clear()
        _LOGGED_AT[reason] = now
    return is_news


class Address(NamedTuple):
    """Where a store is: the connection, its schema, and which of several servers reads ask."""

    connection: str
    schema: str
    read_from: ReadFrom


def store_name(address: Address) -> StoreName:
    """Return the name of the store at an address."""
    return StoreName(f"postgres {address.connection}", address.schema)


def parameters(connection: Connection, *, write: bool, read_from: ReadFrom) -> dict[str, str | int]:
    """Return the parameters of libpq for a connection.

    Its base_url may name several hosts: writes go to the one that accepts them, reads as `read_from` says. With a CA
    bundle the server's certificate and name are checked; without one, another machine is asked over unchecked TLS.

    Raises:
        ConfigError: its base_url is not a PostgreSQL URL.
    """
    if not connection.base_url.startswith("postgresql://"):
        raise ConfigError("adapter 'postgres' needs a connection with base_url postgresql://HOST:PORT/DATABASE")
    hosts, ports = zip(*hosts_of(connection.base_url), strict=True)
    local = all(map(is_local, hosts))
    session = "read-write" if write else "prefer-standby" if read_from == "standby" else "primary"
    values: dict[str, str | int | None] = {
        "host": ",".join(hosts),
        "port": ",".join(ports),
        "dbname": database_name(connection.base_url) or None,
        "user": connection.user,
        "password": connection.api_key.get_secret_value() if connection.api_key else None,
        "sslmode": "verify-full" if connection.ca_bundle else "prefer" if local else "require",
        "sslrootcert": str(connection.ca_bundle) if connection.ca_bundle else None,
        "sslcert": str(connection.client_certificate) if connection.client_certificate else None,
        "sslkey": str(connection.client_key or connection.client_certificate or "") or None,
        "target_session_attrs": session if len(hosts) > 1 or write else "any",
        "connect_timeout": _CONNECT_S,
        "application_name": "context-engine",
    }
    return {name: value for name, value in values.items() if value is not None}


class Servers:
    """Opens connections and keeps the idle ones of reads. Thread-safe.

    Args:
        connect: returns the connection, its variables and files read at the call.
        address: the store.
    """

    def __init__(self, connect: Callable[[], Connection], address: Address) -> None:
        self._connect, self.address = connect, address
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Drop all connections: a forked child may neither use nor close them."""
        abandon(getattr(self, "_idle", None))
        self._idle: list[Session] = []
        self._lock, self._turns = threading.Lock(), threading.BoundedSemaphore(self._connect().max_connections)

    def failures(self) -> AbstractContextManager[None]:
        """Turn errors of the driver into a `SourceError`; that of a lock names the tables."""
        return failures(self._locked)

    def _locked(self) -> str:
        """Return the names of the tables that another process has locked, as an error says them."""
        try:
            with closing(self.session(write=False)) as session:
                names = [repr(name) for (name,) in session.execute(_LOCKS)]
        except psycopg.Error:
            names = []
        return ", ".join(names) or "the tables"

    @contextmanager
    def reading(self, timeout_s: float) -> Iterator[Session]:
        """Yield a session in a read-only snapshot, in which no statement takes longer than `timeout_s`.

        Raises:
            SourceBusy: all connections are in use, or another process has locked a table.
            SourceError: the server failed.
        """
        with turn(self._turns, timeout_s), self.failures():
            session = self._begun(max(int(1000 * timeout_s), 1))
            try:
                yield session
                session.execute("COMMIT")
            except BaseException:
                session.close()
                raise
            with self._lock:
                self._idle.append(session)

    def _begun(self, timeout_ms: int) -> Session:
        """Return a session in a transaction; one that the server has closed meanwhile is replaced."""
        begin = (
            f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {timeout_ms};"
            f" SET LOCAL lock_timeout = {max(int(_LOCK_SHARE * timeout_ms), 1)};"
            f" SET LOCAL context_engine.classes = '*'; {BY_WORDS}"
        )
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            session = idle or self.session(write=False)
            try:
                session.execute(begin.encode())
                return session
            except psycopg.OperationalError:
                session.close()
                if idle is None:
                    raise

    def session(self, *, write: bool) -> Session:
        """Open a session; the caller closes it.

        Raises:
            psycopg.Error: the server cannot be reached, or refuses.
        """
        values = parameters(self._connect(), write=write, read_from=self.address.read_from)
        session: Session = psycopg.connect(**values, autocommit=True, prepare_threshold=None)  # type: ignore[arg-type]
        settings = _SESSION + (_WRITES if write else "")
        session.execute(sql.SQL(settings).format(schema=sql.Identifier(self.address.schema)))
        return session

    def close(self) -> None:
        """Close the idle connections; may be called twice, and a later read opens others."""
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()


def one_row(session: Session, query: LiteralString | sql.Composed, values: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Return the row of a query that has exactly one."""
    (row,) = session.execute(query, values)
    return tuple(row)


def rows_within(session: Session, statements: LiteralString, query: sql.Composed) -> list[tuple[Any, ...]]:
    """Return the rows of a query without parameters, sent together with the statements around it, where it is {}."""
    cursor = session.execute(sql.SQL(statements).format(query))
    while cursor.description is None:
        cursor.nextset()
    return cursor.fetchall()


def copy_rows(session: Session, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
    """Write rows into a table."""
    with session.cursor() as cursor, cursor.copy(f"COPY {table} ({columns}) FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row(row)
