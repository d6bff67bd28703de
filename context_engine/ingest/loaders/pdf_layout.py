"""Turn the lines and grids of pages into paragraphs, headings, tables and the offsets where pages begin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from statistics import median
from typing import Final, NamedTuple

from context_engine.ingest.header import header_fields
from context_engine.ingest.loaders.markdown import CONTINUED, one_line, pipe_table, plain, unlinked, with_whole_links
from context_engine.ingest.loaders.pdf_text import PdfLine, PdfTable
from context_engine.ingest.loaders.split_words import unbroken, unsplit, word_counts

_SAME_EDGE: Final = 4.0  # points by which the columns of two pages may differ
_SAME_TEXT: Final = 30.0  # points by which they may differ without rulings: the longest text of a page sets them
_MOST_BELOW: Final = 8  # lines of a note between a table and its continuation on the next page
Pages = Sequence[Sequence[PdfLine]]
_LARGER: Final = 1.12  # times the type size of the text
_MOST_HEADING: Final = 120
_MOST_LEVELS: Final = 4
_MOST_SHORT: Final = 50  # characters of a header line that ends there
_WIDER: Final = 1.35  # times the usual line distance: a new paragraph
_APART: Final = 1.6  # times the type size: a new paragraph after a full stop
_LABEL: Final = re.compile(
    r"(?i)(?:[•▪●◦‣–—*-]|\(?(?:\d{1,3}|[a-z]|[ivxlc]{1,5})[.)]|\d{1,3}(?:\.\d{1,3})+\.?"
    r"|(?:article|section|annex|clause)\s+\w{1,5}[.:]?)\s"
)
_NUMBERED: Final = re.compile(
    r"(?i)(?:\d{1,3}(?:\.\d{1,3})*\.?|(?:article|section|annex|appendix|clause|part|chapter)\s+\w{1,5}\b.?)\s+\S"
)
_NUMBER: Final = re.compile(r"(\d{1,2}(?:\.\d{1,2}){0,3})\.?\s+[^\W\d_a-z]")
_LEAST_NUMBERED: Final = 3
_LEAST_BELOW: Final = 80  # characters of text on average below a numbered heading
_LEAST_ITEM: Final = 40  # characters below a heading without lower ones
_FAR: Final = 2.2  # times the type size: farther than the lines of one heading
_JOINING: Final = (",", "-", "\u00ad", "–", "—", "/", "(", "&")
_ROOM: Final = 3  # characters: a space, and what kerning may take
_LEADER: Final = re.compile(r"(?:\. ?){4}|…\s*\d+$")  # of a line in a table of contents
_BULLET: Final = re.compile(r"[•▪●◦‣]\s*")
_STOPS: Final = (".", ";", ",", ":", "。")
_ENDS: Final = (".", "!", "?", ":", ";", "。", "！", "？")
_WORD: Final = re.compile(r"\w[\w-]*")
_LAST_CUT: Final = re.compile(r"(\w+)-$")


def without_margin_tables(pages: Pages) -> list[list[PdfLine]]:
    """Return the pages with repeated tables in their margins as lines: they are page headers and footers.

    Tables are compared without their numbers.
    """
    in_margin = [[_wording(line) for line in lines if line.table and line.edge] for lines in pages]
    counts = Counter(wording for page in in_margin for wording in set(page))
    return [[kept for line in lines for kept in _in_margin(line, counts)] for lines in pages]


def _in_margin(line: PdfLine, counts: Mapping[str, int]) -> Sequence[PdfLine]:
    if not line.table or not line.edge:
        return (line,)
    return line.table.lines if counts[_wording(line)] > 1 else (line._replace(edge=False),)


def _wording(line: PdfLine) -> str:
    return "".join(filter(str.isalpha, line.text))


def joined_tables(pages: Pages) -> list[list[PdfLine]]:
    """Return the pages with each table whole on the page where it begins, with its head once.

    Text below the table on that page, such as a footer or a note, then precedes it.
    """
    out = [list(lines) for lines in pages]
    begun: tuple[int, PdfLine] | None = None  # the page of a table that may continue, and its line there
    for page, lines in enumerate(out):
        first = next((line for line in lines if not line.edge), None)
        goes_on = begun is not None and first is not None and _table_goes_on(begun[1], first, out[begun[0]])
        if begun and first and goes_on:
            at, above = begun
            begun = at, _with_rows(above, first, page)
            out[at] = [*(line for line in out[at] if line is not above), begun[1]]
            lines.remove(first)
        body = [line for line in lines if not line.edge]
        last = next((number for number in reversed(range(len(body))) if body[number].table), -1)
        if len(body) - 1 - last > _MOST_BELOW:
            begun = None
        elif last >= 0:
            begun = page, body[last]
        elif not goes_on:
            begun = None
    return out


def _table_goes_on(above: PdfLine, line: PdfLine, page: Sequence[PdfLine]) -> bool:
    """Whether a table continues the one above: the same columns, no title and no head."""
    if above.table is None or line.table is None or line.table.titles:
        return False
    first, second = above.table.edges, line.table.edges
    if len(first) != len(second) or above.table.ruled != line.table.ruled:
        return False
    differences = [abs(left - two) for left, two in zip(first, second)]
    if max(differences) > _SAME_EDGE if above.table.ruled else not _same_columns(above.table, line.table):
        return False
    head = line.table.rows[0]
    if not any(head):
        return True
    at_end = next(line for line in reversed(page) if not line.edge or line is above) is above
    numbers = any(sign.isdigit() for cell in head for text in cell for sign in text)
    return at_end or numbers or _row_text(head) == _row_text(above.table.rows[0])


def _same_columns(table: PdfTable, other: PdfTable) -> bool:
    """Whether the columns of two tables without rulings begin or end at about the same places."""
    pairs = zip(table.columns, other.columns)
    return all(min(abs(left - two), abs(right - end)) <= _SAME_TEXT for (left, right), (two, end) in pairs)


def _with_rows(above: PdfLine, line: PdfLine, page: int) -> PdfLine:
    """Append the rows of the next page to a table, without the head that is repeated there."""
    table, rest = above.table, line.table
    assert table
    assert rest
    rows = rest.rows[_row_text(rest.rows[0]) in ("", _row_text(table.rows[0])) :]
    if not rows:
        return above
    breaks = (*table.breaks, (len(table.rows), page))
    joined = table._replace(rows=(*table.rows, *rows), lines=(*table.lines, *rest.lines), breaks=breaks)
    return above._replace(table=joined, text=f"{above.text} {' '.join(_row_text(row) for row in rows)}")


def _row_text(row: Sequence[Sequence[str]]) -> str:
    return " ".join(one_line(line) for cell in row for line in cell)


def table_text(table: PdfTable, written: Callable[[Sequence[str]], str]) -> tuple[str, list[tuple[int, int]]]:
    """Return a table as Markdown below its titles, and (offset, page index) of the rows that begin a page.

    A table without a head is a row a line.

    Args:
        written: function that joins the lines of a cell.
    """
    cells = [[written(cell) for cell in row] for row in table.rows]
    if not any(cells[0]):
        return _rows_as_lines(cells[1:], table)
    block = pipe_table(cells)
    text = "\n\n".join((*map(one_line, table.titles), *((block.text,) if block else ())))
    begin = len(text) - (len(block.text) if block else 0)
    starts = [begin]
    for line in text[begin:].split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    return text, [(starts[row + 1], page) for row, page in table.breaks]  # the rule below the head is a line too


def _rows_as_lines(rows: Sequence[Sequence[str]], table: PdfTable) -> tuple[str, list[tuple[int, int]]]:
    lines = [" | ".join(cell for cell in row if cell.strip(CONTINUED)) for row in rows]
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    return "\n".join(lines), [(starts[row - 1], page) for row, page in table.breaks]


class _Paragraph(NamedTuple):
    lines: Sequence[PdfLine]
    page: int
    heading: int | None
    note: str = ""


def laid_out(
    pages: Sequence[Sequence[PdfLine]], notes: Sequence[Sequence[str]], bookmarks: Mapping[int, Mapping[str, int]]
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return (the text, (offset, number) of each page that has text).

    Args:
        pages: the lines of each; a line at the edge is a separate paragraph.
        bookmarks: {page index: {lower-case title: level from 0}}.
    """
    body = _body_size(pages)
    levels = _levels(pages, body)
    words = word_counts(line.text for lines in pages for line in lines)
    out: list[str] = []
    starts: list[tuple[int, int]] = []
    begun = length = 0  # where the last paragraph begins and ends
    before: _Paragraph | None = None
    for paragraph in _paragraphs(pages, notes, body, levels, bookmarks):
        table = paragraph.lines[0].table if paragraph.lines else None
        breaks: list[tuple[int, int]] = []
        if table:
            text, breaks = table_text(table, lambda lines: unbroken(lines, words))
        else:
            text = plain(paragraph.note) if paragraph.note else _text(paragraph, words)
        gap = "" if before is None else "\n\n"
        if before and _goes_on(before, paragraph, text):
            gap = _joint(out, text, words)
            length = begun + len(out[-1])
        if not starts or starts[-1][1] != paragraph.page + 1:
            starts.append((length + len(gap), paragraph.page + 1))
        out += [gap, text]
        begun = length + len(gap)
        starts += ((begun + offset, page + 1) for offset, page in breaks)
        length = begun + len(text)
        before = paragraph
    return "".join(out), tuple(starts)


