"""Where two texts differ, word by word and in few words: what an auditor reads of a text that was changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Final, NamedTuple

_BEFORE: Final = 4
_MOST_CHANGES: Final = 20
_MOST_WORDS: Final = 4000
"""Of a text; the time to compare grows with the product of the two lengths."""


class WordChange(NamedTuple):
    """One place where words were replaced, added or taken out.

    Attributes:
        before: the last few words that both texts have before it.
        was, now: the words; "" where there are none.
    """

    before: str
    was: str
    now: str


def word_changes(was: str, now: str) -> tuple[WordChange, ...]:
    """Return where two texts differ, in their order, at most 20 places; spaces and line breaks do not count.

    >>> word_changes("The limit is 5 million a day", "The limit is 7 million a day")
    (WordChange(before='The limit is', was='5', now='7'),)
    """
    former, present = was.split()[:_MOST_WORDS], now.split()[:_MOST_WORDS]
    return tuple(islice(_changes(former, present), _MOST_CHANGES))


def likeness(was: str, now: str, least: float = 0.0) -> float:
    """Return the share of words that two texts have in one order, [0, 1]: 2 M / T, as difflib defines it.

    Args:
        was, now: the texts; of each the first 4000 words count.
        least: a share below it is given as 0, which is often found sooner.
    """
    former, present = was.split()[:_MOST_WORDS], now.split()[:_MOST_WORDS]
    matcher = SequenceMatcher(None, former, present, autojunk=False)
    if not former and not present:
        return 1.0
    if matcher.real_quick_ratio() < least or matcher.quick_ratio() < least:
        return 0.0
    share = matcher.ratio()
    return share if share >= least else 0.0


def _changes(former: Sequence[str], present: Sequence[str]) -> Iterator[WordChange]:
    matcher = SequenceMatcher(None, former, present, autojunk=False)
    for what, start, end, new_start, new_end in matcher.get_opcodes():
        if what != "equal":
            before = former[max(start - _BEFORE, 0) : start]
            yield WordChange(" ".join(before), " ".join(former[start:end]), " ".join(present[new_start:new_end]))
