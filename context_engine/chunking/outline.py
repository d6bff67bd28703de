"""The headings of a document and the sections below them: numbered, worded (Article, Annex), Markdown, Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from context_engine.chunking.spans import lines

__all__ = ["Heading", "Section", "headings", "outline"]

_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_ATX: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*?)[ \t#]*$")
_SETEXT: Final = re.compile(r" {0,3}(=+|-{3,})[ \t]*$")
_NUMBER: Final = r"\d{1,3}(?:\.\d{1,3})*[A-Z]?(?:\.?\(\w{1,4}\))*"
_NUMBERED: Final = re.compile(rf"({_NUMBER})[.:)]?(?:[ \t\u3000]+(?=\S)|[ \t]*$|(?=[\u3400-\u9fff]))(.*)")
_WORDED: Final = re.compile(
    rf"(article|clause|section|annex|appendix|schedule|part|chapter|rule|regulation|paragraph)[ \t]+"
    rf"({_NUMBER}|[A-Z](?:\.\d{{1,3}})*|[IVXLC]{{1,7}})(?![\w-])[ \t]*[.:–—-]?[ \t]*(.*)",
    re.IGNORECASE,
)
_CHINESE: Final = re.compile(r"(第[一二三四五六七八九十百零〇\d]{1,6}([编章节条款]))[ \t\u3000]*(.*)")
_RANK: Final = {"part": 1, "annex": 1, "appendix": 1, "schedule": 1, "chapter": 2, "编": 1, "章": 2, "节": 3, "款": 11}
_BARE: Final = ("section", "clause", "paragraph")  # "Section 4" is cited as "4", "Article 4" is not
_NUMBER_RANK: Final = 10
_MOST_HEADING: Final = 120


class Heading(NamedTuple):
    """A heading line.

    Attributes:
        start, end: offsets of the line, without its break.
        rank: smaller stands above larger; comparable within one document.
        label: the section's number ("4.2.1", "Article 5"), None where it has none.
        text: the heading as it reads; the label alone where the line goes on as a paragraph.
    """

    start: int
    end: int
    rank: int
    label: str | None
    text: str


class Section(NamedTuple):
    """The text from one heading to the next; the text before the first heading has no label and no path."""

    start: int
    end: int
    label: str | None
    path: tuple[str, ...]
    body: int  # where the text below the heading begins


class _Line(NamedTuple):
    start: int
    end: int
    text: str
    opens: bool  # first of a paragraph
    closes: bool  # last of a paragraph


def outline(text: str) -> list[Section]:
    """Return the sections of a text, in order and without a gap.

    A heading belongs below the heading whose number its own continues, else below the last one of higher rank.
    """
    found = headings(text)
    out = (
        []
        if found and not text[: found[0].start].strip()
        else [Section(0, found[0].start if found else len(text), None, (), 0)]
    )
    above: list[Heading] = []
    for number, heading in enumerate(found):
        above = [*_parents(above, heading), heading]
        end = found[number + 1].start if number + 1 < len(found) else len(text)
        body = heading.end if heading.text != heading.label else heading.start
        out.append(Section(heading.start, end, heading.label, tuple(one.text for one in above), body))
    return out


def headings(text: str) -> list[Heading]:
    """Return the headings of a text in order.

    Where the text has Markdown headings, a plain line counts as one only if its number continues theirs ("4.1" below
    "## 4"); numbered lists stay lists.
    """
    rows = list(_lines(text))
    marked = {row.start: heading for row, heading in _markdown(rows)}
    numbered = {heading.label.split(".")[0] for heading in marked.values() if heading.label}
    plain = len(marked) < 2 and not numbered
    out: list[Heading] = []
    for row in rows:
        heading = marked.get(row.start) or (_plain(row, weak=plain) if row.opens else None)
        if heading is None:
            continue
        if row.start not in marked and not plain and not _continues(heading, out, numbered):
            continue
        out.append(heading)
    return out


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines outside of code; a heading ends a paragraph as a blank line does."""
    fenced, opens = False, True
    held: _Line | None = None
    for start, stop in lines(text, 0, len(text)):
        line = text[start:stop].rstrip()
        if _FENCE.match(line):
            fenced = not fenced
        blank = fenced or not line.strip() or _FENCE.match(line) is not None
        if held is not None:
            yield held._replace(closes=blank)
        held = None if blank else _Line(start, start + len(line), line, opens, True)
        opens = blank or _ATX.match(line) is not None
    if held is not None:
        yield held