def _body_size(pages: Sequence[Sequence[PdfLine]]) -> float:
    """Return the commonest type size; while more than half of all letters are larger, the commonest of the larger."""
    sizes: Counter[float] = Counter()
    for line in chain.from_iterable(pages):
        sizes[line.size] += len(line.text)
    body, whole = 0.0, sizes.total()
    while sizes and 2 * sizes.total() > whole:
        body = sizes.most_common(1)[0][0]
        sizes = Counter({size: count for size, count in sizes.items() if size >= body * _LARGER})
    return body


def _levels(pages: Sequence[Sequence[PdfLine]], body: float) -> dict[float, int]:
    """Return {type size: heading level}, from the largest; sizes within half a point share a level."""
    sizes = sorted({line.size for lines in pages for line in lines if _is_large(line, body)}, reverse=True)
    levels: dict[float, int] = {}
    level = 0
    for above, size in pairwise([0.0, *sizes]):
        level += above - size > 0.5 or not levels
        levels[size] = min(level, _MOST_LEVELS)
    return levels


def _is_large(line: PdfLine, body: float) -> bool:
    return (
        not line.table
        and line.size >= body * _LARGER > 0
        and len(line.text) <= _MOST_HEADING
        and any(map(str.isalpha, line.text))
    )


def _paragraphs(
    pages: Sequence[Sequence[PdfLine]],
    notes: Sequence[Sequence[str]],
    body: float,
    levels: Mapping[float, int],
    bookmarks: Mapping[int, Mapping[str, int]],
) -> Iterator[_Paragraph]:
    usual = _usual_distance(pages, body)
    titled = any(
        _heading_level(line, body, levels, bookmarks.get(number, {})) and not _NUMBER.match(line.text)
        for number, lines in enumerate(pages)
        for line in lines
    )
    numbered = _numbered_titles(pages, body) if titled else set()
    for number, lines in enumerate(pages):
        marks = bookmarks.get(number, {})
        group: list[PdfLine] = []
        level: int | None = None
        for place, line in enumerate(lines):
            own = _heading_level(line, body, levels, marks)
            if own is None and (number, place) in numbered:
                own = max(levels.values(), default=0) + 1
            ended = own is None and len(group) == 1 and bool(_label_of_title(group[0], line, body))
            if group and (own != level or ended or _opens(group[-1], line, usual, level)):
                yield _Paragraph(group, number, level)
                group = []
            if not group:
                level = own
            group.append(line)
        if group:
            yield _Paragraph(group, number, level)
        yield from (_Paragraph((), number, None, note) for note in notes[number])


