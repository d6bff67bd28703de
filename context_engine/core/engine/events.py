"""Log events and counts of searches, which contain no text, and the call of the recorder."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import AnswerRecord, Context, Fate, Outcome, SearchResult
from context_engine.core.protocols import Recorder
from context_engine.errors import AuditUnavailable

EVENTS: Final = logging.getLogger("context_engine.events")
_MOST_SCORES: Final = 100
_LIMITS: Final = ("threshold", "scope", "relevance")


class SearchCounts(NamedTuple):
    """Counts since an engine was made.

    Attributes:
        searches: by domain, status and decision.
        calls: by domain, source and outcome: ok, empty, partial, or the code of the error.
        seconds: of all calls, by domain and source.
        cache: look-ups in the cache of answers, by domain and outcome: hit or miss.
        answers: by domain, mode and outcome: answered, or the code of the refusal.
        sentences: of answers, by domain and verdict.
        tokens: of chat models, by domain, model and direction: input or output.
        costs: of chat models, by domain, model and currency.
    """

    searches: dict[tuple[str, str, str], int]
    calls: dict[tuple[str, str, str], int]
    seconds: dict[tuple[str, str], float]
    cache: dict[tuple[str, str], int]
    answers: dict[tuple[str, str, str], int]
    sentences: dict[tuple[str, str], int]
    tokens: dict[tuple[str, str, str], int]
    costs: dict[tuple[str, str, str], float]


class SearchTally:
    """Counts searches, the calls of their sources, and answers. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._searches, self._calls = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
        self._seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._answers, self._tokens = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
        self._sentences, self._cache = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self._costs: defaultdict[tuple[str, str, str], float] = defaultdict(float)

    def note(self, result: SearchResult) -> None:
        """Count a search, and the calls of its sources unless its answer came from the cache."""
        with self._lock:
            self._searches[result.domain, str(result.status), str(result.decision)] += 1
            for source in result.sources if result.cache_age_s is None else ():
                error = source.error if source.state == "failed" else None
                outcome = source.state if error is None else str(error["code"])
                self._calls[result.domain, source.source_id, outcome] += 1
                self._seconds[result.domain, source.source_id] += source.elapsed_ms / 1000.0

    def note_cache(self, domain: str, *, hit: bool) -> None:
        """Count a look-up in the cache of answers."""
        with self._lock:
            self._cache[domain, "hit" if hit else "miss"] += 1

    def note_answer(self, domain: str, answer: AnswerRecord) -> None:
        """Count an answer."""
        facts = answer.facts
        calls = [call for call in (facts["rewriting"], facts["model"]) if call is not None]
        with self._lock:
            self._answers[domain, facts["mode"], facts["refusal"] or "answered"] += 1
            self._sentences.update((domain, sentence["verdict"]) for sentence in facts["sentences"])
            for call in calls:
                usage, cost = call["usage"], call["cost"]
                for direction in ("input", "output") if usage else ():
                    self._tokens[domain, call["name"], direction] += usage[f"{direction}_tokens"]
                if cost:
                    self._costs[domain, call["name"], cost["currency"]] += float(cost["amount"])

    def read(self) -> SearchCounts:
        """Return the counts so far."""
        with self._lock:
            return SearchCounts(
                searches=dict(self._searches),
                calls=dict(self._calls),
                seconds=dict(self._seconds),
                cache=dict(self._cache),
                answers=dict(self._answers),
                sentences=dict(self._sentences),
                tokens=dict(self._tokens),
                costs=dict(self._costs),
            )


def log_search(result: SearchResult, reranker: str) -> None:
    """Log the retrieval, filter and rerank events of a search.

    Args:
        reranker: name of the reranker that the settings choose; "noop" for none.
    """
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


logger = logging.getLogger(__name__)


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
