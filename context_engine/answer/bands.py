"""The bands that rows of a table are for ("over 5 years", "USD 1m to 5m"), and the quantities that a question has."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

from context_engine.answer.quantities import Value
from context_engine.answer.reading import Tokens, read

_LEAST: Final = 1e-9
"""Distance of a value just inside an open band from the band's number, as a share of that number."""
_INWARD: Final = {"more than": 1, "less than": -1}
_UPPER: Final = frozenset({"at most", "within", "less than"})
_BOUNDS: Final = {"from": "at least", "minimum": "at least", "maximum": "at most"}
"""Words that make a bound of the number right behind them, in a band alone."""


class Quantity(NamedTuple):
    """A number with its unit in the singular ("year", "%", "USD"), as written; of "over 5 years" just above 5."""

    value: float
    unit: str
    written: str


class _Band(NamedTuple):
    low: float
    high: float
    unit: str
    open_low: bool
    open_high: bool

    def holds(self, size: Quantity) -> bool:
        above = size.value > self.low if self.open_low else size.value >= self.low
        return (
            self.unit == size.unit and above and (size.value < self.high if self.open_high else size.value <= self.high)
        )


def quantities(text: str) -> tuple[Quantity, ...]:
    """Return the numbers of a text that have a unit or a currency, in order.

    >>> [size[:2] for size in quantities("a seven-year bond, or USD 1.5 million")]
    [(7.0, 'year'), (1500000.0, 'USD')]
    >>> [quantities(text)[0].value > 2 for text in ("losses above USD 2", "losses of USD 2")]
    [True, False]
    """
    sizes = ((token, token.value) for token in read(text) if token.value and _unit(token.value))
    return tuple(
        Quantity(float(value.number) * (1 + _INWARD.get(value.bound, 0) * _LEAST), _unit(value), token.written)
        for token, value in sizes
    )


def _unit(value: Value) -> str:
    return value.currency or ("day" if value.unit.endswith(" day") else value.unit)


def outside(asked: Sequence[Quantity], text: str) -> bool:
    """Return whether a text is for a band that holds none of the quantities of its unit.

    >>> seven = quantities("a seven-year bond")
    >>> outside(seven, "Bonds up to 5 years"), outside(seven, "Bonds over 5 years"), outside(seven, "up to 5 %")
    (True, False, False)
    """
    for band in _bands(text):
        sizes = [size for size in asked if size.unit == band.unit]
        if sizes and not any(map(band.holds, sizes)):
            return True
    return False


def inside(asked: Sequence[Quantity], text: str) -> list[Quantity]:
    """Return the quantities that a band of a text holds.

    >>> [size.written for size in inside(quantities("a seven-year bond"), "Bonds over 5 years")]
    ['seven-year']
    """
    return [size for size in asked if any(band.holds(size) for band in _bands(text))]


@lru_cache(maxsize=4_096)
def _bands(text: str) -> tuple[_Band, ...]:
    out: list[_Band] = []
    tokens = read(text)
    for place, token in enumerate(tokens):
        if not token.value or not (unit := _unit(token.value)):
            continue
        number, bound = float(token.value.number), token.value.bound or _bound(tokens, place)
        if (low := _low(tokens, place)) and _unit(low) == unit:
            open_low = bool(out) and out[-1].low == float(low.number) and out.pop().open_low
            out.append(_Band(float(low.number), number, unit, open_low, False))
        elif bound in _UPPER:
            out.append(_Band(-inf, number, unit, False, bound == "less than"))
        elif bound:
            out.append(_Band(number, inf, unit, bound == "more than", False))
    return tuple(out)


def _bound(tokens: Tokens, place: int) -> str:
    return _BOUNDS.get(tokens[place - 1].written, "") if place else ""


def _low(tokens: Tokens, place: int) -> Value | None:
    """Return the number that a range begins with, of the one that it ends with."""
    return tokens[place - 2].value if place > 1 and tokens[place - 1].key in ("to", "and") else None
