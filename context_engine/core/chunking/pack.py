"""Filling pieces with atoms up to a number of tokens, with an overlap of whole atoms."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Final, NamedTuple
from unicodedata import category

from context_engine.core.chunking.spans import CJK, Atom, Span, sentences, stripped

Count = Callable[[str], int]
"""Returns the number of tokens of a text, >= 0. If a longer text may have fewer, pieces keep the limit but may be less
full."""


class Piece(NamedTuple):
    """A piece of a document.

    Attributes:
        content: the text: `text[start:end]` of the document; before it the repeated title of a record, or the head of
            the table in which the piece begins.
        span: character offsets (start, end) in the document's text; spans come in order, and only white space lies
            outside them.
        section: the section's number; None if missing or if the piece covers several sections.
        heading_path: headings from the top of the document down to the piece.
        position: 0-based place in the document.
        heading_only: whether there is no text below its heading or headings.
    """

    content: str
    span: tuple[int, int]
    section: str | None = None
    heading_path: tuple[str, ...] = ()
    position: int = 0
    heading_only: bool = False


_LINE: Final = re.compile(r"\n+")
_CLAUSE: Final = re.compile(r"(?<=[;,:])\s+|(?<=[；，、：])\s*")
_WORD: Final = re.compile(rf"\s+|(?<=[{CJK}，、。；：！？])(?=[^\s，、。；：！？”’」』）》])")

# Thai and Lao write no blanks between words: a vowel that is written first begins a syllable, a consonant mostly does.
_SYLLABLE: Final = re.compile("(?<=[\u0e01-\u0e3f\u0e45-\u0e5b\u0e81-\u0ebf])(?=[\u0e40-\u0e44\u0ec0-\u0ec4])")
_CLUSTER: Final = re.compile("(?<=[\u0e01-\u0e3f\u0e45-\u0e5b\u0e81-\u0ebf])(?=[\u0e01-\u0e2e\u0e81-\u0eae])")
_LOST: Final = 2  # most tokens that a text loses where another is joined to it


def tokens_between(text: str, spans: Sequence[Span | Atom], count: Count, first: int, last: int) -> int:
    """Return the tokens from the start of one span to the end of another."""
    return count(text[spans[first][0] : spans[last][1]])


def fit(text: str, atoms: Sequence[Atom], size: int, count: Count) -> list[Atom]:
    """Return the atoms with their tokens; an atom over `size` is cut at lines, else sentences, clauses, words, and
    inside a word as the last resort.
    """
    out: list[Atom] = []
    for atom in atoms:
        tokens = count(text[atom.start : atom.end])
        if tokens <= size:
            out.append(Atom(atom.start, atom.end, atom.block, atom.whole, tokens))
        else:
            for start, end in broken(text, (atom.start, atom.end), size, count):
                out.append(Atom(start, end, atom.block, atom.whole, count(text[start:end])))
    return out


def pack(
    text: str, atoms: Sequence[Atom], size: int, overlap: int, count: Count, *, keep_blocks: bool = True
) -> list[Span]:
    """Return spans of consecutive atoms, each of at most `size` tokens.

    Args:
        atoms: each of at most `size` tokens, see `fit`.
        overlap: most tokens that a span repeats from the one before; whole atoms only.
        keep_blocks: end a span between two blocks if that keeps the second whole.
    """
    runs = _Runs(text, atoms, size, count)
    ends = _block_ends(atoms)
    out: list[Span] = []
    previous = -1  # first atom of the span before
    index = 0
    while index < len(atoms):
        begin = _repeated(atoms, runs, previous, index, overlap)
        needed = _needed(atoms, ends, runs, index) if keep_blocks else index
        while begin < index and runs.tokens(begin, needed) > size:
            begin += 1
        last = runs.furthest(begin, index)
        if keep_blocks:
            last = _between_blocks(atoms, ends, runs, begin, index, last)
        out.append((atoms[begin].start, atoms[last].end))
        previous, index = begin, last + 1
    return out


class _Runs:
    """Tokens of runs of atoms: counted exactly, and estimated beforehand from the tokens of the single atoms.

    A run has at least the tokens of its atoms minus _LOST for each atom, because of rounding and of tokens that span
    two atoms.
    """

    def __init__(self, text: str, atoms: Sequence[Atom], size: int, count: Count) -> None:
        self.size = size
        self._text, self._atoms, self._count = text, atoms, count
        self._sums = [0, *accumulate(atom.tokens for atom in atoms)]
        self._least = [0, *accumulate(max(0, atom.tokens - _LOST) for atom in atoms)]
        self._share = 1.0  # tokens of the last run over the sum of its atoms'

    def tokens(self, first: int, last: int) -> int:
        """Return the tokens from the start of one atom to the end of another."""
        counted = self._count(self._text[self._atoms[first].start : self._atoms[last].end])
        self._share = max(0.1, counted / max(1, self._sums[last + 1] - self._sums[first]))
        return counted

    def within(self, first: int, last: int, most: int) -> bool:
        """Return whether a run has at most that many tokens; counted only if an estimate does not decide."""
        return self._least[last + 1] - self._least[first] <= most and self.tokens(first, last) <= most

    def furthest(self, begin: int, index: int, stop: int | None = None) -> int:
        """Return the last atom in [index, stop) up to which a run from `begin` fits; `index` is assumed to fit."""
        guess = bisect_right(self._sums, self._sums[begin] + self.size / self._share) - 2
        stop = len(self._atoms) if stop is None else stop
        counted_to, tokens = begin, 0  # atoms before `counted_to` have `tokens`

        def counted(last: int) -> int:
            nonlocal counted_to, tokens
            least = tokens + self._least[last + 1] - self._least[counted_to]
            if least > self.size:
                return least
            run_tokens = self.tokens(begin, last)
            if run_tokens <= self.size:
                counted_to, tokens = last + 1, run_tokens
            return run_tokens

        return furthest(counted, self.size, index, stop, guess)

    def fits(self, first: int, last: int) -> bool:
        """Whether a run of atoms fits; however long it is, not much more than `size` tokens are counted."""
        return self.furthest(first, first, last + 1) == last


def furthest(tokens: Callable[[int], int], size: int, index: int, stop: int, guess: int | None = None) -> int:
    """Return the last position in [index, stop) whose tokens are at most `size`; `index` is assumed to fit.

    Galloping search from the guess, then halving; exact where tokens never fall from one position to the next.
    """
    low, high = index, stop  # fits, does not fit
    at, step = index + 1 if guess is None else guess, 1
    while low < high - 1:
        at = min(max(at, low + 1), high - 1)
        if tokens(at) <= size:
            low = at
        else:
            high = at
        if low == index or high == stop:
            at = high - step if low == index else low + step
            step *= 2
        else:
            at = (low + high) // 2
    return low


def broken(text: str, span: Span, size: int, count: Count, level: int = 0) -> list[Span]:
    """Return parts of a span, each of at most `size` tokens, cut as high on the ladder of borders as possible."""
    if level == len(_LADDER):
        return _sliced(text, span, size, count)
    parts: list[Span] = []
    for part in _LADDER[level](text, *span):
        parts += [part] if count(text[slice(*part)]) <= size else broken(text, part, size, count, level + 1)
    return _filled(text, parts, size, count)


def _sliced(text: str, span: Span, size: int, count: Count) -> list[Span]:
    """Cut inside a word, as a single word over the limit leaves no other way; a mark stays with its letter."""
    out: list[Span] = []
    start, end = span
    while start < end:
        fits = furthest(partial(_slice_tokens, text, count, start), size, start + 1, end + 1)
        stop = fits
        while start < stop < end and _is_mark(text[stop]):
            stop -= 1
        stop = stop if stop > start else fits
        out.append((start, stop))
        start = stop
    return out


def _is_mark(char: str) -> bool:
    return char == "\u200d" or category(char)[0] == "M"


def _slice_tokens(text: str, count: Count, start: int, end: int) -> int:
    return count(text[start:end])


def _filled(text: str, parts: Sequence[Span], size: int, count: Count) -> list[Span]:
    """Join neighbours as long as they fit."""
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


_LADDER: Final = (_split(_LINE), sentences, _split(_CLAUSE), _split(_WORD), _split(_SYLLABLE), _split(_CLUSTER))


def _repeated(atoms: Sequence[Atom], runs: _Runs, previous: int, index: int, overlap: int) -> int:
    """Return the first atom to repeat: as many as fit into `overlap`, never the whole span before.

    Rows and items are repeated only if their own table or list continues; elsewhere they are meaningless.
    """
    begin = index
    while begin - 1 > previous >= 0 and runs.within(begin - 1, index - 1, overlap):
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


def _needed(atoms: Sequence[Atom], ends: Sequence[int], runs: _Runs, index: int) -> int:
    """Return the last atom that must follow the overlap: the end of a table or list that fits, else `index`."""
    return ends[index] if atoms[index].whole and runs.fits(index, ends[index]) else index


def _between_blocks(atoms: Sequence[Atom], ends: Sequence[int], runs: _Runs, begin: int, index: int, last: int) -> int:
    """Return where to end the span instead of inside a block: before the block, if it fits alone and leaves no stub
    behind.
    """
    if ends[last] == last:
        return last
    first = last
    while first > index and atoms[first - 1].block == atoms[last].block:
        first -= 1
    if first == index or not runs.fits(first, ends[last]):
        return last
    stub = runs.tokens(begin, first - 1) * 4 < runs.size
    return last if stub and not atoms[last].whole else first - 1
