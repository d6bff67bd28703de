"""The reports of an evaluation, of several collections, and of a gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from context_engine.core.models import messages
from context_engine.evaluation import charts, sections
from context_engine.evaluation import sections as cost_sections
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
from context_engine.evaluation.statistics import Paired

SHOWN_TILES: Final = 6


def evaluation_report(compared: Compared, *, title: str) -> ReportDocument:
    """Return the report."""
    ours, baseline = compared.ours, compared.baseline
    lead = f"{ours.name}: {len(compared.session.qrels)} judged questions"
    lead += f", against {baseline.name}." if baseline is not None else "."
    return ReportDocument(
        title=title,
        lead=lead,
        tiles=[_tile(compared, measure) for measure in ours.measures[:SHOWN_TILES]],
        sections=[one for one in _sections(compared) if one.blocks],
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
        cost_sections.authority(compared),
        cost_sections.tokens(compared),
        cost_sections.times(compared),
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


def collected_report(found: Collected, *, title: str) -> ReportDocument:
    """Return the report."""
    first, count = next(iter(found.compared.values())), len(found.compared)
    collections = "1 collection" if count == 1 else f"{count} collections"
    return ReportDocument(
        title=title,
        lead=f"{found.title}: {collections}, {found.questions} judged questions.",
        tiles=[_collection_tile(found, measure) for measure in found.measures],
        sections=[
            _means(found),
            *([_verdicts(found)] if found.has_baseline else []),
            *(one for name, compared in found.compared.items() for one in _each(name, compared)),
            sections.method(first),
        ],
        notes=[
            f"{name}: {said}"
            for name, one in found.compared.items()
            for said in (*messages(one.session.notices), *one.troubles)
        ],
    )


def _collection_tile(found: Collected, measure: str) -> Tile:
    change = ""
    if found.has_baseline:
        change = signed(found.mean(measure) - found.mean(measure, baseline=True))
    return Tile(label=measure, value=shown(found.mean(measure)), note="mean of the collections", change=change)


def _means(found: Collected) -> ReportSection:
    """A row for each collection, and a drawing by the first of measures."""
    rows = [
        [name, str(len(one.session.qrels)), *(shown(one.ours.mean(measure)) for measure in found.measures)]
        for name, one in found.compared.items()
    ]
    rows.append(["mean", str(found.questions), *(shown(found.mean(measure)) for measure in found.measures)])
    dots = [
        charts.IntervalBar(name, *scored.interval(found.primary), series)
        for name, one in found.compared.items()
        for series, scored in enumerate(one.both)
    ]
    caption = (
        charts.key(["ours", "baseline"]) if found.has_baseline else ""
    ) + "The bar is the 95 % interval of the mean."
    figure = Figure(svg=charts.intervals(dots, f"{found.primary} of each collection"), caption=caption)
    said = "The last row is the mean of the rows above it: each collection counts as much as any other."
    table = Table(columns=["<collection", "questions", *found.measures], rows=rows)
    return ReportSection(title="Collections", blocks=[figure, table, Text(said)], wide=True)


def _verdicts(found: Collected) -> ReportSection:
    """Every measure of every collection beside its baseline."""
    rows: list[list[str]] = []
    marks = {}
    for name in found.compared:
        for measure in found.measures:
            pair = found.against(name, measure)
            if pair is None:
                continue
            verdict = verdict_of(pair)
            if verdict in _MARKS:
                marks[len(rows)] = _MARKS[verdict]
            rows.append([name, measure, *_numbers(found.compared[name], measure, pair), verdict])
    columns = ["<collection", "<measure", "mean", "baseline", "difference", "95 %, paired", "p", "<beyond noise"]
    return ReportSection(
        title="Against the baseline", blocks=[Table(columns=columns, rows=rows, marks=marks)], wide=True
    )


def _numbers(one: Compared, measure: str, pair: Paired) -> Sequence[str]:
    means = (shown(scored.mean(measure)) for scored in one.both)
    return [*means, signed(pair.mean), f"{signed(pair.low)} to {signed(pair.high)}", f"{pair.p:.3f}"]


def _each(name: str, one: Compared) -> Iterator[ReportSection]:
    """What each collection's own report begins with, its name before the heading."""
    for section in (
        sections.measures(one),
        sections.losses(one),
        *sections.side_by_side(one),
        *sections.by_group(one),
        *sections.extremes(one)[:1],
    ):
        if section.blocks:
            yield replace(section, title=f"{name}: {section.title}")


OUTCOMES: Final = {"holds": "holds", "below_floor": "below its floor", "lost": "lost against the baseline"}


def gate_report(result: GateResult, *, title: str) -> ReportDocument:
    """Return the report: the verdict and its checks before what the collections' own report shows."""
    report = collected_report(result.found, title=title)
    said = "holds" if result.holds else f"{len(result.fallen)} of {len(result.checks)} checks do not hold"
    rows = [_row(one) for one in result.checks]
    marks = {place: "bad" for place, one in enumerate(result.checks) if one.outcome != "holds"}
    columns = ["<collection", "<measure", "floor", "baseline", "now", "difference", "95 %, paired", "<outcome"]
    checks = ReportSection(title="Checks", blocks=[Table(columns=columns, rows=rows, marks=marks)], wide=True)
    return replace(report, lead=f"{said}. {report.lead}", sections=[checks, *_lost(result), *report.sections])


def _row(one: MeasureCheck) -> list[str]:
    pair = one.pair
    return [
        one.collection,
        one.measure,
        "" if one.floor is None else shown(one.floor),
        "" if one.baseline is None else shown(one.baseline),
        shown(one.now),
        "" if pair is None else signed(pair.mean),
        "" if pair is None else f"{signed(pair.low)} to {signed(pair.high)}",
        OUTCOMES[one.outcome],
    ]


def _lost(result: GateResult) -> list[ReportSection]:
    sections = []
    for one in result.fallen:
        rows = [
            [row.question, cut(row.text), shown(row.baseline), shown(row.now)]
            for row in lost_most(result.found, one.collection, one.measure)
        ]
        table = Table(columns=["<question", "<text", "baseline", "now"], rows=rows)
        title = f"{one.collection}: lost most by {one.measure}"
        sections.append(ReportSection(title=title, blocks=[table] if rows else [], wide=True))
    return [section for section in sections if section.blocks]
