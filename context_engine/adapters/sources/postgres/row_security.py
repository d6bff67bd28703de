"""Row level security: a second wall between the access classes, inside the server.

A role that only searches sees the rows of the classes that its transaction names, and without a name none. So a fault
in a search's own conditions reveals nothing. The owner of the tables, who writes, is not restricted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg import sql

from context_engine.adapters.sources.postgres.connection import Session, one_row
from context_engine.errors import ConfigError

_NAMED: Final = "(SELECT current_setting('context_engine.classes', true))"
_OF_CLASS: Final = f"{_NAMED} = '*' OR class_key::text = ANY (string_to_array({_NAMED}, ','))"
_OF_DOCUMENT: Final = "EXISTS (SELECT FROM documents WHERE documents.doc_key = chunks.doc_key)"
_UNGUARDED: Final = (
    "SELECT relname, of_class FROM (SELECT pg_class.*, relname = 'chunks' OR relname <> 'classes' AND EXISTS"
    " (SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = 'class_key') AS of_class FROM pg_class"
    " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')) AS tables"
    " WHERE of_class AND NOT relrowsecurity OR NOT has_table_privilege(%s, oid, 'SELECT')"
)
"""The tables that the role cannot read, or could read whole, and whether they have rows of access classes."""
_GUARD: Final = (
    "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY; DROP POLICY IF EXISTS classes ON {table};"
    " CREATE POLICY classes ON {table} USING ({condition});"
)


def name_classes(session: Session, keys: Sequence[int] | None) -> None:
    """Let the transaction see the rows of some access classes only; None: of all."""
    named = "*" if keys is None else ",".join(map(str, keys))
    session.execute("SELECT set_config('context_engine.classes', %s, true)", (named,))


def guard(session: Session, role: str) -> None:
    """Let a role search the tables, and see in them only the classes that it names; in the writer's transaction.

    Raises:
        ConfigError: there is no such role, or it would see everything.
    """
    known = session.execute(
        "SELECT rolsuper OR rolbypassrls OR rolname = current_user FROM pg_roles WHERE rolname = %s", (role,)
    ).fetchone()
    if known is None:
        raise ConfigError(f"search_role: the server has no role {role!r}: CREATE ROLE {role} LOGIN PASSWORD '...'")
    if known[0]:
        raise ConfigError(
            f"search_role: {role!r} sees every row, for it writes the tables, is a superuser or has BYPASSRLS: name "
            "another role"
        )
    (schema,) = one_row(session, "SELECT current_schema()")
    to = sql.Identifier(role)
    tables = session.execute(_UNGUARDED, (role,)).fetchall()
    if tables:
        session.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), to))
    for name, of_class in tables:
        table = sql.Identifier(name)
        if of_class:
            condition = sql.SQL(_OF_DOCUMENT if name == "chunks" else _OF_CLASS)
            session.execute(sql.SQL(_GUARD).format(table=table, condition=condition))
        session.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(table, to))
