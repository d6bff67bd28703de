"""The smallest change that shows a chunk, found by trying all changes in the order of their size.

What `changes` says of sizes decides; the first that shows the chunk is the smallest, and it was computed in whole. A
change of what is read after the chunk was dropped is not tried: it cannot bring it back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from context_engine.audit.review.case import Case, identity_of
from context_engine.audit.review.changes import STAGES, AnswerChangeKind, Change
from context_engine.audit.review.line_up import LineUp
from context_engine.audit.review.other_changes import other_changes
from context_engine.audit.review.settings_changes import settings_changes
from context_engine.core.models import Key, SearchResult

_AFTER_DEDUP: Final = STAGES.index("dedup") + 1
_FIRST_STEPS: Final = 12
"""So many changes that carry a chunk further are tried as the first of a pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactual:
    """Changes that together show a chunk.

    Attributes:
        changes: one, or two to be made together.
        rank: of the chunk then.
        left: chunks that are no longer shown then, in the order they had.
        came: other chunks that are shown then and were not, in the order they have.
        unscored: a model reranker took part, and has no score for the chunk: it stands by stage 1 alone.
    """

    changes: tuple[Change, ...]
    rank: int
    left: tuple[Key, ...]
    came: tuple[Key, ...]
    unscored: bool = False

    @property
    def steps(self) -> float:
        """The size of all together."""
        return sum(change.steps for change in self.changes)

    @property
    def asks_otherwise(self) -> bool:
        """Whether sources would have been asked something else, so that other candidates could have come."""
        return any(change.kind is AnswerChangeKind.REQUEST for change in self.changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "changes": [change.to_dict() for change in self.changes],
            "rank": self.rank,
            "left": [list(key) for key in self.left],
            "came": [list(key) for key in self.came],
            "unscored": self.unscored,
            "asks_otherwise": self.asks_otherwise,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a search for the smallest change found.

    Attributes:
        single: the smallest change; None where no single one suffices.
        pair: where none does, two that suffice together. The smallest of those tried, which are not all there are.
        tried: how many changes of each name were tried in vain.
    """

    single: Counterfactual | None = None
    pair: Counterfactual | None = None
    tried: tuple[tuple[str, int], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "smallest": None if self.single is None else self.single.to_dict(),
            "pair": None if self.pair is None else self.pair.to_dict(),
            "tried": dict(self.tried),
        }


def all_changes(case: Case) -> list[Change]:
    """Return every change that may bring a dropped or merged chunk back, the smallest first."""
    last = case.progress
    found = chain(settings_changes(case), other_changes(case))
    return sorted((one for one in found if STAGES.index(one.stage) <= last), key=lambda change: change.order)


def smallest_changes(case: Case) -> Search:
    """Return the smallest change that shows a chunk; where no single one does, two together.

    Args:
        case: of a chunk that is not shown.
    """
    changes = all_changes(case)
    trials = _Trials(case)
    for change in changes:
        shown = trials.shown_by(change)
        if shown is not None:
            return Search(single=counterfactual(case, (change,), shown), tried=trials.counted)
    return Search(pair=_pair(case, trials.further), tried=trials.counted)


class _Trials:
    """Changes tried on a case.

    Attributes:
        further: those that carry the chunk further without showing it, the first of each name.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._line_up = LineUp(case) if case.progress >= _AFTER_DEDUP else None
        self._cut_alone = self._line_up is not None and self._line_up.shows(case.result, uncut=True)
        self._tried: Counter[str] = Counter()
        self.further: list[Change] = []

    @property
    def counted(self) -> tuple[tuple[str, int], ...]:
        """How many changes of each name were tried in vain."""
        return tuple(sorted(self._tried.items()))

    def shown_by(self, change: Change) -> SearchResult | None:
        """Return the search with a change, None where it does not show the chunk."""
        changed = change.applied(self._case.result)
        result = None
        line_up = self._line_up if STAGES.index(change.stage) >= _AFTER_DEDUP else None
        if line_up is None or line_up.shows(changed):
            result = self._case.again(changed)
            if result is not None and self._case.shown_in(result) is not None:
                return result
        self._tried[change.name] += 1
        if not self._cut_alone and len(self.further) < _FIRST_STEPS and change.name not in map(_name, self.further):
            carries = line_up.shows(changed, uncut=True) if line_up is not None else self._carries(result)
            self.further += [change] if carries else []
        return None

    def _carries(self, result: SearchResult | None) -> bool:
        """Whether the chunk comes to a later stage in another result than it did."""
        after = None if result is None else self._case.followed(result)
        return after is not None and after.progress > self._case.progress


def _name(change: Change) -> str:
    return change.name


def _pair(case: Case, further: Iterable[Change]) -> Counterfactual | None:
    """Return the smallest pair that begins with one of the changes that carry the chunk further."""
    best: Counterfactual | None = None
    for first in further:
        result = case.again(first.applied(case.result))
        after = None if result is None else case.followed(result)
        if after is None or (best is not None and first.steps >= best.steps):
            continue
        trials = _Trials(after)
        for second in all_changes(after):
            if best is not None and first.steps + second.steps >= best.steps:
                break
            shown = None if second.name == first.name else trials.shown_by(second)
            if shown is not None:
                best = counterfactual(case, (first, second), shown)
                break
    return best


def counterfactual(case: Case, changes: tuple[Change, ...], after: SearchResult) -> Counterfactual:
    """Return what changes make of an answer.

    Args:
        case: before them.
        changes: made together.
        after: the search with them; it shows the chunk.
    """
    shown = case.shown_in(after)
    before = {identity_of(one.source_id, one.chunk): (one.source_id, one.chunk_id) for one in case.result.chunks}
    now = {identity_of(one.source_id, one.chunk): (one.source_id, one.chunk_id) for one in after.chunks}
    scores = after.rerank_scores
    return Counterfactual(
        changes=changes,
        rank=0 if shown is None else shown.rank,
        left=tuple(key for identity, key in before.items() if identity not in now),
        came=tuple(key for one, key in now.items() if one not in before and one != case.identity),
        unscored=bool(scores) and shown is not None and shown.rerank_score is None,
    )
