"""The columns of rows: which are filled, hold numbers, and belong to which of several tables side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from context_engine.ingest.declared_fields import ID_FIELDS
from context_engine.ingest.loaders.markdown import one_line
from context_engine.ingest.loaders.table import TableRow, empty, shown

ID_NAMES: Final = frozenset(ID_FIELDS[True])
_LEAST_WIDTH: Final = 2
_APART: Final = 2
"""Rows by which two tables side by side end apart; one may be a row of totals."""


def table_bands(rows: Sequence[TableRow]) -> list[range]:
    """Return the columns of each table in a block; one range where it is one table."""
    used = sorted({index for row in rows for index in filled_columns(row)})
    whole = [range(used[0], used[-1] + 1)]
    bands: list[range] = []
    for index in used:
        if bands and bands[-1].stop == index:
            bands[-1] = range(bands[-1].start, index + 1)
        else:
            bands.append(range(index, index + 1))
    if len(bands) < 2 or any(len(band) < _LEAST_WIDTH for band in bands):
        return whole
    parts = [[cut for row in rows if (cut := within(row, band)) and len(filled_columns(cut)) > 1] for band in bands]
    if not all(parts):
        return whole
    heads = [{one_line(str(part[0].cells[index])) for index in filled_columns(part[0])} for part in parts]
    alike = any(first & second for first, second in pairwise(heads))
    starts, ends = ({part[end].number for part in parts} for end in (0, -1))
    return bands if alike or len(starts) > 1 or max(ends) - min(ends) >= _APART else whole


def within(row: TableRow, band: range) -> TableRow | None:
    """Return a row with the cells of some columns alone, None where they are empty."""
    if band.start == 0 and band.stop >= len(row.cells):
        return row
    cells = [cell if index in band else None for index, cell in enumerate(row.cells[: band.stop])]
    if all(map(empty, cells)):
        return None
    return row._replace(cells=cells, notes={index: note for index, note in row.notes.items() if index in band})


def filled_columns(row: TableRow) -> list[int]:
    """Return the columns in which a row holds something."""
    return [index for index, cell in enumerate(row.cells) if not empty(cell)]


def cell_texts(row: TableRow) -> list[str]:
    """Return the cells of a row as texts, each with its comment."""
    return [
        f"{shown(row.cells[index])} ({note})" if (note := row.notes.get(index)) else str(shown(row.cells[index]))
        for index in filled_columns(row)
    ]


def numeric_columns(rows: Sequence[TableRow]) -> frozenset[int]:
    """Return the columns that hold more numbers and dates than words."""
    words: dict[int, int] = {}
    for row in rows:
        for index in filled_columns(row):
            words[index] = words.get(index, 0) + (1 if is_wordy(row.cells[index]) else -1)
    return frozenset(index for index, more in words.items() if more < 0)


def is_wordy(cell: object) -> bool:
    """Whether a cell is a text without a number in it."""
    return isinstance(cell, str) and not any(sign.isdigit() for sign in cell)


def without_ids(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of which none says what its record is known by."""
    return tuple(name.replace("_", " ") if name in ID_NAMES else name for name in names)
