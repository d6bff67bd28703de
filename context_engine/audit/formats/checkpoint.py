"""Checkpoints (C2SP tlog-checkpoint): what a log says it holds, as a note that it signs and witnesses cosign."""

from __future__ import annotations

from typing import NamedTuple

from context_engine.audit.formats.keys import COSIGNATURE, SigningKey, VerifierKey
from context_engine.audit.formats.note import Note, Signature, cosigned_message, parse_note, sign_note
from context_engine.audit.formats.strict import FormatError, hash_from_base64, number_from, to_base64


class Checkpoint(NamedTuple):
    """The state of a log.

    Attributes:
        origin: names the log.
        size: number of its entries.
        root: of the tree over them, 32 bytes.
        extensions: lines that mean nothing here; signed with the rest.
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What is signed."""
        return "".join(f"{line}\n" for line in (self.origin, str(self.size), to_base64(self.root), *self.extensions))

    def signed(self, *keys: SigningKey) -> str:
        """Return the note of it, signed by each key; by none, the text alone."""
        return str(sign_note(self.text, *keys))


def parse_checkpoint(note: str | Note) -> Checkpoint:
    """Return the checkpoint of a note, signed or not; its signatures are not verified here.

    Raises:
        FormatError: it has not the form of a checkpoint.
    """
    text = (parse_note(note) if isinstance(note, str) else note).text
    lines = text.removesuffix("\n").split("\n")
    if len(lines) < 3 or "" in lines:
        raise FormatError("a checkpoint has three lines: origin, size and root")
    origin, size, root, *extensions = lines
    count, tree = number_from(size, "the size in the checkpoint"), hash_from_base64(root, "the root in the checkpoint")
    return Checkpoint(origin, count, tree, tuple(extensions))


def cosign(note: Note, key: SigningKey, time: int) -> Note:
    """Return a note with the cosignature of a witness added.

    Args:
        key: the witness's.
        time: seconds since 1970.
    """
    witness = VerifierKey(key.name, key.verifier.public, COSIGNATURE)
    data = time.to_bytes(8, "big") + key.sign(cosigned_message(note.text, time))
    return Note(note.text, (*note.signatures, Signature(key.name, witness.id_bytes, data)))
