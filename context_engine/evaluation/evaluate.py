"""Evaluate a set-up, with or without a baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from context_engine.core.models import messages
from context_engine.errors import ConfigError, InvalidRequest, nearest
from context_engine.evaluation.account import latency, stages, tier_shares, token_efficiency, troubles_of
from context_engine.evaluation.gold import Identity, gold_of
from context_engine.evaluation.metrics import read_measures
from context_engine.evaluation.qrels import EXACT, read_run
from context_engine.evaluation.run import Progress
from context_engine.evaluation.score import Scored, gold_fates, rankings_of, score_rankings, score_run
from context_engine.evaluation.session import Session
from context_engine.evaluation.variant import Variant


def evaluate(
    session: Session,
    variant: Variant,
    *,
    baseline: Variant | Path | None = None,
    measures: Sequence[str],
    top_k: int | None = None,
    by: Sequence[str] = (),
    progress: Progress | None = None,
) -> Compared:
    """Return a set-up's evaluation.

    Args:
        baseline: another set-up, or a run file.
        measures: names for ir_measures; the first nDCG, else the first measure, orders the questions.
        top_k: number of chunks that a reader gets; None: the domain's stage2_top_k.
        by: labels to group by.

    Raises:
        InvalidRequest, ConfigError: an invalid measure, label, set-up or file.
    """
    names = read_measures(measures)
    groups = grouped(session, by)
    other = _file(session, baseline, names) if isinstance(baseline, Path) else None
    run = session.run(variant, session.depth(variant, names, top_k), authority=True, progress=progress)
    if isinstance(baseline, Variant):
        second = session.run(baseline, session.depth(baseline, names, top_k), progress=progress)
        other = score_run(second, session.qrels, names, session.rejected)
    plain = {answer.question.id: answer.without_authority for answer in run.answers}
    return Compared(
        session=session,
        ours=score_run(run, session.qrels, names, session.rejected),
        baseline=other,
        groups=groups,
        primary=primary_of(names),
        without_authority=score_rankings("without authority", plain, session.qrels, names, rejected=session.rejected),
    )


def compare_files(
    session: Session, ours: Path, theirs: Path, *, measures: Sequence[str], by: Sequence[str] = ()
) -> Compared:
    """Compare two run files without running a search.

    Raises:
        InvalidRequest, ConfigError: an invalid measure, label or file.
    """
    names = read_measures(measures)
    first, second = (_file(session, path, names) for path in (ours, theirs))
    return Compared(
        session=session, ours=first, baseline=second, groups=grouped(session, by), primary=primary_of(names)
    )


def primary_of(measures: Sequence[str]) -> str:
    """Return the measure by which questions are sorted and settings chosen: the first nDCG, else the first."""
    return next((name for name in measures if name.startswith("nDCG")), measures[0])


def _file(session: Session, path: Path, measures: Sequence[str]) -> Scored:
    rankings = read_run(path)
    if not rankings.keys() & session.qrels.keys():
        raise ConfigError(f"ranks none of the judged questions ({next(iter(rankings))} ...)", file=str(path))
    hits = rankings_of(rankings, session.corpus.by_chunk_id())
    return score_rankings(path.name, hits, session.qrels, measures, rejected=session.rejected)


Groups = Mapping[str, Mapping[str, Sequence[str]]]
"""{grouping: {value: question ids}}."""
_MOST_VALUES: Final = 12
_UNKNOWN: Final = "not known"


def grouped(session: Session, by: Sequence[str] = ()) -> Groups:
    """Return the judged questions in groups, for each requested grouping and each with at least two groups.

    Args:
        by: labels to group by, besides tier and domain; empty: every label with 2 to 12 values.

    Raises:
        InvalidRequest: no question has one of the labels.
    """
    judged = [(question, domain) for question, domain in session.questions if question.id in session.qrels]
    tiers = tier_of_gold(session.qrels, session.corpus.identities.values())
    groups: dict[str, dict[str, list[str]]] = {"tier": {}, "domain": {}}
    labels = {label for question, _ in judged for label in question.labels}
    for label in by:
        if label not in labels and label not in groups:
            raise InvalidRequest(f"no question has a field {label!r} to group by.{nearest(label, labels)}")
    chosen = labels.intersection(by) if by else labels
    for question, domain in judged:
        tier = tiers.get(question.id)
        values = {"tier": _UNKNOWN if tier is None else str(tier), "domain": domain}
        values |= {label: question.labels.get(label, _UNKNOWN) for label in sorted(chosen)}
        for name, value in values.items():
            groups.setdefault(name, {}).setdefault(value, []).append(question.id)
    kept = {name: dict(sorted(members.items())) for name, members in groups.items() if len(members) > 1 or name in by}
    return {name: members for name, members in kept.items() if name in by or len(members) <= _MOST_VALUES}


def tier_of_gold(qrels: Mapping[str, Mapping[str, int]], identities: Iterable[Identity]) -> Mapping[str, int]:
    """Return the best known tier among the gold answers of each question."""
    wanted = {gold for answers in qrels.values() for gold in answers}
    hashes = [gold for gold in wanted if gold_of(Identity("", "", frozenset(), gold.removeprefix("sha256:")), (gold,))]
    tiers: dict[str, int] = {}
    for identity in identities:
        if identity.tier is None:
            continue
        for gold in [*(wanted & {*identity.names, EXACT + identity.chunk_id}), *gold_of(identity, hashes)]:
            tiers[gold] = min(tiers.get(gold, identity.tier), identity.tier)
    known = {question: [tiers[gold] for gold in answers if gold in tiers] for question, answers in qrels.items()}
    return {question: min(gold_tiers) for question, gold_tiers in known.items() if gold_tiers}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """An evaluated set-up and its baseline, the content of a report.

    Attributes:
        ours: the set-up under test.
        baseline: the set-up or run it is compared with, or None.
        without_authority: `ours` with the authority boost at 0; None if not run.
        primary: the measure by which questions are sorted.
    """

    session: Session
    ours: Scored
    baseline: Scored | None
    groups: Groups
    primary: str
    without_authority: Scored | None = None

    @property
    def both(self) -> tuple[Scored, ...]:
        """`ours`, and the baseline if any."""
        return (self.ours,) if self.baseline is None else (self.ours, self.baseline)

    @property
    def troubles(self) -> Sequence[str]:
        """Reasons to doubt the numbers: failed components, missing rankings."""
        problems = []
        for scored in self.both:
            if scored.run is not None:
                problems += [
                    f"{scored.name}: {trouble}" for trouble in troubles_of(a.troubles for a in scored.run.answers)
                ]
            lacking = sum(question not in scored.rankings for question in self.session.qrels)
            if scored.run is None and lacking:
                count = len(self.session.qrels)
                problems.append(
                    f"{scored.name} has no ranking for {lacking} of the {count} judged questions, which count 0"
                )
        return problems

    @property
    def degraded(self) -> bool:
        """Whether a source, the embedder or the reranker failed in some search."""
        return any(answer.troubles for scored in self.both if scored.run is not None for answer in scored.run.answers)

    @property
    def texts(self) -> Mapping[str, str]:
        return {question.id: question.text for question, _ in self.session.questions}


SCHEMA_VERSION: Final = "1.0"


def summary(compared: Compared) -> dict[str, Any]:
    """Return the whole evaluation as JSON values; schema version 1.0."""
    ours, baseline, session = compared.ours, compared.baseline, compared.session
    out: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "questions": len(session.questions),
        "judged": len(session.qrels),
        "notes": list(messages(session.notices)),
        **_set_up(ours, compared),
        "baseline": None if baseline is None else _set_up(baseline, compared),
        "difference": None,
        "groups": {
            name: {
                value: {"questions": len(ids), "measures": {name: ours.mean(name, ids) for name in ours.measures}}
                for value, ids in groups.items()
            }
            for name, groups in compared.groups.items()
        },
        "per_question": {name: dict(scores) for name, scores in ours.scores.items()},
    }
    if baseline is not None:
        out["difference"] = {measure: ours.against(baseline, measure)._asdict() for measure in ours.measures}
    return out


def _set_up(scored: Scored, compared: Compared) -> dict[str, Any]:
    out: dict[str, Any] = {
        "name": scored.name,
        "measures": {measure: scored.interval(measure)._asdict() for measure in scored.measures},
    }
    run = scored.run
    if run is None:
        return out
    depth = run.depth
    fates = gold_fates(run, compared.session.qrels)
    plain = compared.without_authority if scored is compared.ours else None
    return out | {
        "top_k": depth.top_k,
        "top_k_by_domain": dict(depth.by_domain) or None,
        "gold_answers": {"total": len(fates), "by_end": dict(Counter(fate.stage for fate in fates))},
        "latency_ms": latency(run)._asdict(),
        "stages": [stage._asdict() for stage in stages(run)],
        "context_tokens": token_efficiency(run, compared.session.corpus)._asdict(),
        "tier_shares": dict(tier_shares(run.read(), depth.top_k)),
        "without_authority": None
        if plain is None
        else {
            "tier_shares": dict(tier_shares(run.read(authority=False), depth.top_k)),
            "measures": {measure: plain.mean(measure) for measure in plain.measures},
        },
        "embedder": None if run.embedder is None else run.embedder.to_dict(),
        "failed_searches": sum(answer.failed for answer in run.answers),
        "troubles": [trouble._asdict() for trouble in troubles_of(answer.troubles for answer in run.answers)],
        "settings": {name: dict(settings) for name, settings in run.settings.items()},
    }
