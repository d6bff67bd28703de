"""What a gold id names: a chunk, a document, a version or section of it, or a text by its hash."""

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
from context_engine.wiring import Setup, listed_chunks

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
    """Finds the gold ids that name nothing.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What is there to be found.

    Attributes:
        identities: the chunks of all sources that can be listed, by (source id, chunk id).
        tokens, chunks: by domain.
        unlisted: sources whose adapters cannot list them.
    """

    identities: Mapping[tuple[str, str], Identity] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)
    chunks: Mapping[str, int] = field(default_factory=dict)
    unlisted: tuple[str, ...] = ()

    def by_chunk_id(self) -> Mapping[str, Identity]:
        """Return the identities by chunk id alone."""
        return {chunk_id: one for (_, chunk_id), one in self.identities.items()}


class _ListedChunk(NamedTuple):
    """A chunk as it counts here."""

    chunk_id: str
    identity: Identity
    tokens: int
    document: str
    held: AccessClass


def read_corpus(
    setup: Setup, data_dir: Path, domains: Iterable[str], counter: TokenCounter, principal: Principal = NOBODY
) -> Corpus:
    """Return the chunks of some domains' sources that a principal may read.

    Args:
        setup: with the domains and sources that the principal may know.
        principal: who asks; a document that raises its classification above theirs is not there.

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
                    found = [_listed(setup, spec, chunk, counter) for chunk in listed]
                readable = _readable(found, setup.access.decide(principal, domain).scope)
                identities.update({(spec.id, one.chunk_id): one.identity for one in readable})
                lengths[spec.id] = (sum(one.tokens for one in readable), len(readable))
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
    """Return the chunks of documents of which every chunk may be read: a document is raised as a whole."""
    if scope is None:
        return listed
    withheld = {one.document for one in listed if not scope.admits(one.held)}
    return [one for one in listed if one.document not in withheld]
