"""The lines of a PDF page in reading order.

Most PDFs hold one column after the other, and their order is kept. If the lines of two columns are interwoven, a gutter
runs between them; it is followed down until text crosses it, such as a heading over both columns. Only columns of
running text are separated: the rows of a table stay together.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean
from typing import Any, Final, NamedTuple

from context_engine.errors import MissingExtra
from context_engine.ingest.loaders.pdf_cells import with_tables
from context_engine.ingest.loaders.pdf_grids import TooManyRulings, grids_of, may_hold_tables, rulings_of, turned_ruling
from context_engine.ingest.loaders.pdf_notes import Form, Notes, notes_of
from context_engine.ingest.loaders.pdf_open_tables import PlacedLine, may_head_tables, open_grids
from context_engine.ingest.loaders.pdf_text import PART_GAP, LinePart, LineText, PageText, PdfLine, from_the_top

_LEAST_ROWS: Final = 3  # with text on both sides
_LEAST_LENGTH: Final = 15  # mean characters of a line of running text
_FULL: Final = 0.7  # share of the column's width that a full line fills
_MOST_FULL: Final = 0.5  # least share of full lines in a column
_LARGER: Final = 1.12  # times the type size of the text: a heading
_MOST_ROWS: Final = 300  # of a region
_APART: Final = 1.6  # times the type size: a wider gap ends the column
_Gap = tuple[float, float]
_MOST_STAMP: Final = 60  # characters of a page number, date or reference stamped on a scan
_SCAN: Final = 0.5  # share of the page that its picture covers at least
_MOST_OBJECTS: Final = 200


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
            yield line._replace(text=part.text, left=part.left, right=part.right, parts=())


def _beside(row: _LineRow, line: PdfLine) -> bool:
    """Whether a line is at the height of a row, entirely to its right or left."""
    last = row.lines[-1]
    if line.turn != last.turn or abs(line.bottom - last.bottom) > line.size / 2:
        return False
    return line.left > row.pieces[-1].right or line.right < row.pieces[0].left


def _region(rows: Sequence[_LineRow], start: int) -> tuple[int, list[_Gap]]:
    """Return the end of the rows that leave gutters of the first row free, and the gutters free in all of them."""
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
    while last < end and _continues(rows[last - 1], rows[last], gutters):  # the first column may be longer
        last += 1
    return last, gutters


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


class PdfPage(NamedTuple):
    """A page.

    Attributes:
        lines: in reading order.
        notes: labelled values of form fields and texts of annotations.
        hidden: the same, of hidden fields and annotations.
        pictured: whether it has a picture and no text, or is a scan with only a stamp such as a page number.
        unmapped: characters without a Unicode mapping.
        broken: the reason why nothing can be read.
        table_s: seconds taken to find tables; 0 without any.
        unsought: the reason why possible tables were not looked for.
    """

    lines: Sequence[PdfLine] = ()
    notes: Sequence[str] = ()
    hidden: Sequence[str] = ()
    pictured: bool = False
    unmapped: int = 0
    broken: str = ""
    table_s: float = 0.0
    unsought: str = ""


def read_page(document: Any, index: int, form: Form | None) -> PdfPage:
    """Return a page of an open document; its memory is freed before the next one is read."""
    import pypdfium2

    try:
        page = document[index]
    except pypdfium2.PdfiumError:
        return PdfPage(broken="damaged")
    try:
        text_page = page.get_textpage()
        try:
            reader = PageText(page, text_page)
            texts, unmapped = reader.lines()
            tables = _tables(page, reader, texts)
            lines = from_the_top(tables.lines, page.get_rotation() // 90)
            notes = notes_of(page, text_page, reader.text, form)
        finally:
            text_page.close()
        pictured = _pictured(page, drawn=not notes.shown) if not lines else _is_stamped(lines) and _is_scan(page)
        drawn = _drawn(document, index, page, texts, notes) if notes.drawn else []
        return PdfPage(
            in_reading_order(lines),
            [*notes.shown, *drawn],
            notes.hidden,
            pictured,
            unmapped,
            table_s=tables.seconds,
            unsought=tables.unsought,
        )
    except pypdfium2.PdfiumError:
        return PdfPage(broken="damaged")
    finally:
        page.close()


class _PageLines(NamedTuple):
    """The lines of a page with those of tables joined; `seconds` and `unsought` as in `PdfPage`."""

    lines: Sequence[PdfLine]
    seconds: float = 0.0
    unsought: str = ""


def _tables(page: Any, reader: PageText, texts: Sequence[LineText]) -> _PageLines:
    """Join the lines of tables, if enough rulings are drawn for a table."""
    lines = [text.line for text in texts]
    if not texts:
        return _PageLines(lines)
    started = time.perf_counter()
    turn = Counter(line.turn for line in lines).most_common(1)[0][0]
    rulings = [turned_ruling(ruling, turn) for ruling in rulings_of(page)]
    try:
        grids = grids_of(rulings) if may_hold_tables(rulings) else []
    except TooManyRulings:
        return _PageLines(lines, unsought="too many lines are drawn on it")
    except ImportError:
        return _PageLines(lines, unsought=str(MissingExtra("reading tables in .pdf files", "documents")))
    if may_head_tables(rulings):
        placed = [PlacedLine(text.line, reader.words_of(text, turn)) for text in texts if text.line.turn == turn]
        grids += open_grids(rulings, placed, grids)
    if not grids:
        return _PageLines(lines)
    return _PageLines(with_tables(reader, texts, grids, turn), time.perf_counter() - started)


def _drawn(document: Any, index: int, page: Any, texts: Sequence[LineText], notes: Notes) -> list[str]:
    """Return text that annotations draw but do not hold: lines that only appear when the annotations are drawn."""
    from pypdfium2 import raw

    if raw.FPDFPage_Flatten(page.raw, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_SUCCESS:
        return []
    flat = document[index]
    try:
        text_page = flat.get_textpage()
        try:
            lines = from_the_top(
                [line.line for line in PageText(flat, text_page).lines()[0]], page.get_rotation() // 90
            )
        finally:
            text_page.close()
    finally:
        flat.close()
    before, shown = {text.line.text for text in texts}, " ".join(notes.shown)
    new = [line.text for line in lines if line.text not in before and line.text not in shown]
    return [f"[Drawn: {text}]" for text in new if any(map(str.isalnum, text))]


def _is_stamped(lines: Sequence[PdfLine]) -> bool:
    return sum(len(line.text) for line in lines) <= _MOST_STAMP


def _is_scan(page: Any) -> bool:
    """Whether one picture covers most of a page."""
    from pypdfium2 import raw

    width, height = page.get_size()
    pictures = page.get_objects(filter=(raw.FPDF_PAGEOBJ_IMAGE,), max_depth=2)
    bounds = (picture.get_bounds() for picture, _ in zip(pictures, range(_MOST_OBJECTS)))
    return any((right - left) * (top - bottom) > _SCAN * width * height for left, bottom, right, top in bounds)


def _pictured(page: Any, *, drawn: bool) -> bool:
    """Whether a page has an image or, with `drawn`, anything drawn: the lines of a form are not text."""
    from pypdfium2 import raw

    kinds = (raw.FPDF_PAGEOBJ_IMAGE, *((raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_FORM) if drawn else ()))
    return any(True for _, _ in zip(page.get_objects(filter=kinds, max_depth=2), range(_MOST_OBJECTS)))
