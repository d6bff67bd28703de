"""The grids that rulings draw on a page, whose cells may form a table.

PDFium reads the rulings (edges of lines and rectangles) and pdfplumber finds the cells among them, so that a page is
read only once.
"""

from __future__ import annotations

import ctypes
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple

from context_engine.ingest.loaders.pdf_digits import Box, turned
from context_engine.ingest.loaders.pdf_text import PdfLine

MOST_RULINGS: Final = 4_000
"""Most rulings of a page that are examined; a drawing has more."""
_MOST_OBJECTS: Final = 20_000
_MOST_DEPTH: Final = 4  # forms within forms
_MOST_SEGMENTS: Final = 2_000  # of a path
_SLANT: Final = 1.0  # points by which the ends of a horizontal line may differ
_LEAST: Final = 1.0  # points; a shorter one is a dot
_LINE, _CURVE, _MOVE = 0, 1, 2  # FPDF_SEGMENT_LINETO, _BEZIERTO, _MOVETO
_Matrix = tuple[float, float, float, float, float, float]
_Point = tuple[float, float]
_WHOLE: Final[_Matrix] = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
_TOLERANCE: Final = 3.0  # points within which rulings coincide or meet
_LEAST_RULING: Final = 3.0  # points
_MOST_CROSSINGS: Final = 2_500
_MOST_PAIRS: Final = 100_000  # of a horizontal and a vertical ruling
_LEAST_EACH: Final = 3  # rulings in either direction: two columns and two rows
_LEAST_SIDE: Final = 12.0  # points from the first or last upright to the end of the rules: a column
_MOST_HEAD: Final = 60.0  # points from the first full rule up to the one above the head
_HEAD_SHARE: Final = 0.5  # of a table's width that the rule above its head takes at least


class Ruling(NamedTuple):
    """A horizontal or vertical line in page coordinates, in points.

    Attributes:
        level: whether it is horizontal.
        at: its height, or its distance from the left.
        start, end: its ends in the other direction, ascending.
    """

    level: bool
    at: float
    start: float
    end: float


def rulings_of(page: Any) -> list[Ruling]:
    """Return the rulings of an open page, at most `MOST_RULINGS` + 1; a wide line has one for each edge."""
    return list(islice(_rulings(page), MOST_RULINGS + 1))


def turned_ruling(ruling: Ruling, turn: int) -> Ruling:
    """Return a ruling as it lies when the page is turned by `turn` quarter turns, counterclockwise."""
    ends = (ruling.start, ruling.at, ruling.end, ruling.at)
    box = ends if ruling.level else (ruling.at, ruling.start, ruling.at, ruling.end)
    left, bottom, right, top = turned(box, turn)
    if ruling.level != bool(turn % 2):
        return Ruling(True, bottom, left, right)
    return Ruling(False, left, bottom, top)


def _rulings(page: Any) -> Iterator[Ruling]:
    from pypdfium2 import raw

    for path, matrix in islice(_paths(raw, raw.FPDFPage_CountObjects, raw.FPDFPage_GetObject, page.raw), _MOST_OBJECTS):
        for first, second in _segments(raw, path, matrix):
            across, up = abs(first[0] - second[0]), abs(first[1] - second[1])
            if up <= _SLANT and across > max(up, _LEAST):
                yield Ruling(True, (first[1] + second[1]) / 2, *sorted((first[0], second[0])))
            elif across <= _SLANT and up > max(across, _LEAST):
                yield Ruling(False, (first[0] + second[0]) / 2, *sorted((first[1], second[1])))


def _paths(
    raw: Any, count: Any, get: Any, holder: Any, outer: _Matrix = _WHOLE, depth: int = 0
) -> Iterator[tuple[Any, _Matrix]]:
    """Yield the drawn paths of a page or form, each with the matrix from its own space to the page's."""
    matrix = raw.FS_MATRIX()
    for index in range(count(holder)):
        item = get(holder, index)
        kind = raw.FPDFPageObj_GetType(item)
        if kind not in (raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_FORM):
            continue
        if not raw.FPDFPageObj_GetMatrix(item, ctypes.byref(matrix)):
            continue
        own = _product((matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f), outer)
        if kind == raw.FPDF_PAGEOBJ_PATH:
            yield item, own
        elif depth < _MOST_DEPTH:
            yield from _paths(raw, raw.FPDFFormObj_CountObjects, raw.FPDFFormObj_GetObject, item, own, depth + 1)


def _product(inner: _Matrix, outer: _Matrix) -> _Matrix:
    a, b, c, d, e, f = inner
    o = outer
    return (
        *(a * o[0] + b * o[2], a * o[1] + b * o[3], c * o[0] + d * o[2], c * o[1] + d * o[3]),
        *(e * o[0] + f * o[2] + o[4], e * o[1] + f * o[3] + o[5]),
    )


