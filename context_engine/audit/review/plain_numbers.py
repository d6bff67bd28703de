"""Limits between numbers: where a limit has to stand so that other numbers reach it, and how it is best written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from decimal import ROUND_FLOOR, Decimal
from typing import Final, NamedTuple

_FEWEST_DIGITS: Final = 2
_MOST_DIGITS: Final = 17


class OtherLimit(NamedTuple):
    """A limit that other numbers reach than the one in force.

    Attributes:
        value: written with as few decimals as do, at least two.
        distance: from the limit in force to the nearest number with the same effect; at most that of `value`.
    """

    value: float
    distance: float


def other_limits(numbers: Iterable[float], was: float, low: float, high: float) -> Iterator[OtherLimit]:
    """Yield one limit for each set of numbers that a limit in [low, high] can be reached by, but that of `was`.

    A number reaches a limit where number >= limit. So between two neighbouring numbers every limit has one effect, and
    the limits with it are those above the lower number up to and with the upper one.

    Args:
        numbers: what is tested against the limit.
        was: the limit in force.
        low, high: the least and the greatest limit there may be.

    >>> [limit.value for limit in other_limits([0.1234, 0.3, 0.777], 0.2, 0.0, 1.0)]
    [0.12, 0.31, 0.78]
    """
    steps = sorted({number for number in numbers if low <= number < high})
    for below, upto in zip([None, *steps], [*steps, high]):
        if upto < was:
            yield OtherLimit(_plain_at_most(upto, low if below is None else below, below is not None), was - upto)
        elif below is not None and below >= was:
            yield OtherLimit(_plain_above(below, upto), below - was)


def _plain_at_most(upto: float, floor: float, beyond: bool) -> float:
    """Return the plainest number up to `upto` and not below `floor`, with `beyond` above it."""
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS + 1):
        value = float(_cut(upto, digits))
        if value <= upto and (value > floor or (value == floor and not beyond)):
            return value
    return upto


def _plain_above(below: float, upto: float) -> float:
    """Return the plainest number above `below` and up to `upto`."""
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS + 1):
        value = float(_cut(below, digits) + Decimal(1).scaleb(-digits))
        if below < value <= upto:
            return value
    return math.nextafter(below, math.inf)


def _cut(number: float, digits: int) -> Decimal:
    return Decimal(repr(float(number))).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR)
