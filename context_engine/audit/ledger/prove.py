"""Proofs for outsiders from the tiles of a ledger: that it holds a record (C2SP tlog-proof), and that it only grew.

The second has the form of a witness request (C2SP tlog-witness): the old size, the hashes, the new checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from context_engine.audit.formats.checkpoint import Checkpoint, Signed, parse_checkpoint, parse_note, verify_note
from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.formats.merkle import leaf_hash, verify_consistency, verify_inclusion
from context_engine.audit.formats.strict import FormatError, from_base64, hash_from_base64, number_from, to_base64
from context_engine.audit.formats.tiles import TileTree
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.read import StoredCheckpoint
from context_engine.errors import AuditError, LedgerCorrupt, RecordNotFound

P = TypeVar("P")
_HEADER: Final = "c2sp.org/tlog-proof@v1"
_EXTRA: Final = "extra "
_INDEX: Final = "index "
_OLD: Final = "old "


def prove_record(ledger: Ledger, record_id: str, checkpoint: StoredCheckpoint) -> InclusionProof:
    """Return the proof, already checked, that a record is in the log under a checkpoint of the ledger.

    Raises:
        RecordNotFound: there is no such record.
        AuditError: it is newer than the checkpoint, or was pruned.
        LedgerCorrupt: the ledger's data does not prove it.
    """
    stored = ledger.entry(record_id)
    if stored is None:
        raise RecordNotFound(f"the ledger has no record {record_id!r}: 'context-engine audit list' shows those it has")
    entry, index = stored.entry, stored.index
    if entry is None:
        raise AuditError(f"record {record_id!r} was pruned: a proof made earlier can still be checked")
    if index is None or index >= checkpoint.size:
        raise AuditError(
            f"record {record_id!r} is newer than the newest checkpoint, of {checkpoint.size} records: 'context-engine "
            "audit head' makes one, as a user who may write to the ledger and has its key"
        )
    tree = TileTree(ledger.tile, checkpoint.size)
    proof = _checked_proof(lambda: InclusionProof(entry, index, tree.inclusion_proof(index), checkpoint.note))
    _checked_proof(lambda: verify_proof(proof, _keys(ledger)))
    return proof


def prove_growth(ledger: Ledger, before: Checkpoint, checkpoint: StoredCheckpoint) -> ConsistencyProof:
    """Return the proof, already checked, that the log begins with the records of an older checkpoint.

    Args:
        before: the older checkpoint, kept outside the ledger.

    Raises:
        AuditError: the older one is of another log, or of a size whose tiles were pruned.
        LedgerCorrupt: the log was cut, rolled back or rewritten since.
    """
    if before.origin != ledger.origin:
        raise AuditError(f"the older checkpoint is of the log {before.origin!r}, not of this ledger, {ledger.origin!r}")
    if before.size > checkpoint.size:
        raise LedgerCorrupt(
            f"the log has {checkpoint.size} records and had {before.size} at the older checkpoint: it was cut, or "
            "replaced by an older copy"
        )
    if 0 < before.size < ledger.minimum_index:
        raise AuditError(
            f"the records below {ledger.minimum_index} were pruned: growth from {before.size} records cannot be proved"
        )
    tree = TileTree(ledger.tile, checkpoint.size)
    proof = _checked_proof(lambda: ConsistencyProof(before.size, tree.consistency_proof(before.size), checkpoint.note))
    _checked_proof(lambda: verify_growth(proof, before, _keys(ledger)))
    return proof


def _keys(ledger: Ledger) -> tuple[VerifierKey, ...]:
    return () if ledger.keyring is None else ledger.keyring.verifiers


def _checked_proof(made: Callable[[], P]) -> P:
    """Return a proof made from tiles. The ledger made the checkpoint itself, so a mismatch means damage."""
    try:
        return made()
    except ValueError as error:
        raise LedgerCorrupt(f"{error}: run 'context-engine audit verify'") from error


@dataclass(frozen=True, slots=True)
class InclusionProof:
    """A proof that an entry is in a log.

    Attributes:
        entry: its bytes.
        index: its index.
        path: hashes, its sibling first.
        note: signed checkpoint of the log.
    """

    entry: bytes
    index: int
    path: tuple[bytes, ...]
    note: str

    @property
    def text(self) -> str:
        """The content of a `.tlog-proof` file, with the entry as extra data."""
        head = (_HEADER, f"{_EXTRA}{to_base64(self.entry)}", f"{_INDEX}{self.index}", *map(to_base64, self.path))
        return "\n".join((*head, "", self.note))


@dataclass(frozen=True, slots=True)
class ConsistencyProof:
    """A proof that a log still begins with the records of an older checkpoint.

    Attributes:
        old: size of the log then.
        path: hashes of `merkle.consistency_ranges`.
        note: signed checkpoint of the log now.
    """

    old: int
    path: tuple[bytes, ...]
    note: str

    @property
    def text(self) -> str:
        """The body of a witness request and content of a `.tlog-consistency` file."""
        return "\n".join((f"{_OLD}{self.old}", *map(to_base64, self.path), "", self.note))


def parse_proof(text: str) -> InclusionProof:
    """Parse a `.tlog-proof` file.

    Raises:
        FormatError: it is malformed, or holds no entry.
    """
    head, note = _parts(text)
    if head[0] != _HEADER or len(head) < 3 or not head[1].startswith(_EXTRA) or not head[2].startswith(_INDEX):
        raise FormatError(f"the proof of an entry must begin with {_HEADER}, the entry and its index")
    entry = from_base64(head[1].removeprefix(_EXTRA), "the entry")
    return InclusionProof(entry, number_from(head[2].removeprefix(_INDEX), "the index"), _hashes(head[3:]), note)


def parse_consistency(text: str) -> ConsistencyProof:
    """Parse a `.tlog-consistency` file.

    Raises:
        FormatError: it is malformed.
    """
    head, note = _parts(text)
    if not head[0].startswith(_OLD):
        raise FormatError("the proof that a log grew must begin with its old size")
    return ConsistencyProof(number_from(head[0].removeprefix(_OLD), "the old size"), _hashes(head[1:]), note)


def verify_proof(proof: InclusionProof, keys: Sequence[VerifierKey]) -> tuple[Checkpoint, tuple[Signed, ...]]:
    """Return the checkpoint that the proof is valid under, and the keys that signed it (possibly none).

    Raises:
        FormatError: the proof or a signature is invalid.
    """
    checkpoint, signed = _signed(proof.note, keys)
    if not verify_inclusion(leaf_hash(proof.entry), proof.index, checkpoint.size, proof.path, checkpoint.root):
        raise FormatError(f"the entry is not at index {proof.index} under the root of the checkpoint")
    return checkpoint, signed


def verify_growth(
    proof: ConsistencyProof, before: Checkpoint, keys: Sequence[VerifierKey]
) -> tuple[Checkpoint, tuple[Signed, ...]]:
    """Return the checkpoint that a log has grown to, and the keys that signed it (possibly none).

    Args:
        before: the older checkpoint, as its owner kept it.

    Raises:
        FormatError: the log did not grow from there, or a signature is invalid.
    """
    after, signed = _signed(proof.note, keys)
    if before.origin != after.origin:
        raise FormatError(f"the checkpoints are of two logs: {before.origin} and {after.origin}")
    if proof.old != before.size:
        raise FormatError(f"the proof begins at size {proof.old}; the older checkpoint is of size {before.size}")
    if not verify_consistency(before.size, before.root, after.size, after.root, proof.path):
        raise FormatError("the log does not begin with the records of the older checkpoint")
    return after, signed


def _parts(text: str) -> tuple[list[str], str]:
    """Return the lines before the first empty line, at least one, and the note after it."""
    head, gap, note = text.partition("\n\n")
    if not gap or not head:
        raise FormatError("a proof must have an empty line and a checkpoint after it")
    return head.split("\n"), note


def _hashes(lines: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(hash_from_base64(line, "a hash of the proof") for line in lines)


def _signed(text: str, keys: Sequence[VerifierKey]) -> tuple[Checkpoint, tuple[Signed, ...]]:
    note = parse_note(text)
    return parse_checkpoint(note), verify_note(note, keys)
