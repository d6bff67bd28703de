"""Tables of a PDF without rulings: lines below one another whose parts stand in common columns.

A table is at least three lines with two parts or more, and the gaps between the parts run down through all of them. A
line of fewer parts belongs to the row above, unless it begins in the first column. Not tables: lists with labels,
labels with a value ("Version: 3.2"), and two columns of words. In case of doubt the lines stay lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean
from typing import Final, NamedTuple

from context_engine.ingest.header import header_fields
from context_engine.ingest.loaders.markdown import CONTINUED
from context_engine.ingest.loaders.pdf_text import PART_GAP, LinePart, PdfLine, PdfTable
from context_engine.ingest.loaders.periods import period_of

_LEAST_ROWS: Final = 3
_MOST_ROWS: Final = 400
_MOST_CELL: Final = 60  # mean characters of a cell
_MOST_VALUE: Final = 30  # characters of a value in a table of two columns
_FILLED: Final = 0.6  # share of the cells
_FAR: Final = 3.0  # times the type size: a wider distance ends the table
_LARGER: Final = 1.12  # times the type size of the first row: a heading
_PACKED: Final = 0.8  # of the usual distance of rows: a line nearer than this continues its row
_MOST_HEAD: Final = 3  # rows
_LABEL: Final = re.compile(r"(?i)(?:[•▪●◦‣–—*-]|\(?(?:[\d.]{1,10}|[a-z]|[ivxlc]{1,5})[.)]?|note|source)")
_VALUE: Final = re.compile(r"\S*\d\S*|[-–—.*]+")
_NO_VALUE: Final = re.compile(r"[-–—.*\s]+")
_Columns = Sequence[tuple[float, float]]
"""Left and right of each column in points."""


class _Level(NamedTuple):
    """Lines at one height, and the same as one line."""

    line: PdfLine
    lines: list[PdfLine]


class _Row(NamedTuple):
    """A row: its cells, each with its lines, and the lines that it was made of."""

    cells: list[list[str]]
    lines: list[PdfLine]


def with_aligned_rows(lines: Sequence[PdfLine]) -> list[PdfLine]:
    """Return the lines of a page with a line for each table without rulings."""
    levels = _levels(lines)
    out: list[PdfLine] = []
    at = 0
    while at < len(levels):
        block = _block([level.line for level in levels[at : at + _MOST_ROWS]])
        table = _table(block) if len(block) >= _LEAST_ROWS else None
        end = at + len(table.lines) if table else at + 1
        originals = [line for level in levels[at:end] for line in level.lines]
        out += [_as_line(table._replace(lines=tuple(originals)))] if table else originals
        at = end
    return out


def _levels(lines: Sequence[PdfLine]) -> list[_Level]:
    """Return neighbouring lines of one height as a single line: PDFium splits a line at a wide gap."""
    levels: list[_Level] = []
    for line in lines:
        above = levels[-1].line if levels else None
        if above and not (above.table or line.table) and _is_beside(above, line):
            joined = above._replace(
                text=f"{above.text} {line.text}", right=line.right, parts=(*_parts(above), *_parts(line))
            )
            levels[-1] = _Level(joined, [*levels[-1].lines, line])
        else:
            levels.append(_Level(line, [line]))
    return levels


def _is_beside(before: PdfLine, line: PdfLine) -> bool:
    same = line.turn == before.turn and abs(before.bottom - line.bottom) < line.size / 2
    return same and line.left - before.right > line.size * PART_GAP


def _block(lines: Sequence[PdfLine]) -> Sequence[PdfLine]:
    """Return the first lines that leave at least one gap free in all of them; none without parts."""
    first = lines[0]
    if first.table or len(first.parts) < 2:
        return ()
    gaps = _gaps(first)
    end = 1
    while end < len(lines) and _follows(lines[end - 1], lines[end], first.size):
        gaps = _common(gaps, _gaps(lines[end]))
        if not gaps:
            break
        end += 1
    return lines[:end]


def _follows(above: PdfLine, line: PdfLine, size: float) -> bool:
    near = 0 < above.bottom - line.bottom < size * _FAR
    return near and not line.table and line.turn == above.turn and line.size <= size * _LARGER


def _parts(line: PdfLine) -> Sequence[LinePart]:
    return line.parts or (LinePart(line.text, line.left, line.right),)


def _gaps(line: PdfLine) -> list[tuple[float, float]]:
    """Return the space left free by a line: before it, between its parts and after it."""
    edges = [(-1e9, -1e9), *((part.left, part.right) for part in _parts(line)), (1e9, 1e9)]
    free = [(before[1], after[0]) for before, after in pairwise(edges)]
    return [gap for gap in free if gap[1] - gap[0] > line.size * PART_GAP / 2]


def _common(gaps: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the space that both leave free, without that before and after the lines."""
    both = [(max(gap[0], other[0]), min(gap[1], other[1])) for gap in gaps for other in others]
    wide = [gap for gap in both if gap[1] - gap[0] > 1]
    return wide if any(gap[0] > -1e8 and gap[1] < 1e8 for gap in wide) else []


