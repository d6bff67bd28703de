"""Tables of a PDF without rulings: lines below one another whose parts stand in common columns.

A table is at least three lines with two parts or more, and the gaps between the parts run down through all of them. A
line of fewer parts belongs to the row above, unless it begins in the first column or is a total. The names of the
columns may stand above it in several lines. Not tables: lists with labels, labels with a value ("Version: 3.2"), two
columns of words. In case of doubt the lines stay lines.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from statistics import mean
from typing import Final, NamedTuple

from context_engine.ingest.header import header_fields
from context_engine.ingest.loaders.markdown import CONTINUED
from context_engine.ingest.loaders.pdf_grids import Ruling
from context_engine.ingest.loaders.pdf_row_heads import Columns, is_period, is_value, names_of, parts_of, with_head
from context_engine.ingest.loaders.pdf_text import PART_GAP, LinePart, PdfLine, PdfTable

_LEAST_ROWS: Final = 3
_MOST_ROWS: Final = 400
_LEAST_FILLED: Final = 2  # rows with a value in each column
_WIDER: Final = 1.4  # times the least distance of rows: a text below the table
_MOST_CELL: Final = 60  # mean characters of a cell
_MOST_VALUE: Final = 30  # characters of a value in a table of two columns
_FILLED: Final = 0.6  # share of the cells
_FAR: Final = 3.0  # times the type size: a wider distance ends the table
_LARGER: Final = 1.12  # times the type size of the first row: a heading
_PACKED: Final = 0.8  # of the usual distance of rows: a line nearer than this continues its row
_MOST_HEAD: Final = 3  # rows
_LABEL: Final = re.compile(r"(?i)(?:[•▪●◦‣–—*-]|\(?(?:[\d.]{1,10}|[a-z]|[ivxlc]{1,5})[.)]?|note|source)")
_LABELLED: Final = re.compile(r"[^\W\d]\s?[:：]\s*\S")
_VALUE: Final = re.compile(r"\S*\d\S*|[-–—.*]+")
_NO_VALUE: Final = re.compile(r"[-–—.*\s]+")
_AMOUNT: Final = re.compile(r"[^\w\s]*\s?\d[\d.,]*\s?[%)]*|[-–—]+")
_BEGINS_VALUE: Final = re.compile(r"[-–—(]*\d|[-–—]")
_AFTER_VALUE: Final = re.compile(r"[%)]+")
_SIGN_NEAR: Final = 2.0  # times the type size: from a value to its percent sign


class _Level(NamedTuple):
    """Lines at one height, and the same as one line, with each currency sign in the part of its value."""

    line: PdfLine
    lines: list[PdfLine]


class _Row(NamedTuple):
    """A row: its cells, each with its lines, and the lines that it was made of."""

    cells: list[list[str]]
    lines: list[PdfLine]


def with_aligned_rows(lines: Sequence[PdfLine], rules: Sequence[Ruling] = ()) -> list[PdfLine]:
    """Return the lines of a page with a line for each table without rulings.

    Args:
        rules: the horizontal rulings of the page, which may be below the names of columns.
    """
    levels = _levels(lines)
    out: list[PdfLine] = []
    at = begun = 0  # the next line, and the first one below the last table
    while at < len(levels):
        block = _block([level.line for level in levels[at : at + _MOST_ROWS]])
        table = _longest_table(block, rules)
        if table is None:
            out += levels[at].lines
            at += 1
            continue
        end = at + len(table.lines)
        whole, above = with_head([level.line for level in levels[begun:at]], table, rules)
        first = at - above
        del out[len(out) - sum(len(level.lines) for level in levels[first:at]) :]
        out += [line for level in levels[at:first] for line in level.lines]
        taken = [line for level in levels[first:end] for line in level.lines]
        out.append(_as_line(whole._replace(lines=tuple(taken))))
        at = begun = end
    return out


def _levels(lines: Sequence[PdfLine]) -> list[_Level]:
    """Return neighbouring lines of one height as a single line: PDFium splits a line at a wide gap."""
    levels: list[_Level] = []
    for line in lines:
        above = levels[-1].line if levels else None
        if above and not (above.table or line.table) and _is_beside(above, line):
            joined = above._replace(
                text=f"{above.text} {line.text}", right=line.right, parts=(*parts_of(above), *parts_of(line))
            )
            levels[-1] = _Level(joined, [*levels[-1].lines, line])
        else:
            levels.append(_Level(line, [line]))
    return [level._replace(line=_with_whole_values(level.line)) if level.line.parts else level for level in levels]


def _with_whole_values(line: PdfLine) -> PdfLine:
    """Return a line whose currency signs, percent signs and closing brackets are in the parts of their values."""
    parts: list[LinePart] = []
    for part in (piece for whole in line.parts for piece in _before_sign(whole)):
        if parts and _is_sign(parts[-1].text) and _BEGINS_VALUE.match(part.text):
            parts[-1] = part._replace(text=f"{parts[-1].text} {part.text}", left=parts[-1].left)
        elif parts and _AFTER_VALUE.fullmatch(part.text) and part.left - parts[-1].right < line.size * _SIGN_NEAR:
            parts[-1] = parts[-1]._replace(text=parts[-1].text + part.text)
        else:
            parts.append(part)
    return line._replace(parts=tuple(parts))


def _before_sign(part: LinePart) -> Sequence[LinePart]:
    """Return a part; one that ends with the currency sign of the next value as two."""
    text, _, sign = part.text.rpartition(" ")
    if not text or not _is_sign(sign):
        return (part,)
    right = part.left + (part.right - part.left) * len(text) / len(part.text)
    return part._replace(text=text, right=right), part._replace(text=sign, left=part.right)


def _is_sign(text: str) -> bool:
    return all(unicodedata.category(char) == "Sc" for char in text)


def _is_beside(before: PdfLine, line: PdfLine) -> bool:
    same = line.turn == before.turn and abs(before.bottom - line.bottom) < line.size / 2
    return same and line.left - before.right > line.size * PART_GAP


def _block(lines: Sequence[PdfLine]) -> Sequence[PdfLine]:
    """Return the first lines that leave at least one gap free in all of them; none without parts.

    A line much larger than those above ends it, unless these hold no values: a head may be set in smaller type.
    """
    first = lines[0]
    labelled = any(_LABELLED.search(part.text) for part in first.parts) and not any(map(is_value, first.parts))
    if first.table or len(first.parts) < 2 or labelled:
        return ()
    gaps, most, end = _gaps(first), first.size * _LARGER, 1
    while end < len(lines):
        limit = most if any(map(is_value, lines[end - 1].parts)) else most * _LARGER
        gaps = _common(gaps, _gaps(lines[end])) if _follows(lines[end - 1], lines[end], limit) else []
        if not gaps:
            break
        most = max(most, lines[end].size)
        end += 1
    return lines[:end]


def _follows(above: PdfLine, line: PdfLine, most: float) -> bool:
    near = 0 < above.bottom - line.bottom < above.size * _FAR
    return near and not line.table and line.turn == above.turn and line.size <= most


def _gaps(line: PdfLine) -> list[tuple[float, float]]:
    """Return the space left free by a line: before it, between its parts and after it."""
    edges = [(-1e9, -1e9), *((part.left, part.right) for part in parts_of(line)), (1e9, 1e9)]
    free = [(before[1], after[0]) for before, after in pairwise(edges)]
    return [gap for gap in free if gap[1] - gap[0] > line.size * PART_GAP / 2]


def _common(gaps: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the space that both leave free, without that before and after the lines."""
    both = [(max(gap[0], other[0]), min(gap[1], other[1])) for gap in gaps for other in others]
    wide = [gap for gap in both if gap[1] - gap[0] > 1]
    return wide if any(gap[0] > -1e8 and gap[1] < 1e8 for gap in wide) else []


