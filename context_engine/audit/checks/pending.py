"""Check the pending records: each by itself, and that none is in the log already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, select

from context_engine.audit.checks.addenda import Names, contents_in, digests_of, read_named
from context_engine.audit.checks.findings import Finding, Place
from context_engine.audit.checks.keys import Trust
from context_engine.audit.formats.keys import Keyring
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.ledger.derive import derive_erased, parse_entry
from context_engine.audit.ledger.schema import pending, record
from context_engine.audit.ledger.signing import pending_mac
from context_engine.audit.record.candidates import CANDIDATES

_ROWS: Final = (
    select(
        pending.c.seq,
        pending.c.record_id,
        pending.c.entry,
        pending.c.leaf,
        pending.c.mac,
        pending.c.key_id,
        record.c.idx,
    )
    .join(record, record.c.record_id == pending.c.record_id, isouter=True)
    .order_by(pending.c.seq)
)


@dataclass(slots=True)
class LateRecords:
    """The contents of pending records and of records that entered the log while it was read.

    Attributes:
        own: addenda that the records own, {digest: kind}.
        names: addenda that the records name.
        erased: digests of addenda that the records erase.
        minimums: minimum indices of prunings.
        count: number of pending records.
    """

    own: dict[bytes, str] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    erased: set[bytes] = field(default_factory=set)
    minimums: list[int] = field(default_factory=list)
    count: int = 0

    def take(self, entry: Mapping[str, Any]) -> None:
        """Add one entry."""
        self.own.update(digests_of(entry))
        self.erased.update(derive_erased(dict(entry)))
        minimum = entry.get("minimum")
        if entry.get("kind") == "pruning" and isinstance(minimum, int):
            self.minimums.append(minimum)


def check_pending(
    connection: Connection, keyring: Keyring | None, trust: Trust, later: LateRecords
) -> Iterator[Finding]:
    """Yield the findings on pending records; add the sound ones to `later`.

    Args:
        keyring: keys to compare MACs with; None: MACs are not compared.
    """
    for seq, record_id, entry, leaf, mac, key_id, standing in connection.execute(_ROWS):
        later.count += 1
        place = Place("pending", seq, name=str(record_id))
        if not isinstance(entry, bytes) or leaf_hash(entry) != leaf:
            yield Finding("pending_hash", place, "the entry does not match its leaf hash")
            continue
        problem = _mac_problem(leaf, mac, key_id, keyring, trust)
        if problem:
            yield Finding("pending_mac", place, problem)
            continue
        fields = parse_entry(entry)
        later.take(fields)
        if fields.get("id") != record_id:
            yield Finding("pending_row", place, "entry and row have different record ids")
        if standing is not None:
            yield Finding("pending_row", place, f"the log already has a record of this id, at {standing}")


def read_later(connection: Connection, size: int, later: LateRecords) -> Iterator[Finding]:
    """Add the records that entered the log while it was read; yield the findings on addenda of late records."""
    for (entry,) in connection.exec_driver_sql(f"SELECT entry FROM log WHERE idx >= {size:d}"):
        if isinstance(entry, bytes):
            later.take(parse_entry(entry))
    kept, findings = read_named(connection, later.own, lambda _digest: None)
    yield from findings
    for digest, kind in later.own.items():
        later.names.owns(digest)
        addendum = kept.get(digest)
        if kind == CANDIDATES and addendum is not None:
            later.names.share(contents_in(addendum.data), size)
        if digest not in kept and digest not in later.erased:
            problem = "the addendum of a pending record is missing"
            yield Finding("addendum_missing", Place("addendum", name=digest.hex()), problem)


def _mac_problem(leaf: bytes, mac: object, key_id: object, keyring: Keyring | None, trust: Trust) -> str | None:
    if mac is None:
        return "the row has no MAC although the log has a key" if trust.keyed_from is not None else None
    if trust.verifiers and key_id not in trust.key_ids:
        return "the row's MAC is of a key that is not trusted in this log"
    key = None if keyring is None else keyring.mac_key(str(key_id))
    if key is not None and pending_mac(key, leaf) != mac:
        return "the MAC does not match the leaf hash: the row was edited or inserted"
    return None
