"""Finds tables of contents in a text: lines that give places, without content.

These lines count: lines that end in dots and a page ("4.1 Scope ....... 12"); lines that consist of a link within the
document; and, below a heading such as "Contents", lines that end in a page and lines that are headings further down. A
list of fees has dots as well, so lines with dots count only if their pages rise, and if such a heading stands above
them or most of them occur again further down.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from context_engine.core.chunking.labels import label_of
from context_engine.core.chunking.spans import Span, lines
from context_engine.core.text.markup import without_markup

_PAGE: Final = r"(?P<page>\d{1,4}|[ivxlc]{1,7})"
_LEADER: Final = r"(?:(?:[.·•․…‥_][ \t]{0,3}){3,}|[…‥]{1,}|(?:-[ \t]?){4,})"
_DOTTED: Final = re.compile(rf"(?P<title>\S.{{0,250}}?)[ \t]*{_LEADER}[ \t]*{_PAGE}")
_PAGED: Final = re.compile(rf"(?P<title>\S.{{0,250}}?)(?:[ \t]+|(?<=[\u3400-\u9fff])){_PAGE}")
_ITEM: Final = re.compile(r"(?:[-*+•]|\d{1,3}[.)])[ \t]+")
_LINKED: Final = re.compile(
    r"(?:[\w.()]{1,12}[ \t]+)?\[(?P<title>(?:[^\[\]]|\[[^\[\]]*\]){1,300})\]\(#[^()\s]{0,300}\)"
)
_MARKER: Final = re.compile(r"\[\[?_?toc_?\]?\]|\{:\s*(?:\.[\w-]+\s+)?toc\b[^{}]*\}", re.IGNORECASE)
_HEADING: Final = re.compile(
    r"(?:table of |list of )?contents(?: page)?|list of (?:figures|tables|exhibits|annexes|appendices)|toc|index"
    r"|on this page|in this (?:document|article|section|guide)|inhalt(?:sverzeichnis|sübersicht)?|sommaire"
    r"|table des mati[èe]res|[íi]ndice(?: de contenidos?| general)?|sommario|inhoud(?:sopgave)?"
    r"|目\s*次|目\s*录|目\s*錄|차례|목차",
    re.IGNORECASE,
)
_MAYBE: Final = re.compile(
    r"(?:[.·•․…‥_][ \t]{0,3}){3}[ \t|]*(?:\d{1,4}|[ivxlc]{1,7})[ \t|]*$|…[ \t|]*\d{1,4}[ \t|]*$"
    r"|(?:-[ \t]?){4}[ \t]*\d|\]\(#|\btoc\b"
    r"|^[^\n]{0,24}(?:contents|on this page|in this \w|list of|index|inhalt|sommair|mati[èe]res|[íi]ndice|inhoud|目|차)"
    r"[^\n]{0,24}$",
    re.IGNORECASE | re.MULTILINE,
)
"""A quick test that rules out most texts without a table of contents."""
_LEAST: Final = 3
_MOST_GAP: Final = 2  # lines between two entries: the beginning of a long title, the head of the next page
_MOST_GAP_LINE: Final = 160
_MOST_TITLE: Final = 300
_LEAST_AGAIN: Final = 0.5
_LEAST_RISING: Final = 0.8
_LEAST_WORDS: Final = 8
_MOST_ANNOUNCED: Final = 60
_Kind = Literal["dotted", "linked", "paged"]


class ContentsTable(NamedTuple):
    """A table of contents.

    Attributes:
        start, end: offsets in the text, from its heading, if any, to the end of its last line.
        lines: lines that are not blank.
    """

    start: int
    end: int
    lines: int


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int
    text: str  # without white space, table bars and the mark of a list item
    heading: bool  # whether it says that contents follow


class _Entry(NamedTuple):
    """A line that may belong to a table of contents; `place` is its index among the lines that are not blank."""

    place: int
    kind: _Kind
    title: str
    page: int | None


def contents_of(text: str) -> tuple[ContentsTable, ...]:
    """Return the tables of contents of a text, in order.

    >>> contents_of("Contents\\n1 Scope ..... 3\\n2 Limits ..... 4\\n3 Waivers ..... 9\\n\\n1 Scope\\n\\nAll desks.")
    (ContentsTable(start=0, end=59, lines=4),)
    """
    if not _MAYBE.search(text):
        return ()
    rows = [_line(text, *span) for span in lines(text, 0, len(text)) if text[slice(*span)].strip()]
    entries = [entry for index, row in enumerate(rows) if (entry := _entry(index, row))]
    later = _Later(rows)
    spans = [*_runs(entries, rows, later), *_named(rows, later)]
    return _joined(sorted({*spans, *_markers(rows)}), rows)


def without_contents(text: str, tables: Sequence[ContentsTable]) -> str:
    """Return a text of the same length in which tables of contents are blank; line breaks stay."""
    out: list[str] = []
    start = 0
    for table in tables:
        blank = re.sub(r"[^\n]", " ", text[table.start : table.end])
        out += [text[start : table.start], blank]
        start = table.end
    return "".join([*out, text[start:]]) if out else text


def between(tables: Sequence[ContentsTable], start: int, end: int) -> list[Span]:
    """Return the spans of `text[start:end]` outside of tables of contents; the whole span if there are none.

    >>> between([ContentsTable(5, 9, 3)], 0, 20), between([], 0, 20)
    ([(0, 5), (9, 20)], [(0, 20)])
    """
    out: list[Span] = []
    for table in tables:
        if start < table.end and table.start < end:
            out.append((start, max(table.start, start)))
            start = min(table.end, end)
    out.append((start, end))
    return [span for span in out if span[0] < span[1]]


def _line(text: str, start: int, end: int) -> _Line:
    raw = text[start:end]
    bare = raw.strip()
    if bare.startswith("|"):
        bare = "  ".join(bare.strip("| \t").split("|"))
    bare_words = bare.strip("#*_=: \t")
    return _Line(start, start + len(raw.rstrip()), _ITEM.sub("", bare, count=1) or bare, _announces(bare_words))


def _announces(line: str) -> bool:
    """Return whether a line announces contents: "Contents", "2 Table of contents"."""
    if len(line) > _MOST_ANNOUNCED or not _HEADING.search(line):
        return False
    plain = without_markup(line)
    label = label_of(plain)
    return any(_HEADING.fullmatch(words.strip(" :")) for words in (plain, label.rest if label else ""))


def _entry(index: int, row: _Line) -> _Entry | None:
    text = row.text
    if "](#" in text:
        plain = text.strip("*_ \t")
        match = _LINKED.match(plain)
        rest = plain[match.end() :].strip(" \t.·…*_|") if match else "?"
        return _Entry(index, "linked", match["title"], None) if match and (not rest or rest.isdigit()) else None
    if not text[-1:].isalnum() or len(text) > _MOST_TITLE:
        return None
    if match := _DOTTED.fullmatch(text):
        return _Entry(index, "dotted", match["title"], _number(match["page"]))
    match = _PAGED.fullmatch(text)
    return _Entry(index, "paged", match["title"], _number(match["page"])) if match else None


def _number(page: str) -> int | None:
    return int(page) if page.isdecimal() else None


class _Later:
    """Whether a title occurs again as a separate line further down."""

    def __init__(self, rows: Sequence[_Line]) -> None:
        self._rows = rows
        self._words: list[tuple[str, int]] | None = None

    def has(self, title: str, index: int) -> bool:
        """Return whether a line after `index` begins with a title, or is the beginning of a long one."""
        if self._words is None:
            self._words = sorted(
                (words, place) for place, row in enumerate(self._rows) for words in _wordings(row.text)
            )
        return any(self._begins(words, index) for words in _wordings(title))

    def _begins(self, words: str, index: int) -> bool:
        known = self._words or []
        at = bisect_left(known, (words, 0))
        for line, place in known[at : at + 50]:
            if not line.startswith(words):
                break
            if place > index and (line == words or len(words) >= _LEAST_WORDS):
                return True
        return any(
            place > index and len(line) >= _LEAST_WORDS and words.startswith(line)
            for line, place in known[max(0, bisect_right(known, (words, 1 << 60)) - 3) : at]
        )


def _wordings(text: str) -> Iterator[str]:
    """Yield a title's letters and digits, with its number and without."""
    plain = without_markup(text[:_MOST_TITLE].strip("#*_ \t"))
    letters = "".join(filter(str.isalnum, plain)).casefold()
    if any(map(str.isalpha, letters)):
        yield letters
    label = label_of(plain)
    rest = "".join(filter(str.isalnum, label.rest)).casefold() if label else ""
    if rest and rest != letters and any(map(str.isalpha, rest)):
        yield rest


