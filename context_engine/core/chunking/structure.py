"""What a text without a declared type shows of its structure: sections below headings, or none."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from context_engine.core.chunking.heading import Heading
from context_engine.core.chunking.outline import headings
from context_engine.core.text.markup import has_words

_LEAST_MARKED: Final = 2
_LEAST_NUMBERED: Final = 3
_LEAST_LENGTH: Final = 80  # characters below a numbered heading on average: with less the numbers are those of a list

StructureKind = Literal["sections", "fields", "windows"]


class TextStructure(NamedTuple):
    """How a text wants to be cut, and what shows it.

    Attributes:
        kind: by sections, by the fields of a record, or in windows of fixed size.
        headings: headings found.
        numbered: those of them with a number or a letter.
    """

    kind: StructureKind
    headings: int = 0
    numbered: int = 0

    @property
    def reason(self) -> str:
        """What was found, and what follows from it.

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
        what = f"{'numbered ' if every and self.headings else ''}heading{'' if self.headings == 1 else 's'}"
        part = f" ({self.numbered} numbered)" if self.numbered and not every else ""
        return f"{self.headings or 'no'} {what}{part}"


RECORD: Final = TextStructure("fields")
"""The structure of a row or an object."""


def structure_of(text: str) -> TextStructure:
    """Return the structure that a text shows.

    Two marked headings (Markdown, HTML, a heading style) with text below them are sections; so are three numbered
    ones, if what stands below them is longer than the points of a list.

    >>> structure_of("# Limits\\n\\nAll desks.\\n\\n## Waivers\\n\\nNone.").kind
    'sections'
    >>> structure_of("1. Call.\\n2. Write.").kind
    'windows'
    """
    found = headings(text)
    below = _lengths(text, found)
    marked = [length for heading, length in zip(found, below) if heading.marked and length]
    numbered = [length for heading, length in zip(found, below) if heading.label and length]
    listed = len(numbered) < _LEAST_NUMBERED or sum(numbered) < _LEAST_LENGTH * len(numbered)
    kind: StructureKind = "windows" if len(marked) < _LEAST_MARKED and listed else "sections"
    return TextStructure(kind, len(found), sum(heading.label is not None for heading in found))


def _lengths(text: str, found: Sequence[Heading]) -> list[int]:
    """Return the characters of the text between each heading and the next."""
    ends = [after.start for _, after in pairwise(found)] + [len(text)]
    bodies = (text[heading.body : end].strip() for heading, end in zip(found, ends))
    return [len(body) if has_words(body) else 0 for body in bodies]