def _segments(raw: Any, path: Any, matrix: _Matrix) -> Iterator[tuple[_Point, _Point]]:
    """Yield the ends of the straight parts of a path, including the closing part of a filled path."""
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    if not raw.FPDFPath_GetDrawMode(path, ctypes.byref(fill), ctypes.byref(stroke)):
        return
    if not fill.value and not stroke.value:  # a clipping path
        return
    x, y = ctypes.c_float(), ctypes.c_float()
    at_x, at_y = ctypes.byref(x), ctypes.byref(y)
    a, b, c, d, e, f = matrix
    segment_of, point_of, kind_of = (
        raw.FPDFPath_GetPathSegment,
        raw.FPDFPathSegment_GetPoint,
        raw.FPDFPathSegment_GetType,
    )
    begin: _Point | None = None
    last: _Point | None = None
    for index in range(min(raw.FPDFPath_CountSegments(path), _MOST_SEGMENTS)):
        segment = segment_of(path, index)
        point_of(segment, at_x, at_y)
        across, along = x.value, y.value
        point = a * across + c * along + e, b * across + d * along + f
        kind = kind_of(segment)
        if kind == _MOVE:
            if fill.value and begin and last:
                yield last, begin
            begin = point
        elif kind == _LINE and last:
            yield last, point
        last = point
        if raw.FPDFPathSegment_GetClose(segment) and begin:
            yield last, begin
            last = begin
    if fill.value and begin and last:
        yield last, begin


class TooManyRulings(Exception):
    """A page is full of lines: a drawing, or a table whose cells would take too long to find."""