def _longest_table(block: Sequence[PdfLine], rules: Sequence[Ruling]) -> PdfTable | None:
    """Return the table at the beginning of a block; a block may hold text and tables of other columns below it."""
    tables = [table for end in (len(block), _first_end(block)) if (table := _table(block[:end], rules))]
    return max(tables, key=lambda table: len(table.lines), default=None)


def _first_end(block: Sequence[PdfLine]) -> int:
    """Return the first line without parts that is farther below the one above than those above from one another."""
    usual = inf
    for number, (above, line) in enumerate(pairwise(block), start=1):
        distance = above.bottom - line.bottom
        if number >= _LEAST_ROWS and not line.parts and distance > usual * _WIDER:
            return number
        usual = min(usual, distance)
    return len(block)


def _table(block: Sequence[PdfLine], rules: Sequence[Ruling]) -> PdfTable | None:
    """Return the table at the beginning of a block; None if it is no table."""
    if len(block) < _LEAST_ROWS:
        return None
    counts = Counter(len(line.parts) for line in block if line.parts)
    most = max(counts, key=lambda count: (counts[count], count))
    full = [line for line in block if len(line.parts) == most]
    valued = [line for line in full if any(map(is_value, line.parts[1:]))]
    columns = _with_sparse(_columns(valued if len(valued) > 1 else full), block)
    if len(columns) < 2:
        return None
    rows, used = _rows(block, columns, most, rules)
    width = len(columns)
    filled = [row for row in rows if sum(cell not in ([], [CONTINUED]) for cell in row.cells) > 1]
    if len(filled) < _LEAST_ROWS or any(_is_field(line) for line in used) or not _is_tabular(filled, width):
        return None
    cells = tuple(tuple(map(tuple, row.cells)) for row in rows)
    head = _head_rows(rows) if _has_head(rows) else 0
    cells = cells if head else (((),) * width, *cells)
    head_lines = sum(len(row.lines) for row in rows[:head])
    edges = (*(left for left, _ in columns), columns[-1][1])
    return PdfTable(
        cells, edges, lines=tuple(used), ruled=False, columns=tuple(columns), head=(max(head, 1), head_lines)
    )


