"""Who vouches for a checkpoint: the keys that signed it, and the witnesses that cosigned it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from context_engine.audit.checks.keys import endorsed_keys
from context_engine.audit.formats.checkpoint import parse_checkpoint, parse_note, verify_note
from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.formats.strict import FormatError
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.read import StoredCheckpoint
from context_engine.errors import LedgerCorrupt

_VERIFY: Final = "run 'context-engine audit verify'"


def check_vouched(
    ledger: Ledger, checkpoint: StoredCheckpoint, keys: Sequence[VerifierKey], witnesses: Sequence[VerifierKey]
) -> None:
    """Check that a checkpoint is signed by one of the keys, or by one that they endorsed, and by each witness.

    Raises:
        LedgerCorrupt: it is not.
    """
    note = parse_note(checkpoint.note)
    name = f"the checkpoint of {checkpoint.size} records"
    try:
        if keys and not verify_note(note, endorsed_keys(ledger, keys)):
            raise LedgerCorrupt(f"{name} is not signed by a key given with --key: {_VERIFY}")
        missing = [witness.name for witness in witnesses if not verify_note(note, (witness,))]
    except FormatError as error:
        raise LedgerCorrupt(f"{name}: {error}: {_VERIFY}") from None
    if missing:
        raise LedgerCorrupt(
            f"{name} is not cosigned by {', '.join(missing)}: 'context-engine audit head --publish' asks the witnesses"
        )


def head_facts(ledger: Ledger, written: str, given: Sequence[VerifierKey] = ()) -> dict[str, Any]:
    """Return the facts in a checkpoint, ready for JSON, with the known keys that signed it.

    Args:
        given: verifier keys from outside; if any, they alone and those that they endorsed are known.

    Raises:
        LedgerCorrupt: a signature is invalid, or the checkpoint does not match the present records.
    """
    keys = endorsed_keys(ledger, given) if given else () if ledger.keyring is None else ledger.keyring.verifiers
    try:
        signed_note = parse_note(written)
        checkpoint, signed = parse_checkpoint(signed_note), verify_note(signed_note, keys)
    except FormatError as error:
        raise LedgerCorrupt(f"{error}: {_VERIFY}") from None
    if (checkpoint.origin, checkpoint.root) != (ledger.origin, ledger.root(checkpoint.size)):
        raise LedgerCorrupt(
            f"the checkpoint of {checkpoint.size} records does not match the present records: {_VERIFY}"
        )
    return {
        "origin": checkpoint.origin,
        "size": checkpoint.size,
        "root": checkpoint.root.hex(),
        "checkpoint": written,
        "signed_by": [signature.key.text for signature in signed],
    }
