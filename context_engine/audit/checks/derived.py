"""The look-up rows of records, derived again from their entries and compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from context_engine.audit.checks.findings import Finding, Place
from context_engine.audit.ledger.derive import RecordColumns, derive_record
from context_engine.audit.ledger.schema import record

_RECORD: str = ", ".join(column.name for column in record.columns)


class ReadEntry(NamedTuple):
    """An entry whose bytes are those that its leaf hash was made of.

    Attributes:
        idx: index in the log.
        said: what it says; {} where it is no JSON object.
    """

    idx: int
    said: dict[str, Any]

    @property
    def record_id(self) -> str | None:
        """The id that the entry itself says."""
        found = self.said.get("id")
        return found if isinstance(found, str) else None


def compare_records(
    connection: Connection, start: int, end: int, entries: Sequence[ReadEntry], known: frozenset[int]
) -> Iterator[Finding]:
    """Yield the rows of `record` in [start, end) that are not what their entries say.

    Args:
        entries: of this stretch that can be read.
        known: indices of entries that are named by a finding already: nothing is compared with them.
    """
    # Whole numbers stand in the statement itself: the two databases write parameters differently.
    found = connection.exec_driver_sql(f"SELECT {_RECORD} FROM record WHERE idx >= {start:d} AND idx < {end:d}")
    stored = {row[0]: tuple(row) for row in found}
    for entry in entries:
        row = stored.pop(entry.idx, None)
        expected = derive_record(entry.idx, entry.record_id or "", entry.said)
        if row is not None and row == expected:
            continue
        place = Place("record", entry.idx, name=entry.record_id)
        if row is None:
            yield Finding("record_row", place, "the record has no look-up row: it is found by no search")
        else:
            yield Finding("record_row", place, f"the look-up row says another {_differing(row, expected)}")
    for index, row in stored.items():
        if index not in known:
            place = Place("record", int(index), name=str(row[1]))
            yield Finding("record_row", place, "there is a look-up row for a record that is not there")


def surplus_rows(connection: Connection, size: int) -> Iterator[Finding]:
    """Yield the rows of `record` that stand beside the log, and record ids that stand in it twice."""
    for (index,) in connection.exec_driver_sql(f"SELECT idx FROM record WHERE NOT (idx >= 0 AND idx < {size:d})"):
        place = Place("record", index if isinstance(index, int) else None)
        yield Finding("record_row", place, "there is a look-up row for a record that is not there")
    twice = connection.exec_driver_sql(
        "SELECT record_id || '', max(idx) FROM record GROUP BY record_id || '' HAVING count(*) > 1"
    )
    for name, index in twice:
        yield Finding("duplicate_record", Place("record", index, name=str(name)), "several records have this id")


def _differing(row: Sequence[object], expected: RecordColumns) -> str:
    names = [name for name, *both in zip(RecordColumns._fields, row, expected, strict=True) if both[0] != both[1]]
    return " and ".join(names)