def _numbered_titles(pages: Pages, body: float) -> set[tuple[int, int]]:
    """Return (page index, place) of the lines in the type of the text that are headings by their numbers.

    Their numbers follow one another over the document ("3", "3.1", "3.2", "4"), and text stands between them, unlike
    the items of a list.
    """
    out: dict[tuple[int, int], int] = {}  # and the characters of the text below
    last: tuple[int, ...] = ()
    latest = (-1, -1)
    for number, lines in enumerate(pages):
        for place, (line, below) in enumerate(zip(lines, [*lines[1:], None])):
            label = _label_of_title(line, below, body)
            if label and (not last or label in _next_numbers(last)):
                listed = len(label) <= len(last) and out.get(latest, 0) < _LEAST_ITEM
                if listed:
                    out.pop(latest, None)
                else:
                    out[number, place] = 0
                last, latest = label, (number, place)
            elif latest in out:
                out[latest] += len(line.text)
    return set(out) if len(out) >= _LEAST_NUMBERED and sum(out.values()) >= _LEAST_BELOW * len(out) else set()


def _label_of_title(line: PdfLine, below: PdfLine | None, body: float) -> tuple[int, ...]:
    """Return the number of a short line that may be a heading, above a longer line, a wide gap or another page."""
    match = _NUMBER.match(line.text)
    if match is None or line.table or line.edge or line.size < body or len(line.text) > _MOST_SHORT * 2:
        return ()
    if line.text.endswith(_STOPS) or _LEADER.search(line.text) or (below and not _ends_early(line, below)):
        return ()
    return tuple(map(int, match[1].split(".")))


