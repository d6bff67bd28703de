"""The blocks of a report, and their rendering as Markdown and HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts.

    Attributes:
        columns: headings; "<" at the start marks a column of text, the others are numbers.
        folded: label of the collapsed table in an HTML page; "": not collapsed.
        marks: row index to "good" or "bad".
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: str = ""
    marks: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A drawing and the sentence below it; Markdown leaves it out."""

    svg: str
    caption: str


Block = Text | Table | Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSection:
    """A heading and its blocks; `wide` sections take the whole width of a page."""

    title: str
    blocks: Sequence[Block]
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One number at the head of a report.

    Attributes:
        note: shown below the number, e.g. its interval.
        change: change from the baseline, "" without one; `mood` rates it: good, bad or even.
    """

    label: str
    value: str
    note: str = ""
    change: str = ""
    mood: str = "even"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument:
    title: str
    lead: str
    tiles: Sequence[Tile]
    sections: Sequence[ReportSection]
    notes: Sequence[str] = ()


_LONGEST: Final = 160


def shown(value: float) -> str:
    return f"{value:.3f}"


def signed(value: float) -> str:
    """Return a difference with its sign.

    >>> signed(0.0123), signed(-0.0004)
    ('+0.012', '±0.000')
    """
    return "±0.000" if abs(value) < 0.0005 else f"{value:+.3f}".replace("-", "−")


def share_text(value: float) -> str:
    """Return a share in percent.

    >>> share_text(0.1038), share_text(0.00123)
    ('10.4 %', '0.12 %')
    """
    return f"{100 * value:.1f} %" if value >= 0.01 or not value else f"{100 * value:.2g} %"


def time_text(value: float) -> str:
    return f"{value:.1f} ms" if value >= 0.1 else f"{value:.2f} ms"


def cut(text: str) -> str:
    """Return a text on one line, cut after 160 characters."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


MOST_ROWS: Final = 200
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|])")


def to_markdown(report: ReportDocument) -> str:
    """Return a report as Markdown; drawings are left out, and tables are cut after 200 rows."""
    lines = [f"# {_escaped(report.title)}", "", _escaped(report.lead), ""]
    lines += [f"> {_escaped(note)}\n" for note in report.notes]
    lines += _md_table(("<measure", "mean", "95 %", "against the baseline"), _tiles(report)) if report.tiles else []
    for section in report.sections:
        blocks = [line for block in section.blocks for line in _md_block(block)]
        if blocks:
            lines += [f"## {_escaped(section.title)}", "", *blocks]
    return "\n".join(lines).rstrip() + "\n"


def _tiles(report: ReportDocument) -> list[list[str]]:
    return [[tile.label, tile.value, tile.note, tile.change] for tile in report.tiles]


def _md_block(block: Block) -> Iterator[str]:
    if isinstance(block, Text):
        yield from (_escaped(block.text), "")
    elif isinstance(block, Table) and block.rows:
        yield from _md_table(block.columns, block.rows[:MOST_ROWS])
        if len(block.rows) > MOST_ROWS:
            yield from (f"{len(block.rows) - MOST_ROWS} more rows are in the page and in the JSON.", "")


def _md_table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    rule = ["---" if name.startswith("<") else "---:" for name in columns]
    body = [[_escaped(cell) for cell in row] for row in rows]
    names = [_escaped(name.removeprefix("<")) for name in columns]
    return [*(f"| {' | '.join(row)} |" for row in (names, rule, *body)), ""]


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


_HERE: Final = Path(__file__).resolve().parent
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_SCRIPT_POLICY: Final = "; script-src 'unsafe-inline'"


def to_html(report: ReportDocument) -> str:
    """Return a report as an HTML page without external resources."""
    style, script = ((_HERE / "page" / name).read_text("utf-8") for name in ("report.css", "report.js"))
    notes = "".join(f"<p class=note>{escape(note)}</p>" for note in report.notes)
    body = (
        f"<header>\n<h1>{escape(report.title)}</h1>\n<p class=lead>{escape(report.lead)}</p>\n{notes}</header>\n"
        f"<div class=tiles>{''.join(map(_tile, report.tiles))}</div>\n<main>\n{_columns(report.sections)}</main>\n"
    )
    return html_page(report.title, body, style=style, script=script)


def html_page(title: str, body: str, *, style: str, script: str = "") -> str:
    """Return an HTML page; its content security policy forbids external resources.

    Args:
        body: escaped HTML.
        style: CSS of this page, added to the common CSS.
        script: JavaScript of the page; "": the page's policy forbids all scripts.
    """
    common = (_HERE / "page" / "page.css").read_text("utf-8")
    policy = _POLICY + (_SCRIPT_POLICY if script else "")
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name=viewport content="width=device-width, initial-scale=1">\n<meta name=referrer content=no-referrer>\n'
        f"<meta name=color-scheme content='light dark'>\n<title>{escape(title)}</title>\n"
        f"<style>\n{common}{style}</style>\n</head>\n<body>\n{body}"
        + (f"<script>\n{script}</script>\n" if script else "")
        + "</body>\n</html>\n"
    )


def _tile(tile: Tile) -> str:
    change = f"<span class='change {escape(tile.mood)}'>{escape(tile.change)}</span>" if tile.change else ""
    note = f"<span class=range>{escape(tile.note)}</span>" if tile.note else ""
    return f"<div class=tile><h2>{escape(tile.label)}</h2><b>{escape(tile.value)}</b>{note}{change}</div>"


def _columns(sections: Sequence[ReportSection]) -> str:
    """Set neighbouring sections that are not wide in two columns."""
    runs = groupby(sections, key=lambda section: section.wide)
    parts = ((wide, "".join(map(_section, some))) for wide, some in runs)
    return "".join(part if wide else f"<div class=columns>{part}</div>" for wide, part in parts)


def _section(section: ReportSection) -> str:
    kind = " class=wide" if section.wide else ""
    return f"<section{kind}>\n<h2>{escape(section.title)}</h2>\n{''.join(map(_html_block, section.blocks))}</section>\n"


def _html_block(block: Block) -> str:
    if isinstance(block, Text):
        return f"<p>{escape(block.text)}</p>\n"
    if isinstance(block, Figure):
        return f"<figure>{block.svg}<figcaption>{block.caption}</figcaption></figure>\n"
    if not block.rows:
        return ""
    table = f"<div class=scroll>{_html_table(block)}</div>\n"
    return f"<details><summary>{escape(block.folded)}</summary>{table}</details>\n" if block.folded else table


def _html_table(table: Table) -> str:
    words = [name.startswith("<") for name in table.columns]
    head = "".join(
        f"<th{' class=w' if word else ''}>{escape(name.removeprefix('<'))}</th>"
        for name, word in zip(table.columns, words)
    )
    rows = []
    for number, row in enumerate(table.rows):
        mark = f" class={table.marks[number]}" if number in table.marks else ""
        cells = "".join(f"<td{' class=w' if word else ''}>{escape(cell)}</td>" for cell, word in zip(row, words))
        rows.append(f"<tr{mark}>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
