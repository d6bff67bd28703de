"""Columns of text that a PDF holds line by line across the page, put one below the other.

Most PDFs hold one column after the other, and their order stays. Where lines of two columns are woven together, a
gutter runs down between them; it is followed as long as no text crosses it (a heading over both columns does). Only
columns of running text are taken apart: the rows of a table stay together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean
from typing import Final, NamedTuple

from context_engine.ingest.loaders.pdf_line import PART_GAP, LinePart, PdfLine

_LEAST_ROWS: Final = 3  # with text on both sides
_LEAST_LENGTH: Final = 15  # characters of a line of running text, on the average
_FULL: Final = 0.7  # of a column's width
_MOST_FULL: Final = 0.5  # of a column's lines are so long
_LARGER: Final = 1.12  # times the type of the text: a heading
_MOST_ROWS: Final = 300  # of a region
_APART: Final = 1.6  # times the type: what stands lower is no part of the column

_Gap = tuple[float, float]


class _Row(NamedTuple):
    """Lines at one height, and their parts as lines of their own, from left to right."""

    lines: list[PdfLine]
    pieces: list[PdfLine]

    @property
    def bottom(self) -> float:
        return self.pieces[0].bottom

    @property
    def size(self) -> float:
        return max(piece.size for piece in self.pieces)


def in_reading_order(lines: Sequence[PdfLine]) -> list[PdfLine]:
    """Return the lines of a page with woven columns one after the other."""
    if sum(_may_be_woven(line, below) for line, below in pairwise(lines)) < _LEAST_ROWS - 1:
        return list(lines)
    rows = _rows(lines)
    if sum(len(row.pieces) > 1 for row in rows) < _LEAST_ROWS:
        return list(lines)
    out: list[PdfLine] = []
    at = 0
    while at < len(rows):
        end, gutters = _region(rows, at)
        columns = _columns(rows[at:end], gutters)
        if columns and all(map(_is_text, columns)):
            out += [piece for column in columns for piece in column]
            at = end
        else:
            out += rows[at].lines
            at += 1
    return out


def _may_be_woven(line: PdfLine, below: PdfLine) -> bool:
    """Whether two long texts stand side by side: a quick look that spares most pages the long one."""
    if line.parts and _two_long(line.parts):
        return True
    return abs(line.bottom - below.bottom) < below.size / 2 and _two_long((line, below))


def _two_long(texts: Sequence[PdfLine | LinePart]) -> bool:
    return sum(len(one.text) * 2 >= _LEAST_LENGTH for one in texts) > 1


def _rows(lines: Sequence[PdfLine]) -> list[_Row]:
    rows: list[_Row] = []
    for line in lines:
        if rows and _beside(rows[-1], line):
            rows[-1].lines.append(line)
            rows[-1].pieces.extend(_pieces(line))
            rows[-1].pieces.sort(key=lambda piece: piece.left)
        else:
            rows.append(_Row([line], list(_pieces(line))))
    return rows


def _pieces(line: PdfLine) -> Iterator[PdfLine]:
    if not line.parts:
        yield line
        return
    for part in line.parts:
        if part.text:
            yield line._replace(text=part.text, left=part.left, right=part.right, parts=())


def _beside(row: _Row, line: PdfLine) -> bool:
    """Whether a line stands at the height of a row, to the right or left of all that is in it."""
    last = row.lines[-1]
    if line.turn != last.turn or abs(line.bottom - last.bottom) > line.size / 2:
        return False
    return line.left > row.pieces[-1].right or line.right < row.pieces[0].left


def _region(rows: Sequence[_Row], start: int) -> tuple[int, list[_Gap]]:
    """Return where the rows that leave the gutters of the first one free end, and the gutters that are free in all."""
    first = rows[start]
    gutters = [gap for gap in _free(first)[1:-1] if gap[1] - gap[0] > first.size * PART_GAP]
    if not gutters:
        return start, []
    end = last = start + 1  # the last row with text on both sides
    while end < min(len(rows), start + _MOST_ROWS):
        above, row = rows[end - 1], rows[end]
        heading = len(row.pieces) == 1 and row.size > first.size * _LARGER
        distance = above.bottom - row.bottom
        if row.pieces[0].turn != first.pieces[0].turn or distance < 0 or (heading and distance > row.size * _APART):
            break
        free = _common(gutters, _free(row), first.size * PART_GAP)
        if not free:
            break
        gutters = free
        end += 1
        if len(_sides(row, gutters)) > 1:
            last = end
    while last < end and _continues(rows[last - 1], rows[last], gutters):  # the first column may be the longer one
        last += 1
    return last, gutters


def _free(row: _Row) -> list[_Gap]:
    edges = [(-1e9, -1e9), *((piece.left, piece.right) for piece in row.pieces), (1e9, 1e9)]
    return [(before[1], after[0]) for before, after in pairwise(edges)]


def _common(gutters: Sequence[_Gap], free: Sequence[_Gap], least: float) -> list[_Gap]:
    both = [(max(one[0], other[0]), min(one[1], other[1])) for one in gutters for other in free]
    return [gap for gap in both if gap[1] - gap[0] > least]


def _column(piece: PdfLine, gutters: Sequence[_Gap]) -> int:
    middle = (piece.left + piece.right) / 2
    return sum((gap[0] + gap[1]) / 2 < middle for gap in gutters)


def _sides(row: _Row, gutters: Sequence[_Gap]) -> set[int]:
    return {_column(piece, gutters) for piece in row.pieces}


def _continues(above: _Row, row: _Row, gutters: Sequence[_Gap]) -> bool:
    near = above.bottom - row.bottom < row.size * _APART
    return near and abs(above.size - row.size) < 1 and _sides(row, gutters) == {0}


def _columns(rows: Sequence[_Row], gutters: Sequence[_Gap]) -> list[list[PdfLine]]:
    if not gutters or sum(len(_sides(row, gutters)) > 1 for row in rows) < _LEAST_ROWS:
        return []
    columns: list[list[PdfLine]] = [[] for _ in range(len(gutters) + 1)]
    for row in rows:
        for piece in row.pieces:
            columns[_column(piece, gutters)].append(piece)
    return columns


def _is_text(column: Sequence[PdfLine]) -> bool:
    """Whether lines are those of running text: long, and most of them as wide as the column."""
    if len(column) < _LEAST_ROWS:
        return False
    width = max(piece.right for piece in column) - min(piece.left for piece in column)
    full = sum(piece.right - piece.left >= width * _FULL for piece in column)
    return full >= len(column) * _MOST_FULL and mean(len(piece.text) for piece in column) >= _LEAST_LENGTH
