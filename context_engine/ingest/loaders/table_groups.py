"""Rows that name a group of the rows below them: "Retail accounts" above "Current" and "Savings"."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final

from context_engine.ingest.loaders.markdown import one_line
from context_engine.ingest.loaders.table import TableRow, filled_columns

IsGroup = Callable[[TableRow], bool]
_DIGITS: Final = re.compile(r"\d+")
_LEAST_ROWS: Final = 2  # group rows, if neither a merged cell nor a style shows them


def group_test(rows: Sequence[TableRow], columns: Collection[int]) -> IsGroup | None:
    """Return a test for the group rows of a table, None if it has none.

    A group row has a text in the first column alone. It is merged over the others; or it has another style than the
    rows of values, or there are several and the first is the first row of all. An id without values ("R-3" among "R-1"
    and "R-2") is no group.

    Args:
        rows: the first rows below the head.
        columns: those of the table.
    """
    first = min(columns, default=0)
    lone = [row for row in rows if _is_lone(row, first)]
    full = [row for row in rows if len(filled_columns(row)) > 1]
    if len(columns) < 2 or not lone or not full:
        return None
    if any(row.across for row in lone):
        return lambda row: row.across and _is_lone(row, first)
    forms = {_form(row, first) for row in full}
    if any("0" in (form := _form(row, first)) and form in forms for row in lone):
        return None
    usual = {_style(row, first) for row in full}
    if all(_style(row, first) not in usual for row in lone):
        return lambda row: _is_lone(row, first) and _style(row, first) not in usual
    if len(lone) < _LEAST_ROWS or lone[0] is not rows[0]:
        return None
    return lambda row: _is_lone(row, first)


def group_name(row: TableRow) -> str:
    """Return the text of a group row."""
    return one_line(str(row.cells[filled_columns(row)[0]]))


def _is_lone(row: TableRow, column: int) -> bool:
    return filled_columns(row) == [column] and isinstance(row.cells[column], str)


def _style(row: TableRow, column: int) -> str:
    return row.styles[column] if column < len(row.styles) else ""


def _form(row: TableRow, column: int) -> str:
    """Return the text of a cell with 0 for each number: the form of an id."""
    return _DIGITS.sub("0", str(row.cells[column])) if column < len(row.cells) else ""
