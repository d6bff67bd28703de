"""Quantities and the bands that rows of a table are for: "up to 5 years", "above USD 50,000 to USD 500,000"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

_WORDS: Final = "zero one two three four five six seven eight nine ten eleven twelve"
_WORDED: Final = {word: float(value) for value, word in enumerate(_WORDS.split())}
_SCALES: Final[Mapping[str, float]] = {
    "thousand": 1e3,
    "k": 1e3,
    "million": 1e6,
    "mn": 1e6,
    "m": 1e6,
    "billion": 1e9,
    "bn": 1e9,
}
_CURRENCY: Final = r"[$€£¥]|\b[A-Z]{3}\b"
_UNIT: Final = r"(?i:second|minute|hour|day|week|month|year|basis point|volatility point)(?=s?\b)"
_QUANTITY: Final = re.compile(
    rf"(?P<before>{_CURRENCY})?\s*(?<![\w.-])(?P<number>\d+(?:,\d{{3}})*(?:\.\d+)?|{'|'.join(_WORDED)})"
    rf"(?:\s*(?P<scale>(?i:thousand|million|billion|bn|mn)|[mk])\b)?"
    rf"(?:[\s-]*(?:(?:business|working|calendar)\s+)?(?P<after>%|(?i:per ?cent)\b|{_UNIT}|{_CURRENCY}))?"
)
_UPPER: Final = re.compile(
    r"\b(up to|at most|not? more than|not exceeding|within|maximum(?: of)?|below|under|less than)\s*$", re.IGNORECASE
)
_LOWER: Final = re.compile(
    r"\b(at least|from|minimum(?: of)?|over|above|more than|exceeding|greater than)\s*$", re.IGNORECASE
)
_TO: Final = re.compile(r"\s*(?:to|-|–|and)\s*$")
_OPEN: Final = frozenset({"below", "under", "less than", "over", "above", "more than", "exceeding", "greater than"})
_PERCENT: Final = frozenset({"percent", "per cent"})


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
    every = (
        Quantity(_value(match), _unit(match), match["number"], *match.span()) for match in _QUANTITY.finditer(text)
    )
    return tuple(quantity for quantity in every if quantity.unit)


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


def _value(match: re.Match[str]) -> float:
    number = match["number"]
    value = _WORDED[number] if number in _WORDED else float(number.replace(",", ""))
    return value * _SCALES.get((match["scale"] or "").lower(), 1.0)


def _unit(match: re.Match[str]) -> str:
    unit = match["before"] or match["after"] or ""
    return "%" if unit.lower() in _PERCENT else unit if unit.isupper() else unit.lower()


@lru_cache(maxsize=4_096)
def _bands(text: str) -> tuple[_Band, ...]:
    out: list[_Band] = []
    before: Quantity | None = None
    for quantity in quantities(text):
        opening = text[: quantity.start]
        upper, lower = _UPPER.search(opening), _LOWER.search(opening)
        ranged = before is not None and before.unit == quantity.unit and _TO.fullmatch(opening[before.end :])
        if ranged and before is not None:
            open_low = bool(out) and out[-1].low == before.value and out.pop().open_low
            out.append(_Band(before.value, quantity.value, quantity.unit, open_low, False))
        elif upper:
            out.append(_Band(-inf, quantity.value, quantity.unit, False, upper[1].lower() in _OPEN))
        elif lower:
            out.append(_Band(quantity.value, inf, quantity.unit, lower[1].lower() in _OPEN, False))
        before = quantity
    return tuple(out)
