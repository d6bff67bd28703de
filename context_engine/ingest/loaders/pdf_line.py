"""A line of a PDF page: its text, the type it is set in and where it stands; and a table that takes its place."""

from __future__ import annotations

from typing import Final, NamedTuple

PART_GAP: Final = 0.8  # times the type: a wider gap than between words


class LinePart(NamedTuple):
    """What stands in a line between two wide gaps; `left` and `right` in points."""

    text: str
    left: float
    right: float


class PdfLine(NamedTuple):
    """A line of a page.

    Attributes:
        size: of the type in points.
        top, bottom: height above the page's lower edge in points, the page turned so that the line lies level.
        left, right: where it begins and ends, likewise.
        turn: quarter turns against the clock that it is set in.
        edge: whether it stands where a page has its head or foot.
        parts: what stands between wide gaps, from left to right; empty where there are none.
        table: what is read of a table that stands here; `text` is then all of its words.
    """

    text: str
    size: float
    bold: bool
    top: float
    bottom: float
    left: float = 0.0
    right: float = 0.0
    turn: int = 0
    edge: bool = False
    parts: tuple[LinePart, ...] = ()
    table: PdfTable | None = None


class PdfTable(NamedTuple):
    """A table with rulings around its cells.

    Attributes:
        rows: of cells, each as the lines that stand in it; all rows have as many cells.
        edges: where its columns begin, and where the last one ends, in points.
        titles: lines that stand above its head, over all columns.
        lines: what stands there where it is not read as a table.
        breaks: (row, page index) where it goes on on another page.
    """

    rows: tuple[tuple[tuple[str, ...], ...], ...]
    edges: tuple[float, ...]
    titles: tuple[str, ...] = ()
    lines: tuple[PdfLine, ...] = ()
    breaks: tuple[tuple[int, int], ...] = ()
