"""Why a chunk has another place in an answer than in its baseline: a code that does not change, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from context_engine.core.engine.comparison import RankChange, Step
from context_engine.core.models import Key, Outcome
from context_engine.service.contract.comparison import ChangeCode

_OF_STEP: Final[Mapping[Step, ChangeCode]] = {
    Step.DEDUP: "duplicates_merged",
    Step.FILTER: "weaker_removed",
    Step.RERANK: "reranked",
    Step.EXACT_MATCH: "exact_match",
    Step.AUTHORITY: "authority",
    Step.LIMITS: "limits",
}
_OF_STAGE: Final[Mapping[str, ChangeCode]] = {
    "threshold": "below_similarity_threshold",
    "scope": "out_of_scope",
    "relevance": "below_min_relevance",
}
_NAMED: Final = 3


def chunk_name(key: Key) -> str:
    """Return a chunk's identity as one text: SOURCE/CHUNK."""
    return "/".join(key)


def code_of(change: RankChange) -> ChangeCode:
    """Return why a chunk's place differs; of one whose place is the same there is nothing to say.

    Raises:
        ValueError: its place is the same.
    """
    if change.cause is None:
        raise ValueError("its place is the same in both")
    fate = change.fate
    if fate.outcome is Outcome.MERGED:
        return "merged"
    if fate.outcome is Outcome.DROPPED and fate.stage in _OF_STAGE:
        return _OF_STAGE[fate.stage]
    if fate.reason == "document_limit":
        return "document_limit"
    return "too_similar" if fate.reason == "too_similar" else _OF_STEP[change.cause]


def sentence_of(change: RankChange) -> str:
    """Return why a chunk's place differs, in words; its ranks stand beside it.

    Raises:
        ValueError: its place is the same.
    """
    code, fate = code_of(change), change.fate
    if code == "merged":
        return f"says the same as {_names(change)} (similarity {_number(fate.value)}) and was merged into it"
    if code == "below_similarity_threshold":
        return f"its score {_number(fate.value)} is below similarity_threshold {_number(fate.limit)}"
    if code == "below_min_relevance":
        return f"its absolute relevance {_number(fate.value)} is below min_relevance_score {_number(fate.limit)}"
    if code == "out_of_scope":
        return f"the question is out of scope: {_number(fate.value)} is below scope_threshold {_number(fate.limit)}"
    if code == "document_limit":
        return f"its document has {_number(fate.limit)} chunks already (max_per_document)"
    if code == "too_similar":
        return f"it is like a chunk that is returned: likeness {_number(fate.value)} (mmr_lambda {_number(fate.limit)})"
    return _of_ranking(change, code)


def _of_ranking(change: RankChange, code: ChangeCode) -> str:
    others = _names(change)
    rising = (change.after or 0) < (change.before or 0)
    if code == "duplicates_merged":
        return f"near-duplicates became one: {others}" if others else "the relevance of merged copies counts"
    if code == "weaker_removed":
        return f"what the thresholds removed stood above it: {others}" if others else "the thresholds removed others"
    if code == "reranked":
        return "the reranker's score " + ("raised it" if rising else "lowered it, or raised others above it")
    if code == "exact_match":
        what = "it has" if rising else "others have"
        return f"{what} the phrase or code that the question names"
    if code == "authority":
        side = "its authority tier outranks" if rising else "outranked by a higher authority tier:"
        return f"{side} {others}" if others else "the authority boosts of others changed their order"
    return "limits on chunks of one document or on likeness changed who has a place"


def _names(change: RankChange) -> str:
    shown = ", ".join(map(chunk_name, change.because[:_NAMED]))
    more = len(change.because) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _number(value: float | str | None) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
