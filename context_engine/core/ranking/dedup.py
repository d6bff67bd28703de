"""Which texts say the same: equal text, or nearly the same words with nothing that matters changed.

Two texts are near-duplicates when the Jaccard similarity of their sets of words, |A ∩ B| / |A ∪ B|, reaches the
threshold and the guard (`ranking.guard`) finds no meaningful token inserted, deleted, replaced or moved. Each text's
own section label and header lines are set aside first. Only texts that share enough of a sample of their words are
compared.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Final, Literal, NamedTuple

from context_engine.core.ranking.dedup_body import body, head
from context_engine.core.ranking.dedup_lexicon import meaning
from context_engine.core.ranking.guard import allows
from context_engine.core.text import normalize, tokens_of_word, words
from context_engine.errors import InvalidRequest, nearest

__all__ = ["Match", "deduplicate"]

_FEWEST_WORDS: Final = 6
_WINDOW: Final = 64
_END: Final = 24

# A text is looked up by a sample: what follows each " c" and " p", a sixth of its words at little cost. The margin
# between the two numbers lets a text with a smaller sample find one with a larger.
_SAMPLED: Final = (" c", " p")
_SAMPLE_LENGTH: Final = 7
_ENOUGH_TO_ASK: Final = 12
_ENOUGH_TO_FILE: Final = 18
_SHARE: Final = 0.5
_RARE: Final = 8
_NO_SPACE: Final = dict.fromkeys(map(ord, " \t\n\r\v\f\x1c\x1d\x1e\x1f"))
_BLANK: Final = str.maketrans(dict.fromkeys("\t\n\r\v\f.,;:!?()[]\"'*#|", " "))


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
    """Finds equal normalised text: by its last characters, then by its count of some letters, then whole.

    Each step is taken only by texts that agree in the step before, so most are never normalised.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts, self._ends = texts, _ends(texts)
        self._by_end: dict[str, int | dict[str, int | dict[str, int]]] = {}

    def first(self, index: int) -> int | None:
        """Return the index of the first text equal to this one, None if that is itself or it is empty."""
        text, end = self._texts[index], self._ends[index]
        alike = self._by_end.setdefault(end, index)
        if alike == index or not end:
            return None
        if isinstance(alike, int):
            if self._texts[alike] == text:
                return alike
            alike = self._by_end[end] = {_letters(self._texts[alike]): alike}
        letters = _letters(text)
        same = alike.setdefault(letters, index)
        if same == index:
            return None
        if isinstance(same, int):
            same = alike[letters] = {normalize(self._texts[same]): same}
        found = same.setdefault(normalize(text), index)
        return found if found != index else None


def _ends(texts: Sequence[str]) -> list[str]:
    """Return the last characters of each that are not white space, as `normalize` has them: the same for equal text."""
    tails = "\0".join([text[-_WINDOW:] for text in texts])
    if tails.isascii() and tails.count("\0") == len(texts) - 1:
        plain = tails.translate(_NO_SPACE).lower().split("\0")
        return [end[-_END:] if len(end) >= _END else _end(text) for end, text in zip(plain, texts)]
    return [_end(text) for text in texts]


def _end(text: str) -> str:
    return normalize(text).replace(" ", "")[-_END:]


def _letters(text: str) -> str:
    """Return how often some letters stand in the normalised text."""
    plain = text.lower() if text.isascii() else normalize(text)
    return " ".join([str(plain.count(letter)) for letter in "bgmv"])


class _Kept:
    """The texts kept so far, found by the words they share with a new one."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._bodies: dict[int, _Body] = {}
        self._holders: dict[str, tuple[int, ...]] = {}

    def place(self, index: int, text: str) -> Match | None:
        """Return the first kept text of which this one is a near-duplicate; keep it where there is none."""
        new = _Body(text)
        if len(new.sample) < _ENOUGH_TO_ASK and len(new.words) < _FEWEST_WORDS:
            return None
        for other in self._candidates(new):
            kept = self._bodies[other]
            similarity = _near_duplicate(new.text, kept.text, self._threshold)
            if similarity is not None and (not new.head or not kept.head or new.head == kept.head):
                return Match(other, similarity, "near_duplicate")
        self._file(index, new)
        return None

    def _file(self, index: int, new: _Body) -> None:
        self._bodies[index] = new
        words = new.sample if len(new.sample) >= _ENOUGH_TO_FILE else new.sample | new.words
        known = words & self._holders.keys()
        for word in known:
            self._holders[word] += (index,)
        self._holders.update(dict.fromkeys(words - known, (index,)))

    def _candidates(self, new: _Body) -> list[int]:
        """Return the kept texts, in order, that share enough words: J(A, B) >= t needs |A ∩ B| >= t·|A|.

        Of a sample half of that is asked, of those words that few texts have where they are enough: a
        near-duplicate shares most of them, another text few.
        """
        if len(new.sample) < _ENOUGH_TO_ASK:
            found = [holders for holders in map(self._holders.get, new.words) if holders]
            least = self._threshold * len(new.words) - 1e-9
        else:
            found = [holders for holders in map(self._holders.get, new.sample) if holders]
            rare = [holders for holders in found if len(holders) <= _RARE]
            asked = len(new.sample) - len(found) + len(rare)
            if asked < _ENOUGH_TO_ASK:
                asked, rare = len(new.sample), found
            found, least = rare, _SHARE * self._threshold * asked
        if len(found) < least:
            return []
        votes = Counter(chain.from_iterable(found))
        return sorted(index for index, count in votes.items() if count >= least)


class _Body:
    """A text without label and header lines; its set of words is made when first asked for."""

    __slots__ = ("_head", "_words", "sample", "source", "text")

    def __init__(self, source: str) -> None:
        self.source, self.text = source, body(source)
        text = self.text
        plain = text.casefold() if text.isascii() else _ascii(text)
        plain = plain.translate(_BLANK)
        self.sample = {part[:_SAMPLE_LENGTH] for start in _SAMPLED for part in plain.split(start)[1:]}
        self._words: set[str] | None = None
        self._head: str | None = None

    @property
    def head(self) -> str:
        """The header, where there is little below it."""
        if self._head is None:
            self._head = head(self.source, self.text)
        return self._head

    @property
    def words(self) -> set[str]:
        """The tokens of the text, each once."""
        if self._words is None:
            self._words = _vocabulary(self.text)
        return self._words


def _vocabulary(text: str) -> set[str]:
    return set(chain.from_iterable(map(tokens_of_word, set(words(text)))))


def _ascii(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().encode("ascii", "replace").decode("ascii")


def _near_duplicate(first: str, second: str, threshold: float) -> float | None:
    """Return the similarity of two bodies if it reaches the threshold and the guard allows a merge.

    What they share is read once; no token reaches across ". ".
    """
    parts, parts_too = first.split(". "), second.split(". ")
    both = {*parts}.intersection(parts_too)
    rest, rest_too = [part for part in parts if part not in both], [part for part in parts_too if part not in both]
    shared = _vocabulary(" ".join(both))
    mine, theirs = _vocabulary(" ".join(rest)), _vocabulary(" ".join(rest_too))
    union = len(shared | mine | theirs)
    lost, gained = mine - theirs - shared, theirs - mine - shared
    similarity = (union - len(lost) - len(gained)) / union if union else 0.0
    if similarity < threshold or union - max(len(lost), len(gained)) < _FEWEST_WORDS:
        return None
    if any(meaning(word) == word for word in lost | gained):
        return None
    if [part for part in parts if part in both] == [part for part in parts_too if part in both]:
        first, second = ". ".join(rest), ". ".join(rest_too)
    return similarity if allows(first, second) else None
