"""The access matrix in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.console import clean, out, show
from context_engine.core.models import Classification
from context_engine.core.policy.access_review import AccessMatrix, Holder

_Column = tuple[str, list[Text]]


def print_matrix(found: AccessMatrix) -> None:
    """Print as many tables one below the other as the columns need at the width of the terminal."""
    console = out()
    holders = [(clean(_heading(one)), [_least(least) for least in needed]) for one, needed in found.needed.items()]
    may = [(clean(one.id), [sign(each.allowed) for each in may]) for one, may in found.principals.items()]
    columns = [*holders, *may]
    left = console.width - sum(map(_width, rows := _row_columns(found)))
    while columns:
        fitting = _fitting(columns, left)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for heading, _ in (*rows, *columns[:fitting]):
            table.add_column(heading, overflow="fold")
        for cells in zip(*(cells for _, cells in (*rows, *columns[:fitting])), strict=True):
            table.add_row(*cells)
        show(console, table)
        console.print()
        columns = columns[fitting:]
    show(
        console, Text("For a role or group: the least clearance that opens the source to it alone; – none does.", "dim")
    )
    if found.policy_hash:
        show(console, Text(f"policy {found.policy_hash}", "dim"))


def _row_columns(found: AccessMatrix) -> list[_Column]:
    """Return the columns that say what a row is of."""
    return [
        ("domain", [Text(row.domain) for row in found.sources]),
        ("source", [Text(row.source.id) for row in found.sources]),
        ("is", [Text(str(row.source.classification), "dim") for row in found.sources]),
    ]


def _fitting(columns: Sequence[_Column], width: int) -> int:
    """Return how many columns stand beside each other; one where not even that has room."""
    ends = accumulate(map(_width, columns))
    return max(1, sum(end <= width for end in ends))


def _width(column: _Column) -> int:
    """Return the least width of a column; a heading may stand in several lines, a word of it in one."""
    heading, cells = column
    return 2 + max(map(cell_len, (*heading.split(), *(cell.plain for cell in cells))), default=0)


def sign(allowed: bool) -> Text:
    """Return the mark of what may, or may not, be searched."""
    return Text("✓", "green") if allowed else Text("✗", "bold red")


def _heading(holder: Holder | None) -> str:
    return "anyone" if holder is None else f"{holder.kind} {holder.name}"


def _least(clearance: Classification | None) -> Text:
    return Text("–", "dim") if clearance is None else Text(str(clearance))
