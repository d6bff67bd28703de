"""What a search for settings found: as a report, as evidence, as a configuration file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from context_engine.core.models import GROUPS
from context_engine.errors import ConfigError
from context_engine.evaluation import charts
from context_engine.evaluation.blocks import Figure, ReportDocument, ReportSection, Table, Text, Tile, shown, signed
from context_engine.evaluation.statistics import bootstrap
from context_engine.evaluation.tune import Tuned
from context_engine.settings import config_layer
from context_engine.settings.interpolate import Unparsed

_SHOWN: Final = 15
_MOST_ROWS: Final = 100


def _means(found: Tuned) -> list[float]:
    return [sum(one.values()) / len(one) for one in found.values]


def tuned_report(found: Tuned, *, title: str) -> ReportDocument:
    """Return the search as a report."""
    means, difference, measure = _means(found), found.difference, found.measure
    held_out = _held_out(found)
    ranked = sorted(range(len(means)), key=lambda place: (-means[place], place))
    picks = Counter(fold.chosen for fold in found.folds)
    verdict = "better beyond noise" if found.better else "not better beyond noise"
    lead = (
        f"{len(means)} set-ups on {len(found.values[0])} judged questions, {len(found.folds)} folds. The best: "
        f"{found.candidates[found.best].name}. On questions it was not chosen on: {verdict}."
    )
    dots = [
        charts.IntervalBar(f"{number}", *bootstrap(list(found.values[place].values())), 1 if place == 0 else 0)
        for number, place in enumerate(_first(ranked), start=1)
    ]
    key = charts.key(["set-ups by their rank", "as configured"])
    svg = charts.intervals(dots, f"{measure} of the best set-ups")
    return ReportDocument(
        title=title,
        lead=lead,
        notes=[str(trouble) for trouble in found.troubles],
        tiles=[
            Tile(label=f"{measure}, held out", value=shown(held_out), note="chosen on the other folds"),
            Tile(label="As configured", value=shown(means[0]), note="on the same questions"),
            Tile(
                label="Difference",
                value=signed(difference.mean),
                note=f"{signed(difference.low)} to {signed(difference.high)}",
                change=verdict,
                mood="good" if found.better else "even",
            ),
            Tile(
                label="Folds that chose the best",
                value=f"{picks[found.best]} of {len(found.folds)}",
                note="more is steadier",
            ),
        ],
        sections=[
            ReportSection(
                title="The best set-ups on all questions",
                blocks=[Figure(svg=svg, caption=key)],
            ),
            ReportSection(title="Held out, fold by fold", blocks=[_fold_bars(found)]),
            ReportSection(title="Folds", blocks=[Text(_FOLDS), _folds(found)], wide=True),
            ReportSection(title="Set-ups", blocks=[Text(_OPTIMISM), _grid(found, means, ranked, picks)], wide=True),
        ],
    )


_FOLDS: Final = (
    "Each part of the questions is held out once: what is best on the others is measured on it, beside the "
    "configuration as it is."
)
_OPTIMISM: Final = (
    "Means over all questions, by which the set-ups are ordered. The best of many looks better than it is: believe the "
    "held-out difference."
)


def _first(ranked: list[int]) -> list[int]:
    """Return the first in the order, and the configuration where it is not among them."""
    first = ranked[:_SHOWN]
    return first if 0 in first else [*first, 0]


def _held_out(found: Tuned) -> float:
    total = sum(fold.held_out * len(fold.questions) for fold in found.folds)
    return total / sum(len(fold.questions) for fold in found.folds)


def _fold_bars(found: Tuned) -> Figure:
    bars = [
        charts.Bar(f"fold {number}", value, shown(value), series=series)
        for number, fold in enumerate(found.folds, start=1)
        for series, value in enumerate((fold.held_out, fold.baseline))
    ]
    svg = charts.bars(bars, f"{found.measure} of each fold, held out")
    return Figure(svg=svg, caption=charts.key(["chosen on the other folds", "as configured"]))


def _folds(found: Tuned) -> Table:
    rows = [
        [
            str(number),
            str(len(fold.questions)),
            shown(fold.trained),
            shown(fold.held_out),
            shown(fold.baseline),
            found.candidates[fold.chosen].name,
        ]
        for number, fold in enumerate(found.folds, start=1)
    ]
    return Table(columns=["fold", "questions", "chosen on", "held out", "as configured", "<chosen"], rows=rows)


def _grid(found: Tuned, means: list[float], ranked: list[int], picks: Mapping[int, int]) -> Table:
    rows = [
        [
            str(number),
            found.candidates[place].name,
            shown(means[place]),
            signed(means[place] - means[0]),
            str(picks.get(place, 0)),
        ]
        for number, place in enumerate(ranked[:_MOST_ROWS], start=1)
    ]
    marks = {number: "good" for number, place in enumerate(ranked[:_MOST_ROWS]) if place == found.best and found.better}
    columns = ["rank", "<set-up", found.measure, "to the configuration", "folds"]
    return Table(columns=columns, rows=rows, marks=marks)


def evidence(found: Tuned) -> dict[str, Any]:
    """Return what the choice rests on, JSON-ready."""
    means = _means(found)
    best = found.candidates[found.best]
    return {
        "measure": found.measure,
        "questions": len(found.values[0]),
        "better_beyond_noise": found.better,
        "troubles": [trouble._asdict() for trouble in found.troubles],
        "chosen": {"settings": _settings(found), "sources": {name: dict(held) for name, held in best.sources.items()}},
        "held_out": {"mean": _held_out(found), "difference": found.difference._asdict()},
        "folds": [
            {**fold._asdict(), "questions": len(fold.questions), "chosen": found.candidates[fold.chosen].name}
            for fold in found.folds
        ],
        "means_on_all_questions": {one.name: means[place] for place, one in enumerate(found.candidates)},
    }


def _settings(found: Tuned) -> dict[str, Any]:
    chosen = {key: Unparsed(value) for key, value in found.candidates[found.best].settings.items()}
    layer = config_layer(chosen, "eval tune")
    return {key: _plain(setting.value) for key, setting in layer.items()}


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump is not None else list(value) if isinstance(value, tuple) else value


def held_config(path: Path) -> dict[str, Any]:
    """Return what a pipeline configuration holds, {} where there is no file.

    Raises:
        ConfigError: the file is there and is no JSON object.
    """
    if not path.exists():
        return {}
    try:
        held = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be added to: {error}", file=str(path)) from None
    if not isinstance(held, dict):
        raise ConfigError("cannot be added to: it is no JSON object", file=str(path))
    return held


def merged_config(path: Path, found: Tuned) -> str:
    """Return the text of a pipeline configuration with what was found in it; the file's other keys stay.

    Raises:
        ConfigError: the file is there and is no JSON object.
    """
    held = held_config(path)
    difference = found.difference
    said = (
        f"{found.measure} on {len(found.values[0])} questions, held out: {shown(_held_out(found))}, "
        f"{difference.mean:+.4f} ({difference.low:+.4f} to {difference.high:+.4f}) to the configuration before"
    )
    said += "" if found.better else "; not better beyond noise"
    said += "".join(f"; {trouble}" for trouble in found.troubles)
    comments = {"// tuned": said}
    sources = found.candidates[found.best].sources
    if sources:
        comments["// sources"] = f"belongs into the manifests, settings of each source: {json.dumps(sources)}"
    kept = {key: value for key, value in held.items() if key not in ("// tuned", "// sources")}
    chosen = _settings(found)
    kept = {key: _without(value, chosen) if key in GROUPS else value for key, value in kept.items()}
    return json.dumps({**comments, **kept, **chosen}, indent=2, ensure_ascii=False) + "\n"


def _without(group: Any, chosen: Collection[str]) -> Any:
    """Return a group of settings without the chosen ones, which are written beside it."""
    return {key: value for key, value in group.items() if key not in chosen} if isinstance(group, dict) else group
