"""Signed notes (C2SP signed-note) and checkpoints (C2SP tlog-checkpoint), which state the size and root of a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from context_engine.audit.formats.keys import COSIGNATURE, SigningKey, VerifierKey
from context_engine.audit.formats.strict import (
    FormatError,
    checked_name,
    from_base64,
    hash_from_base64,
    number_from,
    to_base64,
)

_DASH: Final = "— "
_ID_BYTES: Final = 4  # C2SP signed-note
_TIME_BYTES: Final = 8  # C2SP tlog-cosignature
_MOST_SIGNATURES: Final = 64  # bounds the work for a hostile note


class Signature(NamedTuple):
    """A signature line of a note.

    Attributes:
        name: name of the key.
        key_id: 4 bytes.
        data: the signature; of a cosignature, preceded by the time in 8 bytes.
    """

    name: str
    key_id: bytes
    data: bytes

    @property
    def line(self) -> str:
        """The line, without its end."""
        return f"{_DASH}{self.name} {to_base64(self.key_id + self.data)}"

    def by(self, key: VerifierKey) -> bool:
        """Whether it claims to be by a key."""
        return self.name == key.name and self.key_id == key.id_bytes


class Note(NamedTuple):
    """A text, ending in a newline, with its unverified signatures."""

    text: str
    signatures: tuple[Signature, ...] = ()

    def __str__(self) -> str:
        lines = "".join(f"{signature.line}\n" for signature in self.signatures)
        return f"{self.text}\n{lines}" if lines else self.text


class Signed(NamedTuple):
    """A verified signature.

    Attributes:
        key: the key that made it.
        time: seconds since 1970 at which a witness saw the text; None for a log's own signature.
    """

    key: VerifierKey
    time: int | None = None


def sign_note(text: str, *keys: SigningKey) -> Note:
    """Return a text, which ends in a newline, signed by each key; without keys the text alone."""
    made = (Signature(key.name, key.verifier.id_bytes, key.sign(text.encode())) for key in keys)
    return Note(text, tuple(made))


def cosigned_message(text: str, time: int) -> bytes:
    """Return what a witness signs for a text at a time, in seconds since 1970 (C2SP tlog-cosignature)."""
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def parse_note(note: str) -> Note:
    """Parse a note; without an empty line it is an unsigned text.

    Raises:
        FormatError: it is malformed.
    """
    if not note.endswith("\n") or any(char < " " and char != "\n" for char in note):
        raise FormatError("a note must end in a newline and contain no other control character")
    end = note.rfind("\n\n")
    if end < 0:
        return Note(note)
    lines = note[end + 2 : -1].split("\n") if end + 2 < len(note) else []
    if not 0 < len(lines) <= _MOST_SIGNATURES:
        raise FormatError(f"a note has 1 to {_MOST_SIGNATURES} signatures after its empty line, not {len(lines)}")
    return Note(note[: end + 1], tuple(map(parse_signature, lines)))


def parse_signature(line: str) -> Signature:
    """Parse a signature line, given without its end.

    Raises:
        FormatError: it is malformed.
    """
    if not line.startswith(_DASH):
        raise FormatError("a signature line must begin with a dash and a space")
    name, _, written = line.removeprefix(_DASH).partition(" ")
    data = from_base64(written, "a signature")
    if len(data) <= _ID_BYTES:
        raise FormatError("a signature is too short")
    return Signature(checked_name(name), data[:_ID_BYTES], data[_ID_BYTES:])


def verify_note(note: Note, keys: Sequence[VerifierKey]) -> tuple[Signed, ...]:
    """Return which of the keys signed a note; signatures by other keys are ignored.

    Raises:
        FormatError: a signature that claims to be by one of the keys is invalid, or a key has signed twice.
    """
    signed: list[Signed] = []
    for key in keys:
        own = [signature for signature in note.signatures if signature.by(key)]
        if len(own) > 1:
            raise FormatError(f"the note has two signatures by {key.name}")
        if own:
            signed.append(_verified(note.text, own[0], key))
    return tuple(signed)


def _verified(text: str, signature: Signature, key: VerifierKey) -> Signed:
    time, data, message = None, signature.data, text.encode()
    if key.kind == COSIGNATURE:
        time, data = int.from_bytes(data[:_TIME_BYTES], "big"), data[_TIME_BYTES:]
        message = cosigned_message(text, time)
    if not key.accepts(data, message):
        raise FormatError(f"the signature by {key.name} is not valid for the text")
    return Signed(key, time)


class Checkpoint(NamedTuple):
    """The state of a log.

    Attributes:
        origin: name of the log.
        size: number of entries.
        root: root of the tree over them, 32 bytes.
        extensions: further lines; signed with the rest, otherwise ignored.
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The signed text."""
        return "".join(f"{line}\n" for line in (self.origin, str(self.size), to_base64(self.root), *self.extensions))

    def signed(self, *keys: SigningKey) -> str:
        """Return the checkpoint's note, signed by each key; without keys, the text alone."""
        return str(sign_note(self.text, *keys))


def parse_checkpoint(note: str | Note) -> Checkpoint:
    """Return the checkpoint of a note without verifying signatures.

    Raises:
        FormatError: it is malformed.
    """
    text = (parse_note(note) if isinstance(note, str) else note).text
    lines = text.removesuffix("\n").split("\n")
    if len(lines) < 3 or "" in lines:
        raise FormatError("a checkpoint must have three lines: origin, size and root")
    origin, size, root, *extensions = lines
    count, tree = number_from(size, "the size in the checkpoint"), hash_from_base64(root, "the root in the checkpoint")
    return Checkpoint(origin, count, tree, tuple(extensions))


def cosign(note: Note, key: SigningKey, time: int) -> Note:
    """Return a note with a witness's cosignature added, made at a time in seconds since 1970."""
    witness = VerifierKey(key.name, key.verifier.public, COSIGNATURE)
    data = time.to_bytes(8, "big") + key.sign(cosigned_message(note.text, time))
    return Note(note.text, (*note.signatures, Signature(key.name, witness.id_bytes, data)))