def _table(block: Sequence[PdfLine]) -> PdfTable | None:
    """Return the table at the beginning of a block; None if it is no table."""
    counts = Counter(len(line.parts) for line in block if line.parts)
    most = max(counts, key=lambda count: (counts[count], count))
    full = [line for line in block if len(line.parts) == most]
    valued = [line for line in full if any(map(str.isdigit, line.text))]
    columns = _columns(valued if len(valued) > 1 else full)
    if len(columns) < 2:
        return None
    rows, used = _rows(block, columns, most)
    width = len(columns)
    filled = [row for row in rows if sum(cell not in ([], [CONTINUED]) for cell in row.cells) > 1]
    if len(filled) < _LEAST_ROWS or any(_is_field(line) for line in used) or not _is_tabular(filled, width):
        return None
    cells = tuple(tuple(map(tuple, row.cells)) for row in rows)
    if not _has_head(rows):
        cells = (((),) * width, *cells)
    return PdfTable(cells, (*(left for left, _ in columns), columns[-1][1]), lines=tuple(used), ruled=False)


def _columns(lines: Sequence[PdfLine]) -> _Columns:
    """Return the columns of lines with equally many parts: parts that overlap share a column."""
    columns: list[tuple[float, float]] = []
    for left, right in sorted((part.left, part.right) for line in lines for part in line.parts):
        if columns and left <= columns[-1][1]:
            columns[-1] = columns[-1][0], max(right, columns[-1][1])
        else:
            columns.append((left, right))
    return columns


def _rows(block: Sequence[PdfLine], columns: _Columns, most: int) -> tuple[list[_Row], list[PdfLine]]:
    """Return the rows at the beginning of a block and their lines."""
    usual = _usual_distance(block, most)
    rows: list[_Row] = []
    for above, line, below in zip([None, *block], block, [*block[1:], None]):
        complete = any(len(row.lines[0].parts) == most for row in rows)
        lowest = not complete and below is not None and len(below.parts) == most
        cells = _cells(line, columns, lowest=lowest and not any(map(str.isdigit, line.text)))
        spanning = CONTINUED in [text for cell in cells or () for text in cell]
        if cells is None or (spanning and (complete or len(rows) >= _MOST_HEAD)):
            break
        near = above is not None and above.bottom - line.bottom < usual * _PACKED
        if rows and not spanning and (not cells[0] or (near and sum(map(bool, cells)) == 1)) and complete:
            for cell, more in zip(rows[-1].cells, cells):
                cell += more
            rows[-1].lines.append(line)
        else:
            rows.append(_Row(cells, [line]))
    while rows and sum(map(bool, rows[-1].cells)) < 2:  # a note below the table
        rows.pop()
    return _with_one_head(rows, most), [line for row in rows for line in row.lines]


def _with_one_head(rows: Sequence[_Row], most: int) -> list[_Row]:
    """Return the rows with the lines of the head above its fullest line joined with that, unless it has wide names."""
    first = next((number for number, row in enumerate(rows) if len(row.lines[0].parts) == most), 0)
    head = rows[: first + 1]
    wide = any([CONTINUED] in row.cells for row in head)
    valued = any(map(str.isdigit, " ".join(line.text for row in head for line in row.lines)))
    if first == 0 or wide or valued:
        return list(rows)
    cells = [[text for row in head for text in row.cells[column]] for column in range(len(head[0].cells))]
    return [_Row(cells, [line for row in head for line in row.lines]), *rows[first + 1 :]]


