"""Cosignatures of witnesses: each is shown the checkpoint and a proof that it grew out of the one it cosigned last."""

from __future__ import annotations

from typing import Final, Protocol

from context_engine.audit.formats.checkpoint import parse_checkpoint
from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.formats.note import Note, parse_note, parse_signature, verify_note
from context_engine.audit.formats.strict import FormatError
from context_engine.audit.formats.tiles import TileTree
from context_engine.errors import AuditError

_ROUNDS: Final = 3
"""Once to learn what the witness saw last, once to answer; once more where another process was quicker."""


class Cosigner(Protocol):
    """A witness.

    Attributes:
        name: what messages call it.
        vkey: its verifier key; a cosignature of another key counts for nothing.
    """

    name: str
    vkey: str

    def add_checkpoint(self, note: str, old_size: int, proof: tuple[bytes, ...]) -> str | int:
        """Return the signature lines of its cosignatures; or the size it last cosigned, where that is not the old one.

        Raises:
            AuditError: it refuses, or cannot be asked.
        """
        ...

    def close(self) -> None:
        """Close connections; may be called twice, and it may be asked again."""
        ...


def cosigned(note: str, tree: TileTree, witness: Cosigner, seen: int = 0) -> str:
    """Return the note with the cosignature of a witness added.

    Args:
        note: a signed checkpoint.
        tree: of its size.
        witness: asked.
        seen: the size it cosigned last, as far as is known; it says so itself where that is wrong.

    Raises:
        AuditError: it refuses; it saw a larger log than this one; or its answer holds no cosignature of its key.
    """
    old = seen if seen <= tree.size else 0
    for _ in range(_ROUNDS):
        answer = witness.add_checkpoint(note, old, tree.consistency_proof(old) if old else ())
        if isinstance(answer, str):
            return str(_joined(parse_note(note), answer, witness))
        if answer > tree.size:
            raise AuditError(
                f"witness {witness.name!r} cosigned this log at {answer} records and it has {tree.size} now: it was "
                "cut off or rolled back; run 'context-engine audit verify'"
            )
        old = answer
    raise AuditError(f"witness {witness.name!r} names another size each time: it is asked again with the next one")


def _joined(note: Note, lines: str, witness: Cosigner) -> Note:
    """Return the note with those of the lines that the witness's key made."""
    key = VerifierKey.parse(witness.vkey)
    try:
        signatures = [parse_signature(line) for line in lines.removesuffix("\n").split("\n")]
        own = tuple(one for one in signatures if one.by(key))
        good = bool(own) and verify_note(Note(note.text, own), (key,))
    except FormatError as error:
        raise AuditError(f"witness {witness.name!r} gave no cosignature that fits its key: {error}") from None
    if not good:
        raise AuditError(f"witness {witness.name!r} gave no cosignature of the key {key.name}: correct audit_witnesses")
    others = tuple(one for one in note.signatures if not one.by(key))
    return Note(note.text, others + own)


def seen_by(note: str, witness: Cosigner) -> int:
    """Return the size of a stored checkpoint, if the witness cosigned it; else 0."""
    try:
        key, found = VerifierKey.parse(witness.vkey), parse_note(note)
        return parse_checkpoint(found).size if any(one.by(key) for one in found.signatures) else 0
    except FormatError:
        return 0
