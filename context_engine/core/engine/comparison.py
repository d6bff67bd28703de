"""An answer beside its baseline: what it would be were the pool ordered by relevance alone, and why it is another.

The baseline has the same candidates: what the caller may not read, what the filter excludes, what is not in force on
the day asked about and what is refused as expired is in neither. It leaves out dedup, thresholds and scope, the
reranker, exact matches first, authority, and the limits on likeness and on chunks of one document.

From baseline to answer each of these is put back, one after another in the order of the engine, and the pool is ranked
anew each time. So every chunk has a way of ranks that begins in the baseline and ends in the answer, and the steps on
it say why.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from context_engine.core.engine.recompute import recompute, with_settings
from context_engine.core.engine.text_cache import TextCache
from context_engine.core.models import Fate, Key, NoticeCode, Outcome, SearchResult
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.ranking.dedup import Match, deduplicate

BASELINE: Final[Mapping[str, Any]] = {
    "dedup_method": "off",
    "min_relevance_score": 0.0,
    "scope_threshold": 0.0,
    "similarity_threshold": None,
    "min_chunks": 0,
    "exact_first": False,
    "authority_weight": 0.0,
    "max_per_document": None,
    "mmr_lambda": None,
}
"""The settings of the baseline where they are not the answer's own; and no score of a reranker."""

Turn = Literal["same", "moved", "entered", "left"]


class Step(StrEnum):
    """What stands between baseline and answer, in the order of the engine."""

    DEDUP = "dedup"
    FILTER = "filter"
    RERANK = "rerank"
    EXACT_MATCH = "exact_match"
    AUTHORITY = "authority"
    LIMITS = "limits"


_PUT_BACK: Final[Mapping[Step, tuple[str, ...]]] = {
    Step.DEDUP: ("dedup_method",),
    Step.FILTER: ("min_relevance_score", "scope_threshold", "similarity_threshold", "min_chunks"),
    Step.RERANK: (),
    Step.EXACT_MATCH: ("exact_first",),
    Step.AUTHORITY: ("authority_weight",),
}
"""The settings that come back with each step; with the last, LIMITS, it is the answer itself."""


class StepEffect(NamedTuple):
    """What one step did to a chunk: its rank before and after, None if it is not among the ranked any more."""

    step: Step
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkChange:
    """One chunk that the baseline or the answer shows.

    Attributes:
        before: its rank in the pool by relevance; above `stage2_top_k` the baseline does not show it.
        after: its rank in the answer, likewise; None if it is merged or dropped.
        steps: those that changed its rank, each going on from where the last one left it.
        cause: the step that did most of it; None if it has the same place in both.
        fate: its end in the answer.
        because: the chunks that stand behind it: into which it was merged, which made room, which it outranks.
    """

    key: Key
    turn: Turn
    before: int | None
    after: int | None
    steps: tuple[StepEffect, ...]
    cause: Step | None
    fate: Fate
    because: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineComparison:
    """Baseline and answer, and every chunk of either once.

    Attributes:
        changes: the chunks of the answer by rank, then those that only the baseline shows, by theirs.
    """

    baseline: SearchResult
    enhanced: SearchResult
    changes: tuple[ChunkChange, ...]

    def of(self, turn: Turn) -> tuple[ChunkChange, ...]:
        """Return the changes of one kind, in their order."""
        return tuple(change for change in self.changes if change.turn == turn)


def compare(result: SearchResult, analyse: Callable[[str], AnalysedText] | None = None) -> BaselineComparison:
    """Compare an answer with its baseline; from the result alone, so a recorded one will do. No source is asked.

    Args:
        analyse: a cache of analysed texts; one of its own where left out.

    Raises:
        InvalidRequest: the result does not hold its request.
    """
    rankings = list(_rankings(result, analyse or TextCache().analysed))
    baseline = rankings[0][1]
    ways = _Ways(rankings, result)
    shown = [_key(chunk) for chunk in result.chunks]
    only_before = [key for key in map(_key, baseline.chunks) if key not in set(shown)]
    changes = tuple(ways.change(key) for key in (*shown, *only_before))
    return BaselineComparison(baseline=baseline, enhanced=result, changes=changes)


def _rankings(
    result: SearchResult, analyse: Callable[[str], AnalysedText]
) -> Iterator[tuple[Step | None, SearchResult]]:
    """Yield the baseline, then the answer with one step more each time; steps that this answer has not are left out."""
    settings, match = result.settings.values, _Remembered()
    plain = replace(
        with_settings(result, **BASELINE),
        rerank_scores={},
        notices=tuple(notice for notice in result.notices if notice.code is not NoticeCode.RERANK_FAILED),
    )
    yield None, recompute(plain, analyse, match)
    for step, names in _PUT_BACK.items():
        if step is Step.RERANK and result.rerank_scores:
            plain = replace(plain, rerank_scores=result.rerank_scores)
        elif any(getattr(settings, name) != BASELINE[name] for name in names) and _matters(step, result):
            plain = with_settings(plain, **{name: getattr(settings, name) for name in names})
        else:
            continue
        yield step, recompute(plain, analyse, match)
    yield Step.LIMITS, result


class _Remembered:
    """Finds near-duplicates once: the steps after dedup are given the same texts in the same order."""

    def __init__(self) -> None:
        self._found: dict[Hashable, list[Match | None]] = {}

    def __call__(
        self, texts: Sequence[AnalysedText], *, method: Literal["near", "exact", "off"], threshold: float
    ) -> list[Match | None]:
        """Return what `deduplicate` does."""
        key = (method, threshold, tuple(text.text for text in texts))
        if key not in self._found:
            self._found[key] = deduplicate(texts, method=method, threshold=threshold)
        return self._found[key]


def _matters(step: Step, result: SearchResult) -> bool:
    """Whether a step can change the order of this answer: where a question names nothing exactly, one cannot."""
    return step is not Step.EXACT_MATCH or result.prepared is not None


class _Ways:
    """The way of each chunk through the rankings."""

    def __init__(self, rankings: Sequence[tuple[Step | None, SearchResult]], result: SearchResult) -> None:
        self._steps = [step for step, _ in rankings if step is not None]
        self._places = [_places(ranking) for _, ranking in rankings]
        self._fates: dict[Key, Fate] = {(fate.source_id, fate.chunk_id): fate for fate in result.fates}
        self._top_k, self._result = result.settings.values.stage2_top_k, result

    def change(self, key: Key) -> ChunkChange:
        """Return what became of a chunk that baseline or answer shows."""
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

    def _because(self, key: Key, cause: Step) -> tuple[Key, ...]:
        """Return the chunks that stand behind a change, those that ranked best first."""
        into = self._fates[key].into
        if into is not None:
            return (into,)
        if cause is Step.AUTHORITY:
            swaps = self._result.swaps
            return (
                *(swap.loser for swap in swaps if swap.winner == key),
                *(swap.winner for swap in swaps if swap.loser == key),
            )
        if cause not in (Step.DEDUP, Step.FILTER):
            return ()
        place = self._steps.index(cause)
        before, after = self._places[place], self._places[place + 1]
        own = before.get(key, 0)
        gone = (other for other in before if other not in after and (before[other] < own or self._into(other) == key))
        return tuple(sorted(gone, key=before.__getitem__))

    def _into(self, key: Key) -> Key | None:
        return self._fates[key].into


def _places(result: SearchResult) -> dict[Key, int]:
    """Return the rank of every chunk that was ranked, those beyond `stage2_top_k` included."""
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


def _cause(steps: Sequence[StepEffect]) -> Step | None:
    """Return the step that ended a chunk's way, else the one that carried it furthest where it went; the later one."""
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
