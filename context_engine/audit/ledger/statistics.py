"""Count what a ledger holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from sqlalchemy import Column, ColumnElement, Connection, distinct, func, select

from context_engine.audit.ledger.derive import moment_text
from context_engine.audit.ledger.schema import addendum, erasure, log, record

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


_NONE: Final = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """Number of addenda of one kind, and the size of their data in bytes."""

    count: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStatistics:
    """Counts of a ledger's records; "" stands for a missing value.

    Attributes:
        records: in the time span.
        first, last: times of the oldest and newest of them, UTC; None if there is none.
        callers: number of different pseudonyms.
        kinds, domains, decisions, statuses, days: number of records by value; days as 2026-03-02.
        entries: bytes of all entries of the log that were not pruned.
        stored: addenda by kind.
        erased: number of erased addenda.
    """

    records: int
    first: str | None
    last: str | None
    callers: int
    kinds: Mapping[str, int]
    domains: Mapping[str, int]
    decisions: Mapping[str, int]
    statuses: Mapping[str, int]
    days: Mapping[str, int]
    entries: int
    stored: Mapping[str, Stored]
    erased: int


def ledger_statistics(
    ledger: Ledger, *, since: datetime | None = None, until: datetime | None = None
) -> LedgerStatistics:
    """Return the statistics of the records with since <= time < until; entries, addenda and erasures of all time.

    Raises:
        AuditError: the ledger cannot be read.
    """
    wanted: list[ColumnElement[bool]] = []
    if since is not None:
        wanted.append(record.c.time >= moment_text(since))
    if until is not None:
        wanted.append(record.c.time < moment_text(until))
    with ledger.database.connect(patient=True) as connection:
        totals = connection.execute(
            select(
                func.count(), func.min(record.c.time), func.max(record.c.time), func.count(distinct(record.c.caller))
            ).where(*wanted)
        ).one()
        size = func.coalesce(func.sum(func.length(addendum.c.data)), 0)
        stored = connection.execute(select(addendum.c.kind, func.count(), size).group_by(addendum.c.kind))
        return LedgerStatistics(
            records=totals[0],
            first=totals[1] or None,
            last=totals[2] or None,
            callers=totals[3],
            kinds=_counted(connection, record.c.kind, wanted),
            domains=_counted(connection, record.c.domain, wanted),
            decisions=_counted(connection, record.c.decision, wanted),
            statuses=_counted(connection, record.c.status, wanted),
            days=_counted(connection, func.substr(record.c.time, 1, 10), wanted),
            stored={kind: Stored(count, int(length)) for kind, count, length in sorted(map(tuple, stored))},
            entries=int(connection.scalar(select(func.coalesce(func.sum(func.length(log.c.entry)), 0))) or 0),
            erased=int(connection.scalar(select(func.count()).select_from(erasure)) or 0),
        )


def _counted(
    connection: Connection, column: Column[str] | ColumnElement[str], wanted: list[ColumnElement[bool]]
) -> dict[str, int]:
    rows = connection.execute(select(column, func.count()).where(*wanted).group_by(column))
    return dict(sorted((value or _NONE, count) for value, count in rows))
