"""Quantities and the bands that rows of a table are for: "up to 5 years", "above USD 50,000 to USD 500,000"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

from context_engine.answer.quantities import NUMBER, quantity

_NUMBER: Final = re.compile(rf"(?<![\w.-])(?:{NUMBER})")
_UPPER: Final = re.compile(
    r"\b(up to|at most|not? more than|not exceeding|within|maximum(?: of)?|below|under|less than)\s*$", re.IGNORECASE
)
_LOWER: Final = re.compile(
    r"\b(at least|from|minimum(?: of)?|over|above|more than|exceeding|greater than)\s*$", re.IGNORECASE
)
_TO: Final = re.compile(r"\s*(?:to|-|–|and)\s*$")
_OPEN: Final = frozenset({"below", "under", "less than", "over", "above", "more than", "exceeding", "greater than"})


class Quantity(NamedTuple):
    """A number as written and its value, with its unit in the singular: "year", "%", "USD"; and its place."""

    value: float
    unit: str
    written: str
    start: int
    end: int


class _Band(NamedTuple):
    low: float
    high: float
    unit: str
    open_low: bool
    open_high: bool

    def holds(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)


def quantities(text: str) -> tuple[Quantity, ...]:
    """Return the numbers of a text that have a unit or a currency, in order.

    >>> [quantity[:2] for quantity in quantities("a seven-year bond over USD 1.5 million")]
    [(7.0, 'year'), (1500000.0, 'USD')]
    """
    lower = text.lower()
    every = ((match, *quantity(lower, match)) for match in _NUMBER.finditer(lower))
    return tuple(
        Quantity(float(value.number), value.currency or _plain(value.unit), match[0], match.start(), end)
        for match, value, end in every
        if value.currency or value.unit
    )


def _plain(unit: str) -> str:
    return "day" if unit.endswith(" day") else unit


def outside(asked: Sequence[Quantity], text: str) -> bool:
    """Return whether a text is for a band that holds none of the quantities of its unit.

    >>> seven = quantities("a seven-year bond")
    >>> outside(seven, "Bonds up to 5 years"), outside(seven, "Bonds over 5 years"), outside(seven, "up to 5 %")
    (True, False, False)
    """
    for band in _bands(text):
        values = [quantity.value for quantity in asked if quantity.unit == band.unit]
        if values and not any(band.holds(value) for value in values):
            return True
    return False


def inside(asked: Sequence[Quantity], text: str) -> list[Quantity]:
    """Return the quantities that a band of a text holds.

    >>> [quantity.written for quantity in inside(quantities("a seven-year bond"), "Bonds over 5 years")]
    ['seven']
    """
    bands = _bands(text)
    return [
        quantity
        for quantity in asked
        if any(band.unit == quantity.unit and band.holds(quantity.value) for band in bands)
    ]


@lru_cache(maxsize=4_096)
def _bands(text: str) -> tuple[_Band, ...]:
    out: list[_Band] = []
    before: Quantity | None = None
    for size in quantities(text):
        opening = text[: size.start]
        upper, lower = _UPPER.search(opening), _LOWER.search(opening)
        ranged = before is not None and before.unit == size.unit and _TO.fullmatch(opening[before.end :])
        if ranged and before is not None:
            open_low = bool(out) and out[-1].low == before.value and out.pop().open_low
            out.append(_Band(before.value, size.value, size.unit, open_low, False))
        elif upper:
            out.append(_Band(-inf, size.value, size.unit, False, upper[1].lower() in _OPEN))
        elif lower:
            out.append(_Band(size.value, inf, size.unit, lower[1].lower() in _OPEN, False))
        before = size
    return tuple(out)