def _columns(lines: Sequence[PdfLine]) -> Columns:
    """Return the columns of lines with equally many parts: parts that overlap share a column."""
    columns: list[tuple[float, float]] = []
    for left, right in sorted((part.left, part.right) for line in lines for part in line.parts):
        if columns and left <= columns[-1][1]:
            columns[-1] = columns[-1][0], max(right, columns[-1][1])
        else:
            columns.append((left, right))
    return columns


def _with_sparse(columns: Columns, block: Sequence[PdfLine]) -> Columns:
    """Return the columns of all rows with values, if they are more: some are empty in most rows."""
    rows = [line for line in block if any(map(is_value, line.parts[1:]))]
    every = _columns(rows)
    filled = Counter(
        number
        for line in rows
        for number, (left, right) in enumerate(every)
        if any(left <= part.left and part.right <= right for part in line.parts)
    )
    return every if len(every) > len(columns) and min(filled.values()) >= _LEAST_FILLED else columns


def _rows(
    block: Sequence[PdfLine], columns: Columns, most: int, rules: Sequence[Ruling]
) -> tuple[list[_Row], list[PdfLine]]:
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
        far = above is not None and 0 < usual * _WIDER < above.bottom - line.bottom
        if complete and ((far and not cells[0]) or _is_next_head(line, columns)):
            break
        more_of_row = not cells[0] or (near and sum(map(bool, cells)) == 1)
        if rows and not spanning and more_of_row and complete and not _is_total(rows[-1].cells, cells):
            for cell, more in zip(rows[-1].cells, cells):
                cell += more
            rows[-1].lines.append(line)
        else:
            rows.append(_Row(cells, [line]))
    while rows and sum(map(bool, rows[-1].cells)) < 2:  # a note below the table
        rows.pop()
    return _with_one_head(rows, columns, most, rules), [line for row in rows for line in row.lines]


