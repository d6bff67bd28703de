"""Grids that rulings draw on a page: the cells that may be those of a table.

pdfplumber finds the cells; it is given the rulings that PDFium sees, so that a page is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from context_engine.ingest.loaders.pdf_rulings import MOST_RULINGS, Ruling

_TOLERANCE: Final = 3.0  # points within which rulings are one, and meet
_LEAST_RULING: Final = 3.0  # points
_MOST_CROSSINGS: Final = 2_500
_MOST_PAIRS: Final = 100_000  # of a level and an upright ruling
_LEAST_EACH: Final = 3  # rulings in either direction: two columns and two rows


class TooManyRulings(Exception):
    """A page is full of lines: a drawing, or a table whose cells would take too long to find."""


class Cell(NamedTuple):
    """A cell of a grid, in points; `row` and `column` from 0, `rows` and `columns` how many of either it covers."""

    left: float
    bottom: float
    right: float
    top: float
    row: int
    column: int
    rows: int
    columns: int


class Grid(NamedTuple):
    """Cells that touch one another.

    Attributes:
        edges: where columns begin, from left to right, and where the last one ends.
        heights: where rows begin, from the top, and where the last one ends.
    """

    cells: tuple[Cell, ...]
    edges: tuple[float, ...]
    heights: tuple[float, ...]


def may_hold_tables(rulings: Sequence[Ruling]) -> bool:
    """Whether rulings may enclose two rows and two columns: a test that spares most pages the search."""
    level = sum(ruling.level for ruling in rulings)
    return level >= _LEAST_EACH <= len(rulings) - level


def grids_of(rulings: Sequence[Ruling]) -> list[Grid]:
    """Return the grids of two or more rows and columns that rulings draw, from the top.

    Args:
        rulings: of a page that is turned so that its text lies level.

    Raises:
        TooManyRulings: they are too many to be looked at.
        ImportError: pdfplumber is not installed.
    """
    from pdfplumber import table

    if len(rulings) > MOST_RULINGS:
        raise TooManyRulings
    edges = table.merge_edges([_edge(one) for one in dict.fromkeys(rulings)], *[_TOLERANCE] * 4)
    long = [edge for edge in edges if edge["x1"] - edge["x0"] + edge["bottom"] - edge["top"] >= _LEAST_RULING]
    upright = sum(edge["orientation"] == "v" for edge in long)
    if upright * (len(long) - upright) > _MOST_PAIRS:
        raise TooManyRulings
    crossings = table.edges_to_intersections(long, _TOLERANCE, _TOLERANCE)
    if len(crossings) > _MOST_CROSSINGS:
        raise TooManyRulings
    found = table.cells_to_tables(table.intersections_to_cells(crossings))
    grids = [_grid(boxes) for boxes in found]
    return [grid for grid in grids if min(len(grid.edges), len(grid.heights)) >= _LEAST_EACH]


def _edge(ruling: Ruling) -> dict[str, Any]:
    """Return a ruling as pdfplumber describes one: heights count downwards."""
    if ruling.level:
        box = (ruling.start, -ruling.at, ruling.end, -ruling.at)
    else:
        box = (ruling.at, -ruling.end, ruling.at, -ruling.start)
    left, top, right, bottom = box
    size = {"width": right - left, "height": bottom - top}
    return {"x0": left, "top": top, "x1": right, "bottom": bottom, "orientation": "vh"[ruling.level], **size}


def _grid(boxes: Sequence[tuple[float, float, float, float]]) -> Grid:
    """Return boxes (left, top, right, bottom; heights downwards) as cells that know their rows and columns."""
    across = sorted({edge for box in boxes for edge in (box[0], box[2])})
    down = sorted({edge for box in boxes for edge in (box[1], box[3])})
    column, row = {edge: at for at, edge in enumerate(across)}, {edge: at for at, edge in enumerate(down)}
    cells = [
        Cell(
            *(left, -bottom, right, -top),
            *(row[top], column[left], row[bottom] - row[top], column[right] - column[left]),
        )
        for left, top, right, bottom in boxes
    ]
    cells.sort(key=lambda cell: (cell.row, cell.column))
    return Grid(tuple(cells), tuple(across), tuple(-edge for edge in down))
