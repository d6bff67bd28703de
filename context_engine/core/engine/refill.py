"""The refill: an answer that is short for another reason than relevance, where sources had more to give.

A limit per document, merged copies, replaced versions and filters that a source cannot apply take candidates away.
Where those alone keep the answer from being full, the sources that gave as many candidates as were requested are
called again for more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from context_engine.core.engine.retriever import Recalled, RefillRequest
from context_engine.core.engine.stage_two_output import StageTwoOutput
from context_engine.core.models import MAX_TOP_K, Fate, Settings, SourceStatus

_FACTOR: Final = 5
"""Of 400 questions over 40 rulebooks, with two chunks of a document at most, 160 were short of 8 with 40 candidates and
none with 200."""
_NOT_FOR_RELEVANCE: Final = ("filter", "as_of", "expiry", "dedup")


class Pass(NamedTuple):
    """One pass of a search through both stages."""

    recalled: Recalled
    output: StageTwoOutput


def refill_request(first: Pass, settings: Settings) -> RefillRequest | None:
    """Return which sources to call for more; None where the answer is full or short for its relevance."""
    top_k = min(_FACTOR * settings.stage1_top_k, MAX_TOP_K)
    missing = settings.stage2_top_k - len(first.output.chunks)
    if not 0 < missing <= sum(map(_taken_away, first.output.fates)) or top_k == settings.stage1_top_k:
        return None
    places = tuple(
        place for place, status in enumerate(first.recalled.statuses) if _candidates(status) >= settings.stage1_top_k
    )
    return RefillRequest(places, top_k) if places else None


def better_pass(first: Pass, second: Pass) -> Pass:
    """Return the second pass; the first where the second gives fewer chunks after all, or lost its reranking."""
    unranked = second.output.rerank_failed is not None and first.output.rerank_failed is None
    return first if unranked or len(second.output.chunks) < len(first.output.chunks) else second


def _taken_away(fate: Fate) -> bool:
    return fate.stage in _NOT_FOR_RELEVANCE or fate.reason == "document_limit"


def _candidates(status: SourceStatus) -> int:
    """How many a source gave, with those that were cut or refused."""
    return status.chunks + status.cut + status.rejected
