"""What calls of a chat model cost: prices by day, the most that a call can cost, and what it has cost.

Money is a Decimal and exact: a number of tokens times a price per million tokens is never rounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Context, Decimal
from typing import Final, NamedTuple

from context_engine.core.models import ChatUsage, Price, valid_price

EXACT: Final = Context(prec=60)
"""Arithmetic with more digits than any sum of money has."""

_MILLION: Final = Decimal(1_000_000)


class Cost(NamedTuple):
    """A sum of money; the currency is an ISO 4217 code."""

    amount: Decimal
    currency: str

    def __str__(self) -> str:
        return f"{money_text(self.amount)} {self.currency}"


class PriceTable:
    """Prices of models by day.

    Args:
        prices: all in one currency; of a model, the newest that is valid on a day counts.
    """

    def __init__(self, prices: Iterable[Price]) -> None:
        self._prices = tuple(prices)

    @property
    def currency(self) -> str:
        """The currency of all prices; empty without prices."""
        return self._prices[0].currency if self._prices else ""

    def estimate(self, model: str, input_tokens: int, max_output: int, day: date) -> Cost | None:
        """Return the most that a call can cost: nothing cached, and the longest answer. None: the price is unknown.

        Args:
            input_tokens: of the messages, >= 0; where they are estimated, with a margin.
            max_output: most tokens of the answer, >= 0.
        """
        return self.of_usage(model, ChatUsage(input_tokens, max_output), day)

    def of_usage(self, model: str, usage: ChatUsage, day: date) -> Cost | None:
        """Return what a call has cost; None if the price is unknown.

        cost = (uncached * input price + cached * cached price + output * output price) / 1,000,000
        """
        price = valid_price(self._prices, model, day)
        if price is None:
            return None
        cached_price = price.input_per_million if price.cached_per_million is None else price.cached_per_million
        parts = (
            (usage.input_tokens - usage.cached_tokens, price.input_per_million),
            (usage.cached_tokens, cached_price),
            (usage.output_tokens, price.output_per_million),
        )
        amount = total(EXACT.multiply(Decimal(tokens), per_million) for tokens, per_million in parts)
        return Cost(EXACT.divide(amount, _MILLION), price.currency)


def total(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum of amounts."""
    result = Decimal(0)
    for amount in amounts:
        result = EXACT.add(result, amount)
    return result


def money_text(amount: Decimal) -> str:
    """Return an amount with all its digits and at least two after the point.

    >>> money_text(Decimal("0.0001250")), money_text(Decimal("12.5"))
    ('0.000125', '12.50')
    """
    whole, _, fraction = f"{amount:f}".partition(".")
    return f"{whole}.{fraction.rstrip('0').ljust(2, '0')}"