def _runs(entries: Sequence[_Entry], rows: Sequence[_Line], later: _Later) -> Iterator[Span]:
    """Yield the first and last line of runs of entries that are tables of contents."""
    run: list[_Entry] = []
    titles: set[str] = set()
    for entry in entries:
        again = next(_wordings(rows[entry.place].text), "") in titles  # the heading that was announced
        if run and (again or not _goes_on(run, entry, rows)):
            yield from _contents(run, rows, later)
            run, titles = [], set()
        run.append(entry)
        titles.update(_wordings(entry.title) if entry.kind != "linked" else ())
    if run:
        yield from _contents(run, rows, later)


def _goes_on(run: Sequence[_Entry], entry: _Entry, rows: Sequence[_Line]) -> bool:
    before = run[-1]
    between = rows[before.place + 1 : entry.place]
    if before.kind != entry.kind and "linked" in (before.kind, entry.kind):
        return False
    if entry.kind == "linked":
        return not between
    if any(row.heading for row in between) and _heading_above(run[0].place, rows) is None:
        return False  # "October 2026" on the title page is not an entry
    return len(between) <= _MOST_GAP and all(row.end - row.start <= _MOST_GAP_LINE for row in between)


def _contents(run: Sequence[_Entry], rows: Sequence[_Line], later: _Later) -> Iterator[Span]:
    """Yield the run's lines with the heading above it, if it is a table of contents."""
    top = _heading_above(run[0].place, rows)
    if run[0].kind == "linked":
        if len(run) >= _LEAST or (top is not None and len(run) > 1):
            yield (run[0].place if top is None else top), run[-1].place
        return
    dotted = [entry for entry in run if entry.kind == "dotted"]
    own = list(run) if top is not None else run[run.index(dotted[0]) : run.index(dotted[-1]) + 1] if dotted else []
    if len(own) < _LEAST or not _rises(own):
        return
    again = sum(later.has(entry.title, own[-1].place) for entry in own)
    if again >= _LEAST_AGAIN * len(own) or (top is not None and len(dotted) * 2 >= len(own)):
        yield (own[0].place if top is None else top), own[-1].place


