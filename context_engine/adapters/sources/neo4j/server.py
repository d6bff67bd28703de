"""Transactions of a Neo4j server, and its failures as errors of this package."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import neo4j
from neo4j.auth_management import AuthManager, ClientCertificate, ClientCertificateProviders
from neo4j.exceptions import DriverError, Neo4jError

from context_engine.adapters.http import tls_context
from context_engine.adapters.sources.stores.served_store import NOT_TRUSTED, UNREACHED, turn
from context_engine.core.concurrency.forking import abandon, forget_in_child
from context_engine.errors import (
    ConfigError,
    SourceAuthError,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceTimeout,
    SourceUnavailable,
)
from context_engine.secrecy import redacted
from context_engine.settings.connections import GRAPH_SCHEMES, Connection, is_local

logger = logging.getLogger(__name__)
INGEST: Final = "context-engine ingest PATH --to neo4j"
"""The command that makes, fills and mends the store."""
_CONNECT_S: Final = 5.0
_WRITE_S: Final = 600.0
_MEANINGS: Final[tuple[tuple[str, type[SourceError], str, bool], ...]] = (
    ("Neo.ClientError.Security.Forbidden", SourceForbidden, "its user lacks a right on the database: grant it", False),
    (
        "Neo.ClientError.Security",
        SourceAuthError,
        "the server refuses the user or the password: correct user and api_key",
        False,
    ),
    (
        "Neo.ClientError.Database.DatabaseNotFound",
        SourceNotFound,
        "there is no such database: create it, or correct the setting database",
        False,
    ),
    (
        "Neo.ClientError.Transaction.TransactionTimedOut",
        SourceTimeout,
        "the query took longer than its time limit: ask again, or raise it",
        True,
    ),
    (
        "Neo.ClientError.Procedure",
        SourceUnavailable,
        f"an index is missing, or the server knows no vector indexes: '{INGEST}' makes missing ones",
        False,
    ),
    ("Neo.ClientError.Cluster.NotALeader", SourceUnavailable, "its member accepts no writes: ask another", True),
    ("Neo.TransientError", SourceUnavailable, "the server is short of memory, or busy: ask again", True),
)


@contextmanager
def failures() -> Iterator[None]:
    """Turn errors of the driver into a `SourceError` of the right kind.

    Raises:
        SourceError: the server failed; the message has the remedy and no credentials.
    """
    try:
        yield
    except (Neo4jError, DriverError) as error:
        raise _failure(error) from error


def _failure(error: Neo4jError | DriverError) -> SourceError:
    """Return the error for callers; the server's own words, which may name hosts, are only logged."""
    code = (error.code if isinstance(error, Neo4jError) else None) or ""
    logger.warning("Neo4j: %s %s", code, redacted(str(error).partition("\n")[0]) or type(error).__name__)
    for begin, kind, meaning, retryable in _MEANINGS:
        if code.startswith(begin):
            return kind(meaning, retryable=retryable)
    if _is_untrusted(error):
        return SourceUnavailable(NOT_TRUSTED)
    if isinstance(error, DriverError):
        return SourceUnavailable(UNREACHED, retryable=True)
    return SourceUnavailable(f"the server refused a query ({code or 'no code'}): its words are in the log")


def _is_untrusted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


