"""The report of several collections: one row each, then each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from context_engine.core.models import messages
from context_engine.evaluation import charts, sections
from context_engine.evaluation.blocks import Figure, ReportDocument, ReportSection, Table, Text, Tile
from context_engine.evaluation.collected import Collected, verdict_of
from context_engine.evaluation.compared import Compared
from context_engine.evaluation.statistics import Paired
from context_engine.evaluation.words import shown, signed

_MARKS = {"better": "good", "worse": "bad"}


def collected_report(found: Collected, *, title: str) -> ReportDocument:
    """Return the report."""
    first, count = next(iter(found.compared.values())), len(found.compared)
    collections = "1 collection" if count == 1 else f"{count} collections"
    return ReportDocument(
        title=title,
        lead=f"{found.title}: {collections}, {found.questions} judged questions.",
        tiles=[_tile(found, measure) for measure in found.measures],
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


def _tile(found: Collected, measure: str) -> Tile:
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
