"""The evaluation of several collections: each by itself, and their mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from context_engine.errors import ConfigError
from context_engine.evaluation.collections import naming
from context_engine.evaluation.compared import Compared
from context_engine.evaluation.evaluate import evaluate, primary_of
from context_engine.evaluation.metrics import read_measures
from context_engine.evaluation.run import Progress
from context_engine.evaluation.session import Session
from context_engine.evaluation.statistics import Paired
from context_engine.evaluation.summary import SCHEMA_VERSION, summary
from context_engine.evaluation.variant import Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The results of several collections, of the same set-up by the same measures.

    Attributes:
        compared: by the collection's name.
        measures: what was measured.
        primary: the measure by which a collection is called better or worse.
    """

    compared: Mapping[str, Compared]
    measures: tuple[str, ...]
    primary: str

    @property
    def has_baseline(self) -> bool:
        """Whether each stands beside a baseline."""
        return all(one.baseline is not None for one in self.compared.values())

    @property
    def title(self) -> str:
        """The set-up, and against what: "as configured against authority_weight=0"."""
        ours = next(iter(self.compared.values())).ours.name
        others = {one.baseline.name for one in self.compared.values() if one.baseline is not None}
        return f"{ours} against {others.pop() if len(others) == 1 else 'their runs'}" if others else ours

    @property
    def questions(self) -> int:
        """How many judged questions there are in all."""
        return sum(len(one.session.qrels) for one in self.compared.values())

    def against(self, name: str, measure: str) -> Paired | None:
        """Return a collection's paired difference to its baseline; None without one."""
        one = self.compared[name]
        return None if one.baseline is None else one.ours.against(one.baseline, measure)

    def mean(self, measure: str, *, baseline: bool = False) -> float:
        """Return the mean of the collections' means: each counts as much, however many questions it has."""
        found = [one.baseline if baseline else one.ours for one in self.compared.values()]
        return sum(one.mean(measure) for one in found if one is not None) / len(found)


def evaluate_each(
    sessions: Mapping[str, Session],
    variant: Variant,
    *,
    baseline: Variant | Path | None = None,
    measures: Sequence[str],
    top_k: int | None = None,
    by: Sequence[str] = (),
    progress: Progress | None = None,
) -> Collected:
    """Return the evaluation of each collection; see `evaluate`.

    Args:
        baseline: another set-up, or a folder of runs.
        progress: told of a question by "collection: id".

    Raises:
        InvalidRequest, ConfigError: as `evaluate`, with the name of the collection.
    """
    names, compared = read_measures(measures), {}
    others = {name: existing_run(baseline, name) if isinstance(baseline, Path) else baseline for name in sessions}
    for name, session in sessions.items():
        with naming(name):
            compared[name] = evaluate(
                session,
                variant,
                baseline=others[name],
                measures=names,
                top_k=top_k,
                by=by,
                progress=_told(progress, name),
            )
    return Collected(compared=compared, measures=names, primary=primary_of(names))


def _told(progress: Progress | None, name: str) -> Progress | None:
    return None if progress is None else lambda done, count, question: progress(done, count, f"{name}: {question}")


def run_file(folder: Path, name: str) -> Path:
    """Return where a collection's run stands in a folder of runs.

    >>> run_file(Path("runs"), "faq").as_posix()
    'runs/faq.run'
    """
    return folder / f"{name}.run"


def existing_run(folder: Path, name: str) -> Path:
    """Return a collection's run in a folder of runs.

    Raises:
        ConfigError: it is not there.
    """
    path = run_file(folder, name)
    if not path.is_file():
        raise ConfigError("is not there: a folder of runs holds NAME.run for each collection", file=str(path))
    return path


def verdict_of(pair: Paired) -> str:
    """Return what a paired difference says: "better", "worse" or "no difference" (beyond noise)."""
    if not pair.beyond_noise:
        return "no difference"
    return "better" if pair.mean > 0 else "worse"


def collected_summary(found: Collected) -> dict[str, Any]:
    """Return all collections as plain values, JSON-ready; each as `summary` returns one, with verdicts beside them."""
    verdicts = {
        name: {measure: verdict_of(pair) for measure in found.measures if (pair := found.against(name, measure))}
        for name in found.compared
    }
    means = {measure: {"mean": found.mean(measure)} for measure in found.measures}
    if found.has_baseline:
        for measure, held in means.items():
            held["baseline"] = found.mean(measure, baseline=True)
            held["difference"] = held["mean"] - held["baseline"]
    return {
        "schema_version": SCHEMA_VERSION,
        "judged": found.questions,
        "primary": found.primary,
        "mean_of_collections": means,
        "verdicts": verdicts if found.has_baseline else None,
        "collections": {name: summary(one) for name, one in found.compared.items()},
    }
