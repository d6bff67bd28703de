"""The headings of a document and the sections below them: numbered, worded (Article, Annex), Markdown, Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from context_engine.chunking.spans import lines

__all__ = ["Heading", "Section", "headings", "outline"]

_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_ATX: Final = re.compile(r" {0,3}(#{1,6})[ \t]+([^\s#].*)")
_SETEXT: Final = re.compile(r" {0,3}(=+|-{3,})[ \t]*$")
_NUMBER: Final = r"(?:[A-Z]\d{0,2}\.)?\d{1,3}(?:\.\d{1,3})*[A-Z]?(?:\.?\(\w{1,4}\))*"
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
_DATE: Final = re.compile(r"\d{1,2}\.? [^\W\d]{3,9} \d{4}\b")
_CAPITAL: Final = re.compile(r"[^\W\d_a-z\u00df-\u00ff]|[“\"'(‘]")
_STOPS: Final = tuple(".!?。！？")
_NO_TITLE: Final = tuple(".;,:。；，：")
_MOST_HEADING: Final = 120
_MOST_STEP: Final = 3  # numbers that may be missing between two headings: a repealed section, a page not copied


class Heading(NamedTuple):
    """A heading line.

    Attributes:
        start: offset of the line.
        body: offset of the text below it; `start` where the line itself goes on as a paragraph ("4.1 A bank shall").
        rank: smaller stands above larger; comparable within one document.
        label: the section's number ("4.2.1", "Article 5"), None where it has none.
        text: the heading as it reads; the label alone where the line goes on as a paragraph.
    """

    start: int
    body: int
    rank: int
    label: str | None
    text: str


class Section(NamedTuple):
    """The text from one heading to the next; the text before the first heading has no label and no path.

    Attributes:
        path: the headings from the top of the document, its own last.
        body: offset of the text below the heading.
    """

    start: int
    end: int
    label: str | None
    path: tuple[str, ...]
    body: int


class _Line(NamedTuple):
    start: int
    end: int
    text: str
    opens: bool  # first of a paragraph
    stopped: bool  # the line above ends a sentence
    below: str  # the next line of the paragraph, "" for none


def outline(text: str) -> list[Section]:
    """Return the sections of a text, in order and without a gap.

    A heading belongs below the heading whose number its own continues, else below the last one of higher rank.
    """
    found = headings(text)
    first = found[0].start if found else len(text)
    out = [Section(0, first, None, (), 0)] if not found or text[:first].strip() else []
    above: list[Heading] = []
    for number, heading in enumerate(found):
        above = [*_parents(above, heading), heading]
        start = heading.start if out or number else 0
        end = found[number + 1].start if number + 1 < len(found) else len(text)
        out.append(Section(start, end, heading.label, tuple(one.text for one in above), heading.body))
    return out


def headings(text: str) -> list[Heading]:
    """Return the headings of a text in order.

    Where the text has Markdown headings, a plain line counts as one only if its number continues theirs ("4.1" below
    "## 4"); numbered lists stay lists.
    """
    rows = list(_lines(text))
    marked = {row.start: heading for row, heading in _markdown(rows)}
    plain = len(marked) < 2 and not any(heading.label for heading in marked.values())
    out: list[Heading] = []
    after = False  # whether the line above is a heading
    before: str | None = None  # the last label
    number: str | None = None  # the last label that is a single number
    for row in rows:
        heading = marked.get(row.start)
        if heading is None and (row.opens or row.stopped or after):
            heading = _plain(row, weak=plain)
            if heading and not (_follows(heading.label, number) if plain else _continues(heading.label, before)):
                heading = None
        after = heading is not None
        if heading:
            out.append(heading)
            before = heading.label or before
            number = heading.label if heading.label and heading.label.isdecimal() else number
    return out


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines outside of code that are not blank."""
    fenced, above = False, ""
    held: _Line | None = None
    for start, stop in lines(text, 0, len(text)):
        line = text[start:stop].rstrip()
        fence = _FENCE.match(line) is not None
        fenced ^= fence
        if fenced or fence:
            line = ""
        if held is not None:
            yield held._replace(below=line)
        opens = not above or _ATX.match(above) is not None
        held = _Line(start, start + len(line), line, opens, above[-1:] in _STOPS, "") if line else None
        above = line
    if held is not None:
        yield held


def _markdown(rows: list[_Line]) -> Iterator[tuple[_Line, Heading]]:
    for row, below in zip(rows, [*rows[1:], None]):
        if atx := _ATX.match(row.text):
            yield row, _marked(row, row.end, len(atx[1]), atx[2])
        elif below and row.opens and row.below and not row.text.lstrip().startswith(("|", "-", ">")):
            rule = _SETEXT.match(below.text)
            if rule:
                yield row, _marked(row, below.end, 1 if rule[1][0] == "=" else 2, row.text)


def _marked(row: _Line, body: int, rank: int, text: str) -> Heading:
    bare = text.rstrip("# \t").strip("*_ \t") or text
    return Heading(row.start, body, rank, _label(bare), bare)


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
    title = _is_title(text, row.below)
    if match := _CHINESE.match(text):
        return _unmarked(row, _RANK.get(match[2], _NUMBER_RANK), match[1], text if title else "")
    if match := _WORDED.match(text):
        alone = title or not match[3]
        if weak and alone and not match[3][:1].islower():
            return _unmarked(row, _RANK.get(match[1].lower(), 4), _label(text), text)
        return None
    match = _NUMBERED.match(text)
    if match is None or not _CAPITAL.match(match[2]):
        return None
    depth = _depth(match[1])
    if depth > 1 or (weak and title and not _DATE.match(text)):
        return _unmarked(row, _NUMBER_RANK + depth, match[1], text if title else "")
    return None


def _unmarked(row: _Line, rank: int, label: str | None, title: str) -> Heading:
    return Heading(row.start, row.end if title else row.start, rank, label, title or label or "")


def _is_title(text: str, below: str) -> bool:
    """Whether a line is a title: short, without a final stop, and alone or above a line that begins a sentence."""
    if len(text) > _MOST_HEADING or text[-1:] in _NO_TITLE:
        return False
    return not below or (len(text) <= _MOST_HEADING // 2 and below.lstrip()[:1].isupper())


def _depth(label: str) -> int:
    return 1 + label.count(".") + label.count("(") - label.count(".(")


def _follows(label: str | None, number: str | None) -> bool:
    """Whether a single number comes after the one before it, or begins anew; true for any other label."""
    if not label or not label.isdecimal():
        return True
    return int(label) == 1 or number is None or int(number) < int(label) <= int(number) + _MOST_STEP


def _continues(label: str | None, before: str | None) -> bool:
    """Whether a number has the same first part as the one before it."""
    return bool(label and before) and str(label).split(".")[0] == str(before).split(".")[0]


def _parents(above: list[Heading], heading: Heading) -> list[Heading]:
    for index in range(len(above) - 1, -1, -1):
        if _extends(heading.label, above[index].label):
            return above[: index + 1]
    return [one for one in above if one.rank < heading.rank]


def _extends(label: str | None, parent: str | None) -> bool:
    return bool(label and parent and label != parent and label.startswith((f"{parent}.", f"{parent}(")))
