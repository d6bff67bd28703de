"""Turn the words in the cells of a grid into table rows; words outside the grid stay lines.

A cell over several rows is repeated in each of them; a cell over several columns is in the first, unless its words
stand in these columns, where rulings are left out. A head of two or three lines, the lower ones below cells over
several columns, becomes one line. Several rows enclosed by one pair of rulings are split: by their number of lines if
the cells have equally many, by the height of the lines if at least two columns of numbers fill each height.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, pairwise, zip_longest
from typing import Final, NamedTuple

from context_engine.ingest.loaders.pdf_digits import Box
from context_engine.ingest.loaders.pdf_grids import Cell, CellFinder, Grid, Parted, Place, WordsOfLine, parted
from context_engine.ingest.loaders.pdf_letters import WORD, clean, units
from context_engine.ingest.loaders.pdf_text import PART_GAP, LineText, PageText, PdfLine, PdfTable

_NARROW: Final = 7.0  # points; a narrower column is the space between two rulings
_LEAST: Final = 2  # rows and columns
_LEAST_CELLS: Final = 0.4  # of rows times columns: fewer are boxes of a form or a drawing
_LEAST_FILLED: Final = 0.25  # of the cells
_MOST_CELL: Final = 2_000  # characters; a longer cell means a page laid out in boxes
_MOST_REPEATED: Final = 80  # characters of a cell that is repeated in each of its rows
_MOST_HEAD: Final = 3  # rows
_TITLE_SHARE: Final = 0.5  # of the columns that a title spans
_PACKED: Final = 0.66  # share of a row's cells with the same number of lines
_LEAST_PACKED: Final = 3  # cells, and lines in each
_NUMBERS: Final = 0.5  # share of those lines with a digit
_LEAST_LEVELS: Final = 4  # heights of lines in a row that holds several
_SAME_LEVEL: Final = 3.0  # points by which lines of one height differ at most
_Text = tuple[str, ...]
"""The lines of a cell."""
_VALUE: Final = re.compile(r"\S*\d\S*|[-–—.*]+|\(\w\)")
_APART: Final = 0.15  # of a character's height; a wider gap separates two cells that PDFium joined into one word


class _Filled(NamedTuple):
    """A cell with text; rows and columns as in `Cell`."""

    row: int
    rows: int
    column: int
    columns: int
    lines: _Text

    def covers(self, row: int, column: int) -> bool:
        return self.row <= row < self.row + self.rows and self.column <= column < self.column + max(self.columns, 1)


def table_of(grid: Grid, texts: Mapping[int, Sequence[str]]) -> PdfTable | None:
    """Return the table that a grid holds, None if it holds none; `texts` are the lines by the number of their cell."""
    columns = _wide_columns(grid.edges)
    width, height = max(columns) + 1, len(grid.heights) - 1
    cells = [_in_columns(cell, texts.get(number, ()), columns) for number, cell in enumerate(grid.cells)]
    filled = [cell for cell in cells if cell.lines]
    drawn = len({(cell.row, cell.column) for cell in cells})
    if width < _LEAST or drawn < _LEAST_CELLS * width * height or not _plausible(filled, drawn):
        return None
    titles = _titles(filled, width, height)
    first = _first_filled(filled, len(titles))
    end = _head_end(filled, first)
    body = [row for number in range(end, height) for row in _rows(filled, number, width)]
    if not body:
        return None
    edges = [left for at, left in enumerate(grid.edges[:-1]) if at == 0 or columns[at] != columns[at - 1]]
    rows = (_head(filled, first, end, width), *body)
    return PdfTable(rows, (*edges, grid.edges[-1]), titles=tuple(" ".join(lines) for lines in titles if lines))


def _wide_columns(edges: Sequence[float]) -> list[int]:
    """Map each column to its number among those wide enough for text; a narrow one joins the next."""
    wide = [right - left > _NARROW for left, right in pairwise(edges)]
    last = max(sum(wide) - 1, 0)
    return [min(sum(wide[:at]), last) for at in range(len(wide))]


def _in_columns(cell: Cell, lines: Sequence[str], columns: Sequence[int]) -> _Filled:
    covered = columns[cell.column : cell.column + cell.columns]
    return _Filled(cell.row, cell.rows, covered[0], covered[-1] - covered[0] + 1, tuple(lines))


def _plausible(filled: Sequence[_Filled], drawn: int) -> bool:
    """Whether the filled cells may be a table: enough cells, none as long as a page, two rows of two."""
    if len(filled) < _LEAST_FILLED * drawn or any(sum(map(len, cell.lines)) > _MOST_CELL for cell in filled):
        return False
    counts = Counter(cell.row for cell in filled)
    return sum(count > 1 for count in counts.values()) >= _LEAST <= len({cell.column for cell in filled})


def _titles(filled: Sequence[_Filled], width: int, height: int) -> list[_Text]:
    """Return the text of each row at the top that is a single cell over half of the columns; () for an empty row."""
    out: list[_Text] = []
    for row in range(height):
        here = [cell for cell in filled if cell.row <= row < cell.row + cell.rows]
        if len(here) > 1 or any(cell.columns < _TITLE_SHARE * width or cell.columns < _LEAST for cell in here):
            break
        out += [cell.lines for cell in here if cell.row == row] or [()]
    return out


def _first_filled(filled: Sequence[_Filled], row: int) -> int:
    return min((cell.row for cell in filled if cell.row >= row), default=row)


def _head_end(filled: Sequence[_Filled], first: int) -> int:
    """Return the first row below the head."""
    end = first + 1
    while end < first + _MOST_HEAD and _in_head(filled, first, end):
        end += 1
    return end


def _in_head(filled: Sequence[_Filled], first: int, row: int) -> bool:
    """Whether a row belongs to the head: cells reach into it from above, or all its text is below wide cells."""
    above = [cell for cell in filled if first <= cell.row < row]
    lower = [cell for cell in filled if cell.row == row]
    reaching = sum(cell.row + cell.rows > row for cell in above)
    if reaching > 1 or (reaching and any(cell.columns > 1 for cell in above)):
        return True
    narrow = [cell for cell in above if cell.columns == 1]
    return bool(lower) and not any(inner.covers(inner.row, cell.column) for inner in narrow for cell in lower)


def _head(filled: Sequence[_Filled], first: int, end: int, width: int) -> tuple[_Text, ...]:
    """Return the column names; a name below a wide cell begins with that cell's text."""
    head: list[_Text] = []
    for column in range(width):
        over = [cell for cell in filled if any(cell.covers(row, column) for row in range(first, end))]
        deep = any(cell.row >= first + 1 for cell in over)
        named = [cell for cell in over if deep or cell.column == column]
        head.append(tuple(dict.fromkeys(line for cell in named for line in cell.lines)))
    return tuple(head)


