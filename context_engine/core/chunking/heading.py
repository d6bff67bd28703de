"""Lines of a text, and the headings among them that Markdown or HTML marks.

A heading is what a reader sees of it: `## <a name="s4"></a>4 Limits &amp; waivers {#limits}` is "4 Limits & waivers".
One that holds nothing but a placeholder or a templating tag (`# <%= title %>`) says nothing, and is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from context_engine.core.chunking.labels import label_of
from context_engine.core.chunking.spans import lines
from context_engine.core.text.markup import PLACEHOLDER, without_markup

_FENCES: Final = ("```", "~~~")
_ATX: Final = re.compile(r" {0,3}(#{1,6})[ \t]+([^\s#].*)")
_HTML: Final = re.compile(r"[ \t]{0,8}<h([1-6])\b[^<>]{0,300}>(.{1,800})</h\1>[ \t]*$", re.IGNORECASE)
_SETEXT: Final = re.compile(r" {0,3}(=+|-{3,})[ \t]*$")
_CLOSING: Final = re.compile(r"[ \t]+#+[ \t]*$")
_STOPS: Final = tuple(".!?。！？")
_NO_TITLE: Final = ("|", "-", ">")
_MOST_HEADING: Final = 1000  # a longer line is a paragraph; every chunk below a heading carries the heading


class Heading(NamedTuple):
    """A heading line.

    Attributes:
        start: offset of the line.
        body: offset of the text below it; `start` where the line itself goes on as a paragraph ("4.1 A bank shall").
        rank: smaller stands above larger; comparable within one document.
        label: the section's number ("4.2.1", "Article 5"), None where it has none.
        text: the heading as it reads; the label alone where the line goes on as a paragraph.
        marked: whether Markdown or HTML says that it is one.
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
        text: the line as it stands, without white space at the end.
        opens: whether it is the first of a paragraph.
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
        if len(row.text) > _MOST_HEADING:
            continue
        heading = None
        if atx := _ATX.match(row.text):
            heading = _marked(row, row.end, len(atx[1]), atx[2])
        elif html := _HTML.match(row.text):
            heading = _marked(row, row.end, int(html[1]), html[2])
        elif below and row.opens and row.below and not row.text.lstrip().startswith(_NO_TITLE):
            rule = _SETEXT.match(below.text)
            heading = _marked(row, below.end, 1 if rule[1][0] == "=" else 2, row.text) if rule else None
        if heading:
            out[row.start] = heading
    return out


def _marked(row: TextLine, body: int, rank: int, text: str) -> Heading | None:
    said = without_markup(_CLOSING.sub("", text)).strip("*_ \t")
    if not any(map(str.isalnum, PLACEHOLDER.sub("", said))):
        return None if not said or PLACEHOLDER.search(said) else Heading(row.start, body, rank, None, said, marked=True)
    label = label_of(said)
    number = label.text if label and label.kind != "letter" else None
    return Heading(row.start, body, rank, number, said, marked=True)
