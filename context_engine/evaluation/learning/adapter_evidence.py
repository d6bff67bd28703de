"""What was measured of an adapter, as plain values: kept beside it, and written for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from context_engine import __version__
from context_engine.evaluation.learning.adapter_gate import AdapterTrial
from context_engine.evaluation.learning.contrast import DEFAULTS
from context_engine.evaluation.learning.folds import Folds
from context_engine.evaluation.metrics import Scores, mean
from context_engine.evaluation.statistics import Paired


def evidence(trial: AdapterTrial) -> dict[str, Any]:
    """Return what was measured, JSON-ready.

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
