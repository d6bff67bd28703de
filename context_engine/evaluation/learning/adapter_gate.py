"""Learn an adapter from judged questions, and measure it on questions that it was not trained on.

Each question is searched three times in the store itself: with the model alone; with an adapter trained without every
passage that answers it (new answers, as for a new topic); and with an adapter trained without this question, but
possibly with its answer from others (known answers, as for a reworded question). Report the gain on new answers. A gain
on known answers is real if questions recur, but does not justify a loss on new answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
"""Number of judged answers from which gains were beyond noise, if any (docs/measured/models.md)."""

KEPT: Final = (1.0, 0.65, 0.3)
"""Shares of the learnt way, tried in this order until held-out questions lose nothing: on new answers a part may gain
where the whole loses (docs/measured/models.md)."""

_ALWAYS: Final = ("R@10", "AP@10")
_DEPTH: Final = 40
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSearch:
    """The store to search, and the judgements of its answers.

    Attributes:
        base: the store, opened with the embedder of its vectors.
        domain: the domain of the adapter.
        source_ids: the domain's sources in the store.
        qrels, rejected: gold ids judged relevant, and judged not relevant.
        known: identity of each chunk by its id.
        access: scope of the caller; None: everything.
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
    """A learnt adapter, and its measurements on held-out questions.

    Attributes:
        ids: question ids; folds refer to their places.
        adapter: learnt from all questions; None if zero rounds of learning were best.
        measures: names of the measures; the first decides.
        before: measures of each question with the model alone.
        after: the same with an adapter that never saw its answers, after as many rounds as the final adapter.
        known: the same with an adapter that did not see the question, but may have seen its answers.
        parts: the held-out parts behind `after`.
        folds: the held-out parts behind `known`, ranked by cosine only.
        passages: number of passages in the store, and of those that answer a question.
        questions, pairs: number of questions and pairs learnt from.
        untaught: ids of questions that could not be used.
        seed: seed of the training.
        kept: the share of the learnt way that all its maps went, one of `KEPT`.
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
    kept: float = 1.0
    more: Mapping[str, Any] = field(default_factory=dict)

    def difference(self, measure: str, *, known: bool = False) -> Paired:
        """Return the paired difference to the model alone: on new answers, or with `known` on known answers."""
        ours = self.known if known else self.after
        names = list(self.before)
        return paired_bootstrap([ours[name][measure] for name in names], [self.before[name][measure] for name in names])

    def gains(self, *, known: bool = False) -> bool:
        """Return whether the deciding measure is better beyond noise."""
        change = self.difference(self.measures[0], known=known)
        return change.beyond_noise and change.mean > 0.0

    @property
    def refusal(self) -> str | None:
        """The reason not to put it in force; None if it is better beyond noise and worse nowhere beyond noise."""
        if self.adapter is None:
            return "on held-out questions the model alone is best"
        loss = self.loss
        if loss is None and not (self.gains() or self.gains(known=True)):
            measure = self.measures[0]
            gain = self.difference(measure, known=True)
            return f"on held-out questions it is not better beyond noise: {gain.text(measure)}"
        return loss

    @property
    def loss(self) -> str | None:
        """What it loses beyond noise; None: nothing."""
        for known, kind in ((False, " with new answers"), (True, "")):
            for name in dict.fromkeys((self.measures[0], "R@10")):
                change = self.difference(name, known=known)
                if change.beyond_noise and change.mean < 0.0:
                    return f"on held-out questions{kind} it is worse: {change.text(name)}"
        return None


def measures_with(measure: str) -> tuple[str, ...]:
    """Return a measure followed by those that are always reported."""
    return tuple(dict.fromkeys((measure, *_ALWAYS)))


def learn_adapter(
    asked: JudgedSearch,
    judged: JudgedPairs,
    lessons: Lessons,
    *,
    measure: str,
    folds: int = 5,
    first: Maps | None = None,
    whole: bool = False,
    progress: Progress | None = None,
) -> AdapterTrial:
    """Learn an adapter from judged questions, and measure it on each of them while held out.

    If questions lose beyond noise, smaller shares of the learnt way are measured too, and the largest that is not
    refused is returned; if all are refused, the adapter with the whole way.

    Args:
        judged, lessons: from `judged_pairs` and `lessons_of`.
        measure: a name of ir_measures; it decides, and chooses the number of rounds.
        first: maps to start from; None: the model alone.
        whole: whether no smaller shares are tried.
        progress: receives (searches done, total, question id).

    Raises:
        InvalidRequest: too few judged questions to learn from, or fewer than folds.
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
    before = search.scores([Fold(tuple(range(len(judged.ids))), 0, None)], measures)

    def measured(share: float) -> AdapterTrial:
        ours, theirs = (folds.shortened(share, first, lessons, measures) for folds in (known, new))
        return AdapterTrial(
            ids=judged.ids,
            adapter=None if maps is None else DomainAdapter(model_id, *maps.shortened(share, first)),
            measures=measures,
            before=before,
            after=search.scores(theirs.folds, measures),
            known=search.scores(ours.folds, measures),
            parts=parts,
            folds=ours,
            passages=(len(set(lessons.owners.tolist())), len({row for rows in lessons.chunks for row in rows})),
            questions=len(judged.ids),
            pairs=len(lessons.pairs),
            untaught=judged.untaught,
            seed=seed,
            kept=share,
        )

    return chosen(map(measured, KEPT[:1] if whole else KEPT))


