"""What a gold id names: a chunk, a document, a version or section of it, or a text by its hash."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from context_engine.core.models import Chunk
from context_engine.core.text import content_sha256
from context_engine.evaluation.qrels import EXACT

_HASH: Final = re.compile(r"(?:sha256:([0-9a-f]{8,64})|([0-9a-f]{12,64}))")
_HEADING: Final = re.compile(r"^#+ (\d[\w.()]*) ", re.MULTILINE)


class Identity(NamedTuple):
    """All that a chunk can be called by.

    Attributes:
        names: chunk id, document, document@version, and with each section it stands in: document#4.2, document@3.2#4.
        sha256: of the text; "" where the text is not known.
        tier: authority tier, None where it is not known.
    """

    source_id: str
    chunk_id: str
    names: frozenset[str]
    sha256: str = ""
    tier: int | None = None


class GoldHit(NamedTuple):
    """A returned chunk.

    Attributes:
        copies: the chunks that were merged into it.
    """

    identity: Identity
    score: float
    copies: tuple[Identity, ...] = ()


def identity_of(source_id: str, chunk_id: str, chunk: Chunk, tier: int | None = None) -> Identity:
    """Return the identity of a chunk. One without a section number stands for the numbered headings in its text."""
    documents = [chunk.document_id] if chunk.document_id else []
    if chunk.document_id and chunk.document_version:
        documents.append(f"{chunk.document_id}@{chunk.document_version}")
    sections = [chunk.section] if chunk.section else _HEADING.findall(chunk.content)
    parts = {part for section in sections for part in _and_above(section)}
    names = {chunk_id, *documents, *(f"{document}#{part}" for document in documents for part in parts)}
    return Identity(source_id, chunk_id, frozenset(names), content_sha256(chunk.content), tier)


def _and_above(section: str) -> list[str]:
    """Return a section number and those it stands in: 4.2.1 gives 4, 4.2 and 4.2.1."""
    parts = section.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def gold_of(identity: Identity, gold: Iterable[str]) -> list[str]:
    """Return the gold ids that name a chunk, in the order given."""
    exact = EXACT + identity.chunk_id
    return [name for name in gold if name in identity.names or name == exact or _is_hash_of(name, identity.sha256)]


def holders(gold: Iterable[str]) -> frozenset[str]:
    """Return the ids of chunks and documents that hold what some gold ids name; empty where one is a hash of a text.

    >>> sorted(holders(["SOP-1@3.2#4.2"]))
    ['SOP-1', 'SOP-1@3.2', 'SOP-1@3.2#4.2']
    """
    names = list(gold)
    if any(map(_HASH.fullmatch, names)):
        return frozenset()
    return frozenset(part for name in names for part in _containing(name.removeprefix(EXACT)))


def _containing(name: str) -> Iterator[str]:
    """Yield a name, what stands before its section, and before its version."""
    yield name
    for mark in ("#", "@"):
        name = name.partition(mark)[0]
        yield name


def resolved(gold: Mapping[str, int], chunk_ids: Container[str]) -> dict[str, int]:
    """Return gold ids with those that name one chunk alone taken for what they read like, where it is gone.

    A document that was cut anew has no chunk `SOP-1@3.2#4.2` any more, but still a section.
    """
    return {
        name if name.removeprefix(EXACT) in chunk_ids else name.removeprefix(EXACT): grade
        for name, grade in gold.items()
    }


def _is_hash_of(name: str, sha256: str) -> bool:
    prefix = _prefix(name)
    return bool(prefix and sha256) and sha256.startswith(prefix)


def _prefix(name: str) -> str:
    found = _HASH.fullmatch(name)
    return (found[1] or found[2]) if found else ""


def ranked_ids(hits: Sequence[GoldHit], gold: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return (name, chunk id) of each place in a ranking, best first, each gold id once.

    A chunk that is gold stands under its gold id, any other under its own. What repeats a gold id that stands above
    (two sections of one gold document, a merged copy) takes no place. A chunk that holds two gold ids, itself or in
    the copies merged into it, takes two places, as the copies would have taken without the merging.
    """
    places: list[tuple[str, str]] = []
    seen: set[str] = set()
    for hit in hits:
        found = [(name, one.chunk_id) for one in (hit.identity, *hit.copies) for name in gold_of(one, gold)]
        for name, chunk_id in found or [(hit.identity.chunk_id, hit.identity.chunk_id)]:
            if name not in seen:
                seen.add(name)
                places.append((name, chunk_id))
    return places


class GoldIndex:
    """Tells which gold ids name nothing.

    Args:
        identities: every chunk there is.
    """

    def __init__(self, identities: Iterable[Identity]) -> None:
        self._names: set[str] = set()
        hashes: set[str] = set()
        for one in identities:
            self._names |= one.names
            hashes.add(one.sha256)
        self._hashes = sorted(hashes)

    def knows(self, gold: str) -> bool:
        """Return whether a gold id names a chunk."""
        gold = gold.removeprefix(EXACT)
        prefix = _prefix(gold)
        place = bisect_left(self._hashes, prefix) if prefix else len(self._hashes)
        by_hash = place < len(self._hashes) and self._hashes[place].startswith(prefix)
        return gold in self._names or by_hash
