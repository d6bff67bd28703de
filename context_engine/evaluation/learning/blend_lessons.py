"""The training data of a blend: candidates of each judged question, their features, and which of them answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.core.engine import Engine, recorded_pool, reranker_id
from context_engine.core.models import (
    BLEND_FEATURES,
    LEAST_DEVIATION,
    BlendFeature,
    BlendTerm,
    Key,
    LearntBlend,
    Outcome,
    SearchResult,
)
from context_engine.core.ranking.learnt_blend import BlendPool, features
from context_engine.errors import MissingExtra
from context_engine.evaluation.account import Trouble, troubles_of
from context_engine.evaluation.gold import Identity, gold_of
from context_engine.evaluation.run import SILENT, Depth, Progress, ask, identities_in, troubles_in
from context_engine.evaluation.session import Session

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter


PULL: Final = 0.1
"""Weight of the L2 penalty if each question counts 1; with many questions, 0.01 to 1 gives the same result."""

_STEPS: Final = 50
_SMALL: Final = 1e-9
_STEEPEST: Final = 30.0


class JudgedPool(NamedTuple):
    """The candidates of one question.

    Attributes:
        columns: feature to values, one per candidate.
        relevant: whether each candidate was judged to answer.
    """

    columns: Mapping[BlendFeature, Sequence[float]]
    relevant: Sequence[bool]

    @property
    def teaches(self) -> bool:
        """Whether some candidates answer and others do not."""
        return any(self.relevant) and not all(self.relevant)


def learnt_terms(pools: Sequence[JudgedPool], *, pull: float = PULL) -> dict[BlendFeature, BlendTerm]:
    """Return the terms of the features that every pool has, in the order of BLEND_FEATURES.

    Over standardised features, the weights maximise the sum over questions of the mean over pairs of
    ln logistic(w * (x_relevant - x_other)), minus pull / 2 * |w|^2. The function is strictly concave, so Newton's
    method finds its only maximum. A feature with the same value everywhere has no term.

    Args:
        pools: one per question; those that teach nothing are skipped.
        pull: L2 penalty, > 0.

    Raises:
        MissingExtra: numpy is not installed.
        ValueError: no pool teaches anything.
    """
    try:
        import numpy as np
    except ImportError as error:
        raise MissingExtra("learning a blend", "vectors") from error
    taught = [pool for pool in pools if pool.teaches]
    if not taught:
        raise ValueError("no pool has both a relevant candidate and another")
    names = [name for name in BLEND_FEATURES if all(name in pool.columns for pool in taught)]
    tables = [np.array([pool.columns[name] for name in names]).T for pool in taught]
    everything = np.vstack(tables)
    mean, deviation = everything.mean(axis=0), everything.std(axis=0)
    kept = deviation >= LEAST_DEVIATION
    scaled = [table[:, kept] / deviation[kept] for table in tables]
    weights = _maximum(np, *_pairs(np, scaled, taught), pull)
    rows = zip(np.flatnonzero(kept).tolist(), weights.tolist())
    return {
        names[place]: BlendTerm(weight=weight, mean=float(mean[place]), deviation=float(deviation[place]))
        for place, weight in rows
    }


def _pairs(np: Any, tables: Sequence[Any], pools: Sequence[JudgedPool]) -> tuple[Any, Any]:
    """Return the differences relevant - other of all pairs, and their weights, which sum to 1 per question."""
    differences, counts = [], []
    for table, pool in zip(tables, pools, strict=True):
        relevant = np.array(pool.relevant, bool)
        rows = (table[relevant][:, None] - table[~relevant][None]).reshape(-1, table.shape[1])
        differences.append(rows)
        counts.append(np.full(len(rows), 1.0 / len(rows)))
    return np.vstack(differences), np.concatenate(counts)


def _maximum(np: Any, differences: Any, counts: Any, pull: float) -> Any:
    """Return the weights that maximise likelihood minus penalty; a Newton step is halved until it helps."""
    weights = np.zeros(differences.shape[1])
    likelihood = _value(np, differences, counts, weights, pull)
    for _ in range(_STEPS):
        likely = 1.0 / (1.0 + np.exp(-np.clip(differences @ weights, -_STEEPEST, _STEEPEST)))
        slope = differences.T @ (counts * (1.0 - likely)) - pull * weights
        bent = (differences * (counts * likely * (1.0 - likely))[:, None]).T @ differences
        step = np.linalg.solve(bent + pull * np.eye(len(weights)), slope)
        while (value := _value(np, differences, counts, weights + step, pull)) < likelihood and np.abs(
            step
        ).max() > _SMALL:
            step = step / 2.0
        weights, likelihood = weights + step, value
        if np.abs(step).max() < _SMALL:
            break
    return weights


def _value(np: Any, differences: Any, counts: Any, weights: Any, pull: float) -> float:
    likelihood = -(counts * np.logaddexp(0.0, -(differences @ weights))).sum()
    return float(likelihood - pull / 2.0 * (weights @ weights))


class Scorers(NamedTuple):
    """The scorers of a question's candidates; None: no scorer scored all of them. A blend is valid for one such set."""

    measured_by: str
    cosine: str | None
    reranker: str | None


