"""What stands between the record of a search and the ledger that keeps it.

A record is an *entry*, a few kilobytes of JSON that stand in the log for ever, and *addenda*, which the entry names by
their digests: the question, the candidates, the texts. An addendum can be erased; the log and every proof stay as they
are.
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
    """Bytes that many records may name; they are kept once.

    Attributes:
        kind: text, card (what is known of a chunk beside its text), settings or sources.
        data: what is kept.
        key: SHA-256 of kind and data: what equal content is found by. It is erased with the content.
    """

    kind: str
    data: bytes
    key: bytes = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", hashlib.sha256(self.kind.encode() + b"\x00" + self.data).digest())


class Addendum(NamedTuple):
    """Bytes kept beside the log, under a digest that tells nothing of them once they are erased.

    Attributes:
        kind: that of its content, or question, candidates ...
        salt: 16 random bytes.
        data: what is kept.
    """

    kind: str
    salt: bytes
    data: bytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of salt and data: what an entry names it by."""
        return hashlib.sha256(self.salt + self.data).digest()

    @classmethod
    def of(cls, kind: str, data: bytes) -> Self:
        """Return data under a new salt."""
        return cls(kind, secrets.token_bytes(SALT_BYTES), data)


class Composed(NamedTuple):
    """A record as it is stored.

    Attributes:
        entry: JSON, at most `MOST_ENTRY_BYTES`; the leaf of the tree is the hash of these very bytes.
        addenda: of this record alone.
    """

    entry: bytes
    addenda: tuple[Addendum, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A record before the digests of what it shares with others are known.

    Attributes:
        record_id: the search id, or one of its own; unique in the ledger.
        contents: what may be there already; the ledger keeps what is not.
        compose: makes the record of {content key: digest}.
    """

    record_id: str
    contents: tuple[Content, ...]
    compose: Callable[[Mapping[bytes, bytes]], Composed]
