"""From the lines of pages to paragraphs, headings and the offsets where pages begin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from context_engine.ingest.header import header_fields
from context_engine.ingest.loaders.markdown import plain
from context_engine.ingest.loaders.pdf_page import PdfLine, PdfPage

__all__ = ["laid_out"]

_MARGIN: Final = 0.12  # of a page's height: where heads and feet stand
_MOST_NUMBERS: Final = 4  # of a line at the edge
_OFTEN: Final = 0.4  # of the pages; heads of left and right pages differ
_PAGE_NUMBER: Final = re.compile(
    r"(?i)(?:page|seite|p\.)?\s*[-–|]?\s*\d{1,4}\s*[-–|]?(?:\s*(?:of|/|von)\s*\d{1,4})?|第\s*\d+\s*页.*"
)
_DIGITS: Final = re.compile(r"[0-9]{1,9}")
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
_CUT: Final = re.compile(r"(\w+)\u00ad ?([^\W\d_]\w*)")
_HANGING: Final = ("and", "or", "und", "et", "to")  # "long- and short-term"


class _Paragraph(NamedTuple):
    lines: list[PdfLine]
    page: int
    heading: int | None


def laid_out(
    pages: Sequence[PdfPage], bookmarks: Mapping[int, Mapping[str, int]]
) -> tuple[str, tuple[tuple[int, int], ...], list[str]]:
    """Return (the text, (offset, number) of each page that has text, the heads and feet that are left out).

    Args:
        pages: in order.
        bookmarks: {page index: {title in small letters: level from 0}}.
    """
    furniture = _furniture(pages)
    kept = [[line for line in page.lines if line not in left] for page, left in zip(pages, furniture)]
    body = _body_size(kept)
    levels = _levels(kept, body)
    words = Counter(word for lines in kept for line in lines for word in re.findall(r"[\w-]+", line.text.lower()))
    out: list[str] = []
    starts: list[tuple[int, int]] = []
    length = 0
    before: _Paragraph | None = None
    for paragraph in _paragraphs(kept, body, levels, bookmarks):
        text = _text(paragraph, words)
        gap = "" if before is None else " " if _goes_on(before, paragraph, text) else "\n\n"
        if not starts or starts[-1][1] != paragraph.page + 1:
            starts.append((length + len(gap), paragraph.page + 1))
        out += [gap, text]
        length += len(gap) + len(text)
        before = paragraph
    return "".join(out), tuple(starts), list(dict.fromkeys(line.text for lines in furniture for line in lines))


def _keys(line: PdfLine, number: int) -> Iterator[tuple[str, float]]:
    """Yield what makes a line the same on other pages: its text, and the text with one number counted from the page's.

    "Page 3 of 10" is "Page #0 of 10" on every page.
    """
    yield line.text, line.size
    for match in list(_DIGITS.finditer(line.text))[:_MOST_NUMBERS]:
        yield f"{line.text[: match.start()]}#{int(match[0]) - number}{line.text[match.end() :]}", line.size


def _at_margin(line: PdfLine, page: PdfPage) -> bool:
    return line.bottom > page.height * (1 - _MARGIN) or line.top < page.height * _MARGIN


def _furniture(pages: Sequence[PdfPage]) -> list[list[PdfLine]]:
    """Return of each page the lines that stand at the edge of many pages, and page numbers."""
    edges = [[line for line in page.lines if _at_margin(line, page)] for page in pages]
    counts: Counter[tuple[str, float]] = Counter()
    for number, lines in enumerate(edges):
        counts.update({key for line in lines for key in _keys(line, number)})
    often = max(2, _OFTEN * len(pages))
    return [
        [
            line
            for line in lines
            if _PAGE_NUMBER.fullmatch(line.text) or any(counts[key] >= often for key in _keys(line, number))
        ]
        for number, lines in enumerate(edges)
    ]


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
    return line.size >= body * _LARGER > 0 and len(line.text) <= _MOST_HEADING and any(map(str.isalpha, line.text))


def _paragraphs(
    pages: Sequence[Sequence[PdfLine]],
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


def _usual_distance(pages: Sequence[Sequence[PdfLine]], body: float) -> float:
    gaps = [
        above.bottom - below.bottom
        for lines in pages
        for above, below in pairwise(lines)
        if above.size == below.size == body and 0 < above.bottom - below.bottom < 4 * body
    ]
    return median(gaps) if gaps else body * 1.2


def _heading_level(line: PdfLine, body: float, levels: Mapping[float, int], marks: Mapping[str, int]) -> int | None:
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
    """Whether a paragraph is the rest of the one that the page before ends with."""
    if before.page == paragraph.page or before.heading or paragraph.heading:
        return False
    return text[:1].islower() and not before.lines[-1].text.endswith(_ENDS) and not _LABEL.match(text)


def _text(paragraph: _Paragraph, words: Mapping[str, int]) -> str:
    ends = (re.sub(r"(?<=\w)-$", "\u00ad", line.text) for line in paragraph.lines)  # PDFium marks most of them itself
    text = " ".join(ends)

    def whole(match: re.Match[str]) -> str:
        first, rest = match.groups()
        if rest in _HANGING:
            return f"{first}- {rest}"
        hyphened = f"{first}-{rest}"
        keeps = rest[:1].isupper() or words.get(hyphened.lower(), 0) > words.get((first + rest).lower(), 0)
        return hyphened if keeps else first + rest

    text = _CUT.sub(whole, text)
    text = " ".join(text.replace("\u00ad", "").split())
    if paragraph.heading:
        return f"{'#' * paragraph.heading} {text}"
    return _BULLET.sub("- ", text, count=1) if _BULLET.match(text) else plain(text)
