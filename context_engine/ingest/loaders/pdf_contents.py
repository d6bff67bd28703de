"""The lines of a PDF without its tables of contents, which say where something stands and nothing of their own."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from statistics import median
from typing import Final, NamedTuple

from context_engine.core.chunking.contents import contents_of
from context_engine.core.models import Notice
from context_engine.ingest.contents_notice import contents_left_out
from context_engine.ingest.loaders.pdf_line import PdfLine

_PAGE: Final = re.compile(r"(?i)(?<![^\W\d_])(?:\d{1,4}|[ivxlc]{1,7})$")
_DOTS: Final = re.compile(r"(?:[.·…_] ?){3}\s*\w+$")
_ALIGNED: Final = 8.0  # points by which the ends of entries differ


class WithoutContents(NamedTuple):
    """The pages of a document without its tables of contents.

    Attributes:
        pages: the lines of each that are kept.
        left_out: the lines that are not, with the page they stand on, from 1.
    """

    pages: list[list[PdfLine]]
    left_out: list[tuple[int, str]]

    def notices(self, text: str) -> Iterator[Notice]:
        """Yield what is left out, if anything is; what is nowhere in the text is quoted."""
        if self.left_out:
            pages = sorted({page for page, _ in self.left_out})
            yield contents_left_out([line for _, line in self.left_out], text, pages)


def without_contents(pages: Sequence[Sequence[PdfLine]]) -> WithoutContents:
    """Return the lines of pages without tables of contents; of a document of nothing else, all of them."""
    rows = [row for number, lines in enumerate(pages, start=1) for row in _rows(number, lines)]
    starts = [0, *accumulate(len(row.text) + 1 for row in rows)]
    tables = contents_of("\n".join(row.text for row in rows))
    gone = {
        number
        for table in tables
        for number in _to_last_entry(rows, range(bisect_left(starts, table.start), bisect_left(starts, table.end)))
    }
    if not any(number not in gone and row.says_something for number, row in enumerate(rows)):
        return WithoutContents([list(lines) for lines in pages], [])
    out: list[list[PdfLine]] = [[] for _ in pages]
    left_out = []
    for number, row in enumerate(rows):
        if number in gone:
            left_out.append((row.page, row.text))
        else:
            out[row.page - 1] += row.lines
    return WithoutContents(out, left_out)


def _to_last_entry(rows: Sequence[_Row], table: range) -> range:
    """Return the rows of a table of contents up to the last that ends in dots and a page, or in a page on the right.

    The headings that follow it may look like entries, but for the page.
    """
    paged = [number for number in table if _PAGE.search(rows[number].text)]
    ends = [(rows[number].page, rows[number].right) for number in paged]
    entries = [
        number
        for number, (page, right) in zip(paged, ends)
        if _DOTS.search(rows[number].text) or abs(right - _usual_end(ends, page)) <= _ALIGNED
    ]
    return range(table.start, entries[-1] + 1) if len(entries) > 1 else range(0)


def _usual_end(ends: Sequence[tuple[int, float]], page: int) -> float:
    """Return where most entries of a page end; of all pages where it has but one: left and right pages differ."""
    here = [right for number, right in ends if number == page]
    return median(here if len(here) > 1 else [right for _, right in ends])


class _Row(NamedTuple):
    """The lines that stand side by side: a title and, far to the right, its page."""

    page: int
    lines: list[PdfLine]

    @property
    def text(self) -> str:
        """The lines as one; "" for a table."""
        return "  ".join(line.text for line in self.lines) if not self.lines[0].table else ""

    @property
    def says_something(self) -> bool:
        """Whether it is no running head and no number."""
        return not self.lines[0].edge and any(map(str.isalpha, "".join(line.text for line in self.lines)))

    @property
    def right(self) -> float:
        """Where the last line ends."""
        return self.lines[-1].right


def _rows(page: int, lines: Sequence[PdfLine]) -> Iterator[_Row]:
    held: list[PdfLine] = []
    for above, line in pairwise([None, *lines]):
        assert line
        if held and above and not _beside(above, line):
            yield _Row(page, held)
            held = []
        held.append(line)
    if held:
        yield _Row(page, held)


def _beside(above: PdfLine, line: PdfLine) -> bool:
    level = abs(above.bottom - line.bottom) < line.size / 2
    return level and line.left > above.right and above.turn == line.turn and not above.table and not line.table
