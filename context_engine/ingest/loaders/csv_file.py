"""CSV and other separated text: `.csv`, `.tsv`. A row is a record; the file is read piece by piece and may be large.

Read: encoding and separator (comma, semicolon, tab, bar; a first line `sep=;`) are told from the file; lines above the
head are the caption that each record carries; cells stay texts as they are written, so that 0637 and 31/03/2026 do not
change. A cell that begins with = + - or @ is a text like any other: no formula is run. A row with more cells than the
head is an error of its own. Not read: empty rows, rows below a second head.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final, TextIO

from context_engine.ingest.loaded import LoadedDocument, Skipped
from context_engine.ingest.loaders.encoding import open_text
from context_engine.ingest.loaders.records import bounded, until_hopeless
from context_engine.ingest.loaders.source_file import SourceFile
from context_engine.ingest.loaders.table import MOST_COLUMNS, PREVIEW, find_head, pairs_record, row_record

__all__ = ["load_csv", "separator"]

_SEPARATORS: Final = (",", ";", "\t", "|")
_SAMPLE_LINES: Final = 100


def load_csv(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the record of every row."""
    opened = open_text(file)
    if isinstance(opened, Skipped):
        yield opened
        return
    stream, warnings = opened
    with stream:
        yield from until_hopeless(_records(stream, file, warnings), file.name)


def separator(lines: Sequence[str], suffix: str = ".csv") -> str:
    """Return the separator that cuts most lines into the same number of cells, two or more.

    >>> separator(["Desk;Limit", "Rates;1,5", "Credit;2,25"])
    ';'
    """
    best, found = (0.0, 0), "\t" if suffix == ".tsv" else ","
    for sign in _SEPARATORS:
        widths = [len(row) for row in _rows(lines, sign) if row]
        width, times = Counter(widths).most_common(1)[0] if widths else (0, 0)
        score = (round(times / len(widths), 1), width) if width > 1 else (0.0, 0)
        if score > best:
            best, found = score, sign
    return found


def _rows(lines: Sequence[str], sign: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=sign))
    except csv.Error:
        return []


def _records(stream: TextIO, file: SourceFile, warnings: tuple[str, ...]) -> Iterator[LoadedDocument | Skipped]:
    lines = bounded(stream)
    sample = list(islice(lines, _SAMPLE_LINES))
    sign, skipped = _declared(sample) or (separator(sample, file.path.suffix.lower()), 0)
    escape = "\\" if any('\\"' in line for line in sample) else None
    whole = chain(sample[skipped:], lines)
    reader = csv.reader(whole, delimiter=sign, escapechar=escape, skipinitialspace=True, strict=True)
    rows = _numbered(reader, file.name, skipped)
    preview: list[tuple[int, list[str]]] = []
    for row in rows:
        if isinstance(row, Skipped):
            rows = iter((row,))
            break
        preview.append(row)
        if len(preview) == PREVIEW:
            break
    head = find_head([cells for _, cells in preview])
    if max((len(cells) for _, cells in preview), default=0) > MOST_COLUMNS:
        yield Skipped(file.name, f"has over {MOST_COLUMNS:,} columns: it is no table of records")
        return
    if head.pairs:
        yield pairs_record([cells for _, cells in preview], head, file.name, warnings=warnings)
        return
    found = 0
    for row in chain(preview[head.first :], rows):
        record = row if isinstance(row, Skipped) else row_record(row[1], head, file.name, row[0], warnings=warnings)
        if record is not None:
            found, warnings = found + 1, ()
            yield record
    if not found:
        yield Skipped(file.name, "has a head and no row below it" if preview else "is empty")


def _declared(sample: Sequence[str]) -> tuple[str, int] | None:
    first = sample[0].strip().lower() if sample else ""
    return (first[4], 1) if len(first) == 5 and first.startswith("sep=") else None


def _numbered(reader: Iterator[list[str]], name: str, above: int) -> Iterator[tuple[int, list[str]] | Skipped]:
    """Yield (line where the row ends, cells), and an error in place of the rest where a row cannot be read."""
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            line = reader.line_num + above  # type: ignore[attr-defined]
            open_quote = "field limit" in str(error) or "end of data" in str(error)
            said = "a quote that opens is not closed" if open_quote else str(error)
            yield Skipped(name, f"cannot be read from here on: {said}", line)
            return
        if cells is None:
            return
        yield reader.line_num + above, cells  # type: ignore[attr-defined]
