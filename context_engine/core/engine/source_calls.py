"""What each source is asked: the question and its parts, all sources at once, one reply for each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from context_engine.core.engine.recall import SourceBulkhead, SourceCall, SourceReply, call_sources
from context_engine.core.engine.subquery_fusion import one_answer
from context_engine.core.models import PreparedQuery, SearchRequest, Settings, SourceQuery, SourceSpec
from context_engine.core.protocols import Clock
from context_engine.core.text import segmented
from context_engine.errors import SourceError

__all__ = ["Asked", "Question", "ask"]

Asked = tuple[SourceSpec, SourceBulkhead | SourceError]
"""A source with its lane, or why it could not be opened."""


class Question(NamedTuple):
    """What is asked of every source alike."""

    domain: str
    request: SearchRequest
    prepared: PreparedQuery
    settings: Settings
    as_of: date
    search_id: str


def ask(question: Question, sources: Sequence[Asked], *, top_k: int, seconds: float, clock: Clock) -> list[SourceReply]:
    """Return one reply per source.

    Args:
        question: what is asked.
        sources: whom.
        top_k: candidates asked of each.
        seconds: what is left for all of them; each has its own limit too.
    """
    prepared, settings = question.prepared, question.settings
    texts = [(text, segmented(text, settings.word_segmenter)) for text in (prepared.text, *prepared.sub_queries)]
    calls = [
        SourceCall(lane, _query(question, spec, text, words, top_k, seconds))
        for spec, lane in sources
        if isinstance(lane, SourceBulkhead)
        for text, words in texts
    ]
    replies = iter(call_sources(calls, limit=settings.source_concurrency, clock=clock))
    return [
        one_answer([next(replies) for _ in texts], source_id=lane.source_id, top_k=top_k)._replace(asked=top_k)
        if isinstance(lane, SourceBulkhead)
        else SourceReply(None, lane, 0.0)
        for _, lane in sources
    ]


def _query(question: Question, spec: SourceSpec, text: str, words: str, top_k: int, seconds: float) -> SourceQuery:
    settings, request = question.settings, question.request
    return SourceQuery(
        text=text,
        words=words,
        domain=question.domain,
        top_k=top_k,
        expansions=question.prepared.expansions,
        filters=request.filters,
        as_of=question.as_of,
        timeout_s=min(spec.timeout_s or settings.source_timeout_s, max(seconds, 0.0)),
        search_id=question.search_id,
        caller=request.caller,
    )
