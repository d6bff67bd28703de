"""A ledger in PostgreSQL, by psycopg: a server that is gone is noticed within seconds."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from typing import Final

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

from context_engine.errors import AuditError, MissingExtra
from context_engine.secrecy import keep_secret
from context_engine.settings.audit_secrets import SECRET_PARAMETERS

_SCHEMES: Final = ("postgresql", "postgres", "postgresql+psycopg")
_CONNECT_S: Final = 5
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
"""The third ends a stopped process's transaction, so that it cannot keep the lease of the integration for ever.

The last makes what is committed durable, and leaves a server alone that waits for more than that.
"""


class Locks:
    """The advisory locks of a ledger; those of another schema of the same database are others.

    Attributes:
        integration: who holds it moves pending records into the log.
        contents: shared by who appends; who removes addenda holds it alone, so that no record names what goes.
    """

    def __init__(self, schema: str) -> None:
        self.integration = _lock_number("integration", schema)
        self.contents = _lock_number("contents", schema)
        self.tables = _lock_number("tables", schema)


def is_dsn(url: str) -> bool:
    """Return whether a ledger is named by a URL, and not by the path of a file."""
    return "://" in url


def postgresql_engine(url: str) -> tuple[Engine, str]:
    """Return an engine, and the place without a password.

    Args:
        url: postgresql://USER:PASSWORD@HOST:PORT/DATABASE; what libpq knows may stand behind a question mark.

    Raises:
        AuditError: the URL is not one of PostgreSQL.
        MissingExtra: psycopg is not installed.
    """
    scheme = url.partition("://")[0]
    if scheme not in _SCHEMES:
        raise AuditError(f"a ledger is a file or in PostgreSQL (postgresql://...), not in {scheme}://")
    if find_spec("psycopg") is None:
        raise MissingExtra("a ledger in PostgreSQL", "audit")
    try:
        parsed = make_url(f"postgresql+psycopg://{url.partition('://')[2]}")
    except (ArgumentError, ValueError):  # its text shows the URL
        raise AuditError("the ledger's URL is not of the form postgresql://USER:PASSWORD@HOST/DATABASE") from None
    query = parsed.normalized_query
    for secret in (parsed.password, *(one for name in SECRET_PARAMETERS for one in query.get(name, ()))):
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
    """Return the locks of the ledger that a connection's search path leads to."""
    return Locks(str(connection.scalar(text("SELECT current_schema()"))))


def _prepare(connection: object, _record: ConnectionPoolEntry) -> None:
    before, connection.autocommit = connection.autocommit, True  # type: ignore[attr-defined]
    with connection.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute(_SESSION)
    connection.autocommit = before  # type: ignore[attr-defined]


def _lock_number(what: str, schema: str) -> int:
    digest = hashlib.sha256(f"context-engine ledger\n{what}\n{schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
