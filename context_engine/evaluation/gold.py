"""Resolve gold ids: a gold id names a chunk, a document, a version or section of it, or a text by its hash."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.core.models import NOBODY, AccessClass, AccessScope, Chunk, Principal, SourceSpec
from context_engine.core.policy.access import access_class
from context_engine.core.policy.trust import effective_authority
from context_engine.core.protocols import TokenCounter
from context_engine.core.text import content_sha256
from context_engine.evaluation.qrels import EXACT
from context_engine.wiring.examine import listed_chunks
from context_engine.wiring.setup import Setup

_HASH: Final = re.compile(r"(?:sha256:([0-9a-f]{8,64})|([0-9a-f]{12,64}))")
_HEADING: Final = re.compile(r"^#+ (\d[\w.()]*) ", re.MULTILINE)


class Identity(NamedTuple):
    """All names of a chunk.

    Attributes:
        names: chunk id, document, document@version, and the last two with each containing section: document#4.2,
            document@3.2#4.
        sha256: hash of the text; "" if the text is unknown.
        tier: authority tier, None if unknown.
    """

    source_id: str
    chunk_id: str
    names: frozenset[str]
    sha256: str = ""
    tier: int | None = None


class GoldHit(NamedTuple):
    """A returned chunk; `copies` are the chunks that were merged into it."""

    identity: Identity
    score: float
    copies: tuple[Identity, ...] = ()


def identity_of(source_id: str, chunk_id: str, chunk: Chunk, tier: int | None = None) -> Identity:
    """Return the identity of a chunk; without a section number, numbered headings in its text count as sections."""
    documents = [chunk.document_id] if chunk.document_id else []
    if chunk.document_id and chunk.document_version:
        documents.append(f"{chunk.document_id}@{chunk.document_version}")
    sections = [chunk.section] if chunk.section else _HEADING.findall(chunk.content)
    parts = {part for section in sections for part in _and_above(section)}
    names = {chunk_id, *documents, *(f"{document}#{part}" for document in documents for part in parts)}
    return Identity(source_id, chunk_id, frozenset(names), content_sha256(chunk.content), tier)


def _and_above(section: str) -> list[str]:
    """Return a section number and those containing it: 4.2.1 gives 4, 4.2 and 4.2.1."""
    parts = section.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def gold_of(identity: Identity, gold: Iterable[str]) -> list[str]:
    """Return the gold ids that name a chunk, in the order given."""
    exact = EXACT + identity.chunk_id
    return [name for name in gold if name in identity.names or name == exact or _is_hash_of(name, identity.sha256)]


def holders(gold: Iterable[str]) -> frozenset[str]:
    """Return the ids of the chunks and documents that some gold ids name; empty if one is a hash of a text.

    >>> sorted(holders(["SOP-1@3.2#4.2"]))
    ['SOP-1', 'SOP-1@3.2', 'SOP-1@3.2#4.2']
    """
    names = list(gold)
    if any(map(_HASH.fullmatch, names)):
        return frozenset()
    return frozenset(part for name in names for part in _containing(name.removeprefix(EXACT)))


def _containing(name: str) -> Iterator[str]:
    """Yield a gold name and the names that contain it: without its section, and without its version."""
    yield name
    for mark in ("#", "@"):
        name = name.partition(mark)[0]
        yield name


def resolved(gold: Mapping[str, int], chunk_ids: Container[str]) -> dict[str, int]:
    """Return gold ids, with an exact id of a missing chunk replaced by the section or document of that form.

    A document that was cut again may lack the chunk `SOP-1@3.2#4.2` but still have that section.
    """
    return {
        name if name.removeprefix(EXACT) in chunk_ids else name.removeprefix(EXACT): grade
        for name, grade in gold.items()
    }


def _is_hash_of(name: str, sha256: str) -> bool:
    prefix = _prefix(name)
    return bool(prefix and sha256) and sha256.startswith(prefix)


def _prefix(name: str) -> str:
    match = _HASH.fullmatch(name)
    return (match[1] or match[2]) if match else ""


def ranked_ids(hits: Sequence[GoldHit], gold: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return (name, chunk id) of each place in a ranking, best first, each gold id once.

    A gold chunk is named by its gold id, any other chunk by its own id. A chunk whose gold id already occurred (a
    second section of a gold document, a merged copy) takes no place. A chunk with two gold ids (its own or those of
    merged copies) takes two places, like its copies without merging.
    """
    places: list[tuple[str, str]] = []
    seen: set[str] = set()
    for hit in hits:
        named = [
            (name, identity.chunk_id) for identity in (hit.identity, *hit.copies) for name in gold_of(identity, gold)
        ]
        for name, chunk_id in named or [(hit.identity.chunk_id, hit.identity.chunk_id)]:
            if name not in seen:
                seen.add(name)
                places.append((name, chunk_id))
    return places


