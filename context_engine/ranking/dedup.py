"""Which texts say the same: equal text, or nearly the same words with nothing that matters changed.

Two texts are near-duplicates when the Jaccard similarity of their sets of words, |A ∩ B| / |A ∪ B|, reaches the
threshold and the guard (`ranking.guard`) finds no meaningful token inserted, deleted, replaced or moved. Each text's
own section label and header lines are set aside first. Only texts that share half of their long words, or enough of
all words where they have few long ones, are compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Final, Literal, NamedTuple

from context_engine.errors import InvalidRequest, nearest
from context_engine.ranking.dedup_body import body
from context_engine.ranking.dedup_words import cut, vocabulary
from context_engine.ranking.guard import allows
from context_engine.text import normalize

__all__ = ["Match", "deduplicate"]

_FEWEST_WORDS: Final = 6
_WINDOW: Final = 64
_END: Final = 24

# A text with many long words is looked up by these alone: they are rare. The margin between the two numbers lets a text
# with a few less find one with a few more.
_LONG: Final = 9
_MANY_TO_ASK: Final = 14
_MANY_TO_FILE: Final = 20
_SHARE: Final = 0.5
_RARE: Final = 8


class Match(NamedTuple):
    """The kept text that a text joins.

    Args:
        into: index of the kept text.
        similarity: word-set Jaccard in (0, 1]; 1.0 for equal normalised text.
        how: "equal_text" or "near_duplicate".
    """

    into: int
    similarity: float
    how: str


def deduplicate(
    texts: Sequence[str], *, method: Literal["near", "exact", "off"] = "near", threshold: float = 0.85
) -> list[Match | None]:
    """Return for each text the kept one it joins, or None where it is kept itself.

    A text joins the first kept one it matches, never one that has joined another itself. Empty text joins nothing; a
    text of fewer than 6 words joins equal text alone.

    Args:
        texts: in survivor order, the one to keep first.
        method: "exact" compares normalised text only, "off" keeps everything.
        threshold: least word-set Jaccard of near-duplicates, above 0, at most 1.

    Raises:
        InvalidRequest: another method, or a threshold out of range.
    """
    if not 0.0 < threshold <= 1.0:
        raise InvalidRequest(f"dedup threshold must be above 0 and at most 1, got {threshold!r}")
    if method == "near":
        return _near(texts, threshold)
    if method == "exact":
        return _exact(texts)
    if method == "off":
        return [None] * len(texts)
    raise InvalidRequest(f"unknown dedup method {method!r}.{nearest(method, ('near', 'exact', 'off'))}")


def _exact(texts: Sequence[str]) -> list[Match | None]:
    equal = _EqualTexts(texts)
    firsts = map(equal.first, range(len(texts)))
    return [None if first is None else Match(first, 1.0, "equal_text") for first in firsts]


def _near(texts: Sequence[str], threshold: float) -> list[Match | None]:
    equal = _EqualTexts(texts)
    kept = _Kept(threshold)
    out: list[Match | None] = []
    for index, text in enumerate(texts):
        first = equal.first(index)
        if first is None:
            out.append(kept.place(index, text))
        else:
            out.append(out[first] or Match(first, 1.0, "equal_text"))
    return out


class _EqualTexts:
    """Finds equal normalised text: by raw text, then by both ends; only texts that agree there are normalised whole."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._raw: dict[str, int] = {}
        self._by_ends: dict[str, int] = {}
        self._normal: dict[str, dict[str, int]] = {}

    def first(self, index: int) -> int | None:
        """Return the index of the first text equal to this one if it is another; None for empty text."""
        text = self._texts[index]
        found = self._raw.get(text)
        if found is None:
            ends = _ends(text)
            if not ends:
                return None
            found = self._by_ends.setdefault(ends, index)
            if found != index:
                alike = self._normal.setdefault(ends, {normalize(self._texts[found]): found})
                found = alike.setdefault(normalize(text), index)
            self._raw[text] = found
        return found if found != index else None


def _ends(text: str) -> str:
    """Return the first and last characters that are not white space, as `normalize` has them: equal for equal text."""
    start, end = text[:_WINDOW], text[-_WINDOW:]
    if start.isascii() and end.isascii():
        first, last = "".join(start.split()), "".join(end.split())
        if len(first) > _END and len(last) > _END:
            return (first[:_END] + last[-_END:]).lower()
    whole = normalize(text).replace(" ", "")
    return whole[:_END] + whole[-_END:]


class _Kept:
    """The texts kept so far, found by the words they share with a new one."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._bodies: dict[int, _Body] = {}
        self._holders: defaultdict[str, list[int]] = defaultdict(list)

    def place(self, index: int, text: str) -> Match | None:
        """Return the first kept text of which this one is a near-duplicate; keep it where there is none."""
        new = _Body(body(text))
        if len(new.pieces) < _FEWEST_WORDS and len(new.words) < _FEWEST_WORDS:
            return None
        for other in self._candidates(new):
            shared = len(new.words & self._bodies[other].words)
            similarity = shared / (len(new.words) + len(self._bodies[other].words) - shared)
            if similarity >= self._threshold and allows(new.text, self._bodies[other].text):
                return Match(other, similarity, "near_duplicate")
        self._bodies[index] = new
        for word in new.long if len(new.long) >= _MANY_TO_FILE else new.words:
            self._holders[word].append(index)
        return None

    def _candidates(self, new: _Body) -> list[int]:
        """Return the kept texts, in order, that share enough words: J(A, B) >= t needs |A ∩ B| >= t·|A|.

        Of a sample, the long words that few texts have, half of that is asked: a near-duplicate shares most of them,
        another text few.
        """
        least = self._threshold * len(new.long)
        if len(new.long) >= _MANY_TO_ASK:
            found = [holders for holders in map(self._holders.get, new.long) if holders]
            rare = [holders for holders in found if len(holders) <= _RARE]
            if len(rare) >= _MANY_TO_ASK:
                least -= len(found) - len(rare)
                found = rare
            least *= _SHARE
        else:
            found = [holders for holders in map(self._holders.get, new.words) if holders]
            least = self._threshold * len(new.words) - 1e-9
        votes = Counter(chain.from_iterable(found)) if len(found) >= least else {}
        return sorted(index for index, count in votes.items() if count >= least)


class _Body:
    """A text without label and header lines; its set of words is made when first asked for."""

    __slots__ = ("_words", "long", "pieces", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.pieces = cut(text)
        pieces = [piece.strip(".,;:()") for piece in self.pieces if len(piece) >= _LONG]
        self.long = {piece for piece in pieces if len(piece) >= _LONG and piece.isalpha()}
        self._words: set[str] | None = None

    @property
    def words(self) -> set[str]:
        """The tokens of the text, each once."""
        if self._words is None:
            self._words = vocabulary(self.pieces)
        return self._words
