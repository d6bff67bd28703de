"""A report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from context_engine.evaluation.blocks import Block, ReportDocument, Table, Text

MOST_ROWS: Final = 200
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|])")


def to_markdown(report: ReportDocument) -> str:
    """Return a report as Markdown; drawings are left out, and tables are cut after 200 rows."""
    lines = [f"# {_escaped(report.title)}", "", _escaped(report.lead), ""]
    lines += [f"> {_escaped(note)}\n" for note in report.notes]
    lines += _table(("<measure", "mean", "95 %", "against the baseline"), _tiles(report)) if report.tiles else []
    for section in report.sections:
        blocks = [line for block in section.blocks for line in _block(block)]
        if blocks:
            lines += [f"## {_escaped(section.title)}", "", *blocks]
    return "\n".join(lines).rstrip() + "\n"


def _tiles(report: ReportDocument) -> list[list[str]]:
    return [[tile.label, tile.value, tile.note, tile.change] for tile in report.tiles]


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Text):
        yield from (_escaped(block.text), "")
    elif isinstance(block, Table) and block.rows:
        yield from _table(block.columns, block.rows[:MOST_ROWS])
        if len(block.rows) > MOST_ROWS:
            yield from (f"{len(block.rows) - MOST_ROWS} more rows are in the page and in the JSON.", "")


def _table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    rule = ["---" if name.startswith("<") else "---:" for name in columns]
    body = [[_escaped(cell) for cell in row] for row in rows]
    names = [_escaped(name.removeprefix("<")) for name in columns]
    return [*(f"| {' | '.join(row)} |" for row in (names, rule, *body)), ""]


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