def _markdown(rows: list[_Line]) -> Iterator[tuple[_Line, Heading]]:
    for index, row in enumerate(rows):
        atx = _ATX.match(row.text)
        if atx:
            yield row, _marked(row, row.end, len(atx[1]), atx[2])
            continue
        below = rows[index + 1] if index + 1 < len(rows) else None
        rule = _SETEXT.match(below.text) if below and row.opens and not row.closes else None
        if below and rule and not row.text.lstrip().startswith(("|", "-", ">")):
            yield row, _marked(row, below.end, 1 if rule[1][0] == "=" else 2, row.text.strip())


def _marked(row: _Line, end: int, rank: int, text: str) -> Heading:
    bare = text.strip("*_ \t")
    return Heading(row.start, end, rank, _label(bare), bare)


def _label(text: str) -> str | None:
    """Return the section number a heading begins with."""
    if match := _CHINESE.match(text):
        return match[1]
    if match := _WORDED.match(text):
        return match[2] if match[1].lower() in _BARE else f"{match[1].capitalize()} {match[2]}"
    match = _NUMBERED.match(text)
    return match[1] if match else None


def _plain(row: _Line, *, weak: bool) -> Heading | None:
    """Return the heading that an unmarked line is, if it is one.

    Strong: a number of two or more parts before a capital letter, also where the paragraph goes on. Weak: a single
    number, or a word such as Article, before a short title without a final stop.
    """
    text = row.text.strip().strip("*_").strip()
    title = row.closes and len(text) <= _MOST_HEADING and text[-1:] not in ".;,:。；，："
    if match := _CHINESE.match(text):
        rank = _RANK.get(match[2], _NUMBER_RANK)
        return Heading(row.start, row.end, rank, match[1], text if title else match[1])
    if match := _WORDED.match(text):
        if not (weak and title and (not match[3] or not match[3][0].islower())):
            return None
        rank = _RANK.get(match[1].lower(), 4)
        return Heading(row.start, row.end, rank, _label(text), text)
    match = _NUMBERED.match(text)
    if match is None or not match[2] or not (match[2][0].isupper() or match[2][0] in "“\"'(" or match[2][0] > "\u3000"):
        return None
    depth = _depth(match[1])
    if depth < 2 and not (weak and title):
        return None
    return Heading(row.start, row.end, _NUMBER_RANK + depth, match[1], text if title else match[1])


def _depth(label: str) -> int:
    return 1 + label.count(".") + label.count("(") - label.count(".(")


def _continues(heading: Heading, before: list[Heading], numbered: set[str]) -> bool:
    """Whether a plain heading's number continues the one it stands below."""
    if not heading.label or heading.label.split(".")[0] not in numbered or not before:
        return False
    last = next((one.label for one in reversed(before) if one.label), None)
    return last is not None and last.split(".")[0] == heading.label.split(".")[0]


def _parents(above: list[Heading], heading: Heading) -> list[Heading]:
    for index in range(len(above) - 1, -1, -1):
        if _extends(heading.label, above[index].label):
            return above[: index + 1]
    return [one for one in above if one.rank < heading.rank]


def _extends(label: str | None, parent: str | None) -> bool:
    return bool(label and parent and label != parent and label.startswith((f"{parent}.", f"{parent}(")))