def _rows(filled: Sequence[_Filled], number: int, width: int) -> list[tuple[_Text, ...]]:
    """Return a row of the grid; several if it packs rows, none if no cell begins in it."""
    if not any(cell.row == number for cell in filled):
        return []
    row: list[_Text] = [()] * width
    for cell in filled:
        repeated = cell.row <= number < cell.row + cell.rows and sum(map(len, cell.lines)) <= _MOST_REPEATED
        if cell.row == number or repeated:
            row[cell.column] += cell.lines
    return _unpacked(row)


def _unpacked(row: Sequence[_Text]) -> list[tuple[_Text, ...]]:
    """Split a row whose cells hold equally many lines, most of them numbers, into that many rows."""
    counts = Counter(len(cell) for cell in row if cell)
    lines, times = counts.most_common(1)[0]
    packed = [line for cell in row if len(cell) == lines for line in cell]
    numbers = sum(any(map(str.isdigit, line)) for line in packed)
    if lines < _LEAST_PACKED and not (lines == _LEAST and times == sum(counts.values()) > _LEAST_PACKED):
        return [tuple(row)]
    if times < max(_LEAST_PACKED, _PACKED * sum(counts.values())) or numbers < _NUMBERS * len(packed):
        return [tuple(row)]
    columns = [[(line,) for line in cell] if len(cell) == lines else [cell] for cell in row]
    return list(zip_longest(*columns, fillvalue=()))


_Placed = defaultdict[int, list[tuple[float, str]]]
"""The lines of each cell, with the height of their middle in points."""


class _WordRun(NamedTuple):
    """Words of a line in one cell, or in none: `bare[start:end]`."""

    start: int
    end: int
    place: Place | None

    def words(self, text: LineText) -> Iterator[tuple[int, int]]:
        return (word.span() for word in WORD.finditer(text.bare, self.start, self.end))