def chosen(trials: Iterator[AdapterTrial]) -> AdapterTrial:
    """Return the first trial; if it loses something, the first that is not refused, if there is one."""
    whole = next(trials)
    if whole.adapter is None or whole.loss is None:
        return whole
    return next((trial for trial in trials if trial.refusal is None), whole)


def check_learnable(judged: JudgedPairs, folds: int) -> None:
    """Refuse too few questions, or more folds than questions, before embedding anything.

    Raises:
        InvalidRequest: too few judged questions, or more folds than questions.
    """
    count = len(judged.ids)
    if count < FEWEST_JUDGED:
        raise InvalidRequest(
            f"{count} judged questions of this domain name passages of the store, and at least {FEWEST_JUDGED} are "
            "needed: judge more with 'context-engine eval judge'. Where an adapter helped, it took about "
            f"{USUALLY_NEEDED} judged answers"
        )
    parts_of(judged.pairs.questions, None, folds)


class Searches:
    """Searches the base and measures the results.

    Args:
        ids: question ids, in the order of the lessons.
        lessons: hold the vectors of the questions, so that none is embedded again.
        total: expected number of searches; more, if more folds are given.
        progress: receives (searches done, total, question id).
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
        """Return the measures of the questions of some folds, each searched with the maps of its fold."""
        hits: dict[str, list[GoldHit]] = {}
        model_id = self._asked.base.vector_model()
        self._total = max(self._total, self._done + sum(len(fold.questions) for fold in folds))
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
        answer = asked.base.search_adapted(
            asked.source_ids, query, vector=self._lessons.examples.questions[place].tolist(), adapter=adapter
        )
        return [
            GoldHit(asked.known.get(chunk.chunk_id) or identity_of("", chunk.chunk_id, chunk), 1.0 / rank)
            for rank, chunk in enumerate(answer.chunks, start=1)
        ]


def evidence(trial: AdapterTrial) -> dict[str, Any]:
    """Return the measurements, JSON-ready.

    `before`, `after` and `interval` are of the deciding measure, in the store's own search on new answers; `search` has
    all measures. `known` is the same on known answers; `dense` is by cosine only, on known answers. `parts` describes
    the division of the questions; its `cut` means that a group of more than half of them had to be divided.
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
        "training": {**DEFAULTS._asdict(), "share": round(trial.kept * DEFAULTS.share, 3)},
        "seed": trial.seed,
        "made_by": __version__,
        **trial.more,
    }


def _pair(before: Scores, after: Scores, measure: str, change: Paired) -> dict[str, Any]:
    return {"before": mean(before, measure), "after": mean(after, measure), **change._asdict()}


def dense_means(folds: Folds, measures: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the mean measures of the ranking by cosine: of the model alone, and of held-out questions."""
    places = [(place, fold.rounds) for fold in folds.folds for place in fold.questions]
    return (
        {name: sum(folds.dense[0][place][name] for place, _ in places) / len(places) for name in measures},
        {name: sum(folds.dense[rounds][place][name] for place, rounds in places) / len(places) for name in measures},
    )
