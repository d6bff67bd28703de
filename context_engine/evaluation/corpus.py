"""Everything that the sources of some domains hold: who is there to be found, and how long it is altogether."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from context_engine.core.models import Chunk, SourceSpec
from context_engine.core.policy.trust import effective_authority
from context_engine.core.protocols import TokenCounter
from context_engine.evaluation.gold import Identity, identity_of
from context_engine.wiring import Setup, listed_chunks

__all__ = ["Corpus", "read_corpus"]


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


def read_corpus(setup: Setup, data_dir: Path, domains: Iterable[str], counter: TokenCounter) -> Corpus:
    """Return what the sources of some domains hold.

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
                    length = number = 0
                    for chunk in listed:
                        identities[spec.id, chunk.chunk_id] = _identity(spec, chunk)
                        length, number = length + counter.count(chunk.content), number + 1
                lengths[spec.id] = (length, number)
            if spec.id in unlisted:
                continue
            tokens[name] = tokens.get(name, 0) + lengths[spec.id][0]
            chunks[name] = chunks.get(name, 0) + lengths[spec.id][1]
    return Corpus(identities=identities, tokens=tokens, chunks=chunks, unlisted=tuple(sorted(unlisted)))


def _identity(spec: SourceSpec, chunk: Chunk) -> Identity:
    return identity_of(spec.id, chunk.chunk_id, chunk, effective_authority(chunk, spec).tier)
