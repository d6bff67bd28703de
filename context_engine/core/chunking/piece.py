"""A piece of a document, and where it stood in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Count = Callable[[str], int]
"""Number of tokens of a text, >= 0; where a longer text may have fewer, pieces keep the limit and may be less full."""


class Piece(NamedTuple):
    """A piece of a document.

    Attributes:
        content: the text; `text[start:end]` of the document, except for the repeated title of a record.
        span: character offsets (start, end) in the document's text; spans come in order, and all that lies outside
            them is white space.
        section: the section's number, None where it has none or the piece covers several.
        heading_path: headings from the top of the document down to the piece.
        position: 0-based place in the document.
        heading_only: whether there is nothing below its heading, or below any of them.
    """

    content: str
    span: tuple[int, int]
    section: str | None = None
    heading_path: tuple[str, ...] = ()
    position: int = 0
    heading_only: bool = False
