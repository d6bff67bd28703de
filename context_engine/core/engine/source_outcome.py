"""What came of the call of a source: its status, and its answer as it goes into stage 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from context_engine.core.engine.recall import SourceReply
from context_engine.core.engine.retriever import SourceOutcome
from context_engine.core.models import RawAnswer, SourceSpec, SourceStatus
from context_engine.errors import SourceError


def source_outcome(spec: SourceSpec, reply: SourceReply) -> SourceOutcome:
    """Return what a source did and what it answered."""
    return SourceOutcome(_status(spec, reply), _answer(spec, reply))


def _answer(spec: SourceSpec, reply: SourceReply) -> RawAnswer | None:
    if reply.answer is None:
        return None
    return RawAnswer(
        source_id=spec.id,
        chunks=reply.answer.chunks,
        retrieved_at=reply.retrieved_at,
        by_keywords=reply.answer.by_keywords,
        statistics=reply.answer.statistics,
        unknown_words=reply.answer.unknown_words,
        filter_fields=reply.answer.filter_fields,
        calibration=reply.answer.calibration,
    )


def _status(spec: SourceSpec, reply: SourceReply) -> SourceStatus:
    answer, failures = reply.answer, reply.failures
    return SourceStatus(
        source_id=spec.id,
        title=spec.title,
        source_type=str(spec.type),
        authority_tier=spec.tier,
        state=_state(reply),
        asked=reply.requested_top_k,
        chunks=len(answer.chunks) if answer else 0,
        cut=answer.cut if answer else 0,
        rejected=answer.rejected if answer else 0,
        elapsed_ms=round(reply.elapsed_ms, 3),
        error=_error(failures),
        problem="; ".join(dict.fromkeys(failure.problem for failure in failures)),
        failure=failures[0] if failures else None,
        notices=answer.notices if answer else (),
        embedding=answer.embedding._replace(adapter=None) if answer and answer.embedding else None,
    )


def _state(reply: SourceReply) -> str:
    if reply.answer is None:
        return "failed"
    if reply.answer.failures:
        return "partial"
    return "ok" if reply.answer.chunks else "empty"


def _error(failures: Sequence[SourceError]) -> dict[str, Any] | None:
    """Return the error of a source, or of its parts: the first one's fields, the messages of all."""
    if not failures:
        return None
    return {**failures[0].to_dict(), "message": "; ".join(dict.fromkeys(map(str, failures)))}
