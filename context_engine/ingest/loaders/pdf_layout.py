"""From the lines of pages to paragraphs, headings and the offsets where pages begin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from context_engine.ingest.header import header_fields
from context_engine.ingest.loaders.markdown import plain
from context_engine.ingest.loaders.pdf_line import PdfLine
from context_engine.ingest.loaders.pdf_tables import table_text

_LARGER: Final = 1.12  # times the type of the text
_MOST_HEADING: Final = 120
_MOST_LEVELS: Final = 4
_MOST_SHORT: Final = 50  # of a header line that does not go on below
_WIDER: Final = 1.35  # times the usual distance of two lines: a new paragraph
_APART: Final = 1.6  # times the type: a new paragraph where the one above ends with a stop
_LABEL: Final = re.compile(
    r"(?i)(?:[•▪●◦‣–—*-]|\(?(?:\d{1,3}|[a-z]|[ivxlc]{1,5})[.)]|\d{1,3}(?:\.\d{1,3})+\.?"
    r"|(?:article|section|annex|clause)\s+\w{1,5}[.:]?)\s"
)
_NUMBERED: Final = re.compile(
    r"(?i)(?:\d{1,3}(?:\.\d{1,3})*\.?|(?:article|section|annex|appendix|clause|part|chapter)\s+\w{1,5}\b.?)\s+\S"
)
_LEADER: Final = re.compile(r"(?:\. ?){4}|…\s*\d+$")  # of a line in a table of contents
_BULLET: Final = re.compile(r"[•▪●◦‣]\s*")
_STOPS: Final = (".", ";", ",", ":", "。")
_ENDS: Final = (".", "!", "?", ":", ";", "。", "！", "？")
_WORD: Final = re.compile(r"\w[\w-]*")
_LEAST_WORD: Final = 4
_HYPHEN: Final = re.compile(r"(?<=\w)[-‐]$")
_CUT: Final = re.compile(r"(\w+)\u00ad (\w+)")
_LAST_CUT: Final = re.compile(r"(\w+)-$")
_AT_END: Final = re.compile(r"\u00ad(?= |$)")  # a hyphen that cuts no word
_HANGING: Final = ("and", "or", "und", "et", "to")  # "long- and short-term"


class _Paragraph(NamedTuple):
    lines: Sequence[PdfLine]
    page: int
    heading: int | None
    note: str = ""


def laid_out(
    pages: Sequence[Sequence[PdfLine]],
    notes: Sequence[Sequence[str]],
    bookmarks: Mapping[int, Mapping[str, int]],
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return (the text, (offset, number) of each page that has text).

    Args:
        pages: the lines of each; those at its edge are paragraphs of their own.
        notes: what follows below the lines of each page, a paragraph each.
        bookmarks: {page index: {title in small letters: level from 0}}.
    """
    body = _body_size(pages)
    levels = _levels(pages, body)
    words = Counter(word for lines in pages for line in lines for word in _WORD.findall(line.text.lower()))
    out: list[str] = []
    starts: list[tuple[int, int]] = []
    begun = length = 0  # where the last paragraph begins and ends
    before: _Paragraph | None = None
    for paragraph in _paragraphs(pages, notes, body, levels, bookmarks):
        table = paragraph.lines[0].table if paragraph.lines else None
        breaks: list[tuple[int, int]] = []
        if table:
            text, breaks = table_text(table, lambda lines: _unbroken(lines, words))
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
    """Return the size of type that most characters are set in."""
    sizes: Counter[float] = Counter()
    for lines in pages:
        for line in lines:
            sizes[line.size] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _levels(pages: Sequence[Sequence[PdfLine]], body: float) -> dict[float, int]:
    """Return {size of type: level of heading}, from the largest; sizes within half a point are one."""
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
    for number, lines in enumerate(pages):
        marks = bookmarks.get(number, {})
        group: list[PdfLine] = []
        level: int | None = None
        for line in lines:
            own = _heading_level(line, body, levels, marks)
            if group and (own != level or _opens(group[-1], line, usual, level)):
                yield _Paragraph(group, number, level)
                group = []
            if not group:
                level = own
            group.append(line)
        if group:
            yield _Paragraph(group, number, level)
        yield from (_Paragraph((), number, None, note) for note in notes[number])


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
    """Whether a line opens a paragraph, by its place or by the label it begins with."""
    if line.edge or above.edge or line.table or above.table or line.turn != above.turn:
        return True
    distance = above.bottom - line.bottom
    wide = max(usual, line.size * 1.1 if level is not None else 0.0) * _WIDER
    ended = distance > line.size * _APART and above.text.endswith(_ENDS)
    ended = ended or (len(above.text) <= _MOST_SHORT and _is_header(above.text))
    labelled = bool(_LABEL.match(line.text)) or _is_header(line.text)
    return ended or labelled or not -0.5 < distance < wide or abs(above.size - line.size) > 1


def _is_header(text: str) -> bool:
    """Whether a line is one of a header block ("Version: 3.2"), where each line says something of its own."""
    return not text[:1].islower() and (":" in text or "：" in text) and bool(header_fields(text))


def _goes_on(before: _Paragraph, paragraph: _Paragraph, text: str) -> bool:
    """Whether a paragraph is the rest of the one that the page or the column before ends with."""
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
    """Return what stands between a text and its rest; the hyphen of a word cut in two goes from the end of `out`."""
    first, rest = _LAST_CUT.search(out[-1]), _WORD.match(text)
    if first is None or rest is None:
        return " "
    whole = _whole(first[1], rest[0], words)
    if whole == first[1] + rest[0]:
        out[-1] = out[-1][:-1]
        return ""
    return " " if whole.endswith(" " + rest[0]) else ""


def _unbroken(lines: Iterable[str], words: Counter[str]) -> str:
    """Return lines as one text, the words put together that a line's end cuts."""
    text = " ".join(_HYPHEN.sub("\u00ad", line) for line in lines)  # PDFium marks most of them itself
    text = _CUT.sub(lambda match: _whole(match[1], match[2], words), text)
    return " ".join(_AT_END.sub("-", text).replace("\u00ad", "").split())


def _text(paragraph: _Paragraph, words: Counter[str]) -> str:
    text = _unbroken((line.text for line in paragraph.lines), words)
    if paragraph.heading:
        return f"{'#' * paragraph.heading} {text}"
    return _BULLET.sub("- ", text, count=1) if _BULLET.match(text) else plain(text)


def _whole(first: str, rest: str, words: Counter[str]) -> str:
    """Return a word that a hyphen at a line's end cuts; the hyphen stays where the document writes it elsewhere."""
    hyphened, joined = f"{first}-{rest}", first + rest
    if rest in _HANGING:
        return f"{first}- {rest}"
    if not first[-1:].isalpha() or not rest[:1].isalpha() or rest[:1].isupper():
        return hyphened
    written = words.get(hyphened.lower(), 0), words.get(joined.lower(), 0)
    if written == (0, 0):  # "risk-weighted": two words of the document
        two = min(len(first), len(rest)) >= _LEAST_WORD and min(words[first.lower()], words[rest.lower()]) > 1
        return hyphened if two else joined
    return hyphened if written[0] > written[1] else joined
