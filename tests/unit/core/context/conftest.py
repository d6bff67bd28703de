"""A maker of ranked chunks with everything but the interesting part filled in."""

from collections.abc import Callable
from typing import Any

import pytest

from context_engine.core.models import (
    TIER_OF,
    Chunk,
    Classification,
    Confidence,
    ProvenanceTag,
    RankedChunk,
    SourceType,
    TrustClass,
    default_trust,
    link_of,
)


def make_ranked(rank: int, content: str, **given: Any) -> RankedChunk:
    """Return a ranked chunk; Chunk fields, `kind` (a SourceType), `flags`, `also_in`, `basis` may be given."""
    kind: SourceType = given.pop("kind", SourceType.BANK_SOP)
    tier = TIER_OF[kind]
    source_id = given.pop("source", "orm_sops")
    chunk_id = given.pop("chunk_id", f"c{rank}")
    fields = {name: given.pop(name) for name in list(given) if name in Chunk._fields and name != "classification"}
    flags, also_in = given.pop("flags", ()), given.pop("also_in", ())
    trust: TrustClass = given.pop("trust", default_trust(tier))
    extra = {"fetched_at_basis": given.pop("basis", "indexed")}
    relevance = given.pop("relevance", 0.9)
    classification = given.pop("classification", Classification.INTERNAL)
    assert not given, f"unknown: {given}"
    chunk = Chunk(content=content, chunk_id=chunk_id, **fields)
    return RankedChunk(
        rank=rank,
        source_id=source_id,
        chunk_id=chunk_id,
        domain="ORM",
        chunk=chunk,
        url=link_of(chunk, None),
        source_type=kind,
        authority_tier=tier,
        trust_class=trust,
        classification=classification,
        relevance=relevance,
        absolute=relevance,
        boost=0.3,
        confidence=Confidence.STRONG,
        final=0.6 * relevance + 0.4 * 0.3,
        rerank_score=None,
        flags=flags,
        also_in=also_in,
        provenance=ProvenanceTag(
            source_id=source_id,
            source_type=str(kind),
            authority_tier=tier,
            trust_class=str(trust),
            fetched_at="2025-06-15T05:30:00Z",
            ttl_seconds=3600,
            extra=extra,
        ),
    )


@pytest.fixture
def ranked() -> Callable[..., RankedChunk]:
    return make_ranked
