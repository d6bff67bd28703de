"""Comparison of an answer with its baseline, the same pool ordered by relevance only.

Both have the same candidates: neither contains chunks that the caller may not read, that the filter excludes, that are
not in force on the requested day or that are refused as expired. The baseline omits dedup, thresholds and scope, the
reranker, exact matches first, recency, authority, and the limits on similarity and on chunks of one document.

These steps are added to the baseline one after another, in the order of the engine, and the pool is ranked again each
time. The sequence of ranks of a chunk from baseline to answer shows which step moved it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from context_engine.core.engine.candidate_table import TextCache
from context_engine.core.engine.recompute import recompute, with_settings
from context_engine.core.models import Fate, Key, NoticeCode, Outcome, SearchResult
from context_engine.core.ranking.candidates import AnalysedText
from context_engine.core.ranking.dedup import Match, deduplicate

BASELINE: Final[Mapping[str, Any]] = {
    "dedup_method": "off",
    "min_relevance_score": 0.0,
    "scope_threshold": 0.0,
    "similarity_threshold": None,
    "min_chunks": 0,
    "exact_first": False,
    "recency_weight": 0.0,
    "authority_weight": 0.0,
    "max_per_document": None,
    "mmr_lambda": None,
}
"""The settings in which the baseline differs from the answer; it also has no reranker scores."""

Turn = Literal["same", "moved", "entered", "left"]


class ComparisonStep(StrEnum):
    """The steps from baseline to answer, in the order of the engine."""

    DEDUP = "dedup"
    FILTER = "filter"
    RERANK = "rerank"
    EXACT_MATCH = "exact_match"
    RECENCY = "recency"
    AUTHORITY = "authority"
    LIMITS = "limits"


_PUT_BACK: Final[Mapping[ComparisonStep, tuple[str, ...]]] = {
    ComparisonStep.DEDUP: ("dedup_method",),
    ComparisonStep.FILTER: ("min_relevance_score", "scope_threshold", "similarity_threshold", "min_chunks"),
    ComparisonStep.RERANK: (),
    ComparisonStep.EXACT_MATCH: ("exact_first",),
    ComparisonStep.RECENCY: ("recency_weight",),
    ComparisonStep.AUTHORITY: ("authority_weight",),
}
"""The settings that each step restores; LIMITS, the last step, gives the answer itself."""


class StepEffect(NamedTuple):
    """The rank of a chunk before and after a step; None if it is not ranked."""

    step: ComparisonStep
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkChange:
    """A chunk of the baseline or the answer.

    Attributes:
        before: its rank by relevance; the baseline does not show it if that is above `stage2_top_k`.
        after: its rank in the answer, likewise; None if it is merged or dropped.
        steps: the steps that changed its rank, in order.
        cause: the step with the largest effect; None if it has the same place in both.
        fate: its outcome in the answer.
        because: the chunks that explain the change: those it was merged into, that made room, or that it swapped with.
    """

    key: Key
    turn: Turn
    before: int | None
    after: int | None
    steps: tuple[StepEffect, ...]
    cause: ComparisonStep | None
    fate: Fate
    because: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineComparison:
    """Baseline and answer, with the change of every chunk.

    Attributes:
        changes: the chunks of the answer by rank, then those that only the baseline shows, by baseline rank.
    """

    baseline: SearchResult
    enhanced: SearchResult
    changes: tuple[ChunkChange, ...]

    def of(self, turn: Turn) -> tuple[ChunkChange, ...]:
        """Return the changes of one kind, in order."""
        return tuple(change for change in self.changes if change.turn == turn)


def compare(result: SearchResult, analyse: Callable[[str], AnalysedText] | None = None) -> BaselineComparison:
    """Compare an answer with its baseline. No source is called, so a recorded result can be compared too.

    Args:
        analyse: analyses a text, usually from a cache; default: a new cache.

    Raises:
        InvalidRequest: the result does not hold its request.
    """
    rankings = list(_rankings(result, analyse or TextCache().analysed))
    baseline = rankings[0][1]
    history = _RankHistory(rankings, result)
    shown = [_key(chunk) for chunk in result.chunks]
    only_before = [key for key in map(_key, baseline.chunks) if key not in set(shown)]
    changes = tuple(history.change(key) for key in (*shown, *only_before))
    return BaselineComparison(baseline=baseline, enhanced=result, changes=changes)


def _rankings(
    result: SearchResult, analyse: Callable[[str], AnalysedText]
) -> Iterator[tuple[ComparisonStep | None, SearchResult]]:
    """Yield the baseline, then the ranking after each further step; steps that this answer did not use are skipped."""
    settings, match = result.settings.values, _Remembered()
    plain = replace(
        with_settings(result, **BASELINE),
        rerank_scores={},
        notices=tuple(notice for notice in result.notices if notice.code is not NoticeCode.RERANK_FAILED),
    )
    yield None, recompute(plain, analyse, match)
    for step, names in _PUT_BACK.items():
        if step is ComparisonStep.RERANK and result.rerank_scores:
            plain = replace(plain, rerank_scores=result.rerank_scores)
        elif any(getattr(settings, name) != BASELINE[name] for name in names) and _matters(step, result):
            plain = with_settings(plain, **{name: getattr(settings, name) for name in names})
        else:
            continue
        yield step, recompute(plain, analyse, match)
    yield ComparisonStep.LIMITS, result


class _Remembered:
    """Finds near-duplicates only once: the steps after dedup get the same texts in the same order."""

    def __init__(self) -> None:
        self._found: dict[Hashable, list[Match | None]] = {}

    def __call__(
        self, texts: Sequence[AnalysedText], *, method: Literal["near", "exact", "off"], threshold: float
    ) -> list[Match | None]:
        """Return the result of `deduplicate`."""
        key = (method, threshold, tuple(text.text for text in texts))
        if key not in self._found:
            self._found[key] = deduplicate(texts, method=method, threshold=threshold)
        return self._found[key]


def _matters(step: ComparisonStep, result: SearchResult) -> bool:
    """Whether a step can change the order: exact matches need a prepared query."""
    return step is not ComparisonStep.EXACT_MATCH or result.prepared is not None


class _RankHistory:
    """The ranks of each chunk from ranking to ranking."""

    def __init__(self, rankings: Sequence[tuple[ComparisonStep | None, SearchResult]], result: SearchResult) -> None:
        self._steps = [step for step, _ in rankings if step is not None]
        self._places = [_places(ranking) for _, ranking in rankings]
        self._fates: dict[Key, Fate] = {(fate.source_id, fate.chunk_id): fate for fate in result.fates}
        self._top_k, self._result = result.settings.values.stage2_top_k, result

    def change(self, key: Key) -> ChunkChange:
        """Return the change of a chunk of the baseline or the answer."""
        ranks = [places.get(key) for places in self._places]
        steps = tuple(
            StepEffect(step, before, after)
            for step, (before, after) in zip(self._steps, pairwise(ranks), strict=True)
            if before != after
        )
        turn = _turn(self._shown(ranks[0]), self._shown(ranks[-1]))
        cause = None if turn == "same" else _cause(steps)
        return ChunkChange(
            key=key,
            turn=turn,
            before=ranks[0],
            after=ranks[-1],
            steps=steps,
            cause=cause,
            fate=self._fates[key],
            because=() if cause is None else self._because(key, cause),
        )

    def _shown(self, rank: int | None) -> int | None:
        return rank if rank is not None and rank <= self._top_k else None

    def _because(self, key: Key, cause: ComparisonStep) -> tuple[Key, ...]:
        """Return the chunks that explain a change, by rank."""
        into = self._fates[key].into
        if into is not None:
            return (into,)
        if cause is ComparisonStep.AUTHORITY:
            swaps = self._result.swaps
            return (
                *(swap.loser for swap in swaps if swap.winner == key),
                *(swap.winner for swap in swaps if swap.loser == key),
            )
        if cause not in (ComparisonStep.DEDUP, ComparisonStep.FILTER):
            return ()
        place = self._steps.index(cause)
        before, after = self._places[place], self._places[place + 1]
        own = before.get(key, 0)
        gone = (other for other in before if other not in after and (before[other] < own or self._into(other) == key))
        return tuple(sorted(gone, key=before.__getitem__))

    def _into(self, key: Key) -> Key | None:
        return self._fates[key].into


def _places(result: SearchResult) -> dict[Key, int]:
    """Return the rank of every ranked chunk, including those beyond `stage2_top_k`."""
    places = {_key(chunk): chunk.rank for chunk in result.chunks}
    for fate in result.fates:
        if fate.outcome is Outcome.DROPPED and fate.reason == "beyond_top_k" and isinstance(fate.value, int | float):
            places[fate.source_id, fate.chunk_id] = int(fate.value)
    return places


def _turn(before: int | None, after: int | None) -> Turn:
    if before is None:
        return "entered"
    if after is None:
        return "left"
    return "same" if before == after else "moved"


def _cause(steps: Sequence[StepEffect]) -> ComparisonStep | None:
    """Return the step that removed a chunk, else the (last) step that moved it furthest in its overall direction."""
    if not steps:
        return None
    if steps[-1].after is None:
        return steps[-1].step
    first, last = steps[0].before or 0, steps[-1].after
    direction = 1 if last > first else -1

    def carried(step: StepEffect) -> int:
        return direction * ((step.after or 0) - (step.before or 0))

    return max(reversed(steps), key=carried).step


def _key(chunk: Any) -> Key:
    return chunk.source_id, chunk.chunk_id
