"""`access matrix` at a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from rich.cells import cell_len
from rich.text import Text

from context_engine.apps.cli.console import out, print_line, print_table
from context_engine.apps.cli.words import sign
from context_engine.apps.web.inert import clean
from context_engine.core.models import Classification
from context_engine.core.policy.access_review import AccessMatrix, Holder

_Column = tuple[str, list[Text]]


def print_matrix(matrix: AccessMatrix) -> None:
    """Print the matrix in as many tables as its columns need at the width of the terminal."""
    console = out()
    columns = [
        (clean(_heading(holder)), [_least(least) for least in needed]) for holder, needed in matrix.needed.items()
    ]
    for principal, decisions in matrix.principals.items():
        columns.append((clean(principal.id), [sign(decision.allowed) for decision in decisions]))
    left = console.width - sum(map(_width, rows := _row_columns(matrix)))
    while columns:
        fitting = _fitting(columns, left)
        shown = (*rows, *columns[:fitting])
        print_table((heading for heading, _ in shown), zip(*(cells for _, cells in shown), strict=True))
        print_line()
        columns = columns[fitting:]
    print_line("For a role or group: the lowest clearance that opens the source to it alone; –: none does.", "dim")
    if matrix.policy_hash:
        print_line(f"policy {matrix.policy_hash}", "dim")


def _row_columns(matrix: AccessMatrix) -> list[_Column]:
    """Return the columns that name the source of each row."""
    return [
        ("domain", [Text(row.domain) for row in matrix.sources]),
        ("source", [Text(row.source.id) for row in matrix.sources]),
        ("is", [Text(str(row.source.classification), "dim") for row in matrix.sources]),
    ]


def _fitting(columns: Sequence[_Column], width: int) -> int:
    """Return how many columns fit side by side; at least one."""
    ends = accumulate(map(_width, columns))
    return max(1, sum(end <= width for end in ends))


def _width(column: _Column) -> int:
    """Return the minimum width of a column; a heading may be broken between words, but not inside one."""
    heading, cells = column
    return 2 + max(map(cell_len, (*heading.split(), *(cell.plain for cell in cells))), default=0)


def _heading(holder: Holder | None) -> str:
    return "anyone" if holder is None else f"{holder.kind} {holder.name}"


def _least(clearance: Classification | None) -> Text:
    return Text("–", "dim") if clearance is None else Text(str(clearance))
