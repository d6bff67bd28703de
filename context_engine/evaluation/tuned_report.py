"""The result of a search for settings as a report, as evidence, and as a configuration file."""

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
from context_engine.evaluation.metrics import bootstrap
from context_engine.evaluation.tune import Tuned
from context_engine.settings import config_layer
from context_engine.settings.files import Unparsed

_SHOWN: Final = 15
_MOST_ROWS: Final = 100


def _means(tuned: Tuned) -> list[float]:
    return [sum(values.values()) / len(values) for values in tuned.values]


def tuned_report(tuned: Tuned, *, title: str) -> ReportDocument:
    means, difference, measure = _means(tuned), tuned.difference, tuned.measure
    held_out = _held_out(tuned)
    ranked = sorted(range(len(means)), key=lambda place: (-means[place], place))
    picks = Counter(fold.chosen for fold in tuned.folds)
    verdict = "better beyond noise" if tuned.better else "not better beyond noise"
    lead = (
        f"{len(means)} set-ups on {len(tuned.values[0])} judged questions, {len(tuned.folds)} folds. The best: "
        f"{tuned.candidates[tuned.best].name}. On questions it was not chosen on: {verdict}."
    )
    dots = [
        charts.IntervalBar(f"{number}", *bootstrap(list(tuned.values[place].values())), 1 if place == 0 else 0)
        for number, place in enumerate(_first(ranked), start=1)
    ]
    key = charts.key(["set-ups by their rank", "as configured"])
    svg = charts.intervals(dots, f"{measure} of the best set-ups")
    return ReportDocument(
        title=title,
        lead=lead,
        notes=[str(trouble) for trouble in tuned.troubles],
        tiles=[
            Tile(label=f"{measure}, held out", value=shown(held_out), note="chosen on the other folds"),
            Tile(label="As configured", value=shown(means[0]), note="on the same questions"),
            Tile(
                label="Difference",
                value=signed(difference.mean),
                note=f"{signed(difference.low)} to {signed(difference.high)}",
                change=verdict,
                mood="good" if tuned.better else "even",
            ),
            Tile(
                label="Folds that chose the best",
                value=f"{picks[tuned.best]} of {len(tuned.folds)}",
                note="more is steadier",
            ),
        ],
        sections=[
            ReportSection(title="The best set-ups on all questions", blocks=[Figure(svg=svg, caption=key)]),
            ReportSection(title="Held out, fold by fold", blocks=[_fold_bars(tuned)]),
            ReportSection(title="Folds", blocks=[Text(_FOLDS), _folds(tuned)], wide=True),
            ReportSection(title="Set-ups", blocks=[Text(_OPTIMISM), _grid(tuned, means, ranked, picks)], wide=True),
        ],
    )


_FOLDS: Final = (
    "Each part of the questions is held out once: the set-up that is best on the others is measured on it, and so is "
    "the unchanged configuration."
)
_OPTIMISM: Final = (
    "Means over all questions, by which the set-ups are ordered. The best of many looks better than it is: rely on "
    "the held-out difference."
)


def _first(ranked: list[int]) -> list[int]:
    """Return the first places of the order, followed by the configuration if it is not among them."""
    first = ranked[:_SHOWN]
    return first if 0 in first else [*first, 0]


def _held_out(tuned: Tuned) -> float:
    total = sum(fold.held_out * len(fold.questions) for fold in tuned.folds)
    return total / sum(len(fold.questions) for fold in tuned.folds)


def _fold_bars(tuned: Tuned) -> Figure:
    bars = [
        charts.Bar(f"fold {number}", value, shown(value), series=series)
        for number, fold in enumerate(tuned.folds, start=1)
        for series, value in enumerate((fold.held_out, fold.baseline))
    ]
    svg = charts.bars(bars, f"{tuned.measure} of each fold, held out")
    return Figure(svg=svg, caption=charts.key(["chosen on the other folds", "as configured"]))


