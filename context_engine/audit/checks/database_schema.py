"""What a database holds beside the rows: triggers and rules that would change them, and indexes that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection

from context_engine.audit.checks.findings import Finding, Place
from context_engine.audit.ledger.schema import METADATA

_SQLITE: Final = "SELECT type, name, tbl_name FROM sqlite_master WHERE type IN ('trigger', 'view')"
_POSTGRESQL: Final = (
    "SELECT 'trigger', t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
    "WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace "
    "UNION ALL SELECT 'rule', rulename, tablename FROM pg_rules WHERE schemaname = current_schema()"
)
_MOST_PROBLEMS: Final = 20


def check_schema(connection: Connection, *, indexes: bool) -> Iterator[Finding]:
    """Yield what would change rows behind the ledger's back, and what hides them from a search.

    Args:
        indexes: whether each index is compared with its table, which reads the whole file; in SQLite alone.
    """
    sqlite = connection.dialect.name == "sqlite"
    for kind, name, table in connection.exec_driver_sql(_SQLITE if sqlite else _POSTGRESQL):
        if sqlite or table in METADATA.tables:
            yield Finding("schema", Place("schema", name=str(name)), f"the ledger makes no {kind}, and there is one")
    if sqlite and indexes:
        for (problem,) in connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_PROBLEMS:d})"):
            if problem != "ok":
                yield Finding("schema", Place("schema"), f"the file does not hold together: {problem}")
