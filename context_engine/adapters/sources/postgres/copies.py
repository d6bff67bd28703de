"""Copies of a store in other schemas of its database, for trials (`stores.copies`); what server and store hold."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final

from psycopg import sql

from context_engine.adapters.sources.postgres import bm25
from context_engine.adapters.sources.postgres.connection import (
    INGEST,
    Servers,
    Session,
    one_row,
)
from context_engine.adapters.sources.postgres.schema import (
    SCHEMA_VERSION,
    StoreState,
    add_partition,
    migrate,
    read_state,
)
from context_engine.adapters.sources.postgres.vectors import index_vectors, make_vectors
from context_engine.adapters.sources.stores.copies import StoreName
from context_engine.core.models import AccessScope
from context_engine.errors import StoreError

_TABLES: Final = (
    "SELECT relname, array_agg(attname ORDER BY attnum) FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
    " WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND attnum > 0"
    " AND NOT attisdropped AND attgenerated = '' GROUP BY pg_class.oid, relname ORDER BY pg_class.oid"
)
"""Each table with its columns, the oldest first: a table refers to older ones only."""
_EXTENSIONS: Final = ("vector", "pg_textsearch", "pg_search")
_NUMBERED: Final = (
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s AND is_identity = 'YES'"
)


def copy_store(servers: Servers, target: str) -> None:
    """Copy a snapshot of a store with its indexes into a new schema.

    Raises:
        StoreError: its tables are of another version.
        SourceError: there is nothing to copy, or the server failed.
    """
    with servers.failures(), closing(servers.session(write=True)) as session:
        session.execute("SET statement_timeout = 0")
        with session.transaction():
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            _copy(session, servers.address.schema, target)
        session.execute(sql.SQL("SET search_path = {}, public").format(sql.Identifier(target)))
        bm25.rebuild(session)


def drop_copy(servers: Servers, target: str) -> None:
    """Remove a copy.

    Raises:
        SourceError: the server failed.
    """
    with servers.failures(), closing(servers.session(write=True)) as session:
        session.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(target)))


def copies_of(session: Session) -> list[str]:
    """Return the schemas that are copies of a session's store."""
    (schema,) = one_row(session, "SELECT current_schema()")
    pattern = StoreName("", schema).copies
    rows = session.execute("SELECT nspname FROM pg_namespace WHERE nspname ~ %s ORDER BY nspname", (pattern,))
    return [name for (name,) in rows]


def rebuild_indexes(servers: Servers) -> None:
    """Build every index of a store anew.

    Raises:
        SourceError: the server failed.
    """
    with servers.failures(), closing(servers.session(write=True)) as session:
        session.execute("SET statement_timeout = 0")
        session.execute(sql.SQL("REINDEX SCHEMA {}").format(sql.Identifier(servers.address.schema)))


def _copy(session: Session, schema: str, target: str) -> None:
    """Make the tables of a store in another schema, and fill them."""
    state = read_state(session)
    version, vector_type = one_row(session, "SELECT version, vector_type FROM state")
    if version != SCHEMA_VERSION:
        raise StoreError(f"its tables are of version {version}: '{INGEST}' brings them up to date")
    session.execute(sql.SQL("SET LOCAL search_path = {}, public").format(sql.Identifier(target)))
    migrate(session, target)
    if vector_type is not None:
        make_vectors(session, vector_type, state.dimension)
    for key in (access_class.key for access_class in state.classes):
        for table in ("words", *(["vectors"] if vector_type else [])):
            add_partition(session, table, key)
    session.execute("DELETE FROM state")
    copy = sql.SQL("INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {of}")
    for table, names in session.execute(_TABLES, (target,)).fetchall():
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        of = sql.Identifier(schema, table)
        session.execute(copy.format(table=sql.Identifier(table), columns=columns, of=of))
    for table, column in session.execute(_NUMBERED, (target,)).fetchall():
        _go_on(session, schema, target, table, column)
    index_vectors(session)
    session.execute("UPDATE classes SET ranked = NULL; ANALYZE words; ANALYZE chunks; ANALYZE terms")


def _go_on(session: Session, schema: str, target: str, table: str, column: str) -> None:
    """Let the numbers of a copied column go on where those of the original do."""
    names: list[Any] = [
        one_row(session, "SELECT pg_get_serial_sequence(%s, %s)", (f'"{place}"."{table}"', column))[0]
        for place in (schema, target)
    ]
    statement = sql.SQL("SELECT setval({}, last_value, is_called) FROM {}")
    session.execute(statement.format(sql.Literal(names[1]), sql.SQL(names[0])))


def examined(session: Session, state: StoreState, source_id: str, access: AccessScope | None) -> dict[str, Any]:
    """Return the fields of an examination that the server gives, as far as a caller may know them."""
    classes = state.readable(access)
    (version,) = one_row(session, "SHOW server_version")
    rows = session.execute("SELECT extname, extversion FROM pg_extension WHERE extname = ANY(%s)", (list(_EXTENSIONS),))
    version, extensions = str(version).partition(" ")[0], dict(rows.fetchall())
    (documents,) = one_row(
        session,
        "SELECT count(*) FROM documents JOIN sources USING (source_key) WHERE source_id = %s AND class_key = ANY(%s)",
        (source_id, [access_class.key for access_class in classes]),
    )
    by_text = "BM25 (pg_textsearch)" if classes and all(access_class.ranked for access_class in classes) else "tsvector"
    (walled,) = one_row(session, "SELECT row_security_active('words')")
    return {
        "kind": f"PostgreSQL {version}",
        "version": version,
        "documents": documents,
        "search_method": by_text if state.model_id is None else f"{by_text}, pgvector {extensions.get('vector', '')}",
        "copies": [f"DROP SCHEMA {name} CASCADE removes it" for name in (copies_of(session) if access is None else [])],
        "details": {"extensions": extensions, "row_security": walled},
    }
