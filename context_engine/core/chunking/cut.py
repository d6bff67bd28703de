"""One call for all methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from context_engine.core.chunking.contents import ContentsTable
from context_engine.core.chunking.fields import field_pieces
from context_engine.core.chunking.fixed import fixed_pieces
from context_engine.core.chunking.piece import Count, Piece
from context_engine.core.chunking.sections import section_pieces
from context_engine.core.chunking.strategy import ChunkingStrategy

CHUNKER_VERSION: Final = "6"
"""Raised whenever some text is cut otherwise than before: documents cut before are then cut again."""


def cut(text: str, strategy: ChunkingStrategy, count: Count, contents: Sequence[ContentsTable] = ()) -> list[Piece]:
    """Return the pieces of a text, in order; none for a text of white space.

    Args:
        text: the document; for `field_level` a record as `record_text` gives it.
        strategy: method, size and overlap.
        count: counts tokens.
        contents: tables of contents, which stand in no piece and which no piece reaches over; not for `field_level`.
    """
    if strategy.method == "field_level":
        return field_pieces(text, strategy.chunk_size, count)
    if strategy.method == "section_aware":
        return section_pieces(text, strategy.chunk_size, strategy.overlap, count, contents)
    return fixed_pieces(text, strategy.chunk_size, strategy.overlap, count, contents)
