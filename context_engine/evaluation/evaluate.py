"""Evaluate a set-up, alone or against a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from context_engine.errors import ConfigError
from context_engine.evaluation.compared import Compared
from context_engine.evaluation.groups import grouped
from context_engine.evaluation.metrics import read_measures
from context_engine.evaluation.run import Progress
from context_engine.evaluation.score import Scored, rankings_of, score_rankings, score_run
from context_engine.evaluation.session import Session
from context_engine.evaluation.trec import read_run
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
        measures: names that ir_measures reads; the first nDCG, else the first of all, orders the questions.
        top_k: chunks a reader is given; None takes the domain's stage2_top_k.
        by: labels to group by.

    Raises:
        InvalidRequest, ConfigError: a measure, a label, a set-up or a file that cannot be used.
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
    """Return the comparison of two run files; nothing is asked.

    Raises:
        InvalidRequest, ConfigError: a measure, a label or a file that cannot be used.
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
