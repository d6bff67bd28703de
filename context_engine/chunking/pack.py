"""Filling pieces with atoms up to a number of tokens, with an overlap of whole atoms."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from context_engine.chunking.piece import Count
from context_engine.chunking.spans import CJK, Atom, Span, sentences, stripped

__all__ = ["broken", "fit", "furthest", "pack", "tokens_between"]

_LINE: Final = re.compile(r"\n+")
_CLAUSE: Final = re.compile(r"(?<=[;,:])\s+|(?<=[；，、：])\s*")
_WORD: Final = re.compile(rf"\s+|(?<=[{CJK}，、。；：！？])(?=[^\s，、。；：！？”’」』）》])")

_Tokens = Callable[[int, int], int]
"""Tokens from the start of one atom to the end of another."""


def tokens_between(text: str, spans: Sequence[Span | Atom], count: Count, first: int, last: int) -> int:
    """Return the tokens from the start of one span to the end of another."""
    return count(text[spans[first][0] : spans[last][1]])


def fit(text: str, atoms: Sequence[Atom], size: int, count: Count) -> list[Atom]:
    """Return the atoms, each one over `size` tokens cut at lines, sentences, clauses, words; inside a word last."""
    out: list[Atom] = []
    for atom in atoms:
        if count(text[atom.start : atom.end]) <= size:
            out.append(atom)
        else:
            parts = broken(text, (atom.start, atom.end), size, count)
            out += [atom._replace(start=start, end=end) for start, end in parts]
    return out


def pack(
    text: str, atoms: Sequence[Atom], size: int, overlap: int, count: Count, *, keep_blocks: bool = True
) -> list[Span]:
    """Return spans of consecutive atoms, each of at most `size` tokens.

    Args:
        atoms: each of at most `size` tokens, see `fit`.
        overlap: most tokens that a span repeats from the one before; whole atoms only.
        keep_blocks: end a span between two blocks where that keeps the second whole.
    """
    tokens = partial(tokens_between, text, atoms, count)
    ends = _block_ends(atoms)
    out: list[Span] = []
    previous = -1  # first atom of the span before
    index = 0
    while index < len(atoms):
        begin = _repeated(atoms, tokens, previous, index, overlap)
        needed = _needed(atoms, ends, tokens, index, size) if keep_blocks else index
        while begin < index and tokens(begin, needed) > size:
            begin += 1
        last = furthest(partial(tokens, begin), size, index, len(atoms))
        if keep_blocks:
            last = _between_blocks(atoms, ends, tokens, begin, index, last, size)
        out.append((atoms[begin].start, atoms[last].end))
        previous, index = begin, last + 1
    return out


def furthest(tokens: Callable[[int], int], size: int, index: int, stop: int) -> int:
    """Return the last position in [index, stop) whose tokens are at most `size`; `index` is taken to fit.

    Galloping search, exact where tokens never fall from one position to the next.
    """
    step = 1
    while index + step < stop and tokens(index + step) <= size:
        index += step
        step *= 2
    while step:
        if index + step < stop and tokens(index + step) <= size:
            index += step
        step //= 2
    return index


def broken(text: str, span: Span, size: int, count: Count, level: int = 0) -> list[Span]:
    """Return parts of a span, each of at most `size` tokens, cut as high on the ladder of borders as possible."""
    if level == len(_LADDER):
        return _sliced(text, span, size, count)
    parts: list[Span] = []
    for part in _LADDER[level](text, *span):
        parts += [part] if count(text[slice(*part)]) <= size else broken(text, part, size, count, level + 1)
    return _filled(text, parts, size, count)


def _sliced(text: str, span: Span, size: int, count: Count) -> list[Span]:
    """Cut inside a word, which nobody wants and a word over the limit leaves no way round."""
    out: list[Span] = []
    start, end = span
    while start < end:
        stop = furthest(partial(_slice_tokens, text, count, start), size, start + 1, end + 1)
        out.append((start, stop))
        start = stop
    return out


def _slice_tokens(text: str, count: Count, start: int, end: int) -> int:
    return count(text[start:end])


def _filled(text: str, parts: Sequence[Span], size: int, count: Count) -> list[Span]:
    """Join neighbours as far as they fit."""
    tokens = partial(tokens_between, text, parts, count)
    out: list[Span] = []
    index = 0
    while index < len(parts):
        last = furthest(partial(tokens, index), size, index, len(parts))
        out.append((parts[index][0], parts[last][1]))
        index = last + 1
    return out


def _split(pattern: re.Pattern[str]) -> Callable[[str, int, int], list[Span]]:
    def cut(text: str, start: int, end: int) -> list[Span]:
        borders = [start, *(match.end() for match in pattern.finditer(text, start, end)), end]
        spans = [stripped(text, first, last) for first, last in pairwise(borders)]
        return [span for span in spans if span[0] < span[1]]

    return cut


_LADDER: Final = (_split(_LINE), sentences, _split(_CLAUSE), _split(_WORD))


def _repeated(atoms: Sequence[Atom], tokens: _Tokens, previous: int, index: int, overlap: int) -> int:
    """Return the first atom to repeat: as many as fit into `overlap`, never the whole span before.

    Rows and items are repeated only where their own table or list goes on; elsewhere they say nothing.
    """
    begin = index
    while begin - 1 > previous >= 0 and tokens(begin - 1, index - 1) <= overlap:
        if atoms[begin - 1].whole and atoms[begin - 1].block != atoms[index].block:
            break
        begin -= 1
    return begin


def _block_ends(atoms: Sequence[Atom]) -> list[int]:
    """Return, for each atom, the last atom of its block."""
    ends = list(range(len(atoms)))
    for index in range(len(atoms) - 2, -1, -1):
        if atoms[index].block == atoms[index + 1].block:
            ends[index] = ends[index + 1]
    return ends


def _fits(tokens: _Tokens, first: int, last: int, size: int) -> bool:
    """Whether a run of atoms fits; however long the run is, not much more than `size` tokens are counted."""
    return furthest(partial(tokens, first), size, first, last + 1) == last


def _needed(atoms: Sequence[Atom], ends: Sequence[int], tokens: _Tokens, index: int, size: int) -> int:
    """Return the last atom that must follow the overlap: the end of a table or list that fits, else `index`."""
    return ends[index] if atoms[index].whole and _fits(tokens, index, ends[index], size) else index


def _between_blocks(
    atoms: Sequence[Atom], ends: Sequence[int], tokens: _Tokens, begin: int, index: int, last: int, size: int
) -> int:
    """Return where to end instead of inside a block: before the block, if it fits alone and no stub stays behind."""
    if ends[last] == last:
        return last
    first = last
    while first > index and atoms[first - 1].block == atoms[last].block:
        first -= 1
    if first == index or not _fits(tokens, first, ends[last], size):
        return last
    stub = tokens(begin, first - 1) * 4 < size
    return last if stub and not atoms[last].whole else first - 1
