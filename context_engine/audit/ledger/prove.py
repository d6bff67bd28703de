"""Make proofs for outsiders from the tiles of a ledger: that it holds a record, and that it only grew."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from context_engine.audit.formats.checkpoint import Checkpoint
from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.formats.proof import ConsistencyProof, InclusionProof, verify_growth, verify_proof
from context_engine.audit.formats.tiles import TileTree
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.read import StoredCheckpoint
from context_engine.errors import AuditError, LedgerCorrupt, RecordNotFound

P = TypeVar("P")


def prove_record(ledger: Ledger, record_id: str, checkpoint: StoredCheckpoint) -> InclusionProof:
    """Return the proof, already checked, that a record is in the log under a checkpoint of the ledger.

    Raises:
        RecordNotFound: there is no such record.
        AuditError: it is newer than the checkpoint, or was pruned.
        LedgerCorrupt: the ledger's data does not prove it.
    """
    stored = ledger.entry(record_id)
    if stored is None:
        raise RecordNotFound(f"the ledger has no record {record_id!r}")
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
