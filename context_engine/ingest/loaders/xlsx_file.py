"""Excel workbooks: `.xlsx`. A row of a sheet is a record, in every sheet, hidden ones too; rows are read one by one.

Read: the head of each sheet (below a caption, in two lines where its cells are merged), numbers, dates and times as
what they are, 5 % as "5%", of a formula the value saved with it; the value of merged cells in each of them. A sheet
with one column is a text, one with names and values side by side is one record. Where several sheets have a column of
ids, a record is known by its sheet and row instead, because one entity may stand in each. Not read: formulas without a
saved value (told), charts, pictures, comments, headers and footers, links to other workbooks (never followed).
Refused: macros (`.xlsm`, or a macro part inside), passwords, zip bombs, XML with a document type.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple
from zipfile import ZipFile

from context_engine.errors import MissingExtra
from context_engine.ingest.claims import ID_FIELDS
from context_engine.ingest.header import header_fields
from context_engine.ingest.loaded import LoadedDocument, Skipped
from context_engine.ingest.loaders.archive import check_archive
from context_engine.ingest.loaders.records import until_hopeless
from context_engine.ingest.loaders.source_file import SourceFile
from context_engine.ingest.loaders.table import (
    MOST_COLUMNS,
    PREVIEW,
    Cell,
    Head,
    find_head,
    pairs_record,
    row_record,
    shown,
)

if TYPE_CHECKING:
    from openpyxl.workbook import Workbook

__all__ = ["load_xlsx"]

_MOST_UNPACKED: Final = 2 << 30
_MOST_PART: Final = 256 << 20  # all but the sheets, which are read row by row: shared texts above all
_MOST_ROWS: Final = 1_048_576
_MOST_MERGES: Final = 10_000
_BLOCK: Final = 1 << 20
_BATCH: Final = 100  # rows
_MERGE: Final = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})"')
_UNSAVED: Final = re.compile(
    rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f\b[^>]*/>)\s*(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v></(?:\w+:)?v>)?\s*(?=</(?:\w+:)?c>)"
)

_IDS: Final = frozenset(ID_FIELDS[True])

Row = tuple[int, list[Cell]]
"""1-based number, cells."""


class _Merge(NamedTuple):
    top: int
    bottom: int
    left: int
    right: int


class _Sheet(NamedTuple):
    title: str
    part: str
    head: Head
    preview: list[Row]
    rows: Iterator[Row]
    told: tuple[str, ...]


def load_xlsx(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the records of every sheet."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise MissingExtra("reading .xlsx files", "documents") from error
    with file.open() as stream:
        refused = check_archive(stream, "XLSX", _MOST_UNPACKED, _MOST_PART)
        if refused:
            yield Skipped(file.name, refused)
            return
        with _silent():
            book = load_workbook(stream, read_only=True, data_only=True, keep_links=False)
        try:
            yield from _sheets(book, file, stream)
        finally:
            book.close()


def _sheets(book: Workbook, file: SourceFile, stream: BinaryIO) -> Iterator[LoadedDocument | Skipped]:
    whole = [sheet for sheet in book.worksheets if hasattr(sheet, "reset_dimensions")]
    sheets = [_opened(sheet, stream, alone=len(whole) == 1) for sheet in whole]
    several = sum(bool(_IDS & set(sheet.head.names)) for sheet in sheets) > 1
    found = 0
    for sheet in sheets:
        for one in until_hopeless(_documents(_unidentified(sheet) if several else sheet, file.name), file.name):
            found += 1
            yield one
    if not found:
        yield Skipped(file.name, "has no cell with a value")


def _opened(sheet: Any, stream: BinaryIO, *, alone: bool) -> _Sheet:
    """Read the first rows of a sheet and find its head."""
    sheet.reset_dimensions()  # what a sheet says about its size may be wrong
    merges, unsaved = _scanned(stream, getattr(sheet, "_worksheet_path", ""))
    rows = _filled(_rows(sheet), merges)
    preview = list(islice(rows, PREVIEW))
    wide = {merge.top for merge in merges if merge.right > merge.left}
    joined = frozenset(index for index, (number, _) in enumerate(preview) if number in wide)
    head = find_head([cells for _, cells in preview], joined=joined)
    cells = "1 formula cell" if unsaved == 1 else f"{unsaved} formula cells"
    told = (f"no saved value: {cells} of sheet {sheet.title!r}, left empty",) if unsaved else ()
    return _Sheet(sheet.title, "" if alone else sheet.title, head, preview, rows, told)


def _unidentified(sheet: _Sheet) -> _Sheet:
    """Return a sheet whose ids are plain columns: an entity that stands in two sheets is two records."""
    names = tuple(name.replace("_", " ") if name in _IDS else name for name in sheet.head.names)
    return sheet._replace(head=sheet.head._replace(names=names))


def _documents(sheet: _Sheet, path: str) -> Iterator[LoadedDocument | Skipped]:
    if max((len(cells) for _, cells in sheet.preview), default=0) > MOST_COLUMNS:
        yield Skipped(path, f"has a sheet {sheet.title!r} of over {MOST_COLUMNS:,} columns: it is no table of records")
        return
    columns = {index for _, cells in sheet.preview for index, cell in enumerate(cells) if cell is not None}
    if len(columns) == 1:
        yield _text(sheet, path)
        return
    head, told = sheet.head, sheet.told
    if head.pairs:
        every = [cells for _, cells in chain(sheet.preview, sheet.rows)]
        yield pairs_record(every, head, path, title=sheet.title, part=sheet.part, warnings=told)
        return
    for number, cells in chain(sheet.preview[head.first :], sheet.rows):
        record = row_record(cells, head, path, number, part=sheet.part, warnings=told, exact=False)
        if record is not None:
            told = ()
            yield record


def _text(sheet: _Sheet, path: str) -> LoadedDocument:
    """Return a sheet of one column as a text below its name."""
    rows = chain(sheet.preview, sheet.rows)
    lines = [str(shown(cell)) for _, cells in rows for cell in cells if cell is not None]
    text = f"# {sheet.title}\n\n" + "\n\n".join(line for line in lines if line)
    return LoadedDocument(path=path, text=text, header=header_fields(text), part=sheet.part, warnings=sheet.told)


def _rows(sheet: Any) -> Iterator[Row]:
    """Yield the rows that hold a value."""
    rows = sheet.iter_rows()
    number = 0
    while number < _MOST_ROWS:
        with _silent():
            batch = list(islice(rows, _BATCH))
        if not batch:
            return
        for row in batch:
            number += 1
            cells = [_value(cell) for cell in row]
            while cells and cells[-1] is None:
                cells.pop()
            if cells:
                yield number, cells


def _value(cell: Any) -> Cell:
    value: Cell = cell.value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and "%" in (cell.number_format or ""):
        return f"{float(value) * 100:.10g}%"
    return value if not isinstance(value, str) or value.strip() else None


def _filled(rows: Iterator[Row], merges: Sequence[_Merge]) -> Iterator[Row]:
    """Give each of the cells that are merged the value of the first."""
    ahead = sorted(merges, reverse=True)
    open_now: dict[_Merge, Cell] = {}
    for number, cells in rows:
        while ahead and ahead[-1].top <= number:
            merge = ahead.pop()
            there = merge.top == number and merge.left <= len(cells)
            open_now[merge] = cells[merge.left - 1] if there else None
        open_now = {merge: value for merge, value in open_now.items() if merge.bottom >= number}
        for merge, value in open_now.items():
            cells += [None] * (merge.right - len(cells))
            cells[merge.left - 1 : merge.right] = [value] * (merge.right - merge.left + 1)
        yield number, cells


def _scanned(stream: BinaryIO, part: str) -> tuple[list[_Merge], int]:
    """Return the merged cells of a sheet and how many formulas have no saved value, which a streaming reader drops."""
    merges: list[_Merge] = []
    unsaved = 0
    with ZipFile(stream) as archive:
        if part not in archive.NameToInfo:
            return [], 0
        with archive.open(part) as source:
            rest = b""
            while block := source.read(_BLOCK):
                text = rest + block
                cut = max(text.rfind(b"</c>"), text.rfind(b"<mergeCell")) if len(block) == _BLOCK else len(text)
                whole, rest = text[: max(cut, 0)], text[max(cut, 0) :][-_BLOCK:]
                merges += [found for match in _MERGE.finditer(whole) if (found := _merge(match))]
                unsaved += len(_UNSAVED.findall(whole))
    return merges[:_MOST_MERGES], unsaved


def _merge(match: re.Match[bytes]) -> _Merge | None:
    left, top, right, bottom = _column(match[1]), int(match[2]), _column(match[3]), int(match[4])
    return _Merge(top, bottom, left, right) if left <= right <= MOST_COLUMNS and top <= bottom else None


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - ord("A") + 1
    return number


class _silent(warnings.catch_warnings):  # noqa: N801 - reads as what it does
    """Keep openpyxl's warnings about what it does not support off the terminal."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore")
