"""Excel workbooks: `.xlsx`, transitional and strict. A row of a table is a record, and rows are read one by one.

Read: the tables, pairs and texts of each visible sheet (see `sheet_layout`); numbers, dates and times, 5 % as "5%", USD
5 as "USD 5", 637 in the format 0000 as "0637"; struck, raised and lowered characters as in Word; the targets of links;
a formula's saved value, or the formula itself if none was saved (reported); the value of merged cells in each of their
rows; comments with their cells, text boxes, the text of charts, page headers and footers. Hidden sheets, rows and
columns, and cells that their format hides, as `hidden_cells` says; omitted cells are counted and reported. If several
tables have a column of ids, records are identified by sheet and row instead, because one entity may be in each.
Reported, not read: embedded files. Not read: pictures, other workbooks (never followed). Refused: macros (`.xlsm`, or a
macro part inside), passwords, zip bombs, XML with a document type, more shared texts than fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final
from xml.parsers.expat import ExpatError
from zipfile import BadZipFile, ZipFile

from context_engine.core.models import NoticeCode
from context_engine.ingest.declared_fields import ID_FIELDS
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, file_notice
from context_engine.ingest.loaders.archive import check_archive
from context_engine.ingest.loaders.records import FileNotices, SheetPlace, SheetTexts
from context_engine.ingest.loaders.sheet_layout import laid_out
from context_engine.ingest.loaders.source_file import SourceFile
from context_engine.ingest.loaders.table import TableRow, names_of
from context_engine.ingest.loaders.xlsx_parts import Book, SheetPart, TooManyTexts, header_text
from context_engine.ingest.loaders.xlsx_rows import SheetEnd, SheetRows, end_of, filled
from context_engine.ingest.loaders.xlsx_values import Values

_MOST_UNPACKED: Final = 2 << 30
_MOST_PART: Final = 256 << 20  # for all parts but the sheets, which are read row by row; mainly the shared texts
_PREVIEW: Final = 100
_READ_THEM: Final = "hidden_cells: read reads them"
_DAMAGED: Final = (ExpatError, BadZipFile, EOFError, ValueError)
Found = Iterator[LoadedDocument | Skipped]
_IDS: Final = frozenset(ID_FIELDS[True])


def load_xlsx(file: SourceFile) -> Found:
    """Yield the records and texts of every sheet."""
    with file.open() as stream:
        refused = check_archive(stream, "XLSX", _MOST_UNPACKED, _MOST_PART)
        if refused:
            yield Skipped(file.name, refused)
            return
        with ZipFile(stream) as archive:
            notices = FileNotices(file.name)
            try:
                workbook = _Workbook(archive, file, notices)
            except TooManyTexts:
                yield Skipped(file.name, "has more shared texts than fit into memory: split the workbook")
                return
            any_document = False
            for item in notices.with_documents(workbook.documents()):
                any_document |= isinstance(item, LoadedDocument) or not workbook.holds_files
                yield item
            if not any_document:
                yield Skipped(file.name, "has no cell with a value", error=workbook.holds_files)


class _Workbook:
    def __init__(self, archive: ZipFile, file: SourceFile, notices: FileNotices) -> None:
        self._archive, self._file, self._notices = archive, file, notices
        self._book = Book(archive)
        self._sheets = self._book.sheets()
        self._values = Values(self._shared(), self._book.formats(), from_1904=self._book.from_1904)
        self._read_hidden = file.settings.hidden_cells == "read"

    @property
    def holds_files(self) -> bool:
        """Whether files are embedded in the sheets, such as a memo or a PDF."""
        return bool(self._book.embedded)

    def documents(self) -> Found:
        if names := self._book.embedded:
            left = f"embedded files are not read: {', '.join(names)}"
            self._notices.add(file_notice(NoticeCode.EMBEDDED_NOT_READ, left, names=names))
        wanted = []
        for sheet in self._sheets:
            if not sheet.path:
                yield Skipped(self._file.name, f"sheet {sheet.title!r} has no part in the file and cannot be read")
            elif sheet.hidden and not self._read_hidden:
                self._leave(sheet)
            else:
                wanted.append(sheet)
        ids = sum(self._id_rows(sheet) for sheet in wanted if sheet.worksheet) < 2
        for sheet in wanted:
            part = sheet.title if len(self._sheets) > 1 else ""
            place = SheetPlace(
                self._file.name, self._notices, sheet.title, part, ids=ids, heads=self._book.heads(sheet.path)
            )
            yield from (_on_sheet(item, sheet.title) for item in self._sheet(sheet, place))

    def _sheet(self, sheet: SheetPart, place: SheetPlace) -> Found:
        texts = SheetTexts(place)
        end = self._end(sheet)
        links = self._book.links(sheet.path, end.links)
        rows = SheetRows(
            self._values, self._book.comments(sheet.path), links, painted=end.painted, read_hidden=self._read_hidden
        )
        if sheet.worksheet:
            yield from self._rows(sheet, rows, place, texts, end)
        texts.add(*(f"Comment on {cell}: {text}" for cell, text in rows.notes))
        texts.add(*self._book.drawn(sheet.path))
        headers = header_text(rows.headers)
        texts.add(f"Page header and footer: {headers}" if headers else "")
        yield from texts.rest()
        self._report(sheet, rows)

    def _end(self, sheet: SheetPart) -> SheetEnd:
        try:
            return end_of(self._archive, sheet.path) if sheet.worksheet else SheetEnd([], {})
        except _DAMAGED:  # reading the rows reports it
            return SheetEnd([], {})

    def _rows(self, sheet: SheetPart, rows: SheetRows, place: SheetPlace, texts: SheetTexts, end: SheetEnd) -> Found:
        try:
            with self._archive.open(sheet.path) as source:
                broken: list[str] = []
                yield from laid_out(filled(_until_broken(rows.rows(source), broken), end.merges), place, texts)
        except _DAMAGED as error:
            broken = [str(error)]
        for reason in broken:
            yield Skipped(self._file.name, f"sheet {sheet.title!r} is damaged, and not read to its end: {reason[:160]}")

    def _report(self, sheet: SheetPart, rows: SheetRows) -> None:
        name = f"sheet {sheet.title!r}"
        if rows.hidden:
            left = f"{name}: {_cells(rows.hidden)} in hidden rows or columns not read; {_READ_THEM}"
            self._notices.add(file_notice(NoticeCode.HIDDEN_LEFT_OUT, left, count=rows.hidden))
        if rows.unseen:
            left = f"{name}: {_cells(rows.unseen)} whose format hides them (;;;, white or tiny) not read; {_READ_THEM}"
            self._notices.add(file_notice(NoticeCode.HIDDEN_LEFT_OUT, left, count=rows.unseen))
        if rows.unsaved:
            formulas = "1 formula cell" if rows.unsaved == 1 else f"{rows.unsaved:,} formula cells"
            problem = f"{name}: no saved value in {formulas}: the formula was kept instead"
            self._notices.add(file_notice(NoticeCode.FORMULA_WITHOUT_VALUE, problem, count=rows.unsaved))
        if rows.beyond:
            left = f"{name}: {_cells(rows.beyond)} beyond the last column not read"
            self._notices.add(file_notice(NoticeCode.CELLS_NOT_READ, left, count=rows.beyond))

    def _leave(self, sheet: SheetPart) -> None:
        """Report a hidden sheet with the number of its cells, unless it is empty."""
        count = 0
        if sheet.worksheet:
            rows = SheetRows(self._values, read_hidden=True)
            with self._archive.open(sheet.path) as source:
                for row in _until_broken(rows.rows(source), []):
                    count += sum(cell is not None for cell in row.cells)
            if not count:
                return
        subject = _cells(count) if sheet.worksheet else "it is"
        left = f"sheet {sheet.title!r} is hidden: {subject} not read; {_READ_THEM}"
        self._notices.add(file_notice(NoticeCode.HIDDEN_LEFT_OUT, left, count=count))

    def _id_rows(self, sheet: SheetPart) -> int:
        """Count the different rows at the top of a sheet that name a column of ids."""
        rows = SheetRows(self._values, read_hidden=self._read_hidden)
        with self._archive.open(sheet.path) as source:
            first = islice(_until_broken(rows.rows(source), []), _PREVIEW)
            return len({names for row in first if _IDS & set(names := names_of(row.cells))})

    def _shared(self) -> list[str]:
        try:
            return self._book.shared_texts()
        except ExpatError as error:
            problem = f"the table of shared texts is damaged: cells that refer to its end are empty ({error})"
            self._notices.add(file_notice(NoticeCode.PART_DAMAGED, problem))
            return self._book.texts


def _on_sheet(item: LoadedDocument | Skipped, sheet: str) -> LoadedDocument | Skipped:
    """Locate a document by its sheet, and a record by its row."""
    if isinstance(item, Skipped):
        return item
    return replace(item, location={"sheet": sheet, **({"row": item.line} if item.record else {})})


def _until_broken(rows: Iterator[TableRow], broken: list[str]) -> Iterator[TableRow]:
    """Yield rows until one cannot be read; the reason is then added to `broken`."""
    try:
        yield from rows
    except _DAMAGED as error:
        broken.append(str(error))


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count:,} cells"