class Cell(NamedTuple):
    """A cell of a grid, in points; `row` and `column` count from 0, `rows` and `columns` are how many it covers."""

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
        edges: the left edges of the columns, and the right edge of the last one.
        heights: the upper edges of the rows from the top, and the lower edge of the last one.
        opened: whether no ruling is drawn at its left or right side.
    """

    cells: tuple[Cell, ...]
    edges: tuple[float, ...]
    heights: tuple[float, ...]
    opened: bool = False


Place = tuple[int, int]
"""Number of a grid, and of a cell in it."""
Parted = Mapping[int, Mapping[int, int]]
"""{number of a parted cell: {column: number of the cell that it has now}}."""
WordsOfLine = tuple[float, Sequence[tuple[float, float]]]
"""The width of a gap wider than between words, and (left, right) of each word of a line, in points."""


def may_hold_tables(rulings: Sequence[Ruling]) -> bool:
    """Whether rulings may enclose two rows and two columns: a quick test that spares most pages the search."""
    level = sum(ruling.level for ruling in rulings)
    return level >= _LEAST_EACH <= len(rulings) - level


def grids_of(rulings: Sequence[Ruling]) -> list[Grid]:
    """Return the grids of two or more rows and columns, from the top; the page is turned so that text is horizontal.

    Raises:
        TooManyRulings: too many rulings to examine.
        ImportError: pdfplumber is not installed.
    """
    from pdfplumber import table

    if len(rulings) > MOST_RULINGS:
        raise TooManyRulings
    edges = table.merge_edges([_edge(ruling) for ruling in dict.fromkeys(rulings)], *[_TOLERANCE] * 4)
    long = [edge for edge in edges if edge["x1"] - edge["x0"] + edge["bottom"] - edge["top"] >= _LEAST_RULING]
    upright = sum(edge["orientation"] == "v" for edge in long)
    if upright * (len(long) - upright) > _MOST_PAIRS:
        raise TooManyRulings
    sides = _open_sides(long)
    if sides:
        long = table.merge_edges([*long, *map(_edge, sides)], *[_TOLERANCE] * 4)
    crossings = table.edges_to_intersections(long, _TOLERANCE, _TOLERANCE)
    if len(crossings) > _MOST_CROSSINGS:
        raise TooManyRulings
    tables = table.cells_to_tables(table.intersections_to_cells(crossings))
    grids = [grid._replace(opened=any(_is_side(side, grid) for side in sides)) for grid in map(_grid, tables)]
    return [grid for grid in grids if min(len(grid.edges), len(grid.heights)) >= _LEAST_EACH]


def _open_sides(edges: Sequence[Mapping[str, Any]]) -> list[Ruling]:
    """Return the missing outer uprights of tables whose rules run past their outermost uprights.

    Such a table has at least four rules, with an upright between each two of them. They have one length, but the one
    above the head may be shorter; it is returned at full length.
    """
    level = [_ruling(edge) for edge in edges if edge["orientation"] == "h"]
    upright = [_ruling(edge) for edge in edges if edge["orientation"] == "v"]
    out: list[Ruling] = []
    for ends in dict.fromkeys((float(round(rule.start)), float(round(rule.end))) for rule in level):
        inner = [line for line in upright if ends[0] + _TOLERANCE < line.at < ends[1] - _TOLERANCE]
        for heights in _stacks([rule.at for rule in level if _is_about(rule, ends)], inner):
            head = _above_head(heights[0], ends, level, inner)
            top = heights[0] if head is None else head
            within = [
                line.at for line in upright if line.start < top - _TOLERANCE and line.end > heights[-1] + _TOLERANCE
            ]
            sides = [side for side in ends if min((abs(side - at) for at in within), default=0.0) >= _LEAST_SIDE]
            if sides and len(heights) + (head is not None) > _LEAST_EACH:
                out += [] if head is None else [Ruling(True, head, *ends)]
                out += [Ruling(False, side, heights[-1], top) for side in sides]
    return out


def _is_side(side: Ruling, grid: Grid) -> bool:
    near = not side.level and min(abs(side.at - edge) for edge in (grid.edges[0], grid.edges[-1])) <= _TOLERANCE
    return near and side.start < grid.heights[0] and side.end > grid.heights[-1]


def _stacks(heights: Sequence[float], uprights: Sequence[Ruling]) -> Iterator[list[float]]:
    """Yield the heights of three or more rules, from the top, with an upright between each two of them."""
    stack: list[float] = []
    for height in sorted(heights, reverse=True):
        if stack and not any(_spans(line, height, stack[-1]) for line in uprights):
            if len(stack) >= _LEAST_EACH:
                yield stack
            stack = []
        stack.append(height)
    if len(stack) >= _LEAST_EACH:
        yield stack


def _ruling(edge: Mapping[str, Any]) -> Ruling:
    if edge["orientation"] == "h":
        return Ruling(True, -edge["top"], edge["x0"], edge["x1"])
    return Ruling(False, edge["x0"], -edge["bottom"], -edge["top"])


def _is_about(rule: Ruling, ends: tuple[float, float]) -> bool:
    return abs(rule.start - ends[0]) <= _TOLERANCE and abs(rule.end - ends[1]) <= _TOLERANCE


def _spans(line: Ruling, low: float, up: float) -> bool:
    return line.start <= low + _TOLERANCE and line.end >= up - _TOLERANCE


def _above_head(
    top: float, ends: tuple[float, float], level: Sequence[Ruling], inner: Sequence[Ruling]
) -> float | None:
    """Return the height of the shorter rules above the head of a table whose first full rule is at `top`."""
    first, last = ends
    inside = [rule for rule in level if first - _TOLERANCE <= rule.start and rule.end <= last + _TOLERANCE]
    for height in sorted({rule.at for rule in inside if _TOLERANCE < rule.at - top <= _MOST_HEAD}):
        drawn = sum(rule.end - rule.start for rule in inside if rule.at == height)
        if drawn >= _HEAD_SHARE * (last - first) and any(_spans(line, top, height) for line in inner):
            return height
    return None


def parted(grid: Grid, words: Mapping[int, Sequence[WordsOfLine]]) -> tuple[Grid, Parted]:
    """Part each cell over several columns whose words stand in these columns: there the rulings are left out.

    Args:
        words: the lines of each such cell, by its number.
    """
    cells = list(grid.cells)
    numbers = {}
    for number, lines in words.items():
        if not _stand_in_columns(lines, grid.edges):
            continue
        whole = cells[number]
        columns = range(whole.column, whole.column + whole.columns)
        numbers[number] = dict(zip(columns, (number, *range(len(cells), len(cells) + whole.columns - 1))))
        single = [whole._replace(column=column, columns=1) for column in columns]
        cells[number] = single[0]
        cells += single[1:]
    return grid._replace(cells=tuple(cells)), numbers


def _stand_in_columns(lines: Sequence[WordsOfLine], edges: Sequence[float]) -> bool:
    """Whether each word is in one column, wide gaps separate the columns, and at least one line has two of them."""
    most = 0
    for least, words in lines:
        columns = [bisect(edges, left) for left, _ in words]
        if columns != [bisect(edges, right) for _, right in words]:
            return False
        steps = list(zip(pairwise(columns), pairwise(words)))
        if any(first != second and after[0] - before[1] < least for (first, second), (before, after) in steps):
            return False
        most = max(most, len(set(columns)))
    return most > 1


def _edge(ruling: Ruling) -> dict[str, Any]:
    """Return a ruling as pdfplumber describes it: heights count downwards."""
    if ruling.level:
        box = (ruling.start, -ruling.at, ruling.end, -ruling.at)
    else:
        box = (ruling.at, -ruling.end, ruling.at, -ruling.start)
    left, top, right, bottom = box
    size = {"width": right - left, "height": bottom - top}
    return {"x0": left, "top": top, "x1": right, "bottom": bottom, "orientation": "vh"[ruling.level], **size}


def _grid(boxes: Sequence[tuple[float, float, float, float]]) -> Grid:
    """Return boxes (left, top, right, bottom; heights downwards) as cells with their rows and columns."""
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


class CellFinder:
    """Finds the cell at a point; of nested grids the innermost."""

    def __init__(self, grids: Sequence[Grid]) -> None:
        self._grids = sorted(enumerate(grids), key=lambda numbered: _area(numbered[1]))
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
        """Whether words of a line may be in a grid."""
        return line.turn != turn or any(
            line.bottom < grid.heights[0] and line.top > grid.heights[-1] and line.left < grid.edges[-1]
            for _, grid in self._grids
        )

    def place(self, box: Box) -> Place | None:
        """Return the cell at the centre of a box."""
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
