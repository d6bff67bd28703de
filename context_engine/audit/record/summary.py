"""What an entry says of a result: counts, sources, chunks returned, denials and notices, without a word of the text."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from context_engine.core.models import AccessRecord, Outcome, RankedChunk, SearchResult, Settings, SourceStatus

_SUBJECTS: Final = frozenset((*Settings.model_fields, "filters", "as_of", "rerank", "query"))


def of_result(result: SearchResult, access: AccessRecord) -> dict[str, Any]:
    """Return the part of an entry that tells what came out of a search."""
    return {
        "counts": _counts(result),
        "sources": [_source(status) for status in result.sources],
        "chunks": [_chunk(chunk) for chunk in result.chunks],
        "denied": [[one.source_id, one.reason] for one in access.decision.denied] if access.decision else [],
        "withheld": [list(one) for one in access.withheld],
        "notices": _notices(result),
    }


def _counts(result: SearchResult) -> dict[str, Any]:
    ends = Counter(fate.outcome for fate in result.fates)
    return {
        "stages": {stage.name: [stage.entered, stage.left] for stage in result.stages},
        "candidates": len(result.fates),
        **{str(outcome): ends[outcome] for outcome in Outcome},
        "swaps": result.swap_count,
    }


def _source(status: SourceStatus) -> dict[str, Any]:
    about: dict[str, Any] = {
        "id": status.source_id,
        "state": status.state,
        "chunks": status.chunks,
        "ms": round(status.elapsed_ms, 1),
    }
    if status.error is not None:
        about["error"] = str(status.error.get("code", ""))
    return about


def _chunk(ranked: RankedChunk) -> dict[str, Any]:
    chunk, extra = ranked.chunk, ranked.provenance.extra
    about: dict[str, Any] = {
        "source": ranked.source_id,
        "chunk": ranked.chunk_id,
        "document": chunk.document_id,
        "version": chunk.document_version,
        "sha256": extra.get("content_sha256"),
        "tier": ranked.authority_tier,
        "type": ranked.source_type,
        "trust": ranked.trust_class,
        "fetched_at": ranked.provenance.fetched_at,
        "final": round(ranked.final, 4),
    }
    if ranked.flags:
        about["flags"] = list(ranked.flags)
    return about


def _notices(result: SearchResult) -> list[list[str]]:
    """Return each code with what it is about, once; a subject is named only where no word of a question can be one."""
    known = _SUBJECTS | {status.source_id for status in result.sources}
    pairs = {(str(one.code), one.subject if one.subject in known else ""): None for one in result.notices}
    return [list(pair) for pair in pairs]