def with_tables(reader: PageText, texts: Sequence[LineText], grids: Sequence[Grid], turn: int) -> list[PdfLine]:
    """Return the lines of a page with a line for each table; the lines of a grid without a table stay as they are.

    Args:
        grids: those of the page, turned so that its text is horizontal.
        turn: quarter turns of the text, counterclockwise.
    """
    finder = CellFinder(grids)
    cut = [list(_runs(reader, text, finder, turn)) if finder.may_hold(text.line, turn) else [] for text in texts]
    grids, cut = _without_missing_rulings(reader, texts, grids, cut, turn)
    cells: list[_Placed] = [defaultdict(list) for _ in grids]
    for text, runs in zip(texts, cut):
        for run in runs:
            if run.place:
                grid, cell = run.place
                height = (text.line.top + text.line.bottom) / 2
                cells[grid][cell].append((height, clean(text.bare[run.start : run.end])))
    tables_of_grids = [_table(grid, cells_of_grid) for grid, cells_of_grid in zip(grids, cells)]
    tables = {
        number: table
        for number, table in enumerate(tables_of_grids)
        if table and not _is_a_part(number, cells[number], cut) and not _lacks_columns(grids[number], cells[number])
    }
    parts = [part for text, runs in zip(texts, cut) for part in _parts(reader, text, runs, tables)]
    lines = {number: tuple(line for number_of_line, line in parts if number_of_line == number) for number in tables}
    out = []
    for number, line in parts:
        if number is None:
            out.append(line)
        elif number in tables:
            out.append(_line_of(tables.pop(number)._replace(lines=lines[number]), grids[number], turn))
    return out


def _is_a_part(number: int, placed: _Placed, cut: Sequence[Sequence[_WordRun]]) -> bool:
    """Whether a grid is only a part of a table: most of its lines go on outside, most cells hold several values."""
    lines = [runs for runs in cut if any(run.place and run.place[0] == number for run in runs)]
    wider = sum(any(run.place is None for run in runs) for runs in lines)
    texts = [text.split() for cell in placed.values() for _, text in cell]
    packed = sum(len(words) > 1 and all(map(_VALUE.fullmatch, words)) for words in texts)
    return 2 * wider > len(lines) and 2 * packed > len(texts)


def _lacks_columns(grid: Grid, placed: _Placed) -> bool:
    """Whether most lines in the outer columns of a grid with open sides hold several values: its rulings are too few.

    Names stand in the other outer column.
    """
    outer = (0, len(grid.edges) - 2)
    lines = [text.split() for number, cell in placed.items() if grid.cells[number].column in outer for _, text in cell]
    packed = sum(len(words) > 1 and all(map(_VALUE.fullmatch, words)) for words in lines)
    return grid.opened and 3 * packed > len(lines)


def _without_missing_rulings(
    reader: PageText, texts: Sequence[LineText], grids: Sequence[Grid], cut: Sequence[Sequence[_WordRun]], turn: int
) -> tuple[list[Grid], list[list[_WordRun]]]:
    """Return the grids with the columns that only the words of a cell show, and the runs in these columns."""
    words: list[defaultdict[int, list[WordsOfLine]]] = [defaultdict(list) for _ in grids]
    for text, run in ((text, run) for text, runs in zip(texts, cut) for run in runs):
        if run.place and grids[run.place[0]].cells[run.place[1]].columns > 1:
            spans = [reader.span_of(text, word, turn) for word in run.words(text)]
            words[run.place[0]][run.place[1]].append((text.line.size * PART_GAP, spans))
    new = [parted(grid, lines) for grid, lines in zip(grids, words)]
    out = [[part for run in runs for part in _parted(reader, text, run, new, turn)] for text, runs in zip(texts, cut)]
    return [grid for grid, _ in new], out


def _parted(
    reader: PageText, text: LineText, run: _WordRun, grids: Sequence[tuple[Grid, Parted]], turn: int
) -> Iterator[_WordRun]:
    """Yield a run; the words of each column by themselves if its cell was parted."""
    number, cell = run.place or (0, -1)
    edges, columns = grids[number][0].edges, grids[number][1].get(cell)
    if columns is None:
        yield run
        return
    for column, group in groupby(run.words(text), lambda word: bisect(edges, reader.span_of(text, word, turn)[0])):
        spans = list(group)
        yield _WordRun(spans[0][0], spans[-1][1], (number, columns[column - 1]))


def _table(grid: Grid, placed: _Placed) -> PdfTable | None:
    """Return the table of a grid, with each line as a row where a row of the grid holds several."""
    whole = {number: [line for _, line in lines] for number, lines in placed.items()}
    divided, texts = grid, whole
    for row in reversed(range(len(grid.heights) - 1)):
        inner = [number for number, cell in enumerate(grid.cells) if cell.row == row and cell.rows == 1]
        reaching = any(cell.row <= row < cell.row + cell.rows and cell.rows > 1 for cell in grid.cells)
        levels = () if reaching else _levels([placed.get(number, ()) for number in inner])
        if levels:
            divided, texts = _divided(divided, texts, {number: placed.get(number, ()) for number in inner}, levels)
    return (None if divided is grid else table_of(divided, texts)) or table_of(grid, whole)


