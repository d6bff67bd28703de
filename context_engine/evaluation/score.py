"""Score a run against the judgements: measures per question, their means, and where each gold answer was lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from context_engine.core.models import Outcome
from context_engine.core.models.chunk import NOTHING
from context_engine.evaluation.gold import GoldHit, Identity, gold_of, ranked_ids
from context_engine.evaluation.metrics import Interval, Paired, Scores, bootstrap, mean, measured, paired_bootstrap
from context_engine.evaluation.qrels import Qrels, Rejected
from context_engine.evaluation.run import QuestionOutcome, Run

RETURNED: Final = "returned"
NOT_FOUND: Final = "recall"
_STAGES: Final = (
    *("filter", "as_of", "expiry", "measure", "dedup", "threshold"),
    *("scope", "relevance", "rerank", "select"),
)
_STAGE_ORDER: Final = {name: place for place, name in enumerate(_STAGES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A run with its measures.

    Attributes:
        run: None if the rankings came from a file.
        rankings: question id to names, best first; a gold answer is named by its gold id.
        places: the same with chunk ids and scores, for a run file.
        scores: measures of each judged question.
    """

    name: str
    measures: tuple[str, ...]
    rankings: Mapping[str, Sequence[str]]
    places: Mapping[str, Sequence[tuple[str, float]]]
    scores: Scores
    run: Run | None = None

    def mean(self, measure: str, questions: Sequence[str] | None = None) -> float:
        """Return the mean of a measure over some questions, or all."""
        return mean(self.scores, measure, questions)

    def interval(self, measure: str) -> Interval:
        """Return the mean of a measure with its 95 % interval."""
        return bootstrap([values[measure] for values in self.scores.values()])

    def against(self, baseline: Scored, measure: str) -> Paired:
        """Return the paired difference from another run with the same judgements."""
        questions = list(self.scores)
        ours, theirs = ([scored.scores[question][measure] for question in questions] for scored in (self, baseline))
        return paired_bootstrap(ours, theirs)


class GoldFate(NamedTuple):
    """The fate of one gold answer.

    Attributes:
        stage: "returned", "recall" (no source gave it) or the stage that dropped it.
        rank, tier: of the chunk that holds it, if returned.
    """

    question: str
    gold: str
    stage: str
    rank: int | None = None
    tier: int | None = None


def score_run(run: Run, qrels: Qrels, measures: Sequence[str], rejected: Rejected = NOTHING) -> Scored:
    """Return the measures of a run; an unanswered question counts 0."""
    hits = {answer.question.id: answer.hits for answer in run.answers}
    read = {answer.question.id: run.depth.read(answer.domain) for answer in run.answers}
    return replace(score_rankings(run.name, hits, qrels, measures, read=read, rejected=rejected), run=run)


def score_rankings(
    name: str,
    hits: Mapping[str, Sequence[GoldHit]],
    qrels: Qrels,
    measures: Sequence[str],
    *,
    read: Mapping[str, int] = NOTHING,
    rejected: Rejected = NOTHING,
) -> Scored:
    """Return the measures of rankings.

    Args:
        read: number of chunks that a reader gets, by question id, for measures of a set (SetF, SetP ...).
    """
    named = {question: ranked_ids(question_hits, qrels.get(question, {})) for question, question_hits in hits.items()}
    rankings = {question: [place for place, _ in places] for question, places in named.items()}
    scores = {question: _scores(question_hits) for question, question_hits in hits.items()}
    places = {
        question: [(chunk_id, scores[question][chunk_id]) for _, chunk_id in named_places]
        for question, named_places in named.items()
    }
    unique = {question: list(dict(places_of).items()) for question, places_of in places.items()}
    return Scored(
        name=name,
        measures=tuple(measures),
        rankings=rankings,
        places=unique,
        scores=_measured(rankings, qrels, measures, read, _as_ranked(rejected, hits)),
    )


def _as_ranked(rejected: Rejected, hits: Mapping[str, Sequence[GoldHit]]) -> Rejected:
    """Return the rejected gold ids, with the id of each chunk that they name."""
    return {
        question: {*names, *(hit.identity.chunk_id for hit in hits.get(question, ()) if gold_of(hit.identity, names))}
        for question, names in rejected.items()
    }


def _measured(
    rankings: Mapping[str, Sequence[str]],
    qrels: Qrels,
    measures: Sequence[str],
    read: Mapping[str, int],
    rejected: Rejected,
) -> Scores:
    scores = measured(rankings, qrels, measures, rejected)
    of_sets = [measure for measure in measures if measure.startswith("Set")]
    if not of_sets or not read:
        return scores
    over = measured({name: ranking[: read.get(name)] for name, ranking in rankings.items()}, qrels, of_sets)
    return {name: {**values, **over[name]} for name, values in scores.items()}


def _scores(hits: Iterable[GoldHit]) -> dict[str, float]:
    """Return the score of each chunk id; a merged copy has the score of its survivor."""
    out: dict[str, float] = {}
    for hit in hits:
        for identity in (hit.identity, *hit.copies):
            out.setdefault(identity.chunk_id, hit.score)
    return out


def rankings_of(
    file: Mapping[str, Sequence[tuple[str, float]]], known: Mapping[str, Identity]
) -> dict[str, tuple[GoldHit, ...]]:
    """Return the rankings of a run file, each chunk with all its known names."""

    def hit(name: str, score: float) -> GoldHit:
        return GoldHit(known.get(name) or Identity("", name, frozenset({name})), score)

    return {question: tuple(hit(*place) for place in places) for question, places in file.items()}


def gold_fates(run: Run, qrels: Qrels) -> list[GoldFate]:
    """Return the fate of each gold answer among the first `top_k`; a merged copy shares the fate of its survivor."""
    return [
        fate
        for answer in run.answers
        for fate in _fates(answer, qrels.get(answer.question.id, {}), run.depth.read(answer.domain))
    ]


def _fates(answer: QuestionOutcome, gold: Mapping[str, int], top_k: int) -> list[GoldFate]:
    ranks: dict[str, tuple[int, int | None]] = {}
    for rank, hit in enumerate(answer.hits[:top_k], start=1):
        for identity in (hit.identity, *hit.copies):
            for name in gold_of(identity, gold):
                ranks.setdefault(name, (rank, identity.tier))
    dropped = {name: _furthest(answer, name) for name in gold if name not in ranks}
    return [
        GoldFate(answer.question.id, name, RETURNED, *ranks[name])
        if name in ranks
        else GoldFate(answer.question.id, name, dropped[name])
        for name in gold
    ]


def _furthest(answer: QuestionOutcome, gold: str) -> str:
    """Return the furthest stage that a candidate of a gold answer reached."""
    fates = {(fate.source_id, fate.chunk_id): fate for fate in answer.fates}
    stages = []
    for key, identity in answer.pool.items():
        fate = fates.get(key)
        if fate is None or not gold_of(identity, (gold,)):
            continue
        if fate.outcome is Outcome.MERGED and fate.into is not None:
            fate = fates.get(fate.into, fate)
        stages.append("select" if fate.outcome is Outcome.RETURNED else fate.stage)
    return max(stages, key=lambda stage: _STAGE_ORDER.get(stage, 0), default=NOT_FOUND)
