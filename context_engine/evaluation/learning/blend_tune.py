"""A domain's blend, learnt from judged questions, and believed only on those that it was not learnt on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from context_engine.core.engine import recorded_pool
from context_engine.core.models import Key, LearntBlend, Notice, Outcome, SearchResult
from context_engine.core.ranking.learnt_blend import BlendPool, features
from context_engine.errors import InvalidRequest
from context_engine.evaluation.account import Trouble, troubles_of
from context_engine.evaluation.gold import GoldHit, Identity, gold_of
from context_engine.evaluation.learning.pairwise import JudgedPool, learnt_terms
from context_engine.evaluation.metrics import Scores
from context_engine.evaluation.run import (
    SILENT,
    Depth,
    Progress,
    ask,
    hits_of,
    identities_in,
    troubles_in,
    with_settings,
)
from context_engine.evaluation.score import score_rankings
from context_engine.evaluation.session import Session
from context_engine.evaluation.statistics import Paired, paired_bootstrap
from context_engine.evaluation.tune import folds_of
from context_engine.evaluation.variant import Variant, open_with_models
from context_engine.settings import Setting

__all__ = ["FEWEST_TAUGHT", "BlendTrial", "learn_blend"]

FEWEST_TAUGHT: Final = 50
"""Of fewer questions nothing is learnt: there are a dozen weights."""

_ALWAYS: Final = ("nDCG@10", "R@10", "AP@10")
_WITHOUT: Final = {"learnt_blend": None}


class _Scorers(NamedTuple):
    """Who scored the candidates of a question; a blend is of one such set."""

    measured_by: str
    cosine: str | None
    reranker: str | None


class _Asked(NamedTuple):
    """A question's answer without a blend, and what it teaches; None where nothing may be learnt of it."""

    result: SearchResult
    scorers: _Scorers
    pool: JudgedPool


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendTrial:
    """What was learnt, and what it does to questions that it was not learnt on.

    Attributes:
        domain: whose questions they are.
        blend: learnt on all of them, with its evidence.
        measures: the one that decides first.
        before, after: of each judged question without a blend, and with the one that was learnt on other questions.
        taught: questions that the blend was learnt on: some candidates of theirs answer, and some do not.
        troubles: who did not do its part while the questions were asked.
    """

    domain: str
    blend: LearntBlend
    measures: tuple[str, ...]
    before: Scores
    after: Scores
    taught: int
    folds: int
    troubles: tuple[Trouble, ...] = ()

    def difference(self, measure: str) -> Paired:
        """Return what the blend changes on questions it was not learnt on, paired."""
        ours, theirs = ([scores[name][measure] for name in self.before] for scores in (self.after, self.before))
        return paired_bootstrap(ours, theirs)

    @property
    def refusal(self) -> str | None:
        """Why it is not to be used; None where it is better beyond noise and recall is not worse beyond noise."""
        measure = self.measures[0]
        gain, recall = self.difference(measure), self.difference("R@10")
        if not (gain.beyond_noise and gain.mean > 0.0):
            return f"on questions it was not learnt on it is not better beyond noise ({_told(measure, gain)})"
        if recall.beyond_noise and recall.mean < 0.0:
            return f"on questions it was not learnt on it finds less ({_told('R@10', recall)})"
        return f"{self.troubles[0]}" if self.troubles else None


def _told(measure: str, one: Paired) -> str:
    return f"{measure} {one.mean:+.4f}, 95 % {one.low:+.4f} to {one.high:+.4f}"


def learn_blend(
    session: Session,
    *,
    measure: str,
    folds: int = 5,
    top_k: int | None = None,
    progress: Progress | None = None,
) -> BlendTrial:
    """Learn a blend from a session's judged questions, and measure it on each of them while it was held out.

    Every question is searched for once, as the domain is configured but without a blend; what a blend makes of it is
    computed again from the answers.

    Args:
        session: of one domain.
        measure: as ir_measures names it; decides.
        folds: parts for cross-validation.
        top_k: chunks a reader is given; None takes the domain's stage2_top_k.
        progress: told of (questions done, all of them, question).

    Raises:
        InvalidRequest: questions of several domains, or too few that teach anything.
        MissingExtra: numpy is not installed.
    """
    domain = _one_domain(session)
    measures = tuple(dict.fromkeys((measure, *_ALWAYS)))
    depth = session.depth(Variant(), measures, top_k)
    parts = folds_of(sorted(session.qrels), folds)
    troubles: list[Sequence[Notice]] = []
    found = _asked(session, depth, troubles, progress)
    scorers = _most_common(found)
    taught = {name: one.pool for name, one in found.items() if one.scorers == scorers and one.pool.teaches}
    if len(taught) < FEWEST_TAUGHT:
        raise InvalidRequest(
            f"{len(taught)} judged questions of {domain} have candidates that answer and others that do not, and of "
            f"fewer than {FEWEST_TAUGHT} no blend is learnt: judge more with 'context-engine eval judge'"
        )
    score = partial(_scores, session, depth, measures)
    before = score({name: hits_of(one.result, depth) for name, one in found.items()})
    after = score(_held_out(found, taught, scorers, parts, depth))
    trial = BlendTrial(
        domain=domain,
        blend=_learnt(taught.values(), scorers),
        measures=measures,
        before=before,
        after=after,
        taught=len(taught),
        folds=folds,
        troubles=tuple(troubles_of(troubles)),
    )
    return _with_evidence(trial)


