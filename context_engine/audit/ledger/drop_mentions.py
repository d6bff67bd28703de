"""Which chunks pruned records named: by far the most rows, so they go in parts, and nobody who searches waits long."""

from __future__ import annotations

from typing import Final

from sqlalchemy import delete, except_, func, select

from context_engine.audit.formats.tiles import TILE_WIDTH
from context_engine.audit.ledger.database import Database
from context_engine.audit.ledger.overwrite import overwrites_deleted
from context_engine.audit.ledger.read import log_size
from context_engine.audit.ledger.rows import parts
from context_engine.audit.ledger.schema import chunk, mention

_TILES: Final = 4
"""Whose rows go in one transaction: some 100,000 where a search has 100 candidates."""

_UNNAMED: Final = except_(select(chunk.c.id), select(mention.c.chunk))


def drop_mentions(database: Database, border: int) -> None:
    """Remove what is looked up of the chunks of pruned records, and the chunks that no record left names.

    Where a process is ended meanwhile, the next one goes on; what is left until then is found by no look-up.

    Args:
        database: of the ledger; it is written to only where there is something to remove.
        border: index of the first record that is there; a multiple of 256.

    Raises:
        AuditError: the database cannot be used, or this user may not write.
    """
    while (first := _first_tile(database, border // TILE_WIDTH)) is not None:
        with database.begin() as connection:
            overwrites_deleted(connection)
            end = min(first + _TILES, border // TILE_WIDTH)
            connection.execute(delete(mention).where(mention.c.tile < end))
    _drop_unnamed(database)


def _first_tile(database: Database, end: int) -> int | None:
    with database.connect() as connection:
        first = connection.scalar(select(func.min(mention.c.tile)).where(mention.c.tile < end))
    return None if first is None else int(first)


def _drop_unnamed(database: Database) -> None:
    with database.connect(patient=True) as connection:
        tile = log_size(connection) // TILE_WIDTH
        unnamed = connection.scalars(_UNNAMED).all()
    for part in parts(unnamed):
        with database.begin(alone=True) as connection:  # or a record that is integrated could name what goes
            overwrites_deleted(connection)
            named_since = select(mention.c.chunk).where(mention.c.tile >= tile, mention.c.chunk.in_(part))
            connection.execute(delete(chunk).where(chunk.c.id.in_(part), chunk.c.id.not_in(named_since)))
