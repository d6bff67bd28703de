"""Integrate pending records into the log: assign indices, MACs, tiles and look-up rows in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, select

from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.formats.tiles import TILE_WIDTH, append_leaves
from context_engine.audit.ledger.database import insert_rows, parts, rows_where
from context_engine.audit.ledger.derive import (
    ChunkIdentity,
    derive_erased,
    derive_mentions,
    derive_record,
    keep_identities,
    named_digest,
    parse_entry,
)
from context_engine.audit.ledger.read import log_size, read_addenda, read_tile
from context_engine.audit.ledger.schema import erasure, log, mention, pending, record, tile
from context_engine.audit.ledger.seals import NO_SEAL, Seal, Seals
from context_engine.errors import LedgerCorrupt

_log: Final = logging.getLogger(__name__)
_WAITING: Final = (
    select(pending.c.seq, pending.c.record_id, pending.c.entry, pending.c.leaf, pending.c.mac, pending.c.key_id)
    .where(pending.c.seq > bindparam("after"))
    .order_by(pending.c.seq)
    .limit(bindparam("most"))
)
_MOVED: Final = delete(pending).where(pending.c.seq.in_(bindparam("seqs", expanding=True)))
_STANDING: Final = "SELECT record_id FROM record WHERE record_id {values}"
_GROWN: Final = "(level, idx) DO UPDATE SET hashes = excluded.hashes"


class _PendingRow(NamedTuple):
    seq: int
    record_id: str
    entry: bytes
    leaf: bytes
    mac: bytes | None
    key_id: str | None


def move_pending(connection: Connection, seals: Seals, most: int) -> int:
    """Move pending records into the log in order of arrival; return their number.

    A row with a wrong leaf hash or MAC, or under an unknown key, stays pending: moving it would give it a valid MAC.
    A row whose entry has another record id is a copy that somebody inserted; it stays pending too. Rows without a MAC
    move only while no row of the log has a MAC.

    Args:
        most: maximum number of records.

    Raises:
        LedgerCorrupt: the tiles do not match the log.
    """
    size = log_size(connection)
    keyed = size > 0 and connection.scalar(select(log.c.mac).where(log.c.idx == size - 1)) is not None
    waiting = _trusted(connection, seals, most, keyed=keyed)
    # Two processes may have appended the same record at once, and one copy was moved in between.
    standing = {row[0] for row in rows_where(connection, _STANDING, [row.record_id for row in waiting])}
    moved = [row for row in waiting if row.record_id not in standing]
    if standing:
        _log.warning("records that are already in the ledger were skipped", extra={"count": len(standing)})
    _insert(connection, seals, moved, size)
    for seqs in parts([row.seq for row in waiting]):
        # By their numbers, never "up to": a row with a lower number may be committed later.
        connection.execute(_MOVED, {"seqs": seqs})
    return len(moved)


def _trusted(connection: Connection, seals: Seals, most: int, *, keyed: bool) -> list[_PendingRow]:
    trusted: list[_PendingRow] = []
    after = 0
    while len(trusted) < most:
        wanted = most - len(trusted)
        rows = [_PendingRow(*row) for row in connection.execute(_WAITING, {"after": after, "most": wanted})]
        trusted += [row for row in rows if _is_right(row, seals, keyed=keyed)]
        if len(rows) < wanted:
            break
        after = rows[-1].seq
    return trusted


def _is_right(row: _PendingRow, seals: Seals, *, keyed: bool) -> bool:
    if leaf_hash(row.entry) != row.leaf or parse_entry(row.entry).get("id", row.record_id) != row.record_id:
        return False
    seal = Seal(row.mac, row.key_id)
    return not keyed if seal == NO_SEAL else seals.vouches(row.leaf, seal)


def _insert(connection: Connection, seals: Seals, rows: Sequence[_PendingRow], size: int) -> None:
    if not rows:
        return
    placed = list(enumerate(rows, size))
    sealed = [
        (index, row.entry, row.leaf, *(NO_SEAL if row.mac is None else seals.row(index, row.leaf)))
        for index, row in placed
    ]
    insert_rows(connection, log, sealed)
    _grow(connection, size, [row.leaf for row in rows])
    entries = [(index, row.record_id, parse_entry(row.entry)) for index, row in placed]
    insert_rows(connection, record, [derive_record(*each) for each in entries])
    erased = [(digest, index) for index, _, entry in entries for digest in derive_erased(entry)]
    insert_rows(connection, erasure, erased, conflict="DO NOTHING")
    _insert_mentions(connection, [(index, entry) for index, _, entry in entries])


def _insert_mentions(connection: Connection, entries: Sequence[tuple[int, dict[str, Any]]]) -> None:
    digests = [named_digest(entry, "candidates") for _, entry in entries]
    present = read_addenda(connection, [digest for digest in digests if digest])
    named: list[tuple[int, dict[ChunkIdentity, int]]] = []
    for (index, entry), digest in zip(entries, digests, strict=True):
        candidates = present.get(digest or b"")
        named.append((index, derive_mentions(entry, None if candidates is None else candidates.data)))
    numbers = keep_identities(connection, dict.fromkeys(chain.from_iterable(fates for _, fates in named)))
    rows = [
        (index // TILE_WIDTH, numbers[identity], index, fate)
        for index, fates in named
        for identity, fate in fates.items()
    ]
    insert_rows(connection, mention, sorted(rows))


def _grow(connection: Connection, size: int, leaves: Sequence[bytes]) -> None:
    try:
        changed = append_leaves(lambda level, index, width: read_tile(connection, level, index, width), size, leaves)
    except ValueError as error:
        raise LedgerCorrupt(
            f"the ledger's tree does not match its records ({error}): run 'context-engine audit verify'"
        ) from error
    insert_rows(connection, tile, [(*place, hashes) for place, hashes in changed.items()], conflict=_GROWN)
