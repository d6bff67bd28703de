"""The reports of an evaluation, of several collections, and of a gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from context_engine.core.models import messages
from context_engine.core.text import counted
from context_engine.evaluation import charts, sections
from context_engine.evaluation.blocks import (
    Figure,
    ReportDocument,
    ReportSection,
    Table,
    Text,
    Tile,
    cut,
    shown,
    signed,
)
from context_engine.evaluation.collections import Collected, verdict_of
from context_engine.evaluation.evaluate import Compared
from context_engine.evaluation.gate import GateResult, MeasureCheck, lost_most
from context_engine.evaluation.metrics import Paired

SHOWN_TILES: Final = 6


def evaluation_report(compared: Compared, *, title: str) -> ReportDocument:
    ours, baseline = compared.ours, compared.baseline
    lead = f"{ours.name}: {counted(len(compared.session.qrels), 'judged question')}"
    lead += f", against {baseline.name}." if baseline is not None else "."
    return ReportDocument(
        title=title,
        lead=lead,
        tiles=[_tile(compared, measure) for measure in ours.measures[:SHOWN_TILES]],
        sections=[section for section in _sections(compared) if section.blocks],
        notes=[*messages(compared.session.notices), *compared.troubles],
    )


def _sections(compared: Compared) -> Sequence[ReportSection]:
    return (
        sections.measures(compared),
        sections.depth(compared),
        sections.losses(compared),
        sections.spread(compared),
        *sections.side_by_side(compared),
        *sections.by_group(compared),
        sections.authority(compared),
        sections.tokens(compared),
        sections.times(compared),
        sections.unanswerable(compared),
        *sections.extremes(compared),
        sections.set_up(compared),
        sections.method(compared),
        sections.every_question(compared),
    )


def _tile(compared: Compared, measure: str) -> Tile:
    mean, low, high = compared.ours.interval(measure)
    change, mood = "", "even"
    if compared.baseline is not None:
        difference = compared.ours.against(compared.baseline, measure)
        change, mood = f"{signed(difference.mean)} {_word(difference)}", _mood(difference)
    return Tile(label=measure, value=shown(mean), note=f"{shown(low)} to {shown(high)}", change=change, mood=mood)


def _mood(difference: Paired) -> str:
    if not difference.beyond_noise:
        return "even"
    return "good" if difference.mean > 0 else "bad"


def _word(difference: Paired) -> str:
    return "" if difference.beyond_noise else "within noise"


_MARKS = {"better": "good", "worse": "bad"}


def collected_report(collected: Collected, *, title: str) -> ReportDocument:
    first, count = next(iter(collected.compared.values())), len(collected.compared)
    return ReportDocument(
        title=title,
        lead=f"{collected.title}: {counted(count, 'collection')}, {counted(collected.questions, 'judged question')}.",
        tiles=[_collection_tile(collected, measure) for measure in collected.measures],
        sections=[
            _means(collected),
            *([_verdicts(collected)] if collected.has_baseline else []),
            *(section for name, compared in collected.compared.items() for section in _each(name, compared)),
            sections.method(first),
        ],
        notes=[
            f"{name}: {note}"
            for name, result in collected.compared.items()
            for note in (*messages(result.session.notices), *result.troubles)
        ],
    )


def _collection_tile(collected: Collected, measure: str) -> Tile:
    change = ""
    if collected.has_baseline:
        change = signed(collected.mean(measure) - collected.mean(measure, baseline=True))
    return Tile(label=measure, value=shown(collected.mean(measure)), note="mean of the collections", change=change)


def _means(collected: Collected) -> ReportSection:
    """Return a row for each collection, and a chart of the primary measure."""
    rows = [
        [name, str(len(result.session.qrels)), *(shown(result.ours.mean(measure)) for measure in collected.measures)]
        for name, result in collected.compared.items()
    ]
    rows.append(["mean", str(collected.questions), *(shown(collected.mean(measure)) for measure in collected.measures)])
    dots = [
        charts.IntervalBar(name, *scored.interval(collected.primary), series)
        for name, result in collected.compared.items()
        for series, scored in enumerate(result.both)
    ]
    caption = (
        charts.key(["ours", "baseline"]) if collected.has_baseline else ""
    ) + "The bar is the 95 % interval of the mean."
    figure = Figure(svg=charts.intervals(dots, f"{collected.primary} of each collection"), caption=caption)
    note = "The last row is the mean of the rows above; every collection has the same weight."
    table = Table(columns=["<collection", "questions", *collected.measures], rows=rows)
    return ReportSection(title="Collections", blocks=[figure, table, Text(note)], wide=True)


def _verdicts(collected: Collected) -> ReportSection:
    """Return every measure of every collection, compared with the baseline."""
    rows: list[list[str]] = []
    marks = {}
    for name in collected.compared:
        for measure in collected.measures:
            pair = collected.against(name, measure)
            if pair is None:
                continue
            verdict = verdict_of(pair)
            if verdict in _MARKS:
                marks[len(rows)] = _MARKS[verdict]
            rows.append([name, measure, *_numbers(collected.compared[name], measure, pair), verdict])
    columns = ["<collection", "<measure", "mean", "baseline", "difference", "95 %, paired", "p", "<beyond noise"]
    return ReportSection(
        title="Against the baseline", blocks=[Table(columns=columns, rows=rows, marks=marks)], wide=True
    )


def _numbers(compared: Compared, measure: str, pair: Paired) -> Sequence[str]:
    means = (shown(scored.mean(measure)) for scored in compared.both)
    return [*means, signed(pair.mean), f"{signed(pair.low)} to {signed(pair.high)}", f"{pair.p:.3f}"]


def _each(name: str, compared: Compared) -> Iterator[ReportSection]:
    """Yield the first sections of a collection's report, each heading with the collection's name."""
    for section in (
        sections.measures(compared),
        sections.losses(compared),
        *sections.side_by_side(compared),
        *sections.by_group(compared),
        *sections.extremes(compared)[:1],
    ):
        if section.blocks:
            yield replace(section, title=f"{name}: {section.title}")


OUTCOMES: Final = {"holds": "holds", "below_floor": "below its floor", "lost": "lost against the baseline"}


def gate_report(result: GateResult, *, title: str) -> ReportDocument:
    """Return the verdict and the checks, followed by the report of the collections."""
    report = collected_report(result.collected, title=title)
    verdict = "holds" if result.holds else f"{len(result.fallen)} of {len(result.checks)} checks do not hold"
    rows = [_row(check) for check in result.checks]
    marks = {place: "bad" for place, check in enumerate(result.checks) if check.outcome != "holds"}
    columns = ["<collection", "<measure", "floor", "baseline", "now", "difference", "95 %, paired", "<outcome"]
    checks = ReportSection(title="Checks", blocks=[Table(columns=columns, rows=rows, marks=marks)], wide=True)
    return replace(report, lead=f"{verdict}. {report.lead}", sections=[checks, *_lost(result), *report.sections])


def _row(check: MeasureCheck) -> list[str]:
    pair = check.pair
    return [
        check.collection,
        check.measure,
        "" if check.floor is None else shown(check.floor),
        "" if check.baseline is None else shown(check.baseline),
        shown(check.now),
        "" if pair is None else signed(pair.mean),
        "" if pair is None else f"{signed(pair.low)} to {signed(pair.high)}",
        OUTCOMES[check.outcome],
    ]


def _lost(result: GateResult) -> list[ReportSection]:
    sections = []
    for check in result.fallen:
        rows = [
            [row.question, cut(row.text), shown(row.baseline), shown(row.now)]
            for row in lost_most(result.collected, check.collection, check.measure)
        ]
        table = Table(columns=["<question", "<text", "baseline", "now"], rows=rows)
        title = f"{check.collection}: lost most by {check.measure}"
        sections.append(ReportSection(title=title, blocks=[table] if rows else [], wide=True))
    return [section for section in sections if section.blocks]