class GoldIndex:
    """Tells whether a gold id names any chunk of a corpus."""

    def __init__(self, identities: Iterable[Identity]) -> None:
        self._names: set[str] = set()
        hashes: set[str] = set()
        for identity in identities:
            self._names |= identity.names
            hashes.add(identity.sha256)
        self._hashes = sorted(hashes)

    def knows(self, gold: str) -> bool:
        """Return whether a gold id names a chunk."""
        gold = gold.removeprefix(EXACT)
        prefix = _prefix(gold)
        place = bisect_left(self._hashes, prefix) if prefix else len(self._hashes)
        by_hash = place < len(self._hashes) and self._hashes[place].startswith(prefix)
        return gold in self._names or by_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Everything that can be found.

    Attributes:
        identities: the chunks of all sources that can be listed, by (source id, chunk id).
        tokens, chunks: totals by domain.
        unlisted: sources whose adapters cannot list their chunks.
    """

    identities: Mapping[tuple[str, str], Identity] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)
    chunks: Mapping[str, int] = field(default_factory=dict)
    unlisted: tuple[str, ...] = ()

    def by_chunk_id(self) -> Mapping[str, Identity]:
        return {chunk_id: identity for (_, chunk_id), identity in self.identities.items()}


class _ListedChunk(NamedTuple):
    """The needed fields of a listed chunk."""

    chunk_id: str
    identity: Identity
    tokens: int
    document: str
    access: AccessClass


def read_corpus(
    setup: Setup, data_dir: Path, domains: Iterable[str], counter: TokenCounter, principal: Principal = NOBODY
) -> Corpus:
    """Return the chunks of some domains' sources that a principal may read.

    Args:
        setup: has only the domains and sources that the principal may know.
        principal: the caller; documents above its clearance are omitted.

    Raises:
        StoreError, SourceError: a source cannot be read now.
    """
    identities: dict[tuple[str, str], Identity] = {}
    tokens: dict[str, int] = {}
    chunks: dict[str, int] = {}
    unlisted: set[str] = set()
    lengths: dict[str, tuple[int, int]] = {}
    for name in domains:
        domain = setup.registry.domain(name)
        for spec in domain.sources:
            if spec.id not in lengths and spec.id not in unlisted:
                with listed_chunks(setup, data_dir, domain, spec) as listed:
                    if listed is None:
                        unlisted.add(spec.id)
                        continue
                    rows = [_listed(setup, spec, chunk, counter) for chunk in listed]
                readable = _readable(rows, setup.access.decide(principal, domain).scope)
                identities.update({(spec.id, row.chunk_id): row.identity for row in readable})
                lengths[spec.id] = (sum(row.tokens for row in readable), len(readable))
            if spec.id in unlisted:
                continue
            tokens[name] = tokens.get(name, 0) + lengths[spec.id][0]
            chunks[name] = chunks.get(name, 0) + lengths[spec.id][1]
    return Corpus(identities=identities, tokens=tokens, chunks=chunks, unlisted=tuple(sorted(unlisted)))


def _listed(setup: Setup, spec: SourceSpec, chunk: Chunk, counter: TokenCounter) -> _ListedChunk:
    effective = effective_authority(chunk, spec)
    return _ListedChunk(
        chunk.chunk_id,
        identity_of(spec.id, chunk.chunk_id, chunk, effective.tier),
        counter.count(chunk.content),
        chunk.document_id or chunk.chunk_id,
        access_class(setup.access.rules_of(spec.id), spec.classification, effective.classification),
    )


def _readable(listed: Sequence[_ListedChunk], scope: AccessScope | None) -> Sequence[_ListedChunk]:
    """Return the chunks of the documents whose chunks may all be read, because access is decided for whole
    documents.
    """
    if scope is None:
        return listed
    withheld = {chunk.document for chunk in listed if not scope.admits(chunk.access)}
    return [chunk for chunk in listed if chunk.document not in withheld]
