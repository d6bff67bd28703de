"""Remove running heads, page numbers and tables of contents from the lines of a PDF."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice, pairwise
from statistics import median
from typing import Final, NamedTuple

from context_engine.core.chunking.contents import contents_of
from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.loaded_document import contents_left_out, file_notice
from context_engine.ingest.loaders.pdf_text import LinePart, PdfLine

_OFTEN: Final = 0.4  # share of the pages of a short document; left and right pages have different heads
_ENOUGH: Final = 3  # pages
_MOST_LISTED: Final = 100
_MOST_WORDINGS: Final = 10
_OF: Final = r"(?:\s*(?:/|of|von|de|di|sur|van|из)\s*\d{1,5})?"
_ROMAN: Final = r"(?=[ivxlc])(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})"
_WORDED: Final = re.compile(
    rf"(?i)(?<!\w)(?:page|seite|blatt|pagina|página|pág\.|pag\.|s\.|p\.)\s*[-–]?\s*(\d{{1,5}}|{_ROMAN}){_OF}(?!\w)"
    r"|第\s*(\d{1,5})\s*页(?:\s*[,，/]?\s*共\s*\d{1,5}\s*页)?"
)
_BARE: Final = re.compile(rf"[-–—(\[]?\s*(\d{{1,5}}|{_ROMAN}){_OF}\s*[-–—)\]]?")
_LONE_ROMAN: Final = re.compile(rf"(?!.$){_ROMAN}")  # a single letter may be anything
_LEAST_ROMAN: Final = 2  # pages before those with Arabic numbers
_DIGIT: Final = re.compile(rf"\d|(?i:(?<!\w){_ROMAN}(?!\w))")
_PIECE: Final = re.compile(r"[^|•·–—\s](?:[^|•·–—]*[^|•·–—\s])?")  # between separators
_LETTERS: Final = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_LOOSE: Final = " \t|•·–—-,;/"
_PAGE: Final = re.compile(r"(?i)(?<![^\W\d_])(?:\d{1,4}|[ivxlc]{1,7})$")
_WORD: Final = re.compile(r"\w+")
_NUMBERED: Final = re.compile(r"^(?:[^\W\d_]+\s)?(?:\d{1,3}(?:\.\d{1,3})*|[A-Z](?:\.\d{1,3})*|[IVXLC]+)[.:)]?\s+")
_DOTS: Final = re.compile(r"(?:[.·…_] ?){3}\s*\w+$")
_ALIGNED: Final = 8.0  # points by which the right ends of entries may differ


class RunningHeads(NamedTuple):
    """The pages' lines without repetitions.

    Attributes:
        pages: the lines kept of each page; `edge` now marks the running lines.
        running: each running line once.
        notices: notices about lines left out of the text.
    """

    pages: list[list[PdfLine]]
    running: list[str]
    notices: tuple[Notice, ...]


class _PageNumber(NamedTuple):
    """A possible page number in a line.

    Attributes:
        wording: with "#" for the number, "Page # of 10".
        sure: whether it names a page and fills its part of the line.
    """

    start: int
    end: int
    wording: str
    number: int
    sure: bool


def without_running_heads(pages: Sequence[Sequence[PdfLine]]) -> RunningHeads:
    """Return the pages without page numbers, and with the first occurrence of each running line."""
    often = max(2, min(_ENOUGH, _OFTEN * len(pages)))
    bare, numbers = _without_numbers(pages, often)
    counts = Counter(text for lines in bare for text in {line.text for line in lines if line.edge})
    running = {text for text, count in counts.items() if count >= often and text}
    echoes = _echoes(pages, bare)
    seen: set[str] = set()
    kept: list[list[PdfLine]] = []
    for page, lines in enumerate(bare):
        first = [
            line
            for place, line in enumerate(lines)
            if line.text and not (line.edge and (line.text in seen or (page, place) in echoes))
        ]
        kept.append([line._replace(edge=line.text in running) if line.edge else line for line in first])
        seen |= {line.text for line in lines if line.edge} & running
    if not any(kept):  # a document of only page numbers
        return RunningHeads([list(lines) for lines in pages], [], ())
    pairs = ((line, left) for lines, rest in zip(pages, bare) for line, left in zip(lines, rest) if line.edge)
    heads = [line.text for line, left in pairs if not left.text or left.text in running]
    dropped = [len([line for line in left if line.text]) - len(lines) for left, lines in zip(bare, kept)]
    different = len(running | {bare[page][place].text for page, place in echoes})
    return RunningHeads(kept, list(dict.fromkeys(heads)), tuple(_notices(numbers, dropped, different)))


def _echoes(pages: Sequence[Sequence[PdfLine]], bare: Sequence[Sequence[PdfLine]]) -> set[tuple[int, int]]:
    """Return (page, place in it) of each line beside a page number that repeats a heading, as "4.7. Limits 33" does.

    Where it stands, at the end of a page or at its top, another section may go on. Each of its words stands elsewhere.
    """
    uncut = [[line.text for line, left in zip(*both) if line.text == left.text] for both in zip(pages, bare)]
    lines = [text for texts in uncut for text in texts]
    titles = {_title(text) for text in (*lines, *(f"{text} {below}" for text, below in pairwise(lines)))} - {""}
    words = {word for text in lines for word in _WORD.findall(text.casefold())}
    return {
        (page, place)
        for page, both in enumerate(zip(pages, bare))
        for place, (line, left) in enumerate(zip(*both))
        if line.edge
        and line.text != left.text
        and _title(left.text) in titles
        and words.issuperset(_WORD.findall(left.text.casefold()))
    }


def _title(heading: str) -> str:
    """Return a heading without its number, casefolded.

    >>> _title("Chapter 4. Source packages"), _title("4.7  Time Stamps")
    ('source packages', 'time stamps')
    """
    return " ".join(_NUMBERED.sub("", heading).casefold().split())


def _without_numbers(
    pages: Sequence[Sequence[PdfLine]], often: float
) -> tuple[list[list[PdfLine]], dict[str, list[int]]]:
    """Return the lines without page numbers, and {wording: the numbers left out}.

    A number is a page number if it names a page and fills its part of the line, or increases with the pages; a line
    that is a Roman numeral needs only two pages.
    """
    numbers = [[list(_numbers(line)) if line.edge else [] for line in lines] for lines in pages]
    counts = Counter(
        key for page, lines in enumerate(numbers) for key in {_key(number, page) for number in chain(*lines)}
    )
    left_out: dict[str, list[int]] = {}
    out = []
    for page, (lines, candidates) in enumerate(zip(pages, numbers)):
        bare = []
        for line, possible in zip(lines, candidates):
            least = _LEAST_ROMAN if _LONE_ROMAN.fullmatch(line.text) else often
            real = [number for number in possible if number.sure or counts[_key(number, page)] >= least]
            for number in real:
                left_out.setdefault(number.wording, []).append(number.number)
            bare.append(line._replace(text=_cut(line.text, real), parts=()) if real else line)
        out.append(bare)
    return out, left_out


def _key(number: _PageNumber, page: int) -> tuple[str, int]:
    return number.wording, number.number - page


def _numbers(line: PdfLine) -> Iterator[_PageNumber]:
    """Yield the page numbers named in a line, and each number that fills a part between gaps or separators."""
    text = line.text
    if not _DIGIT.search(text):
        return
    worded = list(_WORDED.finditer(text))
    for match in worded:
        yield _number(match, 0, alone=not (text[: match.start()] + text[match.end() :]).strip(_LOOSE))
    start = 0
    for part in line.parts or (LinePart(text, 0.0, 0.0),):
        at = text.find(part.text, start)
        for piece in _PIECE.finditer(part.text):
            bare = _BARE.fullmatch(piece[0])
            if bare and at >= 0 and not worded:
                yield _number(bare, at + piece.start(), alone=False)
        start = max(start, at + len(part.text))


def _number(match: re.Match[str], offset: int, *, alone: bool) -> _PageNumber:
    group = match.lastindex or 0
    begin, end = match.start(group) - match.start(), match.end(group) - match.start()
    wording = f"{match[0][:begin]}#{match[0][end:]}"
    return _PageNumber(offset + match.start(), offset + match.end(), wording, _value(match[group]), alone)


def _value(number: str) -> int:
    """Convert digits or Roman numerals.

    >>> _value("12"), _value("xiv")
    (12, 14)
    """
    if number.isdecimal():
        return int(number)
    values = [_LETTERS[letter] for letter in number.lower()]
    return sum(-value if value < after else value for value, after in pairwise([*values, 0]))


def _cut(text: str, numbers: Sequence[_PageNumber]) -> str:
    """Return a line without its page numbers and their separators."""
    pieces = []
    start = 0
    for number in numbers:
        pieces.append(text[start : number.start])
        start = number.end
    pieces.append(text[start:])
    return " ".join(piece.strip(_LOOSE) for piece in pieces if piece.strip(_LOOSE))


def _notices(numbers: Mapping[str, Sequence[int]], dropped: Sequence[int], running: int) -> Iterator[Notice]:
    if total := sum(dropped):
        lines, times = ("line" if running == 1 else "lines"), ("time" if total == 1 else "times")
        where = [page for page, count in enumerate(dropped, start=1) if count]
        left = (
            f"{running} {lines} at the top or bottom of pages kept where first seen; left out {total} {times} on "
            f"page{'s' if len(where) != 1 else ''} {_listed(where)}"
        )
        yield file_notice(NoticeCode.RUNNING_HEADS_LEFT_OUT, left, count=total, pages=where)
    if numbers:
        wordings = (f'"{wording}" ({_listed(pages)})' for wording, pages in islice(numbers.items(), _MOST_WORDINGS))
        more = f"; and {len(numbers) - _MOST_WORDINGS} more forms" if len(numbers) > _MOST_WORDINGS else ""
        left = f"page numbers left out: {'; '.join(wordings)}{more}"
        yield file_notice(NoticeCode.PAGE_NUMBERS_LEFT_OUT, left)


def _listed(pages: Sequence[int]) -> str:
    """Return numbers in order, with consecutive ones as a range: "1, 3–7"."""
    once = sorted(set(pages))
    breaks = [0, *(at for at in range(1, len(once)) if once[at] != once[at - 1] + 1), len(once)]
    runs = [(once[start], once[stop - 1]) for start, stop in pairwise(breaks)]
    more = f", … {once[-1]}" if len(runs) > _MOST_LISTED else ""
    shown = (str(first) if first == last else f"{first}–{last}" for first, last in runs[:_MOST_LISTED])
    return ", ".join(shown) + more


class WithoutContents(NamedTuple):
    """The pages of a document without its tables of contents.

    Attributes:
        pages: the lines kept of each.
        left_out: (page from 1, line) of the others.
    """

    pages: list[list[PdfLine]]
    left_out: list[tuple[int, str]]

    def notices(self, text: str) -> Iterator[Notice]:
        """Yield a notice about lines left out, if any; lines that occur nowhere in the text are quoted."""
        if self.left_out:
            pages = sorted({page for page, _ in self.left_out})
            yield contents_left_out([line for _, line in self.left_out], text, pages)


def without_contents(pages: Sequence[Sequence[PdfLine]]) -> WithoutContents:
    """Return the pages without tables of contents; a document that is only such a table keeps all lines."""
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


def _to_last_entry(rows: Sequence[_ContentsRow], table: range) -> range:
    """Return a table of contents up to its last entry with dots before the page, or an aligned page on the right.

    Headings that follow the table look like entries, except for the page.
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
    """Return the right end of most entries on a page; on all pages if it has only one, as pages may differ."""
    here = [right for number, right in ends if number == page]
    return median(here if len(here) > 1 else [right for _, right in ends])


class _ContentsRow(NamedTuple):
    """Lines side by side: a title and, far to the right, its page."""

    page: int
    lines: list[PdfLine]

    @property
    def text(self) -> str:
        """The lines as one text; "" for a table."""
        return "  ".join(line.text for line in self.lines) if not self.lines[0].table else ""

    @property
    def says_something(self) -> bool:
        """Whether it is more than a running head or a number."""
        return not self.lines[0].edge and any(map(str.isalpha, "".join(line.text for line in self.lines)))

    @property
    def right(self) -> float:
        return self.lines[-1].right


def _rows(page: int, lines: Sequence[PdfLine]) -> Iterator[_ContentsRow]:
    row: list[PdfLine] = []
    for above, line in pairwise([None, *lines]):
        assert line
        if row and above and not _beside(above, line):
            yield _ContentsRow(page, row)
            row = []
        row.append(line)
    if row:
        yield _ContentsRow(page, row)


def _beside(above: PdfLine, line: PdfLine) -> bool:
    level = abs(above.bottom - line.bottom) < line.size / 2
    return level and line.left > above.right and above.turn == line.turn and not above.table and not line.table
