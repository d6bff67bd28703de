"""Numbers that run through a document, told from the numbers of its lists, which begin anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MOST_STEP: Final = 3  # numbers that may be missing between two headings: a repealed section, a page not copied
_LEAST_NUMBERING: Final = 6
_LEAST_SHARE: Final = 0.6
LEAST_LENGTH: Final = 150  # characters of a numbered paragraph on average: shorter ones are a list


def follows(number: int, last: int | None, ahead: int | None) -> bool:
    """Return whether a heading's number fits in: the first, a beginning anew, the next few, or a gap that goes on.

    Args:
        number: the heading's.
        last: the number of the heading before it.
        ahead: the number of the line after it that may be a heading.
    """
    if number == 1 or last is None or last < number <= last + MOST_STEP:
        return True
    return number > last and ahead is not None and number < ahead <= number + MOST_STEP


def numbering(numbers: Sequence[int], lengths: Sequence[int]) -> set[int]:
    """Return the places in `numbers` that number a document's paragraphs; none where they are lists.

    Numbered paragraphs run on from the first to the last without beginning anew, are many, and are paragraphs; the
    few numbers beside them are lists.

    Args:
        numbers: of the lines that begin with a number in one style, in order.
        lengths: characters from each to the next.
    """
    chain: list[int] = []
    for place, number in enumerate(numbers):
        last = numbers[chain[-1]] if chain else 0
        if last < number <= last + MOST_STEP:
            chain.append(place)
    long = sum(lengths[place] for place in chain) >= LEAST_LENGTH * len(chain)
    return set(chain) if long and len(chain) >= max(_LEAST_NUMBERING, _LEAST_SHARE * len(numbers)) else set()


def lettered(values: Sequence[tuple[int, ...]]) -> set[int]:
    """Return the places that form a series of letters or roman numerals: one from the first on, two members at least.

    Args:
        values: what each sign may stand for ("C": 3 or 100).
    """
    best: list[int] = []
    for reading in (min, max):
        chain: list[int] = []
        last = 0
        for place, found in enumerate(values):
            number = reading(found) if found else 0
            if number == last + 1:
                chain.append(place)
                last = number
        best = max(best, chain, key=len)
    return set(best) if len(best) > 1 else set()
