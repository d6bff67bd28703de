"""Questions and answers in a text: lines marked Q and A, else headings that ask.

The answer to a marked question begins at the line marked A and goes on to the next question or heading. That of a
heading is all that stands below it, as far as the next heading that asks or does not belong below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

from context_engine.core.chunking.labels import label_of
from context_engine.core.chunking.outline import OutlineSection, outline
from context_engine.core.chunking.spans import Span, stripped

_OPENING: Final = r"^[ \t]*(?:#{1,6}[ \t]+)?(?:[-*+][ \t]+)?[*_]{0,2}"
_CLOSING: Final = r"[ \t]?\d{0,4}[ \t]*[*_]{0,2}[:：][*_]{0,2}[ \t]*"
_MARK: Final = re.compile(
    rf"{_OPENING}(?:(?P<asks>Q|Question|问题|問題|问|問)|(?P<answers>A|Answer|Ans|答案|回答|答)){_CLOSING}",
    re.IGNORECASE | re.MULTILINE,
)
_ASKS: Final = ("?", "？", "؟", "⁇")


class QuestionAnswer(NamedTuple):
    """A question and where its answer stands.

    Attributes:
        question: without its mark or number.
        start: offset at which the question begins.
        answer: the span of the answer, without white space at its ends; never empty.
        section: number of the section they stand in, None where it has none.
        path: headings above the question, from the top of the document.
    """

    question: str
    start: int
    answer: Span
    section: str | None
    path: tuple[str, ...]


def questions_of(text: str) -> list[QuestionAnswer]:
    """Return the questions of a text that have an answer, in order; none where it asks nothing.

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
    """Yield the headings that ask."""
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