class Transaction:
    """A transaction: statements are run one after the other."""

    def __init__(self, transaction: neo4j.Transaction) -> None:
        self._transaction = transaction

    def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement's answer."""
        return list(self.stream(statement, **values))

    def stream(self, statement: str, **values: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement's answer as they come."""
        for record in self._transaction.run(statement, values):
            yield tuple(record.values())


class GraphServer:
    """A database of a server. Opens connections and keeps the idle ones. Thread-safe.

    Args:
        connect: returns the connection, its variables and files read at the call.
        database: its name; None: the user's own.
    """

    def __init__(self, connect: Callable[[], Connection], database: str | None) -> None:
        self._connect, self._database = connect, database
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Drop all connections: a forked child may neither use nor close them."""
        abandon(getattr(self, "_driver", None))
        self._driver: neo4j.Driver | None = None
        self._lock, self._turns = threading.Lock(), threading.BoundedSemaphore(self._connect().max_connections)

    @contextmanager
    def reading(self, timeout_s: float) -> Iterator[Transaction]:
        """Yield a transaction that the server ends after `timeout_s`.

        Raises:
            SourceBusy: all connections are in use.
            SourceError: the server failed.
        """
        with (
            turn(self._turns, timeout_s),
            failures(),
            self._session(neo4j.READ_ACCESS) as session,
            session.begin_transaction(timeout=timeout_s) as transaction,
        ):
            yield Transaction(transaction)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Yield a transaction that is committed, or rolled back if an error is raised.

        Raises:
            SourceError: the server failed.
        """
        with (
            failures(),
            self._session(neo4j.WRITE_ACCESS) as session,
            session.begin_transaction(timeout=_WRITE_S) as transaction,
        ):
            yield Transaction(transaction)
            transaction.commit()

    def change_schema(self, statements: list[str]) -> None:
        """Make indexes, and wait until the server has filled them.

        Raises:
            SourceError: the server failed.
        """
        with self.writing() as transaction:
            for statement in statements:
                transaction.rows(statement)
        with self.reading(_WRITE_S) as transaction:
            transaction.rows("CALL db.awaitIndexes($seconds)", seconds=int(_WRITE_S))

    def close(self) -> None:
        """Close the connections; may be called twice, and a later call opens others."""
        with self._lock:
            driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()

    def _session(self, access: str) -> neo4j.Session:
        with self._lock:
            if self._driver is None:
                self._driver = _driver(self._connect)
            return self._driver.session(database=self._database, default_access_mode=access)


class _CurrentKey(AuthManager):
    """Gives the user and the password of a connection as they are now, so that keys rotate without a restart."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect

    def get_auth(self) -> tuple[str, str] | None:
        """Return user and password; None for a connection without a key."""
        connection = self._connect()
        key = connection.api_key
        return None if key is None else (connection.user or "neo4j", key.get_secret_value())

    def handle_security_exception(self, auth: Any, error: Neo4jError) -> bool:
        """Let nothing be tried again."""
        return False


def _driver(connect: Callable[[], Connection]) -> neo4j.Driver:
    """Return a driver of a connection.

    With a CA bundle the server's certificate and name are checked against it; without one, those of another machine
    against the system's authorities.

    Raises:
        ConfigError: its base_url is not one of Neo4j, or a file of certificates cannot be used.
    """
    connection = connect()
    parts = urlsplit(connection.base_url)
    if parts.scheme not in GRAPH_SCHEMES:
        raise ConfigError("adapter 'neo4j' needs a connection with base_url neo4j://HOST:PORT or bolt://HOST:PORT")
    ca, certificate = connection.ca_bundle, connection.client_certificate
    if ca is not None or certificate is not None:
        tls_context(connection)  # the driver would read the files at the first call, and name no remedy
    encrypted = ca is not None or parts.scheme.endswith("+s") or not is_local(parts.hostname or "")
    return neo4j.GraphDatabase.driver(
        f"{parts.scheme.removesuffix('+s')}://{parts.netloc}",
        auth=_CurrentKey(connect),
        encrypted=encrypted,
        trusted_certificates=neo4j.TrustCustomCAs(str(ca)) if ca else neo4j.TrustSystemCAs(),
        client_certificate=None
        if certificate is None
        else ClientCertificateProviders.static(
            ClientCertificate(str(certificate), str(connection.client_key) if connection.client_key else None)
        ),
        connection_timeout=_CONNECT_S,
        liveness_check_timeout=0,
        max_connection_pool_size=connection.max_connections + 1,
        max_transaction_retry_time=0,
        notifications_min_severity="OFF",
        telemetry_disabled=True,
        user_agent="context-engine",
    )
