"""An adapter is learnt from judged questions, and believed only on questions that it was not trained on.

Each question is searched for in the base itself: with the model alone; with an adapter that was never shown a passage
that answers it, as if it asked for something new; and with one that was trained without this question, but may know its
answer from others, as if somebody asked again in other words. The first gain is the one to tell. The second is real
where people do ask again, and no reason to lose what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from context_engine import __version__
from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.core.models import AccessScope, SourceQuery
from context_engine.errors import InvalidRequest
from context_engine.evaluation.gold import GoldHit, Identity, identity_of
from context_engine.evaluation.learning.folds import Fold, Folds, learn_all, learn_by_folds
from context_engine.evaluation.learning.judged_pairs import JudgedPairs
from context_engine.evaluation.metrics import Paired, Scores, mean, paired_bootstrap
from context_engine.evaluation.qrels import Qrels, Rejected
from context_engine.evaluation.score import score_rankings
from context_engine.learning.contrast import DEFAULTS, Lessons
from context_engine.learning.parts import QuestionParts, parts_of

if TYPE_CHECKING:
    from context_engine.core.protocols import Trainable
    from context_engine.learning.contrast import Maps


FEWEST_JUDGED: Final = 50
"""Fewest judged questions to learn from."""

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

    base: Trainable
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
        adapter: learnt from all; None if learning nothing was best.
        measures: the one that decides first.
        before: of each question searched for with the model alone.
        after: while all that answers it was held out, after as many rounds as the adapter.
        known: while it was held out, and others that share its answer were not.
        parts: of the questions, as `after` held them out.
        folds: of the questions, as `known` held them out, ranked by cosine alone.
        passages: how many the base holds, and how many of them answer a question.
        questions, pairs: how many were learnt from.
        untaught: ids of the questions that taught nothing.
        seed: of the training.
    """

    ids: Sequence[str]
    adapter: DomainAdapter | None
    measures: tuple[str, ...]
    before: Scores
    after: Scores
    known: Scores
    parts: QuestionParts
    folds: Folds
    passages: tuple[int, int]
    questions: int
    pairs: int
    untaught: Sequence[str]
    seed: int
    more: Mapping[str, Any] = field(default_factory=dict)

    def difference(self, measure: str, *, known: bool = False) -> Paired:
        """Return what the adapter changes, paired; `known`: where others showed it what answers a question."""
        ours = self.known if known else self.after
        names = list(self.before)
        return paired_bootstrap([ours[name][measure] for name in names], [self.before[name][measure] for name in names])

    def gains(self, *, known: bool = False) -> bool:
        """Return whether the measure that decides is better beyond noise."""
        change = self.difference(self.measures[0], known=known)
        return change.beyond_noise and change.mean > 0.0

    @property
    def refusal(self) -> str | None:
        """Why it is not to be put in force; None if it is better beyond noise and loses nothing beyond noise."""
        if self.adapter is None:
            return "on questions held out the model alone is best"
        measure = self.measures[0]
        for known, what in ((False, "that ask for what it was never shown"), (True, "held out")):
            for name in dict.fromkeys((measure, "R@10")):
                loss = self.difference(name, known=known)
                if loss.beyond_noise and loss.mean < 0.0:
                    return f"on questions {what} it is worse: {_told(name, loss)}"
        if not (self.gains() or self.gains(known=True)):
            gain = self.difference(measure, known=True)
            return f"on questions held out it is not better beyond noise: {_told(measure, gain)}"
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
        folds: parts for cross-validation.
        first: maps that learning begins with; None: the model alone.
        progress: told of (searches done, all of them, question).

    Raises:
        InvalidRequest: there are too few judged questions to learn from, or to part into so many folds.
        StoreError, EmbedderError: the base could not be searched.
    """
    check_learnable(judged, folds)
    measures, model_id = measures_with(measure), asked.base.vector_model()
    seed = lessons.seed(model_id)
    learn = partial(learn_by_folds, lessons, measures=measures, seed=seed, first=first)
    known = learn(parts_of(lessons.texts, None, folds).places)
    parts = parts_of(lessons.texts, lessons.answers, folds)
    new = learn(parts.places, rounds=known.rounds, apart=True)
    search = Searches(asked, judged.ids, lessons, 3 * len(judged.ids), progress)
    maps = learn_all(lessons, known.rounds, seed=seed, first=first) if known.rounds else first
    return AdapterTrial(
        ids=judged.ids,
        adapter=None if maps is None else DomainAdapter(model_id, *maps),
        measures=measures,
        before=search.scores([Fold(tuple(range(len(judged.ids))), 0, None)], measures),
        after=search.scores(new.folds, measures),
        known=search.scores(known.folds, measures),
        parts=parts,
        folds=known,
        passages=(len(set(lessons.owners.tolist())), len({row for rows in lessons.chunks for row in rows})),
        questions=len(judged.ids),
        pairs=len(lessons.pairs),
        untaught=judged.untaught,
        seed=seed,
    )


def check_learnable(judged: JudgedPairs, folds: int) -> None:
    """Refuse too few questions, or more folds than questions, before anything is embedded.

    Raises:
        InvalidRequest: there are too few judged questions.
    """
    count = len(judged.ids)
    if count < FEWEST_JUDGED:
        raise InvalidRequest(
            f"{count} judged questions of this domain name passages of the embedded base, and of fewer than "
            f"{FEWEST_JUDGED} nothing is learnt: judge more with 'context-engine eval judge'. Where an adapter helped, "
            f"it took about {USUALLY_NEEDED} judged answers"
        )
    parts_of(judged.pairs.questions, None, folds)


class Searches:
    """Searches the base and measures the results.

    Args:
        asked: what is searched.
        ids: of the questions, by their places among the lessons.
        lessons: whose vectors of the questions the searches have: none is embedded again.
        total, progress: how many searches there will be; told of (searches done, all of them, question).
    """

    def __init__(
        self,
        asked: JudgedSearch,
        ids: Sequence[str],
        lessons: Lessons,
        total: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self._asked, self._ids, self._lessons = asked, ids, lessons
        self._done, self._total, self._progress = 0, total, progress

    def scores(self, folds: Sequence[Fold], measures: Sequence[str]) -> Scores:
        """Return the measures of all questions of some folds, each searched for with the maps of its own."""
        hits: dict[str, list[GoldHit]] = {}
        model_id = self._asked.base.vector_model()
        for fold in folds:
            adapter = None if fold.maps is None else DomainAdapter(model_id, *fold.maps)
            for place in fold.questions:
                name = self._ids[place]
                hits[name] = self._hits(place, adapter)
                self._done += 1
                if self._progress is not None:
                    self._progress(self._done, self._total, name)
        qrels = {name: self._asked.qrels[name] for name in hits}
        return score_rankings("", hits, qrels, measures, rejected=self._asked.rejected).scores

    def _hits(self, place: int, adapter: DomainAdapter | None) -> list[GoldHit]:
        asked = self._asked
        query = SourceQuery(text=self._lessons.texts[place], domain=asked.domain, top_k=_DEPTH, access=asked.access)
        found = asked.base.search_adapted(
            asked.source_ids,
            query,
            vector=self._lessons.examples.questions[place].tolist(),
            adapter=adapter,
        )
        return [
            GoldHit(asked.known.get(chunk.chunk_id) or identity_of("", chunk.chunk_id, chunk), 1.0 / rank)
            for rank, chunk in enumerate(found.chunks, start=1)
        ]


def evidence(trial: AdapterTrial) -> dict[str, Any]:
    """Return the measurements, JSON-ready.

    `before`, `after` and `interval` are of the measure that decides, in the base's own search, for answers that the
    adapter was never shown, as is `search`. `known` is for answers that other questions showed it; so is `dense`, of
    the cosines alone. `parts` says how the questions were parted: `cut`, that a group of more than half of them was.
    """
    measure, gain = trial.measures[0], trial.difference(trial.measures[0])
    before, after = dense_means(trial.folds, trial.measures)
    return {
        "measure": measure,
        "before": mean(trial.before, measure),
        "after": mean(trial.after, measure),
        "interval": [gain.low, gain.high],
        "questions": trial.questions,
        "pairs": trial.pairs,
        "untaught": len(trial.untaught),
        "refusal": trial.refusal,
        "search": {name: _pair(trial.before, trial.after, name, trial.difference(name)) for name in trial.measures},
        "known": {
            name: _pair(trial.before, trial.known, name, trial.difference(name, known=True)) for name in trial.measures
        },
        "dense": {name: {"before": before[name], "after": after[name]} for name in trial.measures},
        "parts": trial.parts.evidence(),
        "passages": dict(zip(("held", "judged"), trial.passages, strict=True)),
        "folds": [{"questions": len(fold.questions), "rounds": fold.rounds} for fold in trial.folds.folds],
        "rounds": trial.folds.rounds,
        "training": DEFAULTS._asdict(),
        "seed": trial.seed,
        "made_by": __version__,
        **trial.more,
    }


def _pair(before: Scores, after: Scores, measure: str, change: Paired) -> dict[str, Any]:
    return {"before": mean(before, measure), "after": mean(after, measure), **change._asdict()}


def dense_means(folds: Folds, measures: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the means of the ranking by cosine: by the model alone, and while held out."""
    places = [(place, fold.rounds) for fold in folds.folds for place in fold.questions]
    return (
        {name: sum(folds.dense[0][place][name] for place, _ in places) / len(places) for name in measures},
        {name: sum(folds.dense[rounds][place][name] for place, rounds in places) / len(places) for name in measures},
    )
