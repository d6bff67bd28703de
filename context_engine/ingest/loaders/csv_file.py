"""CSV and other separated text: `.csv`, `.tsv`. A row of a table is a record; the file is read piece by piece.

Read: encoding and separator (comma, semicolon, tab, bar; or a first line `sep=;`) are detected; tables, pairs and texts
are told apart as on a sheet (`sheet_layout`); lines above a head are the caption that each record carries; cells stay
text as written, so that 0637 and 31/03/2026 do not change. A cell that begins with = + - or @ is text too: no
formula is run. Cells beyond the head are named by their column letters, and an unclosed quote is read literally
(both reported). Not read: NUL characters, which are left out (reported).
"""

from __future__ import annotations

import csv
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Final, TextIO

from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, file_notice
from context_engine.ingest.loaders.encoding import open_text
from context_engine.ingest.loaders.records import FileNotices, LongLine, SheetPlace, SheetTexts, bounded
from context_engine.ingest.loaders.sheet_layout import laid_out
from context_engine.ingest.loaders.source_file import EMPTY, SourceFile
from context_engine.ingest.loaders.table import TableRow

_SEPARATORS: Final = (",", ";", "\t", "|")
_SAMPLE_LINES: Final = 100
_MOST_QUOTES: Final = 100
_SPACED: Final = 0.4  # with a larger share of empty lines, they separate rows, not tables


def load_csv(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the record of every row."""
    opened = open_text(file)
    if isinstance(opened, Skipped):
        yield opened
        return
    stream, guesses = opened
    notices = FileNotices(file.name)
    notices.add(*guesses)
    with stream:
        any_document = False
        for item in notices.with_documents(_documents(stream, file, notices)):
            any_document = True
            yield item
    if not any_document:
        yield Skipped(file.name, EMPTY, error=False)


def separator(lines: Sequence[str], suffix: str = ".csv") -> str:
    """Return the separator that cuts the most lines into the same number of cells, at least two.

    >>> separator(["Desk;Limit", "Rates;1,5", "Credit;2,25"])
    ';'
    """
    best, best_sign = (0.0, 0), "\t" if suffix == ".tsv" else ","
    for sign in _SEPARATORS:
        widths = [len(row) for row in _cut(lines, sign) if row]
        width, times = Counter(widths).most_common(1)[0] if widths else (0, 0)
        score = (round(times / len(widths), 1), width) if width > 1 else (0.0, 0)
        if score > best:
            best, best_sign = score, sign
    return best_sign


def _cut(lines: Sequence[str], sign: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=sign))
    except csv.Error:
        return []


def _escape(sample: Sequence[str], sign: str) -> str | None:
    """Return the backslash if it escapes quotes: it stands before one, and the lines cannot be cut otherwise."""
    if not any('\\"' in line for line in sample):
        return None
    try:
        deque(csv.reader(sample, delimiter=sign, skipinitialspace=True, strict=True), maxlen=0)
    except csv.Error:
        return "\\"
    return None


def _documents(stream: TextIO, file: SourceFile, notices: FileNotices) -> Iterator[LoadedDocument | Skipped]:
    broken: list[str] = []
    lines = _readable(stream, notices, broken)
    sample = list(islice(lines, _SAMPLE_LINES))
    sign, skipped = _declared(sample) or (separator(sample, file.path.suffix.lower()), 0)
    empty = sum(not line.strip() for line in sample)
    rows = _CsvRows(chain(sample[skipped:], lines), sign, notices, above=skipped)
    rows.escape = _escape(sample[skipped:], sign)
    rows.spaced = empty > _SPACED * len(sample)
    place = SheetPlace(file.name, notices, row="line")
    texts = SheetTexts(place)
    yield from map(_on_line, laid_out(rows.read(), place, texts))
    yield from texts.rest()
    yield from (Skipped(file.name, reason) for reason in broken)


def _on_line(item: LoadedDocument | Skipped) -> LoadedDocument | Skipped:
    """Locate a record by its line; a record over several lines by the last."""
    if isinstance(item, Skipped) or not item.record:
        return item
    return replace(item, location={"line": item.line})


def _declared(sample: Sequence[str]) -> tuple[str, int] | None:
    first = sample[0].strip().lower() if sample else ""
    return (first[4], 1) if len(first) == 5 and first.startswith("sep=") else None


def _readable(stream: TextIO, notices: FileNotices, broken: list[str]) -> Iterator[str]:
    """Yield lines until one cannot be read; the reason is then added to `broken`."""
    try:
        for number, line in enumerate(bounded(stream), start=1):
            if "\x00" in line:
                notices.add(_repaired(f"line {number:,} holds NUL characters, which are left out"))
                line = line.replace("\x00", "")
            yield line
    except LongLine as error:
        broken.append(str(error))
    except UnicodeDecodeError as error:
        broken.append(f"is not {error.encoding} all through, and not read to its end: save it as UTF-8")


def _repaired(sentence: str) -> Notice:
    return file_notice(NoticeCode.RECORD_REPAIRED, sentence)


class _CsvRows:
    """Cuts lines into cells.

    A row that cannot be cut, because a quote is not closed or is inside a cell, is cut at every separator of its
    first line, and reading goes on with the next line.

    Args:
        notices: receives the repairs.
        above: number of lines already taken from the file.

    Attributes:
        escape: the character that escapes a quote inside a cell.
        spaced: whether empty lines separate all rows, so that they end no table.
    """

    def __init__(self, lines: Iterator[str], sign: str, notices: FileNotices, *, above: int = 0) -> None:
        self._lines, self._sign, self._notices = lines, sign, notices
        self._number = above
        self._again: deque[str] = deque()  # lines to be read once more
        self._row_lines: list[str] = []  # lines of the row being read
        self._bad = 0
        self.escape: str | None = None
        self.spaced = False

    def read(self) -> Iterator[TableRow]:
        gap = False
        for cells in self._cells():
            if any(cell and not cell.isspace() for cell in cells):
                yield TableRow(self._number, list(cells), gap)
                gap = False
            else:
                gap = not self.spaced

    def _cells(self) -> Iterator[list[str]]:
        while self._bad < _MOST_QUOTES:
            reader = csv.reader(
                self._next_lines(), delimiter=self._sign, escapechar=self.escape, skipinitialspace=True, strict=True
            )
            try:
                while (cells := next(reader, None)) is not None:
                    self._row_lines.clear()
                    yield cells
                return
            except csv.Error:
                yield self._by_separator()
        problem = f"line {self._number:,}: from here on quotes are read literally, because too many are not closed"
        self._notices.add(_repaired(problem))
        for _ in self._next_lines():
            yield self._by_separator(reported=False)

    def _by_separator(self, *, reported: bool = True) -> list[str]:
        first, *later = self._row_lines
        self._row_lines.clear()
        self._again.extendleft(reversed(later))
        self._number -= len(later)
        self._bad += 1
        if reported:
            problem = f"line {self._number:,}: a quote is not closed or is inside a cell: it is read literally"
            self._notices.add(_repaired(problem))
        return [cell.strip() for cell in first.rstrip("\n").split(self._sign)]

    def _next_lines(self) -> Iterator[str]:
        while True:
            line = self._again.popleft() if self._again else next(self._lines, None)
            if line is None:
                return
            self._number += 1
            self._row_lines.append(line)
            yield line
