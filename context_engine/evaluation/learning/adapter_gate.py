"""An adapter is learnt from judged questions, and believed only on questions that it was not trained on.

Each question is searched for twice in the base itself, with the model alone and with an adapter that was trained
without this question. A third search is made with one that was never shown the passages that answer it, for an adapter
that knows the passages it was asked about may know the others less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from context_engine.adapters.sources.local.domain_adapter import DomainAdapter
from context_engine.core.models import AccessScope
from context_engine.errors import InvalidRequest
from context_engine.evaluation.gold import GoldHit, Identity, identity_of
from context_engine.evaluation.learning.folds import Fold, Folds, learn_all, learn_by_folds
from context_engine.evaluation.learning.judged_pairs import JudgedPairs
from context_engine.evaluation.learning.lessons import Lessons
from context_engine.evaluation.metrics import Scores
from context_engine.evaluation.qrels import Qrels, Rejected
from context_engine.evaluation.score import score_rankings
from context_engine.evaluation.statistics import Paired, paired_bootstrap
from context_engine.evaluation.tune import folds_of

if TYPE_CHECKING:
    from context_engine.adapters.sources.local import LocalBase
    from context_engine.evaluation.learning.contrast import Maps

__all__ = [
    "FEWEST_JUDGED",
    "USUALLY_NEEDED",
    "AdapterTrial",
    "JudgedSearch",
    "Searches",
    "check_enough",
    "learn_adapter",
    "measures_with",
]

FEWEST_JUDGED: Final = 50
"""Of fewer judged questions nothing is learnt."""
USUALLY_NEEDED: Final = 1500
"""Judged answers from which a gain was beyond noise where it was measured (docs/guides/models.md)."""

_ALWAYS: Final = ("R@10", "AP@10")
_DEPTH: Final = 40

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSearch:
    """What is searched, and what is to be found.

    Attributes:
        base: with the embedder whose vectors it holds.
        domain: the adapter is for searches of it.
        source_ids: its sources in the base.
        qrels, rejected: what is relevant, and what was judged not to be.
        known: what each chunk can be called by, by its id.
        access: what may be read; None: everything.
    """

    base: LocalBase
    domain: str
    source_ids: Sequence[str]
    qrels: Qrels
    known: Mapping[str, Identity]
    rejected: Rejected = field(default_factory=dict)
    access: AccessScope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterTrial:
    """What was learnt, and what it does to questions that it was not learnt from.

    Attributes:
        ids: of the questions, by their places in the folds.
        adapter: learnt from all; None where learning nothing was best.
        measures: the one that decides first.
        before, after: of each question searched for with the model alone, and while it was held out.
        unseen: of each question while all that answers it was held out.
        folds: the questions held out, ranked by cosine alone.
        questions, pairs: how many were learnt from.
        untaught: ids of the questions that taught nothing.
        seed: of the training.
    """

    ids: Sequence[str]
    adapter: DomainAdapter | None
    measures: tuple[str, ...]
    before: Scores
    after: Scores
    unseen: Scores
    folds: Folds
    questions: int
    pairs: int
    untaught: Sequence[str]
    seed: int
    more: Mapping[str, Any] = field(default_factory=dict)

    def difference(self, measure: str, *, unseen: bool = False) -> Paired:
        """Return what the adapter changes, paired; `unseen`: where it was not shown what answers a question."""
        ours = self.unseen if unseen else self.after
        names = list(self.before)
        return paired_bootstrap([ours[name][measure] for name in names], [self.before[name][measure] for name in names])

    @property
    def refusal(self) -> str | None:
        """Why it is not to be put in force; None where it is better beyond noise and loses nothing beyond noise."""
        if self.adapter is None:
            return "on questions held out the model alone is best"
        measure, gain = self.measures[0], self.difference(self.measures[0])
        if not (gain.beyond_noise and gain.mean > 0.0):
            return f"on questions held out it is not better beyond noise: {_told(measure, gain)}"
        for name, unseen in (("R@10", False), (measure, True)):
            loss = self.difference(name, unseen=unseen)
            if loss.beyond_noise and loss.mean < 0.0:
                what = "whose answers it was never shown" if unseen else "held out"
                return f"on questions {what} it is worse: {_told(name, loss)}"
        return None


def _told(measure: str, one: Paired) -> str:
    return f"{measure} {one.mean:+.4f}, 95 % {one.low:+.4f} to {one.high:+.4f}"


def measures_with(measure: str) -> tuple[str, ...]:
    """Return a measure and those that are always reported."""
    return tuple(dict.fromkeys((measure, *_ALWAYS)))


def learn_adapter(
    asked: JudgedSearch,
    judged: JudgedPairs,
    lessons: Lessons,
    *,
    measure: str,
    folds: int = 5,
    first: Maps | None = None,
    progress: Progress | None = None,
) -> AdapterTrial:
    """Learn an adapter from judged questions, and measure it on each of them while it was held out.

    Args:
        judged, lessons: of its questions (`judged_pairs`, `lessons_of`).
        measure: as ir_measures names it; decides, and chooses how long to learn.
        folds: parts for cross-validation; questions of one text are in one part.
        first: maps that learning begins with; None: the model alone.
        progress: told of (searches done, all of them, question).

    Raises:
        InvalidRequest: there are too few judged questions to learn from.
        StoreError, EmbedderError: the base could not be searched.
    """
    check_enough(len(judged.ids))
    measures, model_id = measures_with(measure), asked.base.model_id
    seed = lessons.seed(model_id)
    parts = parts_of(judged.pairs.questions, folds)
    seen, unseen = (
        learn_by_folds(lessons, parts, measures=measures, seed=seed, apart=apart, first=first)
        for apart in (False, True)
    )
    search = Searches(asked, judged, 3 * len(judged.ids), progress)
    maps = learn_all(lessons, seen.rounds, seed=seed, first=first) if seen.rounds else first
    return AdapterTrial(
        ids=judged.ids,
        adapter=None if maps is None else DomainAdapter(model_id, *maps),
        measures=measures,
        before=search.scores([Fold(tuple(range(len(judged.ids))), 0, None)], measures),
        after=search.scores(seen.folds, measures),
        unseen=search.scores(unseen.folds, measures),
        folds=seen,
        questions=len(judged.ids),
        pairs=len(lessons.pairs),
        untaught=judged.untaught,
        seed=seed,
    )


def check_enough(count: int) -> None:
    """Refuse to learn from next to nothing.

    Raises:
        InvalidRequest: there are too few judged questions.
    """
    if count < FEWEST_JUDGED:
        raise InvalidRequest(
            f"{count} judged questions of this domain name passages of the embedded base, and of fewer than "
            f"{FEWEST_JUDGED} nothing is learnt: judge more with 'context-engine eval judge'. Where an adapter helped, "
            f"it took about {USUALLY_NEEDED} judged answers"
        )


def parts_of(texts: Sequence[str], count: int) -> list[list[int]]:
    """Return the places of questions in disjoint parts; questions of one text are in one."""
    places: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        places.setdefault(" ".join(text.casefold().split()), []).append(place)
    return [[place for text in part for place in places[text]] for part in folds_of(list(places), count)]


class Searches:
    """Asks the base, and measures what it returns."""

    def __init__(
        self, asked: JudgedSearch, judged: JudgedPairs, total: int = 0, progress: Progress | None = None
    ) -> None:
        self._asked, self._judged = asked, judged
        self._done, self._total, self._progress = 0, total, progress

    def scores(self, folds: Sequence[Fold], measures: Sequence[str]) -> Scores:
        """Return the measures of all questions of some folds, each searched for with the maps of its own."""
        hits: dict[str, list[GoldHit]] = {}
        for fold in folds:
            adapter = None if fold.maps is None else DomainAdapter(self._asked.base.model_id, *fold.maps)
            for place in fold.questions:
                name = self._judged.ids[place]
                hits[name] = self._hits(self._judged.pairs.questions[place], adapter)
                self._done += 1
                if self._progress is not None:
                    self._progress(self._done, self._total, name)
        qrels = {name: self._asked.qrels[name] for name in hits}
        return score_rankings("", hits, qrels, measures, rejected=self._asked.rejected).scores

    def _hits(self, text: str, adapter: DomainAdapter | None) -> list[GoldHit]:
        asked = self._asked
        found = asked.base.best_of(
            text, asked.source_ids, top_k=_DEPTH, access=asked.access, domain=asked.domain, adapter=adapter
        )
        return [
            GoldHit(asked.known.get(chunk.chunk_id) or identity_of("", chunk.chunk_id, chunk), 1.0 / rank)
            for rank, chunk in enumerate(found.chunks, start=1)
        ]
