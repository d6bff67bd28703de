"""Prune the oldest records up to a tile boundary; the proofs of all remaining records stay valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import Connection, delete, except_, func, select, update

from context_engine.audit.formats.tiles import TILE_WIDTH
from context_engine.audit.ledger.append import STATEMENTS, append, statement, statement_id
from context_engine.audit.ledger.database import Database, overwrite_freed, overwrites_deleted, parts
from context_engine.audit.ledger.derive import moment_text
from context_engine.audit.ledger.key_change import enter_key, restated_key
from context_engine.audit.ledger.named import named_by
from context_engine.audit.ledger.read import log_size
from context_engine.audit.ledger.schema import IS_KEY, addendum, chunk, erasure, log, mention, meta, record
from context_engine.core.models import utc_text
from context_engine.core.protocols import Clock
from context_engine.errors import AuditError

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


_MINIMUM: Final = "minimum_index"
_BATCH: Final = 1000  # rows fetched from the cursor at once

_ROWS: Final = select(
    record.c.idx, record.c.record_id, record.c.kind, record.c.time, record.c.domain, record.c.search_id
).order_by(record.c.idx)


class Retention(NamedTuple):
    """How long records are kept, in days; None means for ever.

    Attributes:
        days: the default.
        domains: exceptions by domain.
    """

    days: int | None
    domains: Mapping[str, int | None]

    def of(self, kind: str, domain: str | None) -> int | None:
        """Return the days to keep a record. Of the ledger's own records: the default, or the longest exception."""
        if kind in STATEMENTS and self.days is None:
            return max((days for days in self.domains.values() if days is not None), default=None)
        return self.days if domain is None else self.domains.get(domain, self.days)


class BorderHolder(NamedTuple):
    """The first record that must stay, and the days it is kept (None: for ever)."""

    position: int
    record_id: str
    domain: str | None
    time: str
    days: int | None


class PruningPlan(NamedTuple):
    """How far the log can be pruned.

    Attributes:
        minimum: index of the first record present.
        border: the same after pruning: a multiple of 256, or `minimum` if nothing can go.
        size: records in the log.
        before: time of the newest record to go; None if none goes.
        holder: the record that keeps the border from being higher; None if only the tile width does.
    """

    minimum: int
    border: int
    size: int
    before: str | None
    holder: BorderHolder | None


class Pruned(NamedTuple):
    """The result of a pruning.

    Attributes:
        plan: the plan carried out.
        addenda: number of addenda removed because no remaining record names them.
        overwritten: as in `Erased`.
    """

    plan: PruningPlan
    addenda: int
    overwritten: bool | None


def plan_pruning(ledger: Ledger, retention: Retention, now: datetime) -> PruningPlan:
    """Return how far the log can be pruned at `now`: up to the first record that must stay.

    Raises:
        LedgerCorrupt: stored data cannot be read.
    """
    domains: dict[str, str | None] = {}
    with ledger.database.connect(patient=True) as connection:
        minimum, size = ledger.database.about(connection).minimum_index, log_size(connection)
        newest, before, holder = "", None, None
        rows = connection.execute(_ROWS.where(record.c.idx >= minimum), execution_options={"yield_per": _BATCH})
        for index, record_id, kind, time, domain, search_id in rows:
            if index % TILE_WIDTH == 0:
                before = newest or None
            if search_id is None:
                domains[record_id] = domain
            of = domain if search_id is None else domains.get(search_id, domain)
            days = retention.of(kind, of)
            if days is None or not time or time >= moment_text(now - timedelta(days=days)):
                holder = BorderHolder(index, record_id, of, time, days)
                break
            newest = max(newest, time)
        else:
            before = newest or None if size % TILE_WIDTH == 0 else before
    end = size if holder is None else holder.position
    border = max(minimum, end // TILE_WIDTH * TILE_WIDTH)
    return PruningPlan(minimum, border, size, before if border > minimum else None, holder)


def prune(ledger: Ledger, retention: Retention, *, clock: Clock) -> Pruned:
    """Remove the records that are old enough, and record it.

    Raises:
        AuditError: the ledger cannot be written, or is being pruned by another process.
        LedgerCorrupt: stored data cannot be read.
    """
    ledger.integrate()
    plan = plan_pruning(ledger, retention, clock.now())
    if plan.border <= plan.minimum:
        drop_mentions(ledger.database, plan.minimum)  # finish a pruning whose process was killed
        return Pruned(plan, 0, None)
    enter_key(ledger, ledger.keyring, clock)
    with ledger.database.connect(patient=True) as connection:
        end = log_size(connection)
        gone = set(named_by(connection, plan.minimum, plan.border))
        _keep_named(gone, named_by(connection, plan.border, end))
    with ledger.database.begin(alone=True) as connection:
        if ledger.database.about(connection).minimum_index != plan.minimum:
            raise AuditError("another process pruned the ledger meanwhile: check what is left, and try again")
        _keep_named(gone, named_by(connection, end, None))  # records that arrived meanwhile
        overwrites_deleted(connection)
        _remove(connection, plan.border, gone)
        _record_pruning(connection, ledger, plan, clock)
    drop_mentions(ledger.database, plan.border)
    ledger.integrate()
    return Pruned(plan, len(gone), overwrite_freed(ledger.database))


def _keep_named(gone: set[bytes], named: Iterator[bytes]) -> None:
    for digest in named:
        gone.discard(digest)
        if not gone:
            return


def _remove(connection: Connection, border: int, gone: set[bytes]) -> None:
    for part in parts(gone):
        connection.execute(delete(addendum).where(addendum.c.digest.in_(part)))
    for table in (record, erasure):
        connection.execute(delete(table).where(table.c.idx < border))
    connection.execute(update(log).where(log.c.idx < border, log.c.entry.is_not(None)).values(entry=None))
    connection.execute(update(meta).where(meta.c.name == _MINIMUM).values(value=str(border)))


def _record_pruning(connection: Connection, ledger: Ledger, plan: PruningPlan, clock: Clock) -> None:
    """Append the pruning entry, and restate the current key if its last entry was pruned."""
    now = clock.now()
    body = {"minimum": plan.border, "before": plan.before or utc_text(now)}
    drafts = [statement("pruning", statement_id("pruning", now), now, body)]
    left = connection.scalar(select(record.c.idx).where(IS_KEY).limit(1))
    if left is None and ledger.keyring is not None:
        drafts.append(restated_key(ledger.keyring, now))
    append(connection, drafts, ledger.seals, now.timestamp())


_TILES: Final = 4  # per transaction: about 100,000 rows if a search has 100 candidates
_UNNAMED: Final = except_(select(chunk.c.id), select(mention.c.chunk))


def drop_mentions(database: Database, border: int) -> None:
    """Remove the mentions of pruned records and the chunks that no remaining record names.

    If the process is killed, the next pruning continues; the leftovers are found by no look-up.

    Args:
        border: index of the first record present, a multiple of 256.

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
        with database.begin(alone=True) as connection:  # no record may be integrated that names these chunks
            overwrites_deleted(connection)
            named_since = select(mention.c.chunk).where(mention.c.tile >= tile, mention.c.chunk.in_(part))
            connection.execute(delete(chunk).where(chunk.c.id.in_(part), chunk.c.id.not_in(named_since)))