def _usual_distance(block: Sequence[PdfLine], most: int) -> float:
    full = [line for line in block if len(line.parts) == most]
    return min((above.bottom - line.bottom for above, line in pairwise(full)), default=0.0)


def _cells(line: PdfLine, columns: _Columns, *, lowest: bool) -> list[list[str]] | None:
    """Return the texts of a line by column; None if two of its parts share a column, or one is in none.

    A part over several columns is cut between them if it has a value for each, or is in the lowest line of the head;
    else it is in the first, and the others hold `CONTINUED`.
    """
    cells: list[list[str]] = [[] for _ in columns]
    for part in _parts(line):
        covered = [number for number, (left, right) in enumerate(columns) if part.left < right and part.right > left]
        if not covered:
            middle = (part.left + part.right) / 2
            covered = [min(range(len(columns)), key=lambda number: abs(middle - sum(columns[number]) / 2))]
        if any(cells[number] for number in covered):
            return None
        texts = _cut(part, [columns[number] for number in covered]) if len(covered) > 1 else [part.text]
        if not all(texts) or not (lowest or all(map(_VALUE.fullmatch, texts))):
            texts = [part.text] + [CONTINUED] * (len(covered) - 1)
        for number, text in zip(covered, texts):
            cells[number] = [text]
    return cells


def _cut(part: LinePart, columns: _Columns) -> list[str]:
    """Return the words of a part by column, as if its characters were equally wide.

    A word belongs to the column with the nearest left edge, middle or right edge: whichever the part as a whole fits.
    """
    width = (part.right - part.left) / len(part.text)
    ends = ((abs(part.left - columns[0][0]), 0.0), (abs(part.right - columns[-1][1]), 1.0))
    distance, share = min(ends)
    if distance > 2 * width:
        share = 0.5
    places = [left + share * (right - left) for left, right in columns]
    words: list[list[str]] = [[] for _ in columns]
    for word in re.finditer(r"\S+", part.text):
        place = part.left + width * (word.start() + share * len(word[0]))
        words[min(range(len(places)), key=lambda number: abs(place - places[number]))].append(word[0])
    return [" ".join(words_of_column) for words_of_column in words]


def _is_field(line: PdfLine) -> bool:
    """Whether a line is a label with its value, which the header of a document may hold."""
    return (":" in line.text or "：" in line.text) and bool(header_fields(line.text))


def _is_tabular(rows: Sequence[_Row], width: int) -> bool:
    """Whether cells are short and most of them filled; of two columns, the second must hold values."""
    texts = [[" ".join(cell) for cell in row.cells] for row in rows]
    filled = [text for row in texts for text in row if text]
    if len(filled) < _FILLED * width * len(rows) or mean(map(len, filled)) > _MOST_CELL:
        return False
    if all(_LABEL.fullmatch(row[0]) for row in texts if row[0]) and width == 2:
        return False
    values = sum(any(map(str.isdigit, row[1])) and len(row[1]) <= _MOST_VALUE for row in texts)
    return width > 2 or values * 2 > len(rows)


def _has_head(rows: Sequence[_Row]) -> bool:
    """Whether the first row names the columns: it has no value but a period in a column of numbers below it."""
    names = [text for cell in rows[0].cells[1:] if (text := " ".join(cell).strip(CONTINUED))]
    if names and all(map(_NO_VALUE.fullmatch, names)):
        return False
    for number, cell in enumerate(rows[0].cells):
        name = " ".join(cell)
        values = [text for row in rows[1:] if (text := " ".join(row.cells[number]))]
        numeric = sum(any(map(str.isdigit, value)) for value in values) > len(values) / 2
        worded = name[:1].isalpha() and not any(value[:1].isalpha() for value in values)
        is_value = any(map(str.isdigit, name)) or _VALUE.fullmatch(name)
        if numeric and is_value and not worded and period_of(name) is None:
            return False
    return True


def _as_line(table: PdfTable) -> PdfLine:
    lines = table.lines
    return lines[0]._replace(
        text=" ".join(line.text for line in lines),
        bold=False,
        bottom=min(line.bottom for line in lines),
        left=min(line.left for line in lines),
        right=max(line.right for line in lines),
        edge=all(line.edge for line in lines),
        parts=(),
        table=table,
    )