class BlendLesson(NamedTuple):
    """A question's answer, ranked without a blend, and its candidates.

    Attributes:
        scorers: the scorers that a blend learnt from this lesson is valid for.
        answers: the candidates that answer.
        own: the scorers that were really used, if `scorers` names others that they represent.
    """

    result: SearchResult
    scorers: Scorers
    pool: JudgedPool
    answers: frozenset[Key]
    own: Scorers | None = None

    def standing_for(self, adapter: DomainAdapter, *, reranked: bool) -> BlendLesson:
        """Return the lesson as if searched under another adapter; `reranked`: whether the reranker uses it too."""
        measured_by, cosine, reranker = self.scorers
        if reranker is not None and reranked:
            reranker = reranker_id(self.result.settings.values, adapter.adapter_id)
        stands_for = Scorers(measured_by, None if cosine is None else adapter.scorer_id, reranker)
        return self._replace(scorers=stands_for, own=self.scorers)


class BlendLessons(NamedTuple):
    """Judged questions, searched for once.

    Attributes:
        domain: the domain of the questions.
        of: lessons by question id, sorted by id; questions that no source answered are omitted.
        scorers: the most frequent scorers among the questions that teach something.
        troubles: sources and models that failed during the questions.
    """

    domain: str
    of: Mapping[str, BlendLesson]
    scorers: Scorers
    troubles: tuple[Trouble, ...] = ()

    @classmethod
    def of_all(cls, domain: str, lessons: Mapping[str, BlendLesson], troubles: tuple[Trouble, ...]) -> BlendLessons:
        """Return the lessons sorted by question id."""
        return cls(domain, dict(sorted(lessons.items())), _most_common(lessons), troubles)

    @property
    def taught(self) -> tuple[str, ...]:
        """The questions to learn from: some candidates answer, others do not, and `scorers` scored them all."""
        return tuple(name for name, lesson in self.of.items() if lesson.scorers == self.scorers and lesson.pool.teaches)

    def learn(self, questions: Collection[str]) -> LearntBlend:
        """Return a blend learnt from some of the taught questions, without evidence.

        Raises:
            MissingExtra: numpy is not installed.
        """
        names = {"cosine": self.scorers.cosine, "reranker": self.scorers.reranker}
        without = {part for name, scorer in names.items() if scorer is None for part in (name, f"{name}_rank")}
        pools = (self.of[name].pool for name in sorted(questions))
        terms = learnt_terms(
            [
                pool._replace(columns={name: values for name, values in pool.columns.items() if name not in without})
                for pool in pools
            ]
        )
        return LearntBlend(
            measured_by=self.scorers.measured_by,
            cosine=self.scorers.cosine if terms.keys() & {"cosine", "cosine_rank"} else None,
            reranker=self.scorers.reranker if terms.keys() & {"reranker", "reranker_rank"} else None,
            terms=terms,
        )


def blend_lessons(
    session: Session, engine: Engine, domain: str, depth: Depth, progress: Progress | None = None
) -> BlendLessons:
    """Search for each judged question of a domain as configured, but without a blend."""
    judged = [question for question, name in session.questions if name == domain and question.id in session.qrels]
    troubles, lessons = [], {}
    for done, question in enumerate(judged, start=1):
        result, _ = ask(
            engine,
            question,
            domain,
            depth=depth,
            as_of=session.as_of,
            principal=session.principal,
            overrides={"learnt_blend": None},
        )
        troubles.append(SILENT if result is None else tuple(troubles_in(result)))
        if result is not None:
            lessons[question.id] = _lesson(result, session.qrels[question.id])
        if progress is not None:
            progress(done, len(judged), question.id)
    return BlendLessons.of_all(domain, lessons, tuple(troubles_of(troubles)))


def _lesson(result: SearchResult, gold: Mapping[str, int]) -> BlendLesson:
    pool = recorded_pool(result)
    answers = _answering(result, identities_in(result), gold)
    judged = JudgedPool(features(pool), [key in answers for key in pool.keys])
    return BlendLesson(result, _scorers_of(pool), judged, answers)


def _answering(result: SearchResult, identities: Mapping[Key, Identity], gold: Mapping[str, int]) -> frozenset[Key]:
    """Return the candidates that are gold, or into which a gold one was merged."""
    answering = {key for key, identity in identities.items() if gold_of(identity, gold)}
    for fate in result.fates:
        if fate.outcome is Outcome.MERGED and fate.into is not None and (fate.source_id, fate.chunk_id) in answering:
            answering.add(fate.into)
    return frozenset(answering)


def _scorers_of(pool: BlendPool) -> Scorers:
    cosines = pool.cosine_scorers
    cosine = next(iter(cosines)) if len(cosines) == 1 else None
    reranked = bool(pool.keys) and None not in pool.reranked
    return Scorers(pool.measured_by, cosine, pool.reranker if reranked else None)


def _most_common(lessons: Mapping[str, BlendLesson]) -> Scorers:
    counts = Counter(lesson.scorers for lesson in lessons.values() if lesson.pool.teaches)
    return max(counts, key=lambda scorers: (counts[scorers], repr(scorers)), default=Scorers("", None, None))
