"""Everything that the sources of some domains hold: who is there to be found, and how long it is altogether."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from context_engine.core.models import NOBODY, AccessClass, AccessScope, Chunk, Principal, SourceSpec
from context_engine.core.policy.access import access_class
from context_engine.core.policy.trust import effective_authority
from context_engine.core.protocols import TokenCounter
from context_engine.evaluation.gold import Identity, identity_of
from context_engine.wiring import Setup, listed_chunks


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


class _Listed(NamedTuple):
    """A chunk as it counts here."""

    chunk_id: str
    identity: Identity
    tokens: int
    document: str
    held: AccessClass


def read_corpus(
    setup: Setup, data_dir: Path, domains: Iterable[str], counter: TokenCounter, principal: Principal = NOBODY
) -> Corpus:
    """Return what the sources of some domains hold for a principal.

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


def _listed(setup: Setup, spec: SourceSpec, chunk: Chunk, counter: TokenCounter) -> _Listed:
    effective = effective_authority(chunk, spec)
    return _Listed(
        chunk.chunk_id,
        identity_of(spec.id, chunk.chunk_id, chunk, effective.tier),
        counter.count(chunk.content),
        chunk.document_id or chunk.chunk_id,
        access_class(setup.access.rules_of(spec.id), spec.classification, effective.classification),
    )


def _readable(listed: Sequence[_Listed], scope: AccessScope | None) -> Sequence[_Listed]:
    """Return the chunks of documents of which every chunk may be read: a document is raised as a whole."""
    if scope is None:
        return listed
    withheld = {one.document for one in listed if not scope.admits(one.held)}
    return [one for one in listed if one.document not in withheld]