def _folds(tuned: Tuned) -> Table:
    rows = [
        [
            str(number),
            str(len(fold.questions)),
            shown(fold.trained),
            shown(fold.held_out),
            shown(fold.baseline),
            tuned.candidates[fold.chosen].name,
        ]
        for number, fold in enumerate(tuned.folds, start=1)
    ]
    return Table(columns=["fold", "questions", "chosen on", "held out", "as configured", "<chosen"], rows=rows)


def _grid(tuned: Tuned, means: list[float], ranked: list[int], picks: Mapping[int, int]) -> Table:
    rows = [
        [
            str(number),
            tuned.candidates[place].name,
            shown(means[place]),
            signed(means[place] - means[0]),
            str(picks.get(place, 0)),
        ]
        for number, place in enumerate(ranked[:_MOST_ROWS], start=1)
    ]
    marks = {number: "good" for number, place in enumerate(ranked[:_MOST_ROWS]) if place == tuned.best and tuned.better}
    columns = ["rank", "<set-up", tuned.measure, "to the configuration", "folds"]
    return Table(columns=columns, rows=rows, marks=marks)


def evidence(tuned: Tuned) -> dict[str, Any]:
    """Return the evidence for the choice as JSON values."""
    means = _means(tuned)
    best = tuned.candidates[tuned.best]
    return {
        "measure": tuned.measure,
        "questions": len(tuned.values[0]),
        "better_beyond_noise": tuned.better,
        "troubles": [trouble._asdict() for trouble in tuned.troubles],
        "chosen": {
            "settings": _settings(tuned),
            "sources": {name: dict(settings) for name, settings in best.sources.items()},
        },
        "held_out": {"mean": _held_out(tuned), "difference": tuned.difference._asdict()},
        "folds": [
            {**fold._asdict(), "questions": len(fold.questions), "chosen": tuned.candidates[fold.chosen].name}
            for fold in tuned.folds
        ],
        "means_on_all_questions": {variant.name: means[place] for place, variant in enumerate(tuned.candidates)},
    }


def _settings(tuned: Tuned) -> dict[str, Any]:
    chosen = {key: Unparsed(value) for key, value in tuned.candidates[tuned.best].settings.items()}
    layer = config_layer(chosen, "eval tune")
    return {key: _plain(setting.value) for key, setting in layer.items()}


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump is not None else list(value) if isinstance(value, tuple) else value


def held_config(path: Path) -> dict[str, Any]:
    """Return the content of a pipeline configuration; {} if the file does not exist.

    Raises:
        ConfigError: the file exists and is not a JSON object.
    """
    if not path.exists():
        return {}
    try:
        config = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be added to: {error}", file=str(path)) from None
    if not isinstance(config, dict):
        raise ConfigError("cannot be added to: it is not a JSON object", file=str(path))
    return config


def merged_config(path: Path, tuned: Tuned) -> str:
    """Return the text of a pipeline configuration with the chosen settings added; other keys are kept.

    Raises:
        ConfigError: the file exists and is not a JSON object.
    """
    config = held_config(path)
    difference = tuned.difference
    comment = (
        f"{tuned.measure} on {len(tuned.values[0])} questions, held out: {shown(_held_out(tuned))}, "
        f"{difference.mean:+.4f} ({difference.low:+.4f} to {difference.high:+.4f}) to the configuration before"
    )
    comment += "" if tuned.better else "; not better beyond noise"
    comment += "".join(f"; {trouble}" for trouble in tuned.troubles)
    comments = {"// tuned": comment}
    sources = tuned.candidates[tuned.best].sources
    if sources:
        comments["// sources"] = f"belongs into the manifests, settings of each source: {json.dumps(sources)}"
    kept = {key: value for key, value in config.items() if key not in ("// tuned", "// sources")}
    chosen = _settings(tuned)
    kept = {key: _without(value, chosen) if key in GROUPS else value for key, value in kept.items()}
    return json.dumps({**comments, **kept, **chosen}, indent=2, ensure_ascii=False) + "\n"


def _without(group: Any, chosen: Collection[str]) -> Any:
    """Return a group of settings without the chosen ones, which are at the top level."""
    return {key: value for key, value in group.items() if key not in chosen} if isinstance(group, dict) else group
