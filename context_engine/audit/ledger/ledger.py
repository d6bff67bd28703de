"""The ledger as the rest of the package uses it; the other modules of this package do most of the work.

Pending records are integrated into the log here: indices, MACs, tiles and look-up rows in one transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from sqlalchemy import Connection, bindparam, delete, select

from context_engine.audit.formats.checkpoint import Checkpoint
from context_engine.audit.formats.keys import Keyring, SigningKey, VerifierKey
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.formats.tiles import TILE_WIDTH, TileTree, append_leaves
from context_engine.audit.ledger import read
from context_engine.audit.ledger.append import append, keep_checkpoint
from context_engine.audit.ledger.database import Database, insert_rows, open_database, parts, rows_where
from context_engine.audit.ledger.derive import (
    ChunkIdentity,
    derive_erased,
    derive_mentions,
    derive_record,
    keep_identities,
    named_digest,
    parse_entry,
)
from context_engine.audit.ledger.look_up import (
    ChunkMention,
    Criteria,
    MentionCriteria,
    RecordRow,
    Sample,
    draw,
    find_mentions,
    find_rows,
    tiles_named,
)
from context_engine.audit.ledger.read import StoredCheckpoint, StoredEntry, log_size, read_addenda, read_tile
from context_engine.audit.ledger.schema import erasure, log, mention, pending, record, tile
from context_engine.audit.ledger.signing import NO_SEAL, Seal, Seals, check_growth, check_name, last_signed, may_sign
from context_engine.audit.values import Addendum, Draft
from context_engine.core.protocols import Clock
from context_engine.errors import AuditError, LedgerCorrupt

_BATCH: Final = 256
"""Records moved by one transaction: as many as a tile has, and few enough that appending does not wait for long."""
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
_TILES: Final = 8
"""Tiles searched at once for mentions; bounds the memory used."""


class Ledger:
    """Records under a Merkle tree, in SQLite or PostgreSQL; safe for several threads and processes.

    Args:
        keyring: makes and checks MACs and checkpoints; None: nothing is signed.
    """

    def __init__(self, database: Database, keyring: Keyring | None, clock: Clock) -> None:
        self.database, self.keyring, self.clock = database, keyring, clock
        self.seals = Seals(keyring)
        with database.connect() as connection:
            about = database.about(connection)
        self._origin, self._pseudonym_salt = about.origin, about.pseudonym_salt

    @classmethod
    def open(cls, url: str, *, origin: str, keyring: Keyring | None, clock: Clock, create: bool = True) -> Self:
        """Open a ledger, creating it if needed.

        Args:
            url: path of a file, or postgresql://USER:PASSWORD@HOST/DATABASE.
            origin: its name in checkpoints, used at creation.
            keyring: the current and former keys; None: nothing is signed.
            create: False: it must exist.

        Raises:
            AuditError: it cannot be opened or created, or is not a ledger.
            LedgerCorrupt: it is damaged.
            LedgerVersionMismatch: a newer version of this package wrote it.
            MissingExtra: psycopg is not installed.
        """
        return cls(open_database(url, origin=origin, create=create), keyring, clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections."""
        self.database.close()

    @property
    def origin(self) -> str:
        """The ledger's name in its checkpoints."""
        return self._origin

    @property
    def pseudonym_salt(self) -> bytes:
        """32 random bytes of this ledger; the secret of pseudonyms if there is no key."""
        return self._pseudonym_salt

    @property
    def minimum_index(self) -> int:
        """The index of the first record that was not pruned."""
        with self.database.connect() as connection:
            return self.database.about(connection).minimum_index

    @property
    def size(self) -> int:
        """The number of records in the log; pending ones are not counted."""
        with self.database.connect() as connection:
            return read.log_size(connection)

    def append(self, drafts: Sequence[Draft]) -> None:
        """Store records durably, all or none; a record whose id exists already is skipped.

        Raises:
            AuditError: the ledger cannot be written, or an entry is longer than 65,535 bytes.
            LedgerCorrupt: stored data cannot be read.
        """
        if drafts:
            with self.database.begin() as connection:
                append(connection, drafts, self.seals, self.clock.now().timestamp())

    def integrate(self, limit: int | None = None) -> int:
        """Move pending records into the log; return their number, 0 if another process is doing so.

        Args:
            limit: maximum number; None: all.

        Raises:
            AuditError: the ledger cannot be written.
            LedgerCorrupt: stored data is inconsistent.
        """
        moved = 0
        while self.database.writable and (limit is None or moved < limit) and self.pending_count():
            with self.database.lease() as connection:
                most = _BATCH if limit is None else min(_BATCH, limit - moved)
                count = 0 if connection is None else move_pending(connection, self.seals, most)
            if not count:
                break
            moved += count
        return moved

    def pending_count(self) -> int:
        """Return the number of pending records."""
        with self.database.connect() as connection:
            return read.read_pending_count(connection)

    def root(self, size: int | None = None) -> bytes:
        """Return the root of the tree at a size; None: the current size.

        Raises:
            LedgerCorrupt: a tile is missing or too short.
        """
        with self.database.connect() as connection:
            wanted = read.log_size(connection) if size is None else size
            try:
                return TileTree(lambda *tile: read.read_tile(connection, *tile), wanted).root()
            except ValueError as error:
                raise LedgerCorrupt(f"{error}: run 'context-engine audit verify'") from error

    def tile(self, level: int, index: int, width: int) -> bytes:
        """Return the first `width` (1..256) hashes of a tile; a `TileSource`.

        Raises:
            LedgerCorrupt: the tile is shorter.
        """
        with self.database.connect() as connection:
            return read.read_tile(connection, level, index, width)

    def entry(self, record_id: str) -> StoredEntry | None:
        """Return the record of an id, in the log or pending, None if there is none.

        Raises:
            LedgerCorrupt: its entry does not match its leaf hash.
        """
        with self.database.connect() as connection:
            stored = read.read_entry(connection, record_id)
        if stored is not None and not _is_whole(stored.entry, stored.leaf):
            raise LedgerCorrupt(
                f"record {record_id!r} was altered: its entry does not match its hash. 'context-engine audit verify' "
                "shows what else was"
            )
        return stored

    def entry_at(self, index: int) -> StoredEntry | None:
        """Return the record at an index, None if there is none."""
        with self.database.connect() as connection:
            return read.read_entry_at(connection, index)

    def entries(self, start: int, end: int, *, batch: int = 1000) -> Iterator[StoredEntry]:
        """Yield the records with start <= index < end, in order, reading `batch` at a time."""
        for first in range(start, end, batch):
            with self.database.connect() as connection:
                batch_entries = read.read_entries(connection, first, min(first + batch, end))
            yield from batch_entries

    def rows(self, criteria: Criteria) -> list[RecordRow]:
        """Return the records that meet all criteria, in order of time."""
        with self.database.connect() as connection:
            return find_rows(connection, criteria)

    def sample(self, criteria: Criteria, size: int, seed: str) -> Sample:
        """Return records drawn by a seed from those that meet all criteria."""
        with self.database.connect() as connection:
            return draw(connection, criteria, size, seed)

    def mentions(self, criteria: MentionCriteria) -> Iterator[ChunkMention]:
        """Yield the chunks of records that meet all criteria, in log order."""
        with self.database.connect() as connection:
            tiles = tiles_named(connection)
        for start in range(tiles.start, tiles.stop, _TILES):
            with self.database.connect() as connection:
                mentions = list(find_mentions(connection, criteria, tiles[start - tiles.start :][:_TILES]))
            yield from mentions

    def addendum(self, digest: bytes) -> Addendum | None:
        """Return an addendum, None if it is not stored."""
        return self.addenda([digest]).get(digest)

    def addenda(self, digests: Collection[bytes]) -> dict[bytes, Addendum]:
        """Return the stored addenda of these digests."""
        with self.database.connect() as connection:
            return read.read_addenda(connection, digests)

    def erased(self, digest: bytes) -> int | None:
        """Return the index of the entry that erased an addendum, None if there is none."""
        with self.database.connect() as connection:
            return read.read_erased(connection, digest)

    def checkpoints(self, newest: int | None = None) -> list[StoredCheckpoint]:
        """Return the checkpoints, smallest first; with `newest`, only that many of the largest."""
        with self.database.connect() as connection:
            return read.read_checkpoints(connection, newest)

    def checkpoint(self) -> StoredCheckpoint:
        """Integrate, and return the checkpoint of the current size, made now unless it exists.

        The note is signed with the current key; the notes of a log that never had a key are unsigned. An existing note
        of that size that no key of the log signed is not the ledger's and is replaced.

        Raises:
            AuditError: the ledger cannot be written, or is signed and its key is missing.
            LedgerCorrupt: stored data is inconsistent, or does not extend the last signed checkpoint.
        """
        self.integrate()
        if not may_sign(self.database, self.keyring):
            raise AuditError("this ledger is signed, and its key is missing: set CONTEXT_ENGINE_AUDIT_KEY")
        signers: tuple[SigningKey, ...] = ()
        keys: tuple[VerifierKey, ...] = ()
        if self.keyring is not None:
            check_name(self.origin, self.keyring)
            signers, keys = (self.keyring.current,), self.keyring.verifiers
        made = self._present(keys)
        size = made.size
        note = StoredCheckpoint(size, made.signed(*signers), self.clock.now().timestamp())
        with self.database.begin() as connection:
            kept = keep_checkpoint(connection, note, keys)
        if not kept.note.startswith(made.text):
            raise LedgerCorrupt(
                f"the checkpoint at {size} records is of other records than now: run 'context-engine audit verify'"
            )
        return kept

    def _present(self, keys: Sequence[VerifierKey]) -> Checkpoint:
        """Return the current state, after checking that it extends the last one signed by the keys."""
        with self.database.connect() as connection:
            signed = last_signed(connection, self.origin, keys)
        size = self.size  # read after the signed one, because another process may sign a longer log meanwhile
        made = Checkpoint(self.origin, size, self.root(size))
        if signed is not None:
            check_growth(signed, made, TileTree(self.tile, size))
        return made


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


def _is_whole(entry: object, leaf: bytes) -> bool:
    """Return whether an entry was pruned or matches its hash; SQLite gives text back that was written by hand."""
    return entry is None or (isinstance(entry, bytes) and leaf_hash(entry) == leaf)
