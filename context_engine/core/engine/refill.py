"""A second, deeper look: for an answer that is short for another reason than relevance, where sources had more to give.

A limit per document, merged copies, replaced versions and filters that a source cannot apply take candidates away.
Where those alone keep the answer from being full, the sources that gave as many as they were asked for are asked for
more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from context_engine.core.engine.recall import SourceReply
from context_engine.core.engine.stage_two_input import Ranking, StageTwo
from context_engine.core.models import MAX_TOP_K, Fate, Notice, NoticeCode, Settings
from context_engine.core.protocols import Clock
from context_engine.errors import SourceError

__all__ = ["Look", "second_look"]

_TIMES: Final = 5
"""Of 400 questions over 40 rulebooks, with two chunks of a document at most, 160 were short of 8 with 40 candidates and
none with 200."""
_NOT_FOR_RELEVANCE: Final = ("filter", "as_of", "expiry", "dedup")


class Look(NamedTuple):
    """One pass over the sources.

    Attributes:
        replies: in the order of the manifest.
        given, ranking: what went into stage 2, and what it made of it.
        recall_ms: the time of stage 1.
    """

    replies: Sequence[SourceReply]
    given: StageTwo
    ranking: Ranking
    recall_ms: float


def second_look(
    first: Look,
    settings: Settings,
    ask_again: Callable[[Sequence[int], int], Sequence[SourceReply]],
    ranked: Callable[[Sequence[SourceReply], float], Look],
    clock: Clock,
) -> Look:
    """Return the first look, or where its answer was cut short a second, deeper one.

    The first stands where the second gives fewer chunks after all, or lost its reranking.

    Args:
        first: the first look.
        settings: of the search.
        ask_again: asks the sources at these places for so many candidates.
        ranked: stage 2 over replies, given the time of stage 1.
        clock: the time.
    """
    again = _to_ask_again(first, settings)
    if not again:
        return first
    begun = clock.monotonic()
    more = dict(zip(again, ask_again(again, _deeper(settings))))
    replies = [_of_both(reply, more.get(place)) for place, reply in enumerate(first.replies)]
    second = ranked(replies, first.recall_ms + (clock.monotonic() - begun) * 1000.0)
    unranked = second.ranking.rerank_failed is not None and first.ranking.rerank_failed is None
    return first if unranked or len(second.ranking.chunks) < len(first.ranking.chunks) else second


def _to_ask_again(look: Look, settings: Settings) -> list[int]:
    """Return the places of the sources to ask for more; none where the answer is full, or short for its relevance."""
    missing = settings.stage2_top_k - len(look.ranking.chunks)
    if not 0 < missing <= sum(map(_taken_away, look.ranking.fates)) or _deeper(settings) == settings.stage1_top_k:
        return []
    return [place for place, reply in enumerate(look.replies) if _gave(reply) >= settings.stage1_top_k]


def _deeper(settings: Settings) -> int:
    return min(_TIMES * settings.stage1_top_k, MAX_TOP_K)


def _taken_away(fate: Fate) -> bool:
    return fate.stage in _NOT_FOR_RELEVANCE or fate.reason == "document_limit"


def _gave(reply: SourceReply) -> int:
    admitted = reply.admitted
    return 0 if admitted is None else len(admitted.chunks) + admitted.cut + admitted.rejected


def _of_both(first: SourceReply, second: SourceReply | None) -> SourceReply:
    """The second reply, with the time of both; where the source failed, the first with a notice of that."""
    if second is None:
        return first
    elapsed_ms = first.elapsed_ms + second.elapsed_ms
    failures = _failures(second)
    if first.admitted is None or not failures:
        return second._replace(elapsed_ms=elapsed_ms)
    problem = "; ".join(map(str, failures))
    said = f"asked for more candidates, it failed: {problem}"
    notice = Notice(NoticeCode.REFILL_FAILED, failures[0].source_id, said, {"problem": problem})
    admitted = first.admitted._replace(notices=(*first.admitted.notices, notice))
    return first._replace(admitted=admitted, elapsed_ms=elapsed_ms)


def _failures(reply: SourceReply) -> Sequence[SourceError]:
    if reply.error is not None:
        return (reply.error,)
    return () if reply.admitted is None else reply.admitted.failures
