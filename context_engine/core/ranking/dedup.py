"""Deduplication: equal texts, or texts with nearly the same words and no meaningful difference.

Two texts are near-duplicates if the Jaccard similarity of their word sets, |A ∩ B| / |A ∪ B|, reaches the threshold and
the guard (`ranking.guard`) finds no meaningful token inserted, deleted, replaced or moved. Each text's own section
label and header lines are set aside first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import ceil
from typing import Final, Literal, NamedTuple, Protocol

from context_engine.core.ranking.candidates import AnalysedText, Body
from context_engine.core.ranking.guard import allows
from context_engine.errors import InvalidRequest, nearest

_FEWEST_WORDS: Final = 6
_ROUNDING: Final = 1e-9
MOST_GUARDED: Final = 10_000_000
_PAIR: Final = 150
"""Extra characters counted for each pair against MOST_GUARDED, the characters that the guard reads for one pool.

The limit is about one second of work. A hundred texts of 900 characters always stay below it. More texts come near it
only if made for the purpose: all with the same words and the same meaningful tokens, and no two of them mergeable.
"""


class Match(NamedTuple):
    """The kept text that another text joins.

    Args:
        into: index of the kept text.
        similarity: word-set Jaccard in (0, 1]; 1.0 for equal normalised text.
        how: "equal_text" or "near_duplicate".
    """

    into: int
    similarity: float
    how: str


class Deduplicate(Protocol):
    """The signature of `deduplicate`, for callers that replace it with a cached result."""

    def __call__(
        self, texts: Sequence[AnalysedText], *, method: Literal["near", "exact", "off"], threshold: float
    ) -> list[Match | None]:
        """Return for each text the kept text that it joins; see `deduplicate`."""
        ...


def deduplicate(
    texts: Sequence[AnalysedText], *, method: Literal["near", "exact", "off"] = "near", threshold: float = 0.85
) -> list[Match | None]:
    """Return for each text the kept text that it joins, or None if the text itself is kept.

    A text joins the first kept text that it matches, never one that has itself joined another. An empty text joins
    nothing, and a text of fewer than 6 words joins only equal text. Once the guard has read `MOST_GUARDED` characters,
    all later texts join only equal text too: nothing is lost, and no pool can block the service.

    Args:
        texts: in survivor order, the text to keep first.
        method: "exact" compares normalised text only, "off" keeps everything.
        threshold: minimum word-set Jaccard of near-duplicates, in (0, 1].

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
    """The texts kept so far, grouped by the tokens they carry (`Body.carried`): only texts of one group can be merged.

    Most texts are alone in their group and are never compared.

    Args:
        texts: all texts of the pool.
        threshold: minimum similarity.
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
        """Return the first kept text of which this is a near-duplicate; if there is none, keep this one."""
        group = self._groups.get(index)
        if group is None or self._left < 0:
            return None
        for other, similarity in group.near(index):
            if self._allows(index, other):
                return Match(other, similarity, "near_duplicate")
        group.keep(index)
        return None

    def _allows(self, index: int, other: int) -> bool:
        """Return whether the guard allows a merge; differing marks refuse it without a full comparison."""
        first, second = self._texts[index].marks, self._texts[other].marks
        if first != second and first is not None and second is not None:
            return False
        new, kept = self._texts[index].body, self._texts[other].body
        self._left -= len(new.text) + len(kept.text) + _PAIR
        return self._left >= 0 and _says_the_same(new, kept)


class _Group:
    """Texts that carry the same tokens: kept texts similar to a new one are found by the rare words they share.

    J(A, B) >= t needs |A ∩ B| >= t * |A|, so at most (1 - t) * |A| words of A are missing from B. With all words of the
    group in one order, rarest first, the first (1 - t) * |A| + 1 words of A and those of B share at least one word:
    only texts that share one are compared. Texts of very different length are skipped, as J(A, B) <= |A| / |B|. Both
    filters are exact. Source: prefix and size filter of Chaudhuri, Ganti and Kaushik, ICDE 2006.

    Args:
        bodies: the group's bodies by their index in the pool, at least two.
        threshold: minimum similarity.
    """

    def __init__(self, bodies: Mapping[int, Body], threshold: float) -> None:
        self.bodies, self._threshold = bodies, threshold
        self._words = {place: frozenset(body.tokens) for place, body in bodies.items()}
        counts = Counter(chain.from_iterable(self._words.values()))
        common = sorted([word for word, count in counts.items() if count > 1], key=counts.__getitem__)
        self._rank = dict(zip(common, range(1, len(common) + 1)))
        self._holders: dict[int, list[int]] = {}

    def near(self, index: int) -> Iterator[tuple[int, float]]:
        """Yield the kept texts that reach the threshold, each with its similarity, in the order in which they were
        kept.
        """
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
        words = self._words[index]
        for word in self._telling(words) if len(words) >= _FEWEST_WORDS else ():
            self._holders.setdefault(word, []).append(index)

    def _similarity(self, index: int, other: int) -> float | None:
        """Return the similarity of two texts; None if it is below the threshold or their title pages differ."""
        words, others = self._words[index], self._words[other]
        both = len(words & others)
        similarity = both / (len(words) + len(others) - both)
        head, another = self.bodies[index].head, self.bodies[other].head
        return None if similarity < self._threshold or (head and another and head != another) else similarity

    def _telling(self, words: frozenset[str]) -> list[int]:
        """Return the ranks of the prefix words, of which every near-duplicate shares one; words unique to a text have
        none."""
        shared = sorted(filter(None, map(self._rank.get, words)))
        missing = len(words) - ceil(self._threshold * len(words) - _ROUNDING)
        return shared[: max(missing + 1 - (len(words) - len(shared)), 0)]


def _says_the_same(new: Body, kept: Body) -> bool:
    return allows(*_without_shared_sentences(new.text, kept.text))


def _without_shared_sentences(first: str, second: str) -> tuple[str, str]:
    """Return both texts without their common sentences if these have the same order in both, else both unchanged."""
    parts, parts_too = first.split(". "), second.split(". ")
    both = {*parts}.intersection(parts_too)
    if [part for part in parts if part in both] != [part for part in parts_too if part in both]:
        return first, second
    rest, rest_too = ([part for part in some if part not in both] for some in (parts, parts_too))
    return ". ".join(rest), ". ".join(rest_too)


def best_of_lower_copies(matches: Sequence[Match | None], values: Sequence[float]) -> list[float]:
    """Return for each text the highest value among itself and the equal texts after it.

    The headings and the section around a copy make it more or less relevant than another copy. Without this, a web page
    could rank above the system of record that says the same.

    Args:
        matches: `deduplicate` with method "exact" for the texts in survivor order, highest tier first.
        values: one per text, [0, 1].

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
