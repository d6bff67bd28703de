"""The calls of stage 1: the query and its sub-queries, to every source at once, one outcome for each source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from context_engine.core.engine.recall import SourceBulkhead, SourceCall, SourceReply, call_sources
from context_engine.core.engine.retriever import Recalled, RefillRequest, SourceOutcome
from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.engine.source_outcome import source_outcome
from context_engine.core.engine.source_pool import OpenedSource
from context_engine.core.engine.subquery_fusion import fused_reply
from context_engine.core.models import (
    Notice,
    NoticeCode,
    QueryEmbedding,
    SourceQuery,
    SourceSpec,
    VectorAdapter,
    WithheldChunk,
)
from context_engine.core.protocols import Clock
from context_engine.core.text import segmented

_PREPARING_SHARE: Final = 0.5
"""Of the time that is left; the calls need the rest, also where nothing came of it."""


class SourceCalls:
    """The sources of one search: a `Retriever` that calls them within the search's time.

    Args:
        sources: in the order of the manifest.
        clock: the time.
        started: when the search began.
        due: when its time is up.
        seconds: for the first calls, all together; each source has its own limit too.
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
        """What the sources gave so far and the caller may not read, each chunk once."""
        return tuple(self._withheld)

    @property
    def adapter(self) -> VectorAdapter | None:
        """What vectors were compared under so far; None: as their model has them, or not all of them alike."""
        return next(iter(self._adapters.values())) if len(self._adapters) == 1 else None

    def recall(self, plan: SearchPlan) -> Recalled:
        """Call every source, once what it has to load first is there."""
        replies = self._replies(plan, self._sources, plan.settings.stage1_top_k, self._prepared(plan))
        outcomes = tuple(source_outcome(spec, reply) for (spec, _), reply in zip(self._sources, replies))
        return Recalled(outcomes, self._ms_since(self._started))

    def _prepared(self, plan: SearchPlan) -> float:
        """Have the sources load what they need; return the seconds that are left for the calls."""
        seconds = self._seconds
        for _, source in self._sources:
            if isinstance(source, SourceBulkhead) and source.is_preparable:
                begun = self._clock.monotonic()
                source.prepare(_text(plan), _PREPARING_SHARE * seconds)
                seconds -= self._clock.monotonic() - begun
        return seconds

    def recall_more(self, plan: SearchPlan, first: Recalled, refill: RefillRequest) -> Recalled | None:
        """Call some sources again in the time that is left; None where none is."""
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
        """Call every source with another wording, in the time that is left; None where none is."""
        begun = self._clock.monotonic()
        if begun >= self._due:
            return None
        replies = self._replies(plan, self._sources, plan.settings.stage1_top_k, self._due - begun)
        outcomes = tuple(
            _with_time_of(source_outcome(spec, reply), outcome)
            for (spec, _), reply, outcome in zip(self._sources, replies, first.outcomes)
        )
        return Recalled(outcomes, first.elapsed_ms + self._ms_since(begun))

    def _replies(
        self, plan: SearchPlan, sources: Sequence[OpenedSource], top_k: int, seconds: float
    ) -> list[SourceReply]:
        """Return one reply per source."""
        prepared, settings = plan.prepared, plan.settings
        texts = (_text(plan), *(prepared.sub_queries if prepared else ()))
        words = [(text, segmented(text, settings.word_segmenter)) for text in texts]
        calls = [
            SourceCall(source, _query(plan, spec, text, terms, top_k, seconds))
            for spec, source in sources
            if isinstance(source, SourceBulkhead)
            for text, terms in words
        ]
        called = call_sources(calls, limit=settings.source_concurrency, clock=self._clock)
        self._withheld |= dict.fromkeys(one for reply in called if reply.answer for one in reply.answer.withheld)
        embeddings = (reply.answer.embedding for reply in called if reply.answer)
        self._adapters |= {one.model: one.adapter for one in embeddings if one is not None}
        replies = iter(called)
        return [
            fused_reply([next(replies) for _ in texts], source_id=spec.id, top_k=top_k)._replace(requested_top_k=top_k)
            if isinstance(source, SourceBulkhead)
            else SourceReply(None, source, 0.0)
            for spec, source in sources
        ]

    def _ms_since(self, moment: float) -> float:
        return (self._clock.monotonic() - moment) * 1000.0


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


def _refilled(spec: SourceSpec, first: SourceOutcome, second: SourceReply) -> SourceOutcome:
    """The second outcome, with the time of both calls; where the source failed, the first with a notice of that."""
    outcome = _with_time_of(source_outcome(spec, second), first)
    if not second.failures:
        return outcome
    problem = "; ".join(map(str, second.failures))
    message = f"asked for more candidates, it failed: {problem}"
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
    """Return the vector of the second call, with the time of both."""
    if first is None or second is None:
        return second or first
    return second._replace(elapsed_ms=first.elapsed_ms + second.elapsed_ms)
