"""Cutting into windows of fixed size, at the borders of sentences."""

from __future__ import annotations

from context_engine.chunking.outline import Section, outline
from context_engine.chunking.pack import fit, pack
from context_engine.chunking.piece import Count, Piece
from context_engine.chunking.spans import Span, atoms

__all__ = ["fixed_pieces"]


def fixed_pieces(text: str, size: int, overlap: int, count: Count) -> list[Piece]:
    """Return windows of at most `size` tokens, each as full as its sentences, rows and items allow.

    The section and the heading path of a window are those that hold for all of it.

    Args:
        text: the document.
        size: most tokens of a piece.
        overlap: most tokens that a window repeats from the one before; whole sentences, items or rows.
        count: counts tokens.
    """
    sections = outline(text)
    spans = pack(text, fit(text, atoms(text, 0, len(text)), size, count), size, overlap, count, keep_blocks=False)
    pieces: list[Piece] = []
    for position, (start, end) in enumerate(spans):
        label, path = _common(sections, (start, end))
        pieces.append(Piece(text[start:end], (start, end), label, path, position))
    return pieces


def _common(sections: list[Section], span: Span) -> tuple[str | None, tuple[str, ...]]:
    """Return number and path of the innermost section that covers a span."""
    inside = [section for section in sections if section.start < span[1] and span[0] < section.end]
    path = inside[0].path
    for section in inside[1:]:
        shared = sum(1 for _ in _shared(path, section.path))
        path = path[:shared]
    label = next((section.label for section in inside if section.path == path), None)
    return label, path


def _shared(first: tuple[str, ...], second: tuple[str, ...]) -> list[str]:
    out: list[str] = []
    for one, two in zip(first, second):
        if one != two:
            break
        out.append(one)
    return out
