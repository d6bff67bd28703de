"""Log events and counts of searches, which hold no question, no text and no caller, and the call of the recorder."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import AnswerRecord, Context, Fate, Outcome, RankedChunk, SearchResult
from context_engine.core.protocols import Recorder
from context_engine.errors import AuditUnavailable

logger = logging.getLogger(__name__)
EVENTS: Final = logging.getLogger("context_engine.events")
_MOST_SCORES: Final = 100
_LIMITS: Final = ("threshold", "scope", "relevance")
SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the classes into which durations are counted."""


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


class Durations(NamedTuple):
    """How long something took.

    Attributes:
        counts: of durations in each class of `SECONDS`; the last counts those above all bounds.
        seconds: all of them together.
    """

    counts: tuple[int, ...]
    seconds: float


class SearchCounts(NamedTuple):
    """Counts since an engine was made.

    Attributes:
        searches: by domain, status and decision.
        stages: seconds by domain and stage.
        chunks: returned, by domain, authority tier and freshness: fresh, expired or unknown.
        calls: by domain, source and outcome: ok, empty, partial, or the code of the error.
        durations: of the calls, by domain and source.
        cache: look-ups in the cache of answers, by domain and outcome: hit or miss.
        answers: by domain, mode and outcome: answered, or the code of the refusal.
        sentences: of answers, by domain and verdict.
        tokens: of chat models, by domain, model and direction: input or output.
        costs: of chat models, by domain, model and currency.
    """

    searches: dict[tuple[str, str, str], int]
    stages: dict[tuple[str, str], float]
    chunks: dict[tuple[str, str, str], int]
    calls: dict[tuple[str, str, str], int]
    durations: dict[tuple[str, str], Durations]
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
        self._stages: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._chunks = Counter[tuple[str, str, str]]()
        self._durations: defaultdict[tuple[str, str], _Histogram] = defaultdict(_Histogram)
        self._answers, self._tokens = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
        self._sentences, self._cache = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self._costs: defaultdict[tuple[str, str, str], float] = defaultdict(float)

    def note(self, result: SearchResult) -> None:
        """Count a search; its stages and the calls of its sources unless its answer came from the cache."""
        domain = result.domain
        returned = Counter((domain, str(chunk.authority_tier), _age(chunk)) for chunk in result.chunks)
        with self._lock:
            self._searches[domain, str(result.status), str(result.decision)] += 1
            self._chunks.update(returned)
            if result.cache_age_s is not None:
                return
            for stage in result.stages:
                self._stages[domain, stage.name] += stage.elapsed_ms / 1000.0
            for source in result.sources:
                error = source.error if source.state == "failed" else None
                outcome = source.state if error is None else str(error["code"])
                self._calls[domain, source.source_id, outcome] += 1
                self._durations[domain, source.source_id].add(source.elapsed_ms / 1000.0)

    def note_cache(self, domain: str, *, hit: bool) -> None:
        """Count a look-up in the cache of answers."""
        with self._lock:
            self._cache[domain, "hit" if hit else "miss"] += 1

    def note_answer(self, domain: str, answer: AnswerRecord) -> None:
        """Count an answer."""
        facts = answer.facts
        calls = [call for call in (facts["rewriting"], *facts.get("deciding", ()), facts["model"]) if call is not None]
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
                stages=dict(self._stages),
                chunks=dict(self._chunks),
                calls=dict(self._calls),
                durations={key: histogram.read() for key, histogram in self._durations.items()},
                cache=dict(self._cache),
                answers=dict(self._answers),
                sentences=dict(self._sentences),
                tokens=dict(self._tokens),
                costs=dict(self._costs),
            )


def _age(chunk: RankedChunk) -> str:
    return str(chunk.provenance.extra.get("freshness", "unknown"))


class _Histogram:
    def __init__(self) -> None:
        self._counts, self._seconds = [0] * (len(SECONDS) + 1), 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(SECONDS, seconds)] += 1
        self._seconds += seconds

    def read(self) -> Durations:
        return Durations(tuple(self._counts), self._seconds)