def _one_domain(session: Session) -> str:
    names = sorted({domain for question, domain in session.questions if question.id in session.qrels})
    if len(names) != 1:
        raise InvalidRequest(
            f"a blend is learnt for one domain, and there are judged ones of {', '.join(names)}: give a file for each"
        )
    return names[0]


def _asked(
    session: Session, depth: Depth, troubles: list[Sequence[Notice]], progress: Progress | None
) -> dict[str, _Asked]:
    """Return what came of each judged question, by its id, in the order of the ids; and add to the troubles."""
    judged = [(question, domain) for question, domain in session.questions if question.id in session.qrels]
    found: dict[str, _Asked] = {}
    opened, _ = open_with_models(session.setup, Variant(), session.data_dir)
    with opened as engine:
        for done, (question, domain) in enumerate(judged, start=1):
            result, _ = ask(
                engine,
                question,
                domain,
                depth=depth,
                as_of=session.as_of,
                principal=session.principal,
                overrides=_WITHOUT,
            )
            troubles.append(SILENT if result is None else tuple(troubles_in(result)))
            if result is not None:
                found[question.id] = _what_it_teaches(result, session.qrels[question.id])
            if progress is not None:
                progress(done, len(judged), question.id)
    return dict(sorted(found.items()))


def _what_it_teaches(result: SearchResult, gold: Mapping[str, int]) -> _Asked:
    pool = recorded_pool(result)
    answers = _answering(result, identities_in(result), gold)
    return _Asked(result, _scorers_of(pool), JudgedPool(features(pool), [key in answers for key in pool.keys]))


def _answering(result: SearchResult, identities: Mapping[Key, Identity], gold: Mapping[str, int]) -> set[Key]:
    """Return the candidates that are gold, or that a gold one was merged into."""
    found = {key for key, identity in identities.items() if gold_of(identity, gold)}
    for fate in result.fates:
        if fate.outcome is Outcome.MERGED and fate.into is not None and (fate.source_id, fate.chunk_id) in found:
            found.add(fate.into)
    return found


def _scorers_of(pool: BlendPool) -> _Scorers:
    """Return who scored every candidate of a pool; a score that some lack is none."""
    cosines = pool.cosine_scorers
    cosine = next(iter(cosines)) if len(cosines) == 1 else None
    ran = bool(pool.keys) and None not in pool.reranked
    return _Scorers(pool.measured_by, cosine, pool.reranker if ran else None)


def _most_common(found: Mapping[str, _Asked]) -> _Scorers:
    counts = Counter(one.scorers for one in found.values() if one.pool.teaches)
    return max(counts, key=lambda one: (counts[one], repr(one)), default=_Scorers("", None, None))


def _learnt(pools: Iterable[JudgedPool], scorers: _Scorers) -> LearntBlend:
    """Return the blend of some pools, without evidence."""
    names = {"cosine": scorers.cosine, "reranker": scorers.reranker}
    without = {part for name, scorer in names.items() if scorer is None for part in (name, f"{name}_rank")}
    known = [
        one._replace(columns={name: values for name, values in one.columns.items() if name not in without})
        for one in pools
    ]
    terms = learnt_terms(known)
    return LearntBlend(
        measured_by=scorers.measured_by,
        cosine=scorers.cosine if "cosine" in terms else None,
        reranker=scorers.reranker if "reranker" in terms else None,
        terms=terms,
    )


def _held_out(
    found: Mapping[str, _Asked],
    taught: Mapping[str, JudgedPool],
    scorers: _Scorers,
    parts: Sequence[Sequence[str]],
    depth: Depth,
) -> dict[str, Sequence[GoldHit]]:
    """Return the rankings of all questions, each by the blend that was learnt without its part."""
    hits: dict[str, Sequence[GoldHit]] = {}
    for part in parts:
        others = [pool for name, pool in taught.items() if name not in set(part)]
        layer = {"learnt_blend": Setting(_learnt(others, scorers), "evaluation")}
        hits |= {name: hits_of(with_settings(found[name].result, layer), depth) for name in part if name in found}
    return hits


def _scores(session: Session, depth: Depth, measures: Sequence[str], hits: Mapping[str, Sequence[GoldHit]]) -> Scores:
    read = {question.id: depth.read(domain) for question, domain in session.questions}
    return score_rankings("", hits, session.qrels, measures, read=read, rejected=session.rejected).scores


def _with_evidence(trial: BlendTrial) -> BlendTrial:
    told = {}
    for measure in trial.measures:
        gain = trial.difference(measure)
        means = (sum(one[measure] for one in scores.values()) / len(scores) for scores in (trial.before, trial.after))
        told[measure] = {
            **dict(zip(("before", "after"), (round(value, 4) for value in means))),
            "difference": [round(value, 4) for value in (gain.mean, gain.low, gain.high)],
        }
    evidence = {
        "questions": len(trial.before),
        "learnt_on": trial.taught,
        "folds": trial.folds,
        "decided_by": trial.measures[0],
        "better_beyond_noise": trial.refusal is None,
        "held_out": told,
    }
    return replace(trial, blend=trial.blend.model_copy(update={"evidence": evidence}))
