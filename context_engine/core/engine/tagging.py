"""The provenance tag: where a returned chunk comes from, and what was filled in."""

from __future__ import annotations

from itertools import starmap
from typing import Any

from context_engine.core.engine.candidate_table import SelectedCandidate
from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.models import (
    MASK_CONTEXTS,
    Member,
    Notice,
    NoticeCode,
    ProvenanceTag,
    RankedChunk,
    ScopeThreshold,
    link_of,
    utc_text,
)
from context_engine.core.ranking.candidates import Candidate
from context_engine.core.ranking.scope import confidence_of
from context_engine.core.text import content_sha256


def ranked_chunk(
    selected: SelectedCandidate, rank: int, plan: SearchPlan, scope: ScopeThreshold, notices: list[Notice]
) -> RankedChunk:
    """Return a selected candidate as it is returned, with its tag; a refused claim of authority becomes a notice."""
    candidate = selected.candidate
    authority = candidate.authority
    source_id, chunk_id = candidate.key
    if authority.claimed:
        claims = ", ".join(f"{name} {value!r}" for name, value in sorted(authority.claimed.items()))
        message = f"chunk {chunk_id!r} of source {source_id!r} claims {claims}: above its manifest, refused"
        detail = {"chunk_id": chunk_id, "claimed": dict(authority.claimed)}
        notices.append(Notice(NoticeCode.CLAIM_REFUSED, source_id, message, detail))
    also_in = tuple(starmap(_member, selected.members))
    flags = _flags(selected)
    return RankedChunk(
        rank=rank,
        source_id=source_id,
        chunk_id=chunk_id,
        domain=plan.request.domain,
        chunk=candidate.chunk,
        source_type=authority.source_type,
        authority_tier=authority.tier,
        trust_class=authority.trust,
        classification=authority.classification,
        relevance=selected.relevance,
        absolute=selected.absolute,
        boost=selected.boost,
        final=selected.final,
        confidence=confidence_of(selected.absolute, scope),
        rerank_score=selected.rerank_score,
        url=link_of(candidate.chunk, candidate.spec.url),
        recalled=selected.recalled,
        flags=flags,
        also_in=also_in,
        provenance=_tag(candidate, plan, {**_extra(selected, plan, also_in), "flags": list(flags)}),
    )


def _tag(candidate: Candidate, plan: SearchPlan, extra: dict[str, Any]) -> ProvenanceTag:
    authority, age = candidate.authority, candidate.freshness(plan.clock.now)
    return ProvenanceTag(
        source_id=candidate.key[0],
        source_type=str(authority.source_type),
        authority_tier=authority.tier,
        trust_class=str(authority.trust),
        fetched_at=utc_text(age.fetched_at),
        ttl_seconds=age.ttl_seconds,
        extra={**extra, "fetched_at_basis": str(age.basis), "freshness": age.state},
    )


def _flags(selected: SelectedCandidate) -> tuple[str, ...]:
    """What a reader should know: about the dates first, then what the steps noted."""
    chunk, about_dates = selected.candidate.chunk, []
    if chunk.effective_from is None and chunk.effective_to is None:
        about_dates.append("effective_unknown")
    if chunk.superseded_by:
        about_dates.append("superseded")
    return (*about_dates, *selected.flags)


def _extra(selected: SelectedCandidate, plan: SearchPlan, also_in: tuple[Member, ...]) -> dict[str, Any]:
    chunk, authority = selected.candidate.chunk, selected.candidate.authority
    extra: dict[str, Any] = {
        "chunk_id": selected.candidate.key[1],
        "rag_score": round(selected.final, 4),
        "relevance": round(selected.relevance, 4),
        "absolute_relevance": round(selected.absolute, 4),
        "content_sha256": content_sha256(chunk.content),
        "document_id": chunk.document_id,
        "document_version": chunk.document_version,
        "dataset_id": chunk.dataset_id,
        "classification": str(authority.classification),
        "retrieved_at": utc_text(selected.candidate.retrieved_at),
        "also_in": [member._asdict() for member in also_in],
        "search_id": plan.search_id,
        "defaulted": list(_defaulted(selected)),
    }
    if plan.settings.mask_contexts:
        extra[MASK_CONTEXTS] = True
    if authority.claimed:
        extra["claimed_tier"] = authority.claimed.get("authority_tier")
        extra["claimed"] = dict(authority.claimed)
    return extra


def _defaulted(selected: SelectedCandidate) -> tuple[str, ...]:
    chunk = selected.candidate.chunk
    names = list(selected.candidate.authority.defaulted)
    if not chunk.chunk_id:
        names.append("chunk_id")
    if chunk.fetched_at is None:
        names.append("fetched_at")
    if chunk.ttl_seconds is None and "ttl_seconds" not in selected.candidate.spec.model_fields_set:
        names.append("ttl_seconds")
    return tuple(names)


def _member(candidate: Candidate, relevance: float, similarity: float) -> Member:
    return Member(
        source_id=candidate.key[0],
        chunk_id=candidate.key[1],
        source_type=str(candidate.authority.source_type),
        authority_tier=candidate.tier,
        document_id=candidate.chunk.document_id,
        document_version=candidate.chunk.document_version,
        section=candidate.chunk.section,
        title=candidate.chunk.title,
        relevance=round(relevance, 4),
        similarity=round(similarity, 4),
        content_sha256=content_sha256(candidate.chunk.content),
    )
