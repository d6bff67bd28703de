"""The words of a page that stand in the cells of a grid, taken from its lines; those around it stay lines."""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from context_engine.ingest.loaders.pdf_grids import Grid
from context_engine.ingest.loaders.pdf_line import PdfLine, PdfTable
from context_engine.ingest.loaders.pdf_table_rows import table_of
from context_engine.ingest.loaders.pdf_text import Box, LineText, PageText, clean, units

_WORD: Final = re.compile(r"\S+")
_APART: Final = 0.15  # times a character's height: two cells' words, which PDFium wrote without a space

_Place = tuple[int, int]
"""Number of a grid, and of a cell in it."""


class _Run(NamedTuple):
    """Words of a line that stand in one cell, or in none: `bare[start:end]`."""

    start: int
    end: int
    place: _Place | None


def with_tables(reader: PageText, texts: Sequence[LineText], grids: Sequence[Grid], turn: int) -> list[PdfLine]:
    """Return the lines of a page with a line for each table; a grid that holds no table leaves its lines alone.

    Args:
        reader: of the page.
        texts: its lines.
        grids: of the page turned so that its text lies level.
        turn: quarter turns against the clock that the text is set in.
    """
    finder = _Finder(grids)
    cut = [list(_runs(reader, text, finder, turn)) if finder.may_hold(text.line, turn) else [] for text in texts]
    cells: list[defaultdict[int, list[str]]] = [defaultdict(list) for _ in grids]
    for text, runs in zip(texts, cut):
        for run in runs:
            if run.place:
                grid, cell = run.place
                cells[grid][cell].append(clean(text.bare[run.start : run.end]))
    found = [table_of(grid, held) for grid, held in zip(grids, cells)]
    tables = {number: table for number, table in enumerate(found) if table}
    parts = [part for text, runs in zip(texts, cut) for part in _parts(reader, text, runs, tables)]
    lines = {number: tuple(line for one, line in parts if one == number) for number in tables}
    out = []
    for number, line in parts:
        if number is None:
            out.append(line)
        elif number in tables:
            out.append(_line_of(tables.pop(number)._replace(lines=lines[number]), grids[number], turn))
    return out


class _Finder:
    """Finds the cell that a point stands in; of grids within grids the innermost."""

    def __init__(self, grids: Sequence[Grid]) -> None:
        self._grids = sorted(enumerate(grids), key=lambda one: _area(one[1]))
        self._cells: list[dict[tuple[int, int], int]] = [
            {
                (row, column): number
                for number, cell in enumerate(grid.cells)
                for row in range(cell.row, cell.row + cell.rows)
                for column in range(cell.column, cell.column + cell.columns)
            }
            for grid in grids
        ]

    def may_hold(self, line: PdfLine, turn: int) -> bool:
        """Whether words of a line may stand in a grid."""
        return line.turn != turn or any(
            line.bottom < grid.heights[0] and line.top > grid.heights[-1] and line.left < grid.edges[-1]
            for _, grid in self._grids
        )

    def place(self, box: Box) -> _Place | None:
        """Return the cell that the middle of a box stands in."""
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        for number, grid in self._grids:
            if grid.edges[0] <= x < grid.edges[-1] and grid.heights[-1] <= y < grid.heights[0]:
                row = bisect(grid.heights, -y, key=lambda height: -height) - 1
                cell = self._cells[number].get((row, bisect(grid.edges, x) - 1))
                if cell is not None:
                    return number, cell
        return None


def _area(grid: Grid) -> float:
    return (grid.edges[-1] - grid.edges[0]) * (grid.heights[0] - grid.heights[-1])


def _runs(reader: PageText, text: LineText, finder: _Finder, turn: int) -> Iterator[_Run]:
    """Yield the words of a line, those that follow one another in one place together."""
    pieces = (piece for word in _WORD.finditer(text.bare) for piece in _pieces(reader, text, word, finder, turn))
    for place, group in groupby(pieces, key=lambda piece: piece.place):
        run = list(group)
        yield _Run(run[0].start, run[-1].end, place)


def _pieces(reader: PageText, text: LineText, word: re.Match[str], finder: _Finder, turn: int) -> Iterator[_Run]:
    """Yield a word; in parts where PDFium put together what stands apart in two cells."""

    def box(at: int) -> Box:
        return reader.box_at(text.unit + units(text.bare[:at]), turn)

    start, last = word.start(), word.end() - 1
    first = box(start)
    place = finder.place(first)
    if last > start and finder.place(box(last)) != place:
        before = first
        for at in range(start + 1, last + 1):
            here = box(at)
            there = finder.place(here)
            if there != place and here[0] - before[2] > _APART * (here[3] - here[1]):
                yield _Run(start, at, place)
                start, place = at, there
            before = here
    yield _Run(start, word.end(), place)


def _parts(
    reader: PageText, text: LineText, runs: Sequence[_Run], tables: Collection[int]
) -> list[tuple[int | None, PdfLine]]:
    """Return a line as parts that each stand in one of the tables, or in none (None)."""

    def number(run: _Run) -> int | None:
        return run.place[0] if run.place and run.place[0] in tables else None

    groups = [(one, list(group)) for one, group in groupby(runs, key=number)]
    if len(groups) < 2:
        return [(groups[0][0] if groups else None, text.line)]
    lines = [
        (one, reader.line_at(text.bare[group[0].start : group[-1].end], text.unit + units(text.bare[: group[0].start])))
        for one, group in groups
    ]
    return [(one, line) for one, line in lines if line.text]


def _line_of(table: PdfTable, grid: Grid, turn: int) -> PdfLine:
    """Return the line that stands for a table."""
    words = " ".join([*table.titles, *(line for row in table.rows for cell in row for line in cell)])
    sizes = Counter(line.size for line in table.lines)
    return PdfLine(
        words,
        sizes.most_common(1)[0][0],
        bold=False,
        top=grid.heights[0],
        bottom=grid.heights[-1],
        left=grid.edges[0],
        right=grid.edges[-1],
        turn=turn,
        edge=all(line.edge for line in table.lines),
        table=table,
    )
