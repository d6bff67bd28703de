"""Cutting into windows of fixed size, at the borders of sentences."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import takewhile

from context_engine.core.chunking.contents import ContentsTable, between, without_contents
from context_engine.core.chunking.outline import OutlineSection, outline
from context_engine.core.chunking.pack import fit, pack
from context_engine.core.chunking.piece import Count, Piece
from context_engine.core.chunking.spans import atoms


def fixed_pieces(
    text: str, size: int, overlap: int, count: Count, contents: Sequence[ContentsTable] = ()
) -> list[Piece]:
    """Return windows of at most `size` tokens, each as full as its sentences, rows and items allow.

    The section and the heading path of a window are those that hold for all of it.

    Args:
        text: the document.
        size: most tokens of a piece.
        overlap: most tokens that a window repeats from the one before; whole sentences, items or rows.
        count: counts tokens.
        contents: tables of contents, which stand in no window and which no window reaches over.
    """
    sections = outline(without_contents(text, contents))
    starts = [section.start for section in sections]
    spans = [
        span
        for start, end in between(contents, 0, len(text))
        for span in pack(text, fit(text, atoms(text, start, end), size, count), size, overlap, count, keep_blocks=False)
    ]
    pieces: list[Piece] = []
    for position, (start, end) in enumerate(spans):
        inside = sections[bisect_right(starts, start) - 1 : bisect_left(starts, end)]
        label, path = _common(inside)
        pieces.append(Piece(text[start:end], (start, end), label, path, position))
    return pieces


def _common(inside: list[OutlineSection]) -> tuple[str | None, tuple[str, ...]]:
    """Return number and path of the innermost section that holds for all of these."""
    path = inside[0].path
    for section in inside[1:]:
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(path, section.path)))
        path = path[:shared]
    label = next((section.label for section in inside if section.path == path), None)
    return label, path
