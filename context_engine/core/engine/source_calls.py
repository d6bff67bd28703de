"""The calls of stage 1: the query and its sub-queries go to all sources at once; each source has one outcome."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from context_engine.core.engine.admission import ValidatedAnswer
from context_engine.core.engine.linking import Follow, with_linked
from context_engine.core.engine.recall import SourceBulkhead, SourceCall, SourceReply, call_sources
from context_engine.core.engine.search_plan import Recalled, RefillRequest, SearchPlan, SourceOutcome
from context_engine.core.engine.source_pool import OpenedSource
from context_engine.core.models import (
    Chunk,
    Edge,
    Link,
    LinkOrigin,
    LinkQuery,
    Notice,
    NoticeCode,
    QueryEmbedding,
    RankedChunk,
    RawAnswer,
    Score,
    ScoreKind,
    SourceQuery,
    SourceSpec,
    SourceStatus,
    TermStatistics,
    VectorAdapter,
    WithheldChunk,
    distinct,
)
from context_engine.core.protocols import Clock
from context_engine.core.ranking.fusion import reciprocal_rank_fusion
from context_engine.core.text import segmented
from context_engine.errors import SourceError

_PREPARING_SHARE: Final = 0.5
"""Share of the remaining time for loading; the calls need the rest, even if loading failed."""


class SourceCalls:
    """The sources of one search: a `Retriever` that calls them within the search's time.

    Args:
        sources: in the order of the manifest.
        started: monotonic time at which the search began.
        due: monotonic time of its deadline.
        seconds: for the first round of calls; each source has its own limit too.
    """

    def __init__(
        self, sources: Sequence[OpenedSource], clock: Clock, *, started: float, due: float, seconds: float
    ) -> None:
        self._sources, self._clock = sources, clock
        self._started, self._due, self._seconds = started, due, seconds
        self._withheld: dict[WithheldChunk, None] = {}
        self._adapters: dict[str, VectorAdapter | None] = {}

    @property
    def withheld(self) -> tuple[WithheldChunk, ...]:
        """Chunks of the sources so far that the caller may not read, each once."""
        return tuple(self._withheld)

    @property
    def adapter(self) -> VectorAdapter | None:
        """The vector adapter that all sources used so far; None if there is none or they differ."""
        return next(iter(self._adapters.values())) if len(self._adapters) == 1 else None

    def recall(self, plan: SearchPlan) -> Recalled:
        """Call every source, after it has loaded what it needs."""
        replies = self._replies(plan, self._sources, plan.settings.stage1_top_k, self._prepared(plan))
        outcomes = tuple(source_outcome(spec, reply) for (spec, _), reply in zip(self._sources, replies))
        return Recalled(outcomes, self._ms_since(self._started))

    def _prepared(self, plan: SearchPlan) -> float:
        """Let the sources load what they need; return the seconds left for the calls."""
        seconds = self._seconds
        for _, source in self._sources:
            if isinstance(source, SourceBulkhead) and source.is_preparable:
                begun = self._clock.monotonic()
                source.prepare(_text(plan), _PREPARING_SHARE * seconds)
                seconds -= self._clock.monotonic() - begun
        return seconds

    def recall_more(self, plan: SearchPlan, first: Recalled, refill: RefillRequest) -> Recalled | None:
        """Call some sources again within the remaining time; None if no time is left."""
        begun = self._clock.monotonic()
        if begun >= self._due:
            return None
        sources = [self._sources[place] for place in refill.places]
        replies = dict(zip(refill.places, self._replies(plan, sources, refill.top_k, self._due - begun)))
        outcomes = tuple(
            _refilled(plan.specs[place], outcome, replies[place]) if place in replies else outcome
            for place, outcome in enumerate(first.outcomes)
        )
        return Recalled(outcomes, first.elapsed_ms + self._ms_since(begun))

    def recall_again(self, plan: SearchPlan, first: Recalled) -> Recalled | None:
        """Call every source with another wording within the remaining time; None if no time is left."""
        begun = self._clock.monotonic()
        if begun >= self._due:
            return None
        replies = self._replies(plan, self._sources, plan.settings.stage1_top_k, self._due - begun)
        outcomes = tuple(
            _with_time_of(source_outcome(spec, reply), outcome)
            for (spec, _), reply, outcome in zip(self._sources, replies, first.outcomes)
        )
        return Recalled(outcomes, first.elapsed_ms + self._ms_since(begun))

    def recall_linked(self, plan: SearchPlan, first: Recalled, returned: Sequence[RankedChunk]) -> Recalled | None:
        """Return stage 1 with what the returned chunks lead to; None if that is nothing or no time is left."""
        begun = self._clock.monotonic()
        stores = [(spec, source) for spec, source in self._sources if isinstance(source, SourceBulkhead)]
        left = self._due - begun
        follow = {spec.id: _follow(plan, spec, source, left) for spec, source in stores if source.is_graph_store}
        if left <= 0.0 or not follow or not returned:
            return None
        recalled = with_linked(plan, first, returned, follow, left / plan.settings.graph_hops)
        return recalled and recalled._replace(elapsed_ms=first.elapsed_ms + self._ms_since(begun))

    def _replies(
        self, plan: SearchPlan, sources: Sequence[OpenedSource], top_k: int, seconds: float
    ) -> list[SourceReply]:
        """Return one reply per source."""
        prepared, settings = plan.prepared, plan.settings
        parts = (_text(plan), *(prepared.sub_queries if prepared else ()))
        texts = (*parts, *(prepared.translations if prepared else ()))
        words = [(text, segmented(text, settings.word_segmenter)) for text in texts]
        calls = [
            SourceCall(source, _query(plan, spec, text, terms, top_k, seconds))
            for spec, source in sources
            if isinstance(source, SourceBulkhead)
            for text, terms in words
        ]
        called = call_sources(
            calls,
            limit=settings.source_concurrency,
            clock=self._clock,
            soft_s=settings.soft_deadline_s,
            enough=settings.stage2_top_k,
        )
        self._withheld |= dict.fromkeys(chunk for reply in called if reply.answer for chunk in reply.answer.withheld)
        embeddings = (reply.answer.embedding for reply in called if reply.answer)
        self._adapters |= {embedding.model: embedding.adapter for embedding in embeddings if embedding is not None}
        replies = iter(called)
        return [
            _one_reply([next(replies) for _ in texts], len(parts), spec, top_k)._replace(requested_top_k=top_k)
            if isinstance(source, SourceBulkhead)
            else SourceReply(None, source, 0.0)
            for spec, source in sources
        ]

    def _ms_since(self, moment: float) -> float:
        return (self._clock.monotonic() - moment) * 1000.0


def _one_reply(replies: Sequence[SourceReply], parts: int, spec: SourceSpec, top_k: int) -> SourceReply:
    """Return the reply of a source to a question, its parts (the first `parts` replies), and its translations."""
    own = fused_reply(replies[:parts], source_id=spec.id, top_k=top_k)
    return joined_reply(own, replies[parts:], source_id=spec.id)


def _text(plan: SearchPlan) -> str:
    return plan.prepared.text if plan.prepared else plan.request.query


def _query(plan: SearchPlan, spec: SourceSpec, text: str, words: str, top_k: int, seconds: float) -> SourceQuery:
    settings, request = plan.settings, plan.request
    return SourceQuery(
        text=text,
        words=words,
        domain=request.domain,
        top_k=top_k,
        expansions=plan.prepared.expansions if plan.prepared else (),
        filters=request.filters,
        as_of=plan.clock.as_of,
        timeout_s=min(spec.timeout_s or settings.source_timeout_s, max(seconds, 0.0)),
        search_id=plan.search_id,
        caller=request.caller,
        access=plan.access,
    )


def _follow(plan: SearchPlan, spec: SourceSpec, source: SourceBulkhead, seconds: float) -> Follow:
    """Return the function that begins to follow edges into a source."""
    settings, text = plan.settings, _text(plan)
    words = segmented(text, settings.word_segmenter)
    query = _query(plan, spec, text, words, settings.graph_most, seconds / settings.graph_hops)

    def follow(origins: Sequence[LinkOrigin], edges: frozenset[Edge]) -> Future[tuple[Link, ...]]:
        return source.follow(LinkQuery(query=query, origins=origins, edges=edges), settings.source_concurrency)

    return follow


def _refilled(spec: SourceSpec, first: SourceOutcome, second: SourceReply) -> SourceOutcome:
    """Return the second outcome with the time of both calls, or the first with a notice if the second call failed."""
    outcome = _with_time_of(source_outcome(spec, second), first)
    if not second.failures:
        return outcome
    problem = "; ".join(map(str, second.failures))
    message = f"the call for more candidates failed: {problem}"
    notice = Notice(NoticeCode.REFILL_FAILED, spec.id, message, {"problem": problem})
    notices = (*first.status.notices, notice)
    elapsed_ms, embedding = outcome.status.elapsed_ms, outcome.status.embedding
    return first._replace(status=replace(first.status, notices=notices, elapsed_ms=elapsed_ms, embedding=embedding))


def _with_time_of(outcome: SourceOutcome, first: SourceOutcome) -> SourceOutcome:
    """Return a second outcome with the time of both calls."""
    elapsed_ms = round(first.status.elapsed_ms + outcome.status.elapsed_ms, 3)
    embedding = _both(first.status.embedding, outcome.status.embedding)
    return outcome._replace(status=replace(outcome.status, elapsed_ms=elapsed_ms, embedding=embedding))


def _both(first: QueryEmbedding | None, second: QueryEmbedding | None) -> QueryEmbedding | None:
    """Return the embedding of the second call, with the time of both."""
    if first is None or second is None:
        return second or first
    return second._replace(elapsed_ms=first.elapsed_ms + second.elapsed_ms)


def source_outcome(spec: SourceSpec, reply: SourceReply) -> SourceOutcome:
    """Return the status and the answer of a source from its reply."""
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
    """Return the error of a source or its parts: the fields of the first, the messages of all."""
    if not failures:
        return None
    return {**failures[0].to_dict(), "message": "; ".join(dict.fromkeys(map(str, failures)))}


_K: Final = 10
"""Measured on 367 questions of several parts against the whole question only: recall@10 +0.005, MAP -0.010. The usual
60 loses more of the order at the top."""


def fused_reply(replies: Sequence[SourceReply], *, source_id: str, top_k: int) -> SourceReply:
    """Return the reply to the whole query, fused with those to its sub-queries by reciprocal rank fusion.

    The whole query counts as much as all its sub-queries together. A chunk that only a sub-query found keeps no score,
    because it was scored against another text. If the whole query failed, so did the source; failed sub-queries are
    noted.

    Args:
        replies: that to the whole query first.
        top_k: most chunks kept; the others count as cut.
    """
    main, *parts = replies
    answered = [part.answer for part in parts if part.answer is not None]
    if main.answer is None or not parts:
        return main
    notices = [*main.answer.notices, *(notice for answer in answered for notice in answer.notices)]
    missing = len(parts) - len(answered)
    if missing:
        message = f"{missing} of {len(parts)} parts of the question got no answer"
        detail = {"unanswered": missing, "parts": len(parts)}
        notices.append(Notice(NoticeCode.SUB_QUERIES_UNANSWERED, source_id, message, detail))
    if not answered:
        return main._replace(answer=main.answer._replace(notices=tuple(notices)))
    chunks, dropped = _fused([main.answer.chunks, *(answer.chunks for answer in answered)], source_id, top_k)
    answer = main.answer._replace(
        chunks=chunks,
        cut=main.answer.cut + dropped,
        rejected=main.answer.rejected + sum(answer.rejected for answer in answered),
        notices=distinct(notices),
        failures=(*main.answer.failures, *(failure for answer in answered for failure in answer.failures)),
        statistics=_statistics(main.answer, answered),
        calibration=main.answer.calibration,
    )
    return main._replace(answer=answer, elapsed_ms=max(reply.elapsed_ms for reply in replies))


def joined_reply(main: SourceReply, others: Sequence[SourceReply], *, source_id: str) -> SourceReply:
    """Return the reply to a question, with the chunks that its translations found.

    A translation asks the same, so a chunk keeps the scores of the wording that suits it best. If the question itself
    failed, so did the source; failed translations are noted.
    """
    answered = [other.answer for other in others if other.answer is not None]
    if main.answer is None or not others:
        return main
    notices = [*main.answer.notices, *(notice for answer in answered for notice in answer.notices)]
    if len(answered) < len(others):
        missing = len(others) - len(answered)
        message = f"{missing} of {len(others)} translations of the question got no answer"
        detail = {"unanswered": missing, "parts": len(others)}
        notices.append(Notice(NoticeCode.SUB_QUERIES_UNANSWERED, source_id, message, detail))
    chunks: dict[tuple[str, str, str], Chunk] = {}
    for chunk in chain(main.answer.chunks, *(answer.chunks for answer in answered)):
        known = chunks.setdefault(_identity(chunk), chunk)
        chunks[_identity(chunk)] = known._replace(scores=_best_scores(known.scores, chunk.scores))
    answer = main.answer._replace(
        chunks=tuple(chunks.values()),
        cut=main.answer.cut + sum(answer.cut for answer in answered),
        rejected=main.answer.rejected + sum(answer.rejected for answer in answered),
        notices=distinct(notices),
        failures=(*main.answer.failures, *(failure for answer in answered for failure in answer.failures)),
        statistics=_statistics(main.answer, answered),
    )
    return main._replace(answer=answer, elapsed_ms=max(reply.elapsed_ms for reply in (main, *others)))


def _best_scores(scores: Sequence[Score], others: Sequence[Score]) -> tuple[Score, ...]:
    """Return one score of each kind: the higher one."""
    best: dict[ScoreKind, Score] = {}
    for score in (*scores, *others):
        if score.kind not in best or score.value > best[score.kind].value:
            best[score.kind] = score
    return tuple(best.values())


def _fused(lists: Sequence[Sequence[Chunk]], source_id: str, top_k: int) -> tuple[tuple[Chunk, ...], int]:
    """Return the best chunks of all lists, the first of which belongs to the whole query, and the number left out."""
    main, *parts = lists
    chunks = {_identity(chunk): chunk._replace(scores=()) for part in parts for chunk in part}
    chunks |= {_identity(chunk): chunk for chunk in main}
    rankings = [[_identity(chunk) for chunk in ranking] for ranking in lists]
    scores = reciprocal_rank_fusion([rankings[0]] * len(parts) + rankings[1:], k=_K)
    best = sorted(scores, key=lambda identity: (-scores[identity], identity))
    fused = tuple(
        _with_score(chunks[identity], Score(ScoreKind.RRF, scores[identity], f"parts:{source_id}"))
        for identity in best[:top_k]
    )
    return fused, len(best) - len(fused)


def _statistics(main: ValidatedAnswer, parts: Sequence[ValidatedAnswer]) -> TermStatistics | None:
    """Return the term statistics of the whole query and of its parts, in the collection of the whole query."""
    statistics = main.statistics
    for part in parts:
        if (
            statistics is not None
            and part.statistics is not None
            and part.statistics.collection == statistics.collection
        ):
            statistics = statistics.merged(part.statistics)
    return statistics


def _with_score(chunk: Chunk, score: Score) -> Chunk:
    return chunk._replace(scores=(score, *chunk.scores))


def _identity(chunk: Chunk) -> tuple[str, str, str]:
    """Identify a chunk by id and text, so that two texts under one id stay two candidates."""
    return chunk.source_id or "", chunk.chunk_id, chunk.content
