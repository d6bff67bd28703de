"""The headings of a document and the sections below them: numbered, worded (Article, Annex), Markdown, Chinese."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from context_engine.core.chunking.heading import Heading, marked_headings, text_lines
from context_engine.core.chunking.labels import extends, label_of
from context_engine.core.chunking.unmarked import all_headings
from context_engine.core.text.markup import has_words


class OutlineSection(NamedTuple):
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


def outline(text: str) -> list[OutlineSection]:
    """Return the sections of a text, in order and without a gap; what stands above the first heading and holds no word
    (an anchor, a rule) belongs to that section.

    A heading belongs below the heading whose number its own continues, else below the last one of higher rank.
    """
    found = headings(text)
    first = found[0].start if found else len(text)
    out = [OutlineSection(0, first, None, (), 0)] if not found or has_words(text[:first]) else []
    above: list[Heading] = []
    for number, heading in enumerate(found):
        above = [*_parents(above, heading), heading]
        start = heading.start if out or number else 0
        end = found[number + 1].start if number + 1 < len(found) else len(text)
        out.append(OutlineSection(start, end, heading.label, tuple(one.text for one in above), heading.body))
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
    """Return the innermost title of a heading path without its number, None where no heading has a title.

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
    return [one for one in above if one.rank < heading.rank]
