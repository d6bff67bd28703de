"""Decide whether a log may be signed: with its current key, and only if it extends what was signed before.

Row MACs stand here too: a keyed hash of each row, which reveals an edit before the next checkpoint and names the row.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from context_engine.audit.formats.checkpoint import Checkpoint, parse_checkpoint, parse_note, verify_note
from context_engine.audit.formats.keys import Keyring, VerifierKey
from context_engine.audit.formats.merkle import leaf_hash, verify_consistency
from context_engine.audit.formats.strict import FormatError
from context_engine.audit.formats.tiles import TileTree
from context_engine.audit.ledger.database import Database
from context_engine.audit.ledger.schema import IS_KEY, checkpoint, log, pending, record
from context_engine.errors import AuditError, LedgerCorrupt

KEY_KIND: Final = "key"
_WAITING: Final = (
    select(pending.c.entry, pending.c.leaf, pending.c.mac, pending.c.key_id)
    .where(pending.c.record_id.like(f"{KEY_KIND}-%"))
    .order_by(pending.c.seq)
)
_NOTES: Final = select(checkpoint.c.note).order_by(checkpoint.c.size.desc())
_BATCH: Final = 8  # the newest signed checkpoint is nearly always among the first few


def check_name(origin: str, keyring: Keyring) -> None:
    """Refuse a key of another log: otherwise renaming a ledger would make it sign in another log's name.

    Raises:
        AuditError: the current key is not of the log of that origin.
    """
    if keyring.current.name != origin:
        raise AuditError(
            f"the key is of {keyring.current.name!r} and this log is {origin!r}: make a key for it with "
            f"'context-engine audit keygen {origin}'; if the log had another name, run 'context-engine audit verify'"
        )


def may_sign(database: Database, keyring: Keyring | None) -> bool:
    """Return whether checkpoints can be made here: the key is known, or the log never had one.

    Raises:
        LedgerCorrupt: the last key change cannot be read.
    """
    if keyring is not None:
        return True
    with database.connect() as connection:
        return last_key(connection, None)[0] is None


def last_key(connection: Connection, seals: Seals | None) -> tuple[str | None, int]:
    """Return the verifier key that the log names last, and the number of its key changes.

    Args:
        seals: tell a key holder's pending key change from one that somebody inserted; None: every pending change
            counts.
    """
    count = int(connection.scalar(select(func.count(record.c.idx)).where(IS_KEY)) or 0)
    waiting = connection.execute(_WAITING)
    entries = [
        bytes(entry)
        for entry, leaf, *seal in waiting
        if seals is None or (leaf_hash(entry) == leaf and seals.vouches(leaf, Seal(*seal)))
    ]
    if not entries:
        newest = select(func.max(record.c.idx)).where(IS_KEY).scalar_subquery()
        entries = [
            bytes(entry) for entry in connection.execute(select(log.c.entry).where(log.c.idx == newest)).scalars()
        ]
    if not entries:
        return None, count
    try:
        return VerifierKey.parse(str(json.loads(entries[-1])["now"])).text, count
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerCorrupt(
            f"the last key change cannot be read ({type(error).__name__}): run 'context-engine audit verify'"
        ) from None


def last_signed(connection: Connection, origin: str, keys: Sequence[VerifierKey]) -> Checkpoint | None:
    """Return the newest checkpoint of the log signed by one of its keys, None if there is none."""
    if not keys:
        return None
    for note in connection.execute(_NOTES, execution_options={"yield_per": _BATCH}).scalars():
        try:
            parsed = parse_note(note)
            newest = parse_checkpoint(parsed)
            if newest.origin == origin and verify_note(parsed, keys):
                return newest
        except FormatError:  # reported by a verification
            continue
    return None


def check_growth(signed: Checkpoint, made: Checkpoint, tree: TileTree) -> None:
    """Refuse a checkpoint of a log that does not extend what was signed (RFC 6962, 2.1.2).

    Raises:
        LedgerCorrupt: signed records were changed or cut off, or a tile is damaged.
    """
    if signed.size <= made.size:
        try:
            proof = tree.consistency_proof(signed.size)
        except ValueError as error:
            raise LedgerCorrupt(f"{error}: run 'context-engine audit verify'") from error
        if verify_consistency(signed.size, signed.root, made.size, made.root, proof):
            return
    raise LedgerCorrupt(
        f"the log of {made.size} records does not extend the {signed.size} that were signed: records were changed or "
        "cut off, or it is an old copy. No checkpoint is made: run 'context-engine audit verify'"
    )


class Seal(NamedTuple):
    """A row's MAC and the id of its key; both None without a key."""

    mac: bytes | None
    key_id: str | None


NO_SEAL: Final = Seal(None, None)


class Seals:
    """Makes and checks the MACs of rows; without a keyring rows have none."""

    def __init__(self, keyring: Keyring | None) -> None:
        self._keyring = keyring
        self._key_id = None if keyring is None else keyring.key_id
        self._key = None if keyring is None or self._key_id is None else keyring.mac_key(self._key_id)

    def pending(self, leaf: bytes) -> Seal:
        """Return the MAC of a pending record."""
        return NO_SEAL if self._key is None else Seal(pending_mac(self._key, leaf), self._key_id)

    def row(self, index: int, leaf: bytes) -> Seal:
        """Return the MAC of a record in the log."""
        return NO_SEAL if self._key is None else Seal(row_mac(self._key, index, leaf), self._key_id)

    def vouches(self, leaf: bytes, seal: Seal) -> bool:
        """Return whether the MAC of a pending record is valid under a known key."""
        if self._keyring is None or seal.mac is None or seal.key_id is None:
            return False
        key = self._keyring.mac_key(seal.key_id)
        return key is not None and hmac.compare_digest(pending_mac(key, leaf), seal.mac)


def row_mac(key: bytes, index: int, leaf: bytes) -> bytes:
    """Return HMAC-SHA256(key, index as 8 bytes, big-endian || leaf)."""
    return hmac.digest(key, index.to_bytes(8, "big") + leaf, "sha256")


def pending_mac(key: bytes, leaf: bytes) -> bytes:
    """Return HMAC-SHA256(key, "pending" || leaf), for a row without an index yet."""
    return hmac.digest(key, b"pending" + leaf, "sha256")


_BLOCK_BYTES: Final = 64  # of SHA-256 (RFC 2104)
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))  # the table of XOR with ipad
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))  # the table of XOR with opad


def row_macs(key: bytes) -> Callable[[int, bytes], bytes]:
    """Return a function of (index, leaf) equal to `row_mac` under the key, in a third of the time.

    Args:
        key: at most 64 bytes, which RFC 2104 uses without hashing.
    """
    block = key.ljust(_BLOCK_BYTES, b"\x00")
    inner, outer = hashlib.sha256(block.translate(_INNER)), hashlib.sha256(block.translate(_OUTER))

    def mac(index: int, leaf: bytes) -> bytes:
        inside, outside = inner.copy(), outer.copy()
        inside.update(index.to_bytes(8, "big") + leaf)
        outside.update(inside.digest())
        return outside.digest()

    return mac
