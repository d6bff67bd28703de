"""The report of a gate: every check, and the questions that lost most."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from context_engine.evaluation.blocks import ReportDocument, ReportSection, Table
from context_engine.evaluation.collected_report import collected_report
from context_engine.evaluation.gate import GateResult, MeasureCheck, lost_most
from context_engine.evaluation.words import cut, shown, signed

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