def _is_next_head(line: PdfLine, columns: Columns) -> bool:
    """Whether a line names only periods: the head of another table."""
    periods = len(line.parts) > 1 and all(is_period(part.text) for part in line.parts)
    return periods and (len(line.parts) != len(columns) or line.left > columns[0][1])


def _is_total(above: Sequence[Sequence[str]], cells: Sequence[Sequence[str]]) -> bool:
    """Whether a line has amounts below those of the row above: a total without a label."""
    below = [(upper[-1], lower[0]) for upper, lower in zip(above, cells) if upper and lower]
    return any(_AMOUNT.fullmatch(upper) and _AMOUNT.fullmatch(lower) for upper, lower in below)


def _with_one_head(rows: Sequence[_Row], columns: Columns, most: int, rules: Sequence[Ruling]) -> list[_Row]:
    """Return the rows with the lines of the head above its fullest line joined with that."""
    first = next((number for number, row in enumerate(rows) if len(row.lines[0].parts) == most), 0)
    head = rows[: first + 1]
    lines = [line for row in head for line in row.lines]
    if first == 0 or any(is_value(part) for line in lines for part in parts_of(line)):
        return list(rows)
    return [_Row(list(map(list, names_of(lines, columns, rules))), lines), *rows[first + 1 :]]


def _usual_distance(block: Sequence[PdfLine], most: int) -> float:
    full = [line for line in block if len(line.parts) == most]
    return min((above.bottom - line.bottom for above, line in pairwise(full)), default=0.0)


def _cells(line: PdfLine, columns: Columns, *, lowest: bool) -> list[list[str]] | None:
    """Return the texts of a line by column; None if two of its parts share a column, or one is in none.

    A part over several columns is cut between them if it has a value for each, or is in the lowest line of the head;
    else it is in the first, and the others hold `CONTINUED`.
    """
    cells: list[list[str]] = [[] for _ in columns]
    for part in parts_of(line):
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


def _cut(part: LinePart, columns: Columns) -> list[str]:
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
    if names and (all(map(_NO_VALUE.fullmatch, names)) or any(map(_is_money, names))):
        return False
    for number, cell in enumerate(rows[0].cells):
        name = " ".join(cell)
        values = [text for row in rows[1:] if (text := " ".join(row.cells[number]))]
        numeric = sum(any(map(str.isdigit, value)) for value in values) > len(values) / 2
        letters = name[:1].isalpha() or (len(cell) > 1 and any(map(str.isalpha, name)))
        worded = letters and not any(value[:1].isalpha() for value in values)
        period = is_period(name) and 2 * sum(map(is_period, values)) <= len(values)
        has_value = any(map(str.isdigit, name)) or _VALUE.fullmatch(name)
        if numeric and has_value and not worded and not period:
            return False
    return True


def _head_rows(rows: Sequence[_Row]) -> int:
    """Return how many of the first rows name columns: after the first one, those with words beside an empty cell."""
    count = 1
    while count < min(_MOST_HEAD, len(rows) - 1) and not rows[count].cells[0]:
        if any(is_value(part) for line in rows[count].lines for part in parts_of(line)):
            break
        count += 1
    return count


def _is_money(text: str) -> bool:
    return any(map(str.isdigit, text)) and _AMOUNT.fullmatch(text) is not None and _is_sign(text[0])


def _as_line(table: PdfTable) -> PdfLine:
    lines = table.lines
    sizes = Counter[float]()
    for line in lines:
        sizes[line.size] += len(line.text)
    return lines[0]._replace(
        text=" ".join(line.text for line in lines),
        size=sizes.most_common(1)[0][0],
        bold=False,
        bottom=min(line.bottom for line in lines),
        left=min(line.left for line in lines),
        right=max(line.right for line in lines),
        edge=all(line.edge for line in lines),
        parts=(),
        table=table,
    )
