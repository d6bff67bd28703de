"""What the log holds, read in one moment of it."""

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
    """A record as it stands in the ledger.

    Attributes:
        index: its place in the log, None while it waits.
        entry: its bytes, None where it was pruned.
        leaf: its leaf hash, 32 bytes.
        mac: of its row, None without a key.
        key_id: of the key that made the MAC.
    """

    index: int | None
    entry: bytes | None
    leaf: bytes
    mac: bytes | None
    key_id: str | None


class StoredCheckpoint(NamedTuple):
    """What was said of the log at one size.

    Attributes:
        size: number of records.
        note: a signed note with its cosignatures.
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
    """Return the number of records in the log, pruned ones among them."""
    last = connection.scalar(_SIZE)
    return 0 if last is None else int(last) + 1


def read_entry(connection: Connection, record_id: str) -> StoredEntry | None:
    """Return the record of an id, in the log or waiting, None where there is none."""
    row = connection.execute(_NAMED, {"record_id": record_id}).first()
    if row is not None:
        return StoredEntry(*row)
    waiting = connection.execute(_WAITING, {"record_id": record_id}).first()
    return None if waiting is None else StoredEntry(None, *waiting)


def read_entry_at(connection: Connection, index: int) -> StoredEntry | None:
    """Return the record at an index, None where there is none."""
    row = connection.execute(_AT, {"index": index}).first()
    return None if row is None else StoredEntry(*row)


def read_entries(connection: Connection, start: int, end: int) -> list[StoredEntry]:
    """Return the records of the indices start <= index < end that are there, in order."""
    return [StoredEntry(*row) for row in connection.execute(_BETWEEN, {"start": start, "end": end})]


def read_pending_count(connection: Connection) -> int:
    """Return how many records wait to be integrated."""
    return int(connection.scalar(select(func.count()).select_from(pending)) or 0)


def read_tile(connection: Connection, level: int, index: int, width: int) -> bytes:
    """Return the first hashes of a tile.

    Args:
        connection: to the ledger's database.
        level, index: of the tile.
        width: how many, 1..256.

    Raises:
        LedgerCorrupt: it has not so many.
    """
    hashes = connection.scalar(_TILE, {"level": level, "index": index}) or b""
    if len(hashes) < width * HASH_BYTES:
        raise LedgerCorrupt(
            f"tile {level}/{index} of the ledger has {len(hashes) // HASH_BYTES} hashes of {width}: run "
            "'context-engine audit verify'"
        )
    return bytes(hashes[: width * HASH_BYTES])


def read_addenda(connection: Connection, digests: Collection[bytes]) -> dict[bytes, Addendum]:
    """Return the addenda of the digests that are there."""
    rows = rows_where(connection, _ADDENDA, digests)
    return {digest: Addendum(kind, salt, data) for digest, kind, salt, data in rows}


def read_erased(connection: Connection, digest: bytes) -> int | None:
    """Return the index of the entry that says an addendum was erased, None where none says so."""
    return connection.scalar(_ERASED, {"digest": digest})


def read_checkpoints(connection: Connection, newest: int | None = None) -> list[StoredCheckpoint]:
    """Return checkpoints, the smallest first.

    Args:
        connection: to the ledger's database.
        newest: that many of them, the largest; None: all.
    """
    rows = connection.execute(select(checkpoint).order_by(checkpoint.c.size.desc()).limit(newest))
    return [StoredCheckpoint(*row) for row in rows][::-1]
