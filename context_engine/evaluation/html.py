"""Pages that need nothing else, and a report as one: style, drawings and the sorting of its tables stand in it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final

from context_engine.evaluation.blocks import Block, Figure, ReportDocument, ReportSection, Table, Text, Tile

_HERE: Final = Path(__file__).resolve().parent
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_SCRIPT_POLICY: Final = "; script-src 'unsafe-inline'"


def to_html(report: ReportDocument) -> str:
    """Return a report as a page; it loads nothing."""
    style, script = ((_HERE / "page" / name).read_text("utf-8") for name in ("report.css", "report.js"))
    notes = "".join(f"<p class=note>{escape(note)}</p>" for note in report.notes)
    body = (
        f"<header>\n<h1>{escape(report.title)}</h1>\n<p class=lead>{escape(report.lead)}</p>\n{notes}</header>\n"
        f"<div class=tiles>{''.join(map(_tile, report.tiles))}</div>\n<main>\n{_columns(report.sections)}</main>\n"
    )
    return html_page(report.title, body, style=style, script=script)


def html_page(title: str, body: str, *, style: str, script: str = "") -> str:
    """Return a whole page; it loads nothing, and says so to the browser.

    Args:
        title: plain text.
        body: HTML, escaped already.
        style: CSS of this page, after what all pages share.
        script: "" for none: then no script runs, whatever the body holds.
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
    """Set neighbours that are not wide in two columns."""
    runs = groupby(sections, key=lambda one: one.wide)
    parts = ((wide, "".join(map(_section, some))) for wide, some in runs)
    return "".join(part if wide else f"<div class=columns>{part}</div>" for wide, part in parts)


def _section(section: ReportSection) -> str:
    kind = " class=wide" if section.wide else ""
    return f"<section{kind}>\n<h2>{escape(section.title)}</h2>\n{''.join(map(_block, section.blocks))}</section>\n"


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return f"<p>{escape(block.text)}</p>\n"
    if isinstance(block, Figure):
        return f"<figure>{block.svg}<figcaption>{block.caption}</figcaption></figure>\n"
    if not block.rows:
        return ""
    table = f"<div class=scroll>{_table(block)}</div>\n"
    return f"<details><summary>{escape(block.folded)}</summary>{table}</details>\n" if block.folded else table


def _table(table: Table) -> str:
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
