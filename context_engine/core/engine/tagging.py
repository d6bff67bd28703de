"""The provenance tag: where a returned chunk comes from, and what was filled in."""

from __future__ import annotations

from itertools import starmap
from typing import Any

from context_engine.core.engine.stage_two_input import StageTwo, Survivor
from context_engine.core.models import Member, Notice, NoticeCode, ProvenanceTag, RankedChunk, utc_text
from context_engine.core.ranking.candidates import Candidate
from context_engine.core.text import content_sha256

__all__ = ["ranked_chunk"]


def ranked_chunk(one: Survivor, place: int, given: StageTwo, notices: list[Notice]) -> RankedChunk:
    """Return a survivor as it is handed out, with its tag; a refused claim of authority becomes a notice."""
    candidate = one.candidate
    standing = candidate.standing
    source_id, chunk_id = candidate.key
    if standing.claimed:
        claims = ", ".join(f"{name} {value!r}" for name, value in sorted(standing.claimed.items()))
        said = f"chunk {chunk_id!r} of source {source_id!r} claims {claims}: above its manifest, refused"
        detail = {"chunk_id": chunk_id, "claimed": dict(standing.claimed)}
        notices.append(Notice(NoticeCode.CLAIM_REFUSED, source_id, said, detail))
    also_in = tuple(starmap(_member, one.members))
    flags = _flags(one)
    return RankedChunk(
        rank=place,
        source_id=source_id,
        chunk_id=chunk_id,
        domain=given.domain,
        chunk=candidate.chunk,
        source_type=standing.source_type,
        authority_tier=standing.tier,
        trust_class=standing.trust,
        classification=standing.classification,
        relevance=one.relevance,
        absolute=one.absolute,
        boost=one.boost,
        final=one.final,
        rerank_score=one.rerank_score,
        flags=flags,
        also_in=also_in,
        provenance=_tag(candidate, given, {**_extra(one, given, also_in), "flags": list(flags)}),
    )


def _tag(candidate: Candidate, given: StageTwo, extra: dict[str, Any]) -> ProvenanceTag:
    standing, age = candidate.standing, candidate.freshness(given.now)
    return ProvenanceTag(
        source_id=candidate.key[0],
        source_type=str(standing.source_type),
        authority_tier=standing.tier,
        trust_class=str(standing.trust),
        fetched_at=utc_text(age.fetched_at),
        ttl_seconds=age.ttl_seconds,
        extra={**extra, "fetched_at_basis": str(age.basis), "freshness": age.state},
    )


def _flags(one: Survivor) -> tuple[str, ...]:
    """What a reader should know: about the dates first, then what the steps noted."""
    chunk, about_dates = one.candidate.chunk, []
    if chunk.effective_from is None and chunk.effective_to is None:
        about_dates.append("effective_unknown")
    if chunk.superseded_by:
        about_dates.append("superseded")
    return (*about_dates, *one.flags)


def _extra(one: Survivor, given: StageTwo, also_in: tuple[Member, ...]) -> dict[str, Any]:
    chunk, standing = one.candidate.chunk, one.candidate.standing
    extra: dict[str, Any] = {
        "chunk_id": one.candidate.key[1],
        "rag_score": round(one.final, 4),
        "relevance": round(one.relevance, 4),
        "absolute_relevance": round(one.absolute, 4),
        "content_sha256": content_sha256(chunk.content),
        "document_id": chunk.document_id,
        "document_version": chunk.document_version,
        "dataset_id": chunk.dataset_id,
        "classification": str(standing.classification),
        "retrieved_at": utc_text(one.candidate.retrieved_at),
        "also_in": [member._asdict() for member in also_in],
        "search_id": given.search_id,
        "defaulted": list(_defaulted(one)),
    }
    if standing.claimed:
        extra["claimed_tier"] = standing.claimed.get("authority_tier")
        extra["claimed"] = dict(standing.claimed)
    return extra


def _defaulted(one: Survivor) -> tuple[str, ...]:
    chunk = one.candidate.chunk
    names = list(one.candidate.standing.defaulted)
    if not chunk.chunk_id:
        names.append("chunk_id")
    if chunk.fetched_at is None:
        names.append("fetched_at")
    if chunk.ttl_seconds is None and "ttl_seconds" not in one.candidate.spec.model_fields_set:
        names.append("ttl_seconds")
    return tuple(names)


def _member(candidate: Candidate, relevance: float, similarity: float) -> Member:
    return Member(
        source_id=candidate.key[0],
        chunk_id=candidate.key[1],
        source_type=str(candidate.standing.source_type),
        authority_tier=candidate.tier,
        document_id=candidate.chunk.document_id,
        document_version=candidate.chunk.document_version,
        section=candidate.chunk.section,
        title=candidate.chunk.title,
        relevance=round(relevance, 4),
        similarity=round(similarity, 4),
        content_sha256=content_sha256(candidate.chunk.content),
    )
