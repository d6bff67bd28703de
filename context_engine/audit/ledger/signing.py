"""Whether a log may be signed: with the key it names last, and only if it grew out of what was signed before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, select

from context_engine.audit.formats.checkpoint import Checkpoint, parse_checkpoint, parse_note, verify_note
from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.formats.merkle import verify_consistency
from context_engine.audit.formats.strict import FormatError
from context_engine.audit.formats.tiles import TileTree
from context_engine.audit.ledger.schema import checkpoint
from context_engine.errors import LedgerCorrupt

_NOTES: Final = select(checkpoint.c.note).order_by(checkpoint.c.size.desc())

_BATCH: Final = 8


def last_signed(connection: Connection, origin: str, keys: Sequence[VerifierKey]) -> Checkpoint | None:
    """Return the newest checkpoint that a key of the log signed, None where none did.

    Args:
        connection: to the ledger's database.
        origin: of the log.
        keys: of the log; whatever none of them signed may have been put there by anybody.
    """
    if not keys:
        return None
    for note in connection.execute(_NOTES, execution_options={"yield_per": _BATCH}).scalars():
        try:
            parsed = parse_note(note)
            found = parse_checkpoint(parsed)
            if found.origin == origin and verify_note(parsed, keys):
                return found
        except FormatError:  # a check of the whole ledger says so
            continue
    return None


def check_growth(signed: Checkpoint, made: Checkpoint, tree: TileTree) -> None:
    """Refuse a checkpoint of a log that did not grow out of what was signed (RFC 6962, 2.1.2).

    Args:
        signed: of the log as it was, read before `made` was.
        made: of the log as it is.
        tree: of that size.

    Raises:
        LedgerCorrupt: records that were signed are gone or are others now, or a tile is damaged.
    """
    if signed.size <= made.size:
        try:
            proof = tree.consistency_proof(signed.size)
        except ValueError as error:
            raise LedgerCorrupt(f"{error}: run 'context-engine audit verify'") from error
        if verify_consistency(signed.size, signed.root, made.size, made.root, proof):
            return
    raise LedgerCorrupt(
        f"the log of {made.size} records did not grow out of the {signed.size} that were signed: records were changed "
        "or cut off, or it is an old copy; no checkpoint is made of it: run 'context-engine audit verify'"
    )
