"""From an older ledger's tables to the newest, step by step; a new ledger has the newest at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import Connection, insert, inspect, select, update

from context_engine.audit.ledger.schema import METADATA, VERSION, log, meta
from context_engine.errors import AuditError, LedgerCorrupt, LedgerVersionMismatch

Migration = Callable[[Connection], None]
MIGRATIONS: Final[tuple[Migration, ...]] = ()
"""The first brings version 1 to version 2, and so on. One that has been released is never changed."""

_VERSION: Final = "schema_version"


def version_of(connection: Connection, place: str) -> int:
    """Return the version of a ledger's tables, 0 where there are none.

    Args:
        connection: to the database.
        place: what it is called in an error.

    Raises:
        AuditError: the tables are something else's.
        LedgerCorrupt: the ledger has lost its record of itself.
        LedgerVersionMismatch: a newer version of this package wrote it.
    """
    names = set(inspect(connection).get_table_names())
    if not names & set(METADATA.tables) and (not names or connection.dialect.name != "sqlite"):
        return 0
    if meta.name not in names or log.name not in names:
        raise AuditError(f"{place} holds other tables than a ledger's: name a place of its own")
    written = connection.scalar(select(meta.c.value).where(meta.c.name == _VERSION))
    if not isinstance(written, str) or not written.isdecimal():
        raise LedgerCorrupt(f"the ledger {place} has lost its record of itself: bring it back from a backup")
    if int(written) > VERSION:
        raise LedgerVersionMismatch(
            f"the ledger {place} has schema version {written}, this program knows {VERSION}: install the version that "
            "wrote it, or a newer one"
        )
    return int(written)


def create_tables(connection: Connection, about: dict[str, str]) -> None:
    """Make all tables; the caller holds the transaction, so that a ledger is there wholly or not at all.

    Args:
        connection: to a database without them.
        about: what the ledger says of itself: name to value.
    """
    METADATA.create_all(connection, checkfirst=False)
    rows = {_VERSION: str(VERSION), **about}
    connection.execute(insert(meta), [{"name": name, "value": value} for name, value in rows.items()])


def migrate(connection: Connection, version: int, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Bring the tables up to the newest version, inside the caller's transaction; return that version.

    Args:
        connection: to the ledger's database.
        version: of its tables.
        migrations: the steps from version 1 on.
    """
    for number, step in enumerate(migrations[version - 1 :], version):
        step(connection)
        connection.execute(update(meta).where(meta.c.name == _VERSION).values(value=str(number + 1)))
    return 1 + len(migrations)
