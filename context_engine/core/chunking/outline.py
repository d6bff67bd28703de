"""The sections of a document, the structure they show, and the questions that a text asks and answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Final, Literal, NamedTuple

from context_engine.core.chunking.heading import Heading, all_headings, marked_headings, text_lines
from context_engine.core.chunking.labels import extends, label_of
from context_engine.core.chunking.spans import Span, stripped
from context_engine.core.text.markup import has_words


class OutlineSection(NamedTuple):
    """The text from one heading to the next; the text before the first heading has no label and no path.

    Attributes:
        path: the headings from the top of the document down to its own.
        body: offset of the text below the heading.
    """

    start: int
    end: int
    label: str | None
    path: tuple[str, ...]
    body: int


def outline(text: str) -> list[OutlineSection]:
    """Return the sections of a text, in order and without a gap; text without words above the first heading
    (an anchor, a rule) belongs to that section.

    A heading belongs below the heading whose number it continues, else below the last heading of higher rank.
    """
    all_headings = headings(text)
    first = all_headings[0].start if all_headings else len(text)
    out = [OutlineSection(0, first, None, (), 0)] if not all_headings or has_words(text[:first]) else []
    above: list[Heading] = []
    for number, heading in enumerate(all_headings):
        above = [*_parents(above, heading), heading]
        start = heading.start if out or number else 0
        end = all_headings[number + 1].start if number + 1 < len(all_headings) else len(text)
        out.append(OutlineSection(start, end, heading.label, tuple(parent.text for parent in above), heading.body))
    return out


@lru_cache(maxsize=1)  # asked for by the structure, the title and the cutting of one text
def headings(text: str) -> tuple[Heading, ...]:
    """Return the headings of a text in order.

    Where the text has Markdown headings, a plain line counts as one only if its number continues theirs ("4.1" below
    "## 4"); numbered lists stay lists.
    """
    rows = list(text_lines(text))
    marked = marked_headings(rows)
    plain = len(marked) < 2 and not any(heading.label for heading in marked.values())
    return tuple(all_headings(rows, marked, weak=plain))


def section_title(path: Sequence[str]) -> str | None:
    """Return the innermost title of a heading path without its number; None if no heading has a title.

    >>> section_title(("4 Approval", "4.1 New products", "4.1.2"))
    'New products'
    """
    for heading in reversed(path):
        label = label_of(heading)
        title = label.rest.strip() if label else heading
        if any(char.isalpha() for char in title):
            return title
    return None


def _parents(above: list[Heading], heading: Heading) -> list[Heading]:
    for index in range(len(above) - 1, -1, -1):
        if extends(heading.label, above[index].label):
            return above[: index + 1]
    return [parent for parent in above if parent.rank < heading.rank]


_LEAST_MARKED: Final = 2
_LEAST_NUMBERED: Final = 3
_LEAST_LENGTH: Final = 80  # characters below a numbered heading on average: with less the numbers are those of a list
StructureKind = Literal["sections", "fields", "windows"]


class TextStructure(NamedTuple):
    """How a text should be cut, and the evidence for it.

    Attributes:
        kind: by sections, by the fields of a record, or in windows of fixed size.
        headings: headings found.
        numbered: headings with a number or a letter.
    """

    kind: StructureKind
    headings: int = 0
    numbered: int = 0

    @property
    def reason(self) -> str:
        """The headings that were found, and how the text is therefore cut.

        >>> TextStructure("sections", 12, 12).reason, TextStructure("windows", 1).reason
        ('12 numbered headings: by sections', '1 heading, too little for sections: in windows')
        """
        if self.kind == "fields":
            return "a record: by fields"
        if self.kind == "windows":
            return f"{self._found()}{', too little for sections' if self.headings else ''}: in windows"
        return f"{self._found()}: by sections"

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {**self._asdict(), "reason": self.reason}

    def _found(self) -> str:
        every = self.numbered == self.headings
        noun = f"{'numbered ' if every and self.headings else ''}heading{'' if self.headings == 1 else 's'}"
        part = f" ({self.numbered} numbered)" if self.numbered and not every else ""
        return f"{self.headings or 'no'} {noun}{part}"


RECORD: Final = TextStructure("fields")
"""The structure of a row or an object."""


def structure_of(text: str) -> TextStructure:
    """Return the structure that a text shows.

    Two marked headings (Markdown, HTML, a heading style) with text below them make sections; so do three numbered
    headings, if the text below them is longer than the points of a list.

    >>> structure_of("# Limits\\n\\nAll desks.\\n\\n## Waivers\\n\\nNone.").kind
    'sections'
    >>> structure_of("1. Call.\\n2. Write.").kind
    'windows'
    """
    all_headings = headings(text)
    below = _lengths(text, all_headings)
    marked = [length for heading, length in zip(all_headings, below) if heading.marked and length]
    numbered = [length for heading, length in zip(all_headings, below) if heading.label and length]
    listed = len(numbered) < _LEAST_NUMBERED or sum(numbered) < _LEAST_LENGTH * len(numbered)
    kind: StructureKind = "windows" if len(marked) < _LEAST_MARKED and listed else "sections"
    return TextStructure(kind, len(all_headings), sum(heading.label is not None for heading in all_headings))


def _lengths(text: str, all_headings: Sequence[Heading]) -> list[int]:
    """Return the characters of the text between each heading and the next."""
    ends = [after.start for _, after in pairwise(all_headings)] + [len(text)]
    bodies = (text[heading.body : end].strip() for heading, end in zip(all_headings, ends))
    return [len(body) if has_words(body) else 0 for body in bodies]


_OPENING: Final = r"^[ \t]*(?:#{1,6}[ \t]+)?(?:[-*+][ \t]+)?[*_]{0,2}"
_CLOSING: Final = r"[ \t]?\d{0,4}[ \t]*[*_]{0,2}[:：][*_]{0,2}[ \t]*"

_MARK: Final = re.compile(
    rf"{_OPENING}(?:(?P<asks>Q|Question|问题|問題|问|問)|(?P<answers>A|Answer|Ans|答案|回答|答)){_CLOSING}",
    re.IGNORECASE | re.MULTILINE,
)

_ASKS: Final = ("?", "？", "؟", "⁇")


class QuestionAnswer(NamedTuple):
    """A question and the place of its answer.

    Attributes:
        question: without its mark or number.
        start: offset at which the question begins.
        answer: the span of the answer, without white space at its ends; never empty.
        section: the number of their section, or None.
        path: headings above the question, from the top of the document.
    """

    question: str
    start: int
    answer: Span
    section: str | None
    path: tuple[str, ...]


def questions_of(text: str) -> list[QuestionAnswer]:
    """Return the answered questions of a text, in order.

    >>> text = "# Cards\\n\\n## 1 Who signs?\\n\\nThe head.\\n\\n## 2 Limits\\n\\nNone."
    >>> [(one.question, text[slice(*one.answer)], one.path) for one in questions_of(text)]
    [('Who signs?', 'The head.', ('Cards',))]
    """
    sections = outline(text)
    return list(_marked(text, sections)) or list(_asking(text, sections))


def _marked(text: str, sections: Sequence[OutlineSection]) -> Iterator[QuestionAnswer]:
    """Yield the questions of lines marked Q that a line marked A follows."""
    marks = list(_MARK.finditer(text))
    borders = sorted({*(mark.start() for mark in marks), *(section.start for section in sections), len(text)})
    ends = dict(pairwise(borders))
    place = 0
    for asked, answered in pairwise(marks):
        if not asked["asks"] or not answered["answers"]:
            continue
        question = stripped(text, asked.end(), answered.start())
        answer = stripped(text, answered.end(), max(ends[answered.start()], answered.end()))
        while place + 1 < len(sections) and sections[place + 1].start < asked.start():
            place += 1
        if question[0] < question[1] and answer[0] < answer[1]:
            section = sections[place]
            yield QuestionAnswer(_one_line(text[slice(*question)]), asked.start(), answer, section.label, section.path)


def _asking(text: str, sections: Sequence[OutlineSection]) -> Iterator[QuestionAnswer]:
    """Yield the headings that are questions."""
    for place, section in enumerate(sections):
        if not _asks(section):
            continue
        end = section.end
        for below in islice(sections, place + 1, None):
            if _asks(below) or below.path[: len(section.path)] != section.path:
                break
            end = below.end
        answer = stripped(text, section.body, end)
        if answer[0] < answer[1]:
            label = label_of(section.path[-1])
            question = (label.rest if label else "") or section.path[-1]
            yield QuestionAnswer(_one_line(question), section.start, answer, section.label, section.path[:-1])


def _asks(section: OutlineSection) -> bool:
    return bool(section.path) and section.path[-1].rstrip(" *_\"'”’)").endswith(_ASKS)


def _one_line(text: str) -> str:
    return " ".join(text.split()).strip("*_ ")
