"""The headings of a text: marked by Markdown or HTML, or plain lines that begin with a number or a word such as
"Article".

The text of a heading is the part that a reader sees: `## <a name="s4"></a>4 Limits &amp; waivers {#limits}` is "4
Limits & waivers". A line with only a placeholder or a templating tag (`# <%= title %>`) is not a heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from context_engine.core.chunking.labels import LEAST_LENGTH, Label, follows, label_of, lettered, numbering, values
from context_engine.core.chunking.spans import lines
from context_engine.core.text.markup import PLACEHOLDER, without_markup

_FENCES: Final = ("```", "~~~")
_ATX: Final = re.compile(r" {0,3}(#{1,6})[ \t]+([^\s#].*)")
_HTML: Final = re.compile(r"[ \t]{0,8}<h([1-6])\b[^<>]{0,300}>(.{1,800})</h\1>[ \t]*$", re.IGNORECASE)
_SETEXT: Final = re.compile(r" {0,3}(=+|-{3,})[ \t]*$")
_CLOSING: Final = re.compile(r"[ \t]+#+[ \t]*$")
_STOPS: Final = tuple(".!?。！？")
_NEVER_UNDERLINED: Final = ("|", "-", ">")
_MOST_MARKED: Final = 1000  # a longer line is a paragraph; every chunk below a heading carries the heading


class Heading(NamedTuple):
    """A heading line.

    Attributes:
        start: offset of the line.
        body: offset of the text below it; `start` if the line itself continues as a paragraph ("4.1 A bank shall").
        rank: a smaller rank is a higher heading; comparable within one document.
        label: the section's number ("4.2.1", "Article 5"), or None.
        text: the heading as a reader sees it; only the label if the line continues as a paragraph.
        marked: whether Markdown or HTML marks it as a heading.
    """

    start: int
    body: int
    rank: int
    label: str | None
    text: str
    marked: bool = False


class TextLine(NamedTuple):
    """A line that is not blank and not code.

    Attributes:
        start, end: offsets, without white space at the end.
        text: the line as written, without trailing white space.
        opens: whether it is the first line of a paragraph.
        stopped: whether the line above ends a sentence.
        below: the next line of the paragraph, "" for none.
    """

    start: int
    end: int
    text: str
    opens: bool
    stopped: bool
    below: str


def text_lines(text: str) -> Iterator[TextLine]:
    """Yield the lines outside of code that are not blank."""
    fenced = opens = stopped = False
    start, line = 0, ""
    for first, stop in (*lines(text, 0, len(text)), (len(text), len(text))):
        below = text[first:stop].rstrip()
        if below.lstrip()[:3] in _FENCES:
            fenced = not fenced
            below = ""
        elif fenced:
            below = ""
        if line:
            yield TextLine(start, start + len(line), line, opens, stopped, below)
        opens = not line or _ATX.match(line) is not None
        stopped = line[-1:] in _STOPS
        start, line = first, below


def marked_headings(rows: Sequence[TextLine]) -> dict[int, Heading]:
    """Return the Markdown headings among the lines by the offset of their line."""
    out: dict[int, Heading] = {}
    for row, below in zip(rows, [*rows[1:], None]):
        if len(row.text) > _MOST_MARKED:
            continue
        heading = None
        if atx := _ATX.match(row.text):
            heading = _marked(row, row.end, len(atx[1]), atx[2])
        elif html := _HTML.match(row.text):
            heading = _marked(row, row.end, int(html[1]), html[2])
        elif below and row.opens and row.below and not row.text.lstrip().startswith(_NEVER_UNDERLINED):
            rule = _SETEXT.match(below.text)
            heading = _marked(row, below.end, 1 if rule[1][0] == "=" else 2, row.text) if rule else None
        if heading:
            out[row.start] = heading
    return out


def _marked(row: TextLine, body: int, rank: int, text: str) -> Heading | None:
    title = without_markup(_CLOSING.sub("", text)).strip("*_ \t")
    if not any(map(str.isalnum, PLACEHOLDER.sub("", title))):
        return (
            None if not title or PLACEHOLDER.search(title) else Heading(row.start, body, rank, None, title, marked=True)
        )
    label = None if _DAY.match(title) else label_of(title)
    number = label.text if label and label.kind != "letter" else None
    return Heading(row.start, body, rank, number, title, marked=True)


_MONTHS: Final = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|januar|jänner|februar|märz|mai|juni|juli|oktober|dezember"
    "|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre"
    "|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
    "|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre"
    "|januari|februari|maart|mei|augustus|marts|maj|augusti|desember|janeiro|fevereiro|março|maio|junho|julho|setembro"
    "|outubro|novembro|dezembro"
)
_DAY: Final = re.compile(rf"\d{{1,2}}(?:\.|st|nd|rd|th)? (?:de )?(?:{_MONTHS})\.?(?: de)?,? \d{{4}}\b", re.IGNORECASE)
_DATE: Final = re.compile(r"\d{1,2}\.? [^\W\d]{3,9} \d{4}\b")
_CAPITAL: Final = re.compile(r"[^\W\d_a-z\u00df-\u00ff]|[“\"'(‘\[—–]")
_FIRST_ITEM: Final = re.compile(r"\((?:1|a|i)\)")
_GUIDANCE: Final = re.compile(r"(?:Guidance|Commentary|Explanatory Notes?)(?: (?:notes?|on) .{1,80})?:?", re.IGNORECASE)
_NO_TITLE: Final = tuple(".;,:。；，：")
_MOST_HEADING: Final = 120
_NARROW: Final = 60
_GUIDANCE_RANK: Final = 90


class _Candidate(NamedTuple):
    """A line that begins with a label."""

    row: TextLine
    label: Label
    title: bool  # a short line without a final stop
    follower: TextLine | None


def all_headings(rows: Sequence[TextLine], marked: Mapping[int, Heading], *, weak: bool) -> list[Heading]:
    """Return the marked headings and, between them, the lines that are headings by their label.

    Args:
        rows: the lines of the text.
        marked: headings by the offset of their line.
        weak: whether a single number or a word may make a heading; else only a number that continues the previous one
            does.
    """
    candidates = {candidate.row.start: candidate for candidate in _candidates(rows, marked)}
    series = _series(list(candidates.values()), rows[-1].end if rows else 0, weak=weak)
    ahead = _ahead(
        [candidate for candidate in candidates.values() if candidate.title and candidate.label.text.isdecimal()]
    )
    out: list[Heading] = []
    state = _HeadingHistory()
    for row in rows:
        heading = marked.get(row.start)
        candidate = candidates.get(row.start)
        if heading is None and row.start >= state.body:
            if candidate and (row.opens or row.stopped or state.after):
                heading = _heading(candidate, state, series, ahead.get(row.start), weak=weak)
            elif weak and row.opens and state.label and _GUIDANCE.fullmatch(row.text.strip()):
                heading = Heading(row.start, row.end, _GUIDANCE_RANK, f"{state.label}.Guidance", row.text.strip())
        state.after = heading is not None
        if heading:
            out.append(heading)
            state.take(heading)
    return out


class _HeadingHistory:
    """The conditions that the headings so far set for the next heading."""

    def __init__(self) -> None:
        self.after = False  # whether the line above is a heading
        self.label: str | None = None  # the last label
        self.number: int | None = None  # the last label that is a single number
        self.body = 0  # where the last heading ends

    def take(self, heading: Heading) -> None:
        self.body = heading.body
        if heading.rank != _GUIDANCE_RANK:
            self.label = heading.label or self.label
        if heading.label and heading.label.isdecimal():
            self.number = int(heading.label)


def _candidates(rows: Sequence[TextLine], marked: Mapping[int, Heading]) -> Iterator[_Candidate]:
    """Yield the lines outside of marked headings that begin with a label."""
    width = _width(rows)
    for row, below in zip(rows, [*rows[1:], None]):
        text = _opening(row.text)
        label = label_of(text) if row.start not in marked else None
        if label is not None:
            yield _Candidate(row, label, _is_title(text, row.below, width), below)


def _width(rows: Sequence[TextLine]) -> int:
    """Return the width that most lines stay below; in wrapped text, the width of the page."""
    lengths = sorted(row.end - row.start for row in rows)
    return lengths[len(lengths) * 9 // 10] if lengths else 0


def _is_title(text: str, below: str, width: int) -> bool:
    """Return whether a line is a title: short, without a final stop, and alone or followed by a new sentence."""
    if len(text) > _MOST_HEADING or text[-1:] in _NO_TITLE:
        return False
    return not below or (len(text) <= max(_NARROW, width * 6 // 10) and _CAPITAL.match(below.lstrip()) is not None)


def _series(candidates: Sequence[_Candidate], end: int, *, weak: bool) -> set[int]:
    """Return the lines that are headings because their numbers or letters run through the document."""
    out: set[int] = set()
    for mark in (".", ")") if weak else ():
        own = [
            candidate
            for candidate in candidates
            if candidate.label.text.isdecimal() and candidate.label.closed == mark and candidate.row.opens
        ]
        starts = [candidate.row.start for candidate in own]
        lengths = [after - start for start, after in zip(starts, [*starts[1:], end])]
        places = numbering([int(candidate.label.text) for candidate in own], lengths)
        out |= {starts[place] for place in places}
    for signs in _divisions(candidates) if weak else ():
        out |= _lettered(signs)
    return out


def _divisions(candidates: Sequence[_Candidate]) -> Iterator[list[_Candidate]]:
    """Yield the lettered lines below each heading of a word: "A." to "F." below "Section II"."""
    own: list[_Candidate] = []
    for candidate in candidates:
        if candidate.label.kind == "word" and candidate.title:
            yield own
            own = []
        elif candidate.label.kind == "letter" and candidate.row.opens:
            own.append(candidate)
    yield own


def _lettered(signs: Sequence[_Candidate]) -> set[int]:
    """Return the lettered lines that are headings: a series of paragraphs, else a series of titles."""
    titles = [sign for sign in signs if sign.title]
    starts = [sign.row.start for sign in signs]
    places = sorted(lettered([values(sign.label) for sign in signs]))
    if places and starts[places[-1]] - starts[places[0]] >= LEAST_LENGTH * (len(places) - 1):
        return {starts[place] for place in places}
    return {titles[place].row.start for place in lettered([values(title.label) for title in titles])}


def _ahead(candidates: Sequence[_Candidate]) -> dict[int, int]:
    """Return, for each line with a single number, the number of the next."""
    return {candidate.row.start: int(after.label.text) for candidate, after in pairwise(candidates)}


def _heading(
    candidate: _Candidate, state: _HeadingHistory, series: set[int], ahead: int | None, *, weak: bool
) -> Heading | None:
    """Return the heading that a line is, if it is one.

    Strong: a number of two or more parts before a capital letter, even if the line continues as a paragraph. Weak: a
    single number, or a word such as Article, before a short title without a final stop; a member of a series.
    """
    label = candidate.label
    if candidate.row.start in series:
        return _made(candidate)
    if label.kind == "letter":
        return None
    if label.kind == "word" and label.depth == 1:
        alone = candidate.title or not label.rest
        return _made(candidate) if weak and alone and not label.rest[:1].islower() else None
    if label.depth > 1:
        strong = _CAPITAL.match(label.rest) or not label.rest or _runs_on(label, state.label)
        return _made(candidate) if strong and (weak or _continues(label.text, state.label)) else None
    if not weak or _DATE.match(candidate.row.text.strip()) or not _CAPITAL.match(label.rest):
        return None
    fits = follows(int(label.text), state.number, ahead) if label.text.isdecimal() else True
    return _made(candidate) if fits and (candidate.title or _FIRST_ITEM.match(label.rest)) else None


def _opening(line: str) -> str:
    """Return a line without the anchor before its number and the asterisks around it."""
    text = line.strip()
    return (without_markup(text) if text.startswith("<") else text).strip("*_").strip()


def _as_read(line: str) -> str:
    """Return a line as it reads."""
    text = without_markup(line) if "<" in line or "&" in line else line
    return text.strip().strip("*_").strip()


def _made(candidate: _Candidate) -> Heading:
    row, label = candidate.row, candidate.label
    if not candidate.title and label.rest:
        return Heading(row.start, row.start, label.rank, label.text, label.text)
    title = _as_read(row.text)
    below = candidate.follower
    if not label.rest and below and _is_name(below):
        return Heading(row.start, below.end, label.rank, label.text, f"{title} {below.text.strip()}")
    return Heading(row.start, row.end, label.rank, label.text, title)


def _is_name(row: TextLine) -> bool:
    """Whether the line below a bare label is the section's title: "Article 5", below it "Scope"."""
    text = row.text.strip()
    return (
        len(text) <= _MOST_HEADING // 2
        and text[-1:] not in _NO_TITLE
        and _CAPITAL.match(text) is not None
        and text[0].isalpha()
        and label_of(text) is None
        and not _GUIDANCE.fullmatch(text)
        and (not row.below or not row.below.lstrip()[:1].islower())
    )


def _continues(label: str, before: str | None) -> bool:
    """Return whether a number has the same first part as the previous number."""
    return before is not None and label.split(".")[0] == before.split(".")[0]


def _runs_on(label: Label, before: str | None) -> bool:
    """Return whether a closed number before a small letter is the next number: "6.1. with regard to" below "6." """
    if before is None or not (label.closed or label.depth > 2 or label.text.endswith(")")):
        return False
    stem = re.sub(r"[.(]*\w+\)?$", "", label.text)
    return bool(stem) and before.startswith(stem)
