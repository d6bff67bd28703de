"""Which texts say the same: equal text, or nearly the same words with nothing that matters changed.

Two texts are near-duplicates when the Jaccard similarity of their sets of words, |A ∩ B| / |A ∪ B|, reaches the
threshold and the guard (`ranking.guard`) finds no meaningful token inserted, deleted, replaced or moved. Each text's
own section label and header lines are set aside first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import ceil
from typing import Final, Literal, NamedTuple, Protocol

from context_engine.core.ranking.analysed import AnalysedText, Body
from context_engine.core.ranking.guard import allows
from context_engine.errors import InvalidRequest, nearest

_FEWEST_WORDS: Final = 6

_ROUNDING: Final = 1e-9

MOST_GUARDED: Final = 10_000_000

_PAIR: Final = 150
"""Characters that the guard reads for one pool, of both texts of a pair and 150 more for each pair: about a second.

A hundred texts of 900 characters stay below it whatever they say. More come near it only where they are made for it:
all of the same words, with the same numbers, negations and acts as often, and none to merge with another.
"""


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


class Deduplicate(Protocol):
    """`deduplicate`, or what gives the same."""

    def __call__(
        self, texts: Sequence[AnalysedText], *, method: Literal["near", "exact", "off"], threshold: float
    ) -> list[Match | None]:
        """Return for each text the kept one it joins; see `deduplicate`."""
        ...


def deduplicate(
    texts: Sequence[AnalysedText], *, method: Literal["near", "exact", "off"] = "near", threshold: float = 0.85
) -> list[Match | None]:
    """Return for each text the kept one it joins, or None where it is kept itself.

    A text joins the first kept one it matches, never one that has joined another itself. Empty text joins nothing; a
    text of fewer than 6 words joins equal text alone. Once the guard has read `MOST_GUARDED` characters, so does every
    text that comes after: nothing is lost, and no pool holds the service up.

    Args:
        texts: in survivor order, the one to keep first.
        method: "exact" compares normalised text only, "off" keeps everything.
        threshold: least word-set Jaccard of near-duplicates, above 0, at most 1.

    Raises:
        InvalidRequest: another method, or a threshold out of range.
    """
    if not 0.0 < threshold <= 1.0:
        raise InvalidRequest(f"dedup threshold must be above 0 and at most 1, got {threshold!r}")
    if method == "off":
        return [None] * len(texts)
    if method not in ("near", "exact"):
        raise InvalidRequest(f"unknown dedup method {method!r}.{nearest(method, ('near', 'exact', 'off'))}")
    kept = _KeptTexts(texts, threshold) if method == "near" else None
    first: dict[str, int] = {}
    out: list[Match | None] = []
    for index, text in enumerate(texts):
        same = first.setdefault(text.identity, index) if text.identity else index
        if same != index:
            out.append(out[same] or Match(same, 1.0, "equal_text"))
        else:
            out.append(kept.join_or_keep(index) if kept else None)
    return out


class _KeptTexts:
    """The texts kept so far, each group by itself: texts that may be near-duplicates carry the same (`Body.carried`).

    Most texts are alone in their group, and are compared with none.

    Args:
        texts: all texts of the pool.
        threshold: least similarity.
    """

    def __init__(self, texts: Sequence[AnalysedText], threshold: float) -> None:
        self._texts = texts
        first: dict[tuple[str, ...], int] = {}
        alike: dict[int, list[int]] = {}
        for index, text in enumerate(texts):
            same = first.setdefault(text.body.carried, index)
            if same != index:
                alike.setdefault(same, [same]).append(index)
        groups = [_Group({place: texts[place].body for place in places}, threshold) for places in alike.values()]
        self._groups = {place: group for group in groups for place in group.bodies}
        self._left = MOST_GUARDED

    def join_or_keep(self, index: int) -> Match | None:
        """Return the first kept text of which this one is a near-duplicate; keep it where there is none."""
        group = self._groups.get(index)
        if group is None or self._left < 0:
            return None
        for other, similarity in group.near(index):
            if self._allows(index, other):
                return Match(other, similarity, "near_duplicate")
        group.keep(index)
        return None

    def _allows(self, index: int, other: int) -> bool:
        """Return whether the guard allows a merge; marks that differ say no for it."""
        first, second = self._texts[index].marks, self._texts[other].marks
        if first != second and first is not None and second is not None:
            return False
        new, kept = self._texts[index].body, self._texts[other].body
        self._left -= len(new.text) + len(kept.text) + _PAIR
        return self._left >= 0 and _says_the_same(new, kept)


class _Group:
    """Texts that carry the same: those kept so far are found by the rare words they share with a new one.

    J(A, B) >= t needs |A ∩ B| >= t * |A|, so at most (1 - t) * |A| words of A are not in B: with all words of the group
    in one order, the first so many and one more of A and of B have a word in common, and only texts with such a word
    are compared. The rarest stand first. Nor are texts of very different length: J(A, B) <= |A| / |B|. (The prefix and
    the size filter of Chaudhuri, Ganti and Kaushik, ICDE 2006; they miss nothing.)

    Args:
        bodies: of the group, by their places in the pool, at least two.
        threshold: least similarity.
    """

    def __init__(self, bodies: Mapping[int, Body], threshold: float) -> None:
        self.bodies, self._threshold = bodies, threshold
        self._words = {place: frozenset(body.tokens) for place, body in bodies.items()}
        counts = Counter(chain.from_iterable(self._words.values()))
        common = sorted([word for word, count in counts.items() if count > 1], key=counts.__getitem__)
        self._rank = dict(zip(common, range(1, len(common) + 1)))
        self._holders: dict[int, list[int]] = {}

    def near(self, index: int) -> Iterator[tuple[int, float]]:
        """Yield the kept texts that a text is close enough to, the first kept first, with their similarity."""
        words = self._words[index]
        if len(words) < _FEWEST_WORDS:
            return
        least, most = self._threshold * len(words) - _ROUNDING, len(words) / self._threshold + _ROUNDING
        sharing = {holder for word in self._telling(words) for holder in self._holders.get(word, ())}
        for other in sorted(sharing):
            if least <= len(self._words[other]) <= most:
                similarity = self._similarity(index, other)
                if similarity is not None:
                    yield other, similarity

    def keep(self, index: int) -> None:
        """Keep a text."""
        words = self._words[index]
        for word in self._telling(words) if len(words) >= _FEWEST_WORDS else ():
            self._holders.setdefault(word, []).append(index)

    def _similarity(self, index: int, other: int) -> float | None:
        """Return the similarity of two texts if it reaches the threshold and their heads are no obstacle."""
        words, others = self._words[index], self._words[other]
        both = len(words & others)
        similarity = both / (len(words) + len(others) - both)
        head, another = self.bodies[index].head, self.bodies[other].head
        return None if similarity < self._threshold or (head and another and head != another) else similarity

    def _telling(self, words: frozenset[str]) -> list[int]:
        """Return the ranks of the words of which a near-duplicate shares one; a word that no other text has is none."""
        shared = sorted(filter(None, map(self._rank.get, words)))
        missing = len(words) - ceil(self._threshold * len(words) - _ROUNDING)
        return shared[: max(missing + 1 - (len(words) - len(shared)), 0)]


def _says_the_same(new: Body, kept: Body) -> bool:
    return allows(*_without_shared_sentences(new.text, kept.text))


def _without_shared_sentences(first: str, second: str) -> tuple[str, str]:
    """Return both texts without the sentences that both have, where those stand in one order; else as they are."""
    parts, parts_too = first.split(". "), second.split(". ")
    both = {*parts}.intersection(parts_too)
    if [part for part in parts if part in both] != [part for part in parts_too if part in both]:
        return first, second
    rest, rest_too = ([part for part in some if part not in both] for some in (parts, parts_too))
    return ". ".join(rest), ". ".join(rest_too)


def best_of_lower_copies(matches: Sequence[Match | None], values: Sequence[float]) -> list[float]:
    """Return for each text the highest value among itself and the equal texts after it.

    What stands around a copy, its headings and its section, makes it more or less relevant than another: without this
    a web page would pass the system of record that says the same.

    Args:
        matches: `deduplicate` by the method "exact" of the texts in survivor order, the highest tier first.
        values: of each text, [0, 1].

    >>> best_of_lower_copies([None, None, Match(0, 1.0, "equal_text")], [0.5, 0.7, 0.6])
    [0.6, 0.7, 0.6]
    """
    out = list(values)
    best: dict[int, float] = {}
    for index in reversed(range(len(out))):
        match = matches[index]
        first = index if match is None else match.into
        out[index] = best[first] = max(best.get(first, 0.0), out[index])
    return out
