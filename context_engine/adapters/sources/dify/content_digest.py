"""A digest of a document's chunks: what Dify holds is compared by it with what was written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Final, NamedTuple, Self

_FORM: Final = re.compile(r"(\d+):(\d+):([0-9a-f]{16})")


class ContentDigest(NamedTuple):
    """The chunks of a document.

    Attributes:
        chunks: how many.
        characters: in all of them; Dify's list of documents counts them too, as `word_count`.
        digest: of their texts, in their order.
    """

    chunks: int
    characters: int
    digest: str

    @classmethod
    def of(cls, contents: Iterable[str]) -> Self:
        """Measure chunks.

        >>> str(ContentDigest.of(["Keep records", "for seven years."]))
        '2:28:42f026b35770ec99'
        """
        chunks = characters = 0
        digest = sha256()
        for content in contents:
            chunks, characters = chunks + 1, characters + len(content)
            digest.update(sha256(content.encode("utf-8", "surrogatepass")).digest())
        return cls(chunks, characters, digest.hexdigest()[:16])

    @classmethod
    def read(cls, value: object) -> Self | None:
        """Return what a mark says; None where it says nothing."""
        found = _FORM.fullmatch(value) if isinstance(value, str) else None
        return cls(int(found[1]), int(found[2]), found[3]) if found else None

    def __str__(self) -> str:
        return f"{self.chunks}:{self.characters}:{self.digest}"