def _levels(cells: Sequence[Sequence[tuple[float, str]]]) -> list[float]:
    """Return the heights of the lines in the cells of a row, from the top, if the row holds several; else none.

    It does if two cells have one line at every height where any cell has one, and most of their lines hold a digit.
    """
    heights = sorted((height for cell in cells for height, _ in cell), reverse=True)
    levels = [height for at, height in enumerate(heights) if at == 0 or heights[at - 1] - height > _SAME_LEVEL]
    full = [cell for cell in cells if [_level(levels, height) for height, _ in cell] == list(range(len(levels)))]
    numbered = [cell for cell in full if sum(any(map(str.isdigit, line)) for _, line in cell) >= _NUMBERS * len(cell)]
    return levels if len(levels) >= _LEAST_LEVELS and len(numbered) >= _LEAST else []


def _level(levels: Sequence[float], height: float) -> int:
    return min(range(len(levels)), key=lambda number: abs(levels[number] - height))


def _divided(
    grid: Grid,
    texts: Mapping[int, Sequence[str]],
    row_cells: Mapping[int, Sequence[tuple[float, str]]],
    levels: Sequence[float],
) -> tuple[Grid, dict[int, list[str]]]:
    """Return a grid with a row for each height in the place of the row of these cells, and the lines of its cells."""
    row, more = grid.cells[next(iter(row_cells))].row, len(levels) - 1
    cells = [cell if cell.row <= row else cell._replace(row=cell.row + more) for cell in grid.cells]
    out = {number: [*lines] for number, lines in texts.items() if number not in row_cells}
    for number, lines in row_cells.items():
        numbers = [number, *range(len(cells), len(cells) + more)]
        cells += [cells[number]._replace(row=row + below) for below in range(1, more + 1)]
        if cells[number].column == 0 and _is_label(lines, levels):
            out |= {part: [line for _, line in lines] for part in numbers}
            continue
        for height, line in lines:
            out.setdefault(numbers[_level(levels, height)], []).append(line)
    between = [(above + below) / 2 for above, below in pairwise(levels)]
    heights = (*grid.heights[: row + 1], *between, *grid.heights[row + 1 :])
    return Grid(tuple(cells), grid.edges, heights), out


def _is_label(lines: Sequence[tuple[float, str]], levels: Sequence[float]) -> bool:
    """Whether the lines of a first cell are words above at least as much space: the name of all its rows."""
    at_top = [_level(levels, height) for height, _ in lines] == list(range(len(lines)))
    return at_top and 2 * len(lines) <= len(levels) and not any(any(map(str.isdigit, line)) for _, line in lines)


def _runs(reader: PageText, text: LineText, finder: CellFinder, turn: int) -> Iterator[_WordRun]:
    """Yield runs of neighbouring words of a line in the same cell."""
    pieces = (piece for word in WORD.finditer(text.bare) for piece in _pieces(reader, text, word, finder, turn))
    for place, group in groupby(pieces, key=lambda piece: piece.place):
        run = list(group)
        yield _WordRun(run[0].start, run[-1].end, place)


def _pieces(reader: PageText, text: LineText, word: re.Match[str], finder: CellFinder, turn: int) -> Iterator[_WordRun]:
    """Yield a word; in parts if PDFium joined the text of two cells."""

    def box(at: int) -> Box:
        return reader.box_at(text.unit + units(text.bare[:at]), turn)

    start, last = word.start(), word.end() - 1
    first = box(start)
    place = finder.place(first)
    if last > start and finder.place(box(last)) != place:
        before = first
        for at in range(start + 1, last + 1):
            here = box(at)
            new_place = finder.place(here)
            if new_place != place and here[0] - before[2] > _APART * (here[3] - here[1]):
                yield _WordRun(start, at, place)
                start, place = at, new_place
            before = here
    yield _WordRun(start, word.end(), place)


def _parts(
    reader: PageText, text: LineText, runs: Sequence[_WordRun], tables: Collection[int]
) -> list[tuple[int | None, PdfLine]]:
    """Split a line into parts, each in one of the tables or in none (None)."""

    def number(run: _WordRun) -> int | None:
        return run.place[0] if run.place and run.place[0] in tables else None

    groups = [(part, list(group)) for part, group in groupby(runs, key=number)]
    if len(groups) < 2:
        return [(groups[0][0] if groups else None, text.line)]
    lines = [
        (
            part,
            reader.line_at(text.bare[group[0].start : group[-1].end], text.unit + units(text.bare[: group[0].start])),
        )
        for part, group in groups
    ]
    return [(part, line) for part, line in lines if line.text]


def _line_of(table: PdfTable, grid: Grid, turn: int) -> PdfLine:
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
