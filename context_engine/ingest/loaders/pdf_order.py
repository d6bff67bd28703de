"""The lines of a PDF page in reading order.

Most PDFs hold one column after the other from the top, and their order is kept. If a line is drawn above the one before
it, the page is cut into columns and blocks, which are read from the top. If the lines of two columns are interwoven, a
gutter runs between them; it is followed down until text crosses it, such as a heading over both columns. Only columns
of running text are separated: the rows of a table stay together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from statistics import mean
from typing import Final, NamedTuple

from context_engine.ingest.loaders.pdf_digits import Box
from context_engine.ingest.loaders.pdf_text import PART_GAP, LinePart, PdfLine

_LEAST_ROWS: Final = 3  # with text on both sides
_LEAST_LENGTH: Final = 15  # mean characters of a line of running text
_FULL: Final = 0.7  # share of the column's width that a full line fills
_MOST_FULL: Final = 0.5  # least share of full lines in a column
_LARGER: Final = 1.12  # times the type size of the text: a heading
_MOST_ROWS: Final = 300  # of a region
_MOST_CUT: Final = 600  # lines of a page that is cut into blocks
_LEAST_SIDE: Final = 2  # lines on each side of a gutter
_LEAST_TEXT: Final = 8  # characters of a line that shows the order of drawing
_ALIKE: Final = 0.5  # of the type size
_TOUCH: Final = 0.2  # of a line's height, by which the line above may reach into it
_APART: Final = 1.6  # times the type size: a wider gap ends the column
_Gap = tuple[float, float]


def from_the_top(lines: Sequence[PdfLine], upright: int) -> list[PdfLine]:
    """Return the lines of a page from the top, if some are drawn above the line before them.

    Args:
        upright: quarter turns of upright text on the page as shown.
    """
    out: list[PdfLine] = []
    for turn, group in groupby(lines, key=lambda line: line.turn):
        run = _foot_last(list(group))
        rising = sum(below.bottom > above.bottom for above, below in pairwise(run))
        if sum(_steps_back(above, below) for above, below in pairwise(run)) >= _LEAST_ROWS:
            out += (line for row in _heights(run) for line in row)
        elif len(run) <= _MOST_CUT and (_is_disordered(run) or _has_late_top(run)):
            out += _from_the_top(run)
        else:
            out += reversed(run) if turn != upright and rising > len(run) / 2 else run
    return out


def _foot_last(lines: list[PdfLine]) -> list[PdfLine]:
    """Return the lines with a page footer, if it is drawn first, moved behind the others."""
    first = next((number for number, line in enumerate(lines) if not line.edge), 0)
    lowest = min((line.bottom for line in lines[first:]), default=0.0)
    foot = [line for line in lines[:first] if line.top <= lowest]
    return [*(line for line in lines[:first] if line.top > lowest), *lines[first:], *foot] if foot else lines


def _steps_back(above: PdfLine, below: PdfLine) -> bool:
    """Whether a line of text is drawn to the left of the one before it, at about its height: columns are interwoven."""
    if min(len(above.text), len(below.text)) < _LEAST_LENGTH:
        return False
    return below.right < above.left and min(above.top, below.top) > max(above.bottom, below.bottom)


def order_of_boxes(boxes: Sequence[Box]) -> list[int]:
    """Return the numbers of boxes in the order in which they are read: from the top, and column by column."""
    lines = [
        PdfLine(str(number), 0.0, bold=False, top=top, bottom=bottom, left=left, right=right)
        for number, (left, bottom, right, top) in enumerate(boxes)
    ]
    return [int(line.text) for line in _from_the_top(lines)]


def _is_disordered(lines: Sequence[PdfLine]) -> bool:
    """Whether lines are drawn above the one before them in the same column.

    A page header or footer is often drawn last; this counts only if the page has one column.
    """
    rises = [_rises(above, below) for above, below in pairwise(lines)]
    if not any(rises):
        return False
    inner = any(rise and not (above.edge or below.edge) for rise, (above, below) in zip(rises, pairwise(lines)))
    return inner or any(map(all, pairwise(rises))) or all(len(row) == 1 for row in _heights(lines))


def _has_late_top(lines: Sequence[PdfLine]) -> bool:
    """Whether the top of a page is drawn after at least three lines under it, such as the title of a slide."""
    inner = [line for line in lines if not line.edge and len(line.text) >= _LEAST_TEXT]
    highest = list(accumulate((line.top for line in inner), max))
    return any(
        line.bottom >= above and sum(_share_column(line, earlier) for earlier in inner[:number]) >= _LEAST_ROWS
        for number, (above, line) in enumerate(zip(highest, inner[1:]), start=1)
    )


def _share_column(line: PdfLine, other: PdfLine) -> bool:
    return min(line.right, other.right) > max(line.left, other.left)


def _rises(above: PdfLine, below: PdfLine) -> bool:
    if min(len(above.text), len(below.text)) < _LEAST_TEXT or abs(above.size - below.size) > above.size * _ALIKE:
        return False  # a raised or lowered sign, a part of a formula
    overlaps = min(above.right, below.right) > max(above.left, below.left)
    return overlaps and below.bottom >= above.top - _TOUCH * (above.top - above.bottom)


def _from_the_top(lines: Sequence[PdfLine]) -> list[PdfLine]:
    """Return lines from the top; where a gutter divides them, the left side first."""
    rows = _heights(lines)
    out: list[PdfLine] = []
    at = 0
    while at < len(rows):
        end, middle = _divided(rows, at)
        block = [line for row in rows[at:end] for line in row]
        if middle is None:
            out += block
        else:
            out += _from_the_top([line for line in block if line.left < middle])
            out += _from_the_top([line for line in block if line.left >= middle])
        at = end
    return out


def _heights(lines: Sequence[PdfLine]) -> list[list[PdfLine]]:
    """Return the lines at each height from left to right, from the top."""
    rows: list[list[PdfLine]] = []
    for line in sorted(lines, key=lambda line: -line.bottom):
        height = min(line.top - line.bottom, rows[-1][0].top - rows[-1][0].bottom) if rows else 0.0
        if rows and min(line.top, rows[-1][0].top) - max(line.bottom, rows[-1][0].bottom) > height / 2:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [sorted(row, key=lambda line: line.left) for row in rows]


def _divided(rows: Sequence[Sequence[PdfLine]], at: int) -> tuple[int, float | None]:
    """Return the end of the rows that a gutter divides and its middle; the next row and None without a gutter."""
    best: tuple[int, float | None] = (at + 1, None)
    spans: list[_Gap] = []
    for end in range(at, min(len(rows), at + _MOST_ROWS)):
        spans = _merged([*spans, *((line.left, line.right) for line in rows[end])])
        least = rows[end][0].size * PART_GAP
        gaps = [(before[1], after[0]) for before, after in pairwise(spans) if after[0] - before[1] > least]
        if not gaps and len(spans) == 1 and end > at:
            break
        block = [line for row in rows[at : end + 1] for line in row]
        middles = [sum(gap) / 2 for gap in gaps]
        if middle := next((middle for middle in middles if _both_sides(block, middle)), None):
            best = end + 1, middle
    return best


def _merged(spans: Sequence[_Gap]) -> list[_Gap]:
    out: list[_Gap] = []
    for left, right in sorted(spans):
        if out and left <= out[-1][1]:
            out[-1] = out[-1][0], max(right, out[-1][1])
        else:
            out.append((left, right))
    return out


def _both_sides(lines: Sequence[PdfLine], middle: float) -> bool:
    """Whether lines stand beside each other on both sides of a gutter."""
    left = [line for line in lines if line.left < middle]
    right = [line for line in lines if line.left >= middle]
    if min(len(left), len(right)) < _LEAST_SIDE:
        return False
    low = max(min(line.bottom for line in side) for side in (left, right))
    return low < min(max(line.top for line in side) for side in (left, right))


class _LineRow(NamedTuple):
    """Lines at one height, and their parts as separate lines, from left to right."""

    lines: list[PdfLine]
    pieces: list[PdfLine]

    @property
    def bottom(self) -> float:
        return self.pieces[0].bottom

    @property
    def size(self) -> float:
        return max(piece.size for piece in self.pieces)


def in_reading_order(lines: Sequence[PdfLine]) -> list[PdfLine]:
    """Return the lines of a page with interwoven columns one after the other."""
    if sum(_may_be_woven(line, below) for line, below in pairwise(lines)) < _LEAST_ROWS - 1:
        return list(lines)
    rows = _rows(lines)
    if sum(len(row.pieces) > 1 for row in rows) < _LEAST_ROWS:
        return list(lines)
    out: list[PdfLine] = []
    at = 0
    while at < len(rows):
        regions = ((end, _columns(rows[at:end], gutters)) for end, gutters in _regions(rows, at))
        of_text = ((end, columns) for end, columns in regions if columns and all(map(_is_text, columns)))
        end, columns = next(of_text, (at + 1, [rows[at].lines]))
        out += [piece for column in columns for piece in column]
        at = end
    return out


def _may_be_woven(line: PdfLine, below: PdfLine) -> bool:
    """Whether two long texts are side by side: a quick test that spares most pages the search."""
    if line.parts and _two_long(line.parts):
        return True
    return abs(line.bottom - below.bottom) < below.size / 2 and _two_long((line, below))


def _two_long(texts: Sequence[PdfLine | LinePart]) -> bool:
    return sum(len(text.text) * 2 >= _LEAST_LENGTH for text in texts) > 1


def _rows(lines: Sequence[PdfLine]) -> list[_LineRow]:
    rows: list[_LineRow] = []
    for line in lines:
        if rows and _beside(rows[-1], line):
            rows[-1].lines.append(line)
            rows[-1].pieces.extend(_pieces(line))
            rows[-1].pieces.sort(key=lambda piece: piece.left)
        else:
            rows.append(_LineRow([line], list(_pieces(line))))
    return rows


def _pieces(line: PdfLine) -> Iterator[PdfLine]:
    if not line.parts:
        yield line
        return
    for part in line.parts:
        if part.text:
            size, bold = (part.size, part.bold) if part.size else (line.size, line.bold)
            yield line._replace(text=part.text, left=part.left, right=part.right, parts=(), size=size, bold=bold)


def _beside(row: _LineRow, line: PdfLine) -> bool:
    """Whether a line is at the height of a row, entirely to its right or left."""
    last = row.lines[-1]
    if line.turn != last.turn or abs(line.bottom - last.bottom) > line.size / 2:
        return False
    return line.left > row.pieces[-1].right or line.right < row.pieces[0].left


def _regions(rows: Sequence[_LineRow], start: int) -> list[tuple[int, list[_Gap]]]:
    """Return the ends of rows that leave gutters of the first row free, and the gutters free in all of them.

    The longest region is first; the others end where a gutter does.
    """
    first = rows[start]
    gutters = [gap for gap in _free(first)[1:-1] if gap[1] - gap[0] > first.size * PART_GAP]
    if not gutters:
        return []
    ended: list[tuple[int, list[_Gap]]] = []
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
        if len(free) < len(gutters):
            ended.append((last, gutters))
        gutters = free
        end += 1
        if len(_sides(row, gutters)) > 1:
            last = end
    while last < end and _continues(rows[last - 1], rows[last], gutters):  # the first column may be longer
        last += 1
    return [(last, gutters), *reversed(ended)]


def _free(row: _LineRow) -> list[_Gap]:
    edges = [(-1e9, -1e9), *((piece.left, piece.right) for piece in row.pieces), (1e9, 1e9)]
    return [(before[1], after[0]) for before, after in pairwise(edges)]


def _common(gutters: Sequence[_Gap], free: Sequence[_Gap], least: float) -> list[_Gap]:
    both = [(max(gutter[0], other[0]), min(gutter[1], other[1])) for gutter in gutters for other in free]
    return [gap for gap in both if gap[1] - gap[0] > least]


def _column(piece: PdfLine, gutters: Sequence[_Gap]) -> int:
    middle = (piece.left + piece.right) / 2
    return sum((gap[0] + gap[1]) / 2 < middle for gap in gutters)


def _sides(row: _LineRow, gutters: Sequence[_Gap]) -> set[int]:
    return {_column(piece, gutters) for piece in row.pieces}


def _continues(above: _LineRow, row: _LineRow, gutters: Sequence[_Gap]) -> bool:
    near = above.bottom - row.bottom < row.size * _APART
    return near and abs(above.size - row.size) < 1 and _sides(row, gutters) == {0}


def _columns(rows: Sequence[_LineRow], gutters: Sequence[_Gap]) -> list[list[PdfLine]]:
    if not gutters or sum(len(_sides(row, gutters)) > 1 for row in rows) < _LEAST_ROWS:
        return []
    columns: list[list[PdfLine]] = [[] for _ in range(len(gutters) + 1)]
    for row in rows:
        for piece in row.pieces:
            columns[_column(piece, gutters)].append(piece)
    return columns


def _is_text(column: Sequence[PdfLine]) -> bool:
    """Whether lines are running text: long, and most of them as wide as the column."""
    if len(column) < _LEAST_ROWS:
        return False
    width = max(piece.right for piece in column) - min(piece.left for piece in column)
    full = sum(piece.right - piece.left >= width * _FULL for piece in column)
    return full >= len(column) * _MOST_FULL and mean(len(piece.text) for piece in column) >= _LEAST_LENGTH
