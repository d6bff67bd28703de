"""Read the log within one snapshot."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from context_engine.audit.formats.merkle import HASH_BYTES
from context_engine.audit.ledger.database import rows_where
from context_engine.audit.ledger.schema import checkpoint, erasure, log, pending, record, tile
from context_engine.audit.values import Addendum
from context_engine.errors import LedgerCorrupt


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A record as stored.

    Attributes:
        index: its index in the log, None while pending.
        entry: its bytes, None if pruned.
        leaf: its leaf hash, 32 bytes.
        mac: MAC of the row, None without a key.
        key_id: id of the key that made the MAC.
    """

    index: int | None
    entry: bytes | None
    leaf: bytes
    mac: bytes | None
    key_id: str | None


class StoredCheckpoint(NamedTuple):
    """A checkpoint as stored.

    Attributes:
        size: number of records.
        note: signed note with its cosignatures.
        written: seconds since 1970.
    """

    size: int
    note: str
    written: float


_SIZE: Final = select(func.max(log.c.idx))
_ROW: Final = select(log.c.idx, log.c.entry, log.c.leaf, log.c.mac, log.c.key_id)
_AT: Final = _ROW.where(log.c.idx == bindparam("index"))
_BETWEEN: Final = _ROW.where(log.c.idx >= bindparam("start"), log.c.idx < bindparam("end")).order_by(log.c.idx)
_NAMED: Final = _ROW.join(record, record.c.idx == log.c.idx).where(record.c.record_id == bindparam("record_id"))
_WAITING: Final = select(pending.c.entry, pending.c.leaf, pending.c.mac, pending.c.key_id).where(
    pending.c.record_id == bindparam("record_id")
)
_TILE: Final = select(tile.c.hashes).where(tile.c.level == bindparam("level"), tile.c.idx == bindparam("index"))
_ADDENDA: Final = "SELECT digest, kind, salt, data FROM addendum WHERE digest {values}"
_ERASED: Final = select(erasure.c.idx).where(erasure.c.digest == bindparam("digest"))


def log_size(connection: Connection) -> int:
    """Return the number of records in the log, including pruned ones."""
    last = connection.scalar(_SIZE)
    return 0 if last is None else int(last) + 1


def read_entry(connection: Connection, record_id: str) -> StoredEntry | None:
    """Return the record of an id, in the log or pending, None if there is none."""
    row = connection.execute(_NAMED, {"record_id": record_id}).first()
    if row is not None:
        return StoredEntry(*row)
    waiting = connection.execute(_WAITING, {"record_id": record_id}).first()
    return None if waiting is None else StoredEntry(None, *waiting)


def read_entry_at(connection: Connection, index: int) -> StoredEntry | None:
    """Return the record at an index, None if there is none."""
    row = connection.execute(_AT, {"index": index}).first()
    return None if row is None else StoredEntry(*row)


def read_entries(connection: Connection, start: int, end: int) -> list[StoredEntry]:
    """Return the records with start <= index < end, in order."""
    return [StoredEntry(*row) for row in connection.execute(_BETWEEN, {"start": start, "end": end})]


def read_pending_count(connection: Connection) -> int:
    """Return the number of pending records."""
    return int(connection.scalar(select(func.count()).select_from(pending)) or 0)


def read_tile(connection: Connection, level: int, index: int, width: int) -> bytes:
    """Return the first `width` (1..256) hashes of a tile.

    Raises:
        LedgerCorrupt: the tile is shorter.
    """
    hashes = connection.scalar(_TILE, {"level": level, "index": index}) or b""
    if len(hashes) < width * HASH_BYTES:
        raise LedgerCorrupt(
            f"tile {level}/{index} of the ledger has {len(hashes) // HASH_BYTES} hashes of {width}: run "
            "'context-engine audit verify'"
        )
    return bytes(hashes[: width * HASH_BYTES])


def read_addenda(connection: Connection, digests: Collection[bytes]) -> dict[bytes, Addendum]:
    """Return the stored addenda of these digests."""
    rows = rows_where(connection, _ADDENDA, digests)
    return {digest: Addendum(kind, salt, data) for digest, kind, salt, data in rows}


def read_erased(connection: Connection, digest: bytes) -> int | None:
    """Return the index of the entry that erased an addendum, None if there is none."""
    return connection.scalar(_ERASED, {"digest": digest})


def read_checkpoints(connection: Connection, newest: int | None = None) -> list[StoredCheckpoint]:
    """Return the checkpoints, smallest first; with `newest`, only that many of the largest."""
    rows = connection.execute(select(checkpoint).order_by(checkpoint.c.size.desc()).limit(newest))
    return [StoredCheckpoint(*row) for row in rows][::-1]
