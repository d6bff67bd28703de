"""The values exchanged between the records of searches and the ledger that stores them.

A record is an *entry*, a few kilobytes of JSON that stay in the log for ever, and *addenda*, which the entry names by
their digests: the question, the candidates, the texts. Erasing an addendum leaves the log and every proof valid.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

MOST_ENTRY_BYTES: Final = 6144
SALT_BYTES: Final = 16


@dataclass(frozen=True)
class Content:
    """Bytes that many records may name and that are stored once.

    Attributes:
        kind: text, card (a chunk's metadata), settings or sources.
        key: SHA-256 of kind and data, by which equal content is found; erased with the content.
    """

    kind: str
    data: bytes
    key: bytes = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", hashlib.sha256(self.kind.encode() + b"\x00" + self.data).digest())


class Addendum(NamedTuple):
    """Bytes stored beside the log; once they are erased, their salted digest reveals nothing about them.

    Attributes:
        kind: the kind of its content, or question, candidates ...
        salt: 16 random bytes.
    """

    kind: str
    salt: bytes
    data: bytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of salt and data, by which entries name it."""
        return hashlib.sha256(self.salt + self.data).digest()

    @classmethod
    def of(cls, kind: str, data: bytes) -> Self:
        """Return data under a new salt."""
        return cls(kind, secrets.token_bytes(SALT_BYTES), data)


class Composed(NamedTuple):
    """A record as stored.

    Attributes:
        entry: JSON of at most `MOST_ENTRY_BYTES`; the leaf hash is over exactly these bytes.
        addenda: the addenda of this record alone.
    """

    entry: bytes
    addenda: tuple[Addendum, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A record before the digests of its shared contents are known.

    Attributes:
        record_id: the search id, or an id of its own; unique in the ledger.
        contents: shared contents; the ledger stores those it does not have.
        compose: makes the record from {content key: digest}.
    """

    record_id: str
    contents: tuple[Content, ...]
    compose: Callable[[Mapping[bytes, bytes]], Composed]
