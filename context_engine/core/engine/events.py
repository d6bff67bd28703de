"""Log events of searches, which contain no text, and the call of the recorder."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from context_engine.core.models import Context, Fate, Outcome, SearchResult
from context_engine.core.protocols import Recorder
from context_engine.errors import AuditUnavailable

logger = logging.getLogger(__name__)
EVENTS: Final = logging.getLogger("context_engine.events")
_MOST_SCORES: Final = 100
_LIMITS: Final = ("threshold", "scope", "relevance")


def log_search(result: SearchResult, reranker: str) -> None:
    """Log the numbers of each stage of a search: in one line, and as events of retrieval, filter and rerank.

    Args:
        reranker: name of the reranker that the settings choose; "noop" for none.
    """
    _log_line(result, reranker)
    if not EVENTS.isEnabledFor(logging.INFO):
        return
    settings, left = result.settings.values, {stage.name: stage.left for stage in result.stages}
    _log(
        result,
        "rag.retrieval",
        initial_top_k=settings.stage1_top_k,
        chunks_retrieved=len(result.fates),
        scores_range=_ranges(result),
    )
    _log(
        result,
        "rag.filter",
        chunks_after_filter=left.get("relevance", 0),
        threshold_used=settings.min_relevance_score,
        scope_threshold=None if result.scope is None else round(result.scope.value, 4),
        fallback_triggered=any("below_threshold" in chunk.flags for chunk in result.chunks),
        filtered_scores=_highest([chunk.absolute for chunk in result.chunks]),
        removed_scores=_highest([fate.value for fate in result.fates if _is_removed(fate)]),
    )
    _log(
        result,
        "rag.rerank",
        chunks_after_rerank=left.get("rerank", 0),
        reranker_type=reranker,
        rerank_scores=_highest(list(result.rerank_scores.values())),
    )


def log_context(result: SearchResult, context: Context) -> None:
    """Log the size of a context that was made from a result."""
    if EVENTS.isEnabledFor(logging.INFO):
        _log(
            result,
            "rag.context",
            final_chunks_count=context.chunk_count,
            context_size_chars=len(context.text),
            context_tokens=context.tokens,
        )


def _log_line(result: SearchResult, reranker: str) -> None:
    scores, left = [chunk.relevance for chunk in result.chunks], {stage.name: stage.left for stage in result.stages}
    logger.info(
        "RAG pipeline request_id=%s initial_k=%d filtered_k=%d final_k=%d threshold=%.3f fallback=%s reranker=%s "
        "scores_range=[%.3f,%.3f] search_id=%s domain=%s status=%s decision=%s",
        result.request_id, len(result.fates), left.get("relevance", 0), len(result.chunks),
        result.settings.values.min_relevance_score,
        any("below_threshold" in chunk.flags for chunk in result.chunks),
        reranker,
        min(scores, default=0.0), max(scores, default=0.0),
        result.search_id, result.domain, result.status, result.decision,
    )  # fmt: skip


def _log(result: SearchResult, event: str, **fields: Any) -> None:
    of_search = {"request_id": result.request_id, "search_id": result.search_id, "domain": result.domain}
    EVENTS.info(event, extra={**of_search, **fields})


def _ranges(result: SearchResult) -> dict[str, list[float]]:
    """Return the lowest and the highest source score of each kind."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for answer in result.raw:
        for chunk in answer.chunks:
            for score in chunk.scores:
                values[str(score.kind)].append(score.value)
    return {kind: [round(min(scores), 4), round(max(scores), 4)] for kind, scores in sorted(values.items())}


def _is_removed(fate: Fate) -> bool:
    return fate.outcome is Outcome.DROPPED and fate.stage in _LIMITS


def _highest(values: list[Any]) -> list[float]:
    return sorted((round(value, 4) for value in values if isinstance(value, float)), reverse=True)[:_MOST_SCORES]


def hand_over(recorder: Recorder | None, keep: Callable[[Recorder], None], subject: str) -> None:
    """Call the recorder, if there is one; log any failure except AuditUnavailable.

    Raises:
        AuditUnavailable: the recorder failed, and the subject must not be given out without a record.
    """
    if recorder is None:
        return
    try:
        keep(recorder)
    except AuditUnavailable:
        raise
    except Exception:
        logger.exception("%s could not be recorded", subject)