def _next_numbers(last: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Return the numbers that may follow one.

    >>> sorted(_next_numbers((3, 2)))
    [(3, 2, 1), (3, 3), (4,)]
    """
    return {(*last, 1), *((*last[:depth], last[depth] + 1) for depth in range(len(last)))}


def _ends_early(above: PdfLine, line: PdfLine) -> bool:
    """Whether a line ends although the first word of the next one, a capitalised one, has room in it."""
    if line.table:
        return True
    if above.text.endswith(_JOINING) or not (line.text[:1].isupper() or _NUMBER.match(line.text)):
        return False
    char = (line.right - line.left) / max(1, len(line.text))
    word = line.text.split(maxsplit=1)[0]
    return above.right + (len(word) + _ROOM) * char < line.right or above.bottom - line.bottom > above.size * _FAR


def _usual_distance(pages: Sequence[Sequence[PdfLine]], body: float) -> float:
    gaps = [
        above.bottom - below.bottom
        for lines in pages
        for above, below in pairwise(lines)
        if above.size == below.size == body
        and not above.table
        and not below.table
        and 0 < above.bottom - below.bottom < 4 * body
    ]
    return median(gaps) if gaps else body * 1.2


def _heading_level(line: PdfLine, body: float, levels: Mapping[float, int], marks: Mapping[str, int]) -> int | None:
    if line.table:
        return None
    marked = marks.get(" ".join(line.text.split()).lower())
    if marked is not None:
        return min(marked + 1, _MOST_LEVELS + 1)
    if line.text.endswith(_STOPS) or _LEADER.search(line.text):
        return None
    if _is_large(line, body):
        return levels.get(line.size)
    if line.bold and line.size >= body and len(line.text) <= _MOST_HEADING and _NUMBERED.match(line.text):
        return max(levels.values(), default=0) + 1
    return None


def _opens(above: PdfLine, line: PdfLine, usual: float, level: int | None) -> bool:
    """Whether a line opens a paragraph, by its place or its label."""
    if line.edge or above.edge or line.table or above.table or line.turn != above.turn:
        return True
    distance = above.bottom - line.bottom
    wide = max(usual, line.size * 1.1 if level is not None else 0.0) * _WIDER
    ended = distance > line.size * _APART and above.text.endswith(_ENDS)
    ended = ended or (len(above.text) <= _MOST_SHORT and _is_header(above.text))
    labelled = bool(_LABEL.match(line.text)) or _is_header(line.text)
    return ended or labelled or not -0.5 < distance < wide or abs(above.size - line.size) > 1


def _is_header(text: str) -> bool:
    """Whether a line belongs to a header block ("Version: 3.2"), in which each line is separate."""
    return not text[:1].islower() and (":" in text or "：" in text) and bool(header_fields(text))


def _goes_on(before: _Paragraph, paragraph: _Paragraph, text: str) -> bool:
    """Whether a paragraph continues the last one of the previous page or column."""
    if before.note or paragraph.note or before.heading or paragraph.heading:
        return False
    above, line = before.lines[-1], paragraph.lines[0]
    if above.table or line.table:
        return False
    another_column = line.bottom > above.bottom and line.left > above.right and line.turn == above.turn
    if before.page == paragraph.page and not another_column:
        return False
    return text[:1].islower() and not above.text.endswith(_ENDS) and not _LABEL.match(text)


def _joint(out: list[str], text: str, words: Counter[str]) -> str:
    """Return the separator between a text and its rest; the hyphen of a split word is removed from `out`."""
    first, rest = _LAST_CUT.search(out[-1]), _WORD.match(text)
    if first is None or rest is None:
        return " "
    split_word = unsplit(first[1], rest[0], words)
    if split_word == first[1] + rest[0]:
        out[-1] = out[-1][:-1]
        return ""
    return " " if split_word.endswith(" " + rest[0]) else ""


def _text(paragraph: _Paragraph, words: Counter[str]) -> str:
    text = with_whole_links(unbroken((line.text for line in paragraph.lines), words))
    if paragraph.heading:
        return f"{'#' * paragraph.heading} {unlinked(text)}"
    return _BULLET.sub("- ", text, count=1) if _BULLET.match(text) else plain(text)