def _rises(entries: Sequence[_Entry]) -> bool:
    pages = [entry.page for entry in entries if entry.page is not None]
    steps = list(pairwise(pages))
    return sum(before <= after for before, after in steps) >= _LEAST_RISING * len(steps)


def _heading_above(index: int, rows: Sequence[_Line]) -> int | None:
    """Return the place of a heading such as "Contents" at most two lines above; None if there is none."""
    places = range(index - 1, max(index - 2 - _MOST_GAP, -1), -1)
    return next((place for place in places if rows[place].heading), None)


def _named(rows: Sequence[_Line], later: _Later) -> Iterator[Span]:
    """Yield a heading such as "Contents" and the lines below it that are headings further down."""
    for top, row in enumerate(rows):
        if row.heading:
            last = _last_named(top, rows, later)
            if last - top >= _LEAST:
                yield top, last


def _last_named(top: int, rows: Sequence[_Line], later: _Later) -> int:
    """Return the last line below a heading before the lines repeat as headings further down."""
    seen: set[str] = set()
    for place in range(top + 1, len(rows)):
        words = set(_wordings(rows[place].text))
        if rows[place].heading or not seen.isdisjoint(words) or not later.has(rows[place].text, place):
            return place - 1
        seen |= words
    return len(rows) - 1


def _markers(rows: Sequence[_Line]) -> Iterator[Span]:
    """Yield the lines that a program would replace by a table of contents."""
    for index, row in enumerate(rows):
        if _MARKER.fullmatch(row.text):
            yield index, index


def _joined(spans: Sequence[Span], rows: Sequence[_Line]) -> tuple[ContentsTable, ...]:
    """Return the tables at these lines; overlapping tables are joined."""
    out: list[Span] = []
    for first, last in spans:
        if out and first <= out[-1][1]:
            out[-1] = (out[-1][0], max(last, out[-1][1]))
        else:
            out.append((first, last))
    return tuple(ContentsTable(rows[first].start, rows[last].end, last - first + 1) for first, last in out)
