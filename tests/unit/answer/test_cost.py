"""Prices by day and the exact cost of a call."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.answer.budget import Cost, PriceTable, money_text, total
from context_engine.core.models import ChatUsage, CostSettings, Price, missing_price
from context_engine.errors import ConfigError
from context_engine.settings import config_layer

DAY = date(2026, 3, 2)
ROW = {
    "model": "small",
    "valid_from": "2026-01-01",
    "currency": "USD",
    "input_per_million": 2.5,
    "cached_per_million": 0.25,
    "output_per_million": 10,
}


def table(*rows: dict[str, Any]) -> PriceTable:
    return PriceTable(CostSettings.model_validate({"prices": [{**ROW, **row} for row in rows]}).prices)


def test_the_cost_of_a_call_is_the_sum_of_its_tokens_times_their_prices() -> None:
    """(800 * 2.5 + 200 * 0.25 + 300 * 10) / 1,000,000 = (2000 + 50 + 3000) / 1,000,000."""
    cost = table({}).of_usage("small", ChatUsage(1000, 300, 200), DAY)
    assert cost == Cost(Decimal("0.00505"), "USD")
    assert str(cost) == "0.00505 USD"


def test_the_most_that_a_call_can_cost_is_without_the_cache() -> None:
    """(1000 * 2.5 + 300 * 10) / 1,000,000."""
    assert table({}).estimate("small", 1000, 300, DAY) == Cost(Decimal("0.0055"), "USD")


def test_without_a_price_of_its_own_the_cache_costs_as_other_input() -> None:
    cost = table({"cached_per_million": None}).of_usage("small", ChatUsage(1000, 0, 1000), DAY)
    assert cost == Cost(Decimal("0.0025"), "USD")


def test_the_newest_valid_price_counts() -> None:
    prices = table({}, {"valid_from": "2026-03-02", "input_per_million": 5}, {"valid_from": "2025-06-01"})
    days = (DAY - timedelta(days=1), DAY, date(2025, 5, 31))
    costs = [prices.of_usage("small", ChatUsage(1_000_000, 0), day) for day in days]
    assert costs == [Cost(Decimal("2.5"), "USD"), Cost(Decimal(5), "USD"), None]


def test_an_unknown_model_has_no_cost_and_the_missing_row_is_named() -> None:
    prices = table({})
    assert prices.estimate("large", 1, 1, DAY) is prices.of_usage("large", ChatUsage(1, 1), DAY) is None
    missing = missing_price("large", DAY)
    assert (missing.key, "no price of 'large' for 2026-03-02" in str(missing)) == ("prices", True)
    assert (PriceTable([]).currency, prices.currency) == ("", "USD")


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{}, {"model": "other", "currency": "EUR"}], "prices: has prices in EUR and USD: give all of them in one"),
        ([{}, {}], "prices: has two prices of small from 2026-01-01 on: keep one"),
        ([{"input_per_million": -1}], "prices: 0.input_per_million: must be at least 0, got -1"),
        ([{"input_per_million": 0.12345678901}], "prices: 0.input_per_million: must have at most 9 digits after"),
        ([{"input_per_million": "cheap"}], "prices: 0.input_per_million: must be a number, got 'cheap'"),
        ([{"valid_from": "soon"}], "prices: 0.valid_from: must be a day such as 2025-06-30"),
        ([{"modle": "x"}], "prices: 0.modle: unknown key. Did you mean 'model'?"),
    ],
)
def test_a_table_that_cannot_be_used_says_where(rows: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config_layer({"prices": [{**ROW, **row} for row in rows]}, "f", file="f")
    assert str(refused.value).startswith(f"f: {problem}")


def test_ten_thousand_calls_cost_what_a_plain_calculation_says_to_the_cent() -> None:
    """The plain calculation adds all tokens of a price first and multiplies once."""
    source = random.Random(20260302)
    rows = [
        {
            "model": f"m{number}",
            "valid_from": f"2026-0{month}-01",
            "input_per_million": str(Decimal(source.randrange(1, 10**7)).scaleb(-6)),
            "cached_per_million": str(Decimal(source.randrange(1, 10**6)).scaleb(-6)),
            "output_per_million": str(Decimal(source.randrange(1, 10**8)).scaleb(-6)),
        }
        for number in range(5)
        for month in (1, 2, 3)
    ]
    prices = table(*rows)
    costs, tokens = [], dict[tuple[str, str], list[int]]()
    for _ in range(10_000):
        row = source.choice(rows)
        day = date.fromisoformat(str(row["valid_from"])) + timedelta(days=source.randrange(28))
        asked = source.randrange(200_000)
        usage = ChatUsage(asked, source.randrange(32_000), source.randrange(asked + 1))
        cost = prices.of_usage(str(row["model"]), usage, day)
        assert cost is not None
        costs.append(cost.amount)
        sums = tokens.setdefault((str(row["model"]), str(row["valid_from"])), [0, 0, 0])
        for place, count in enumerate((asked - usage.cached_tokens, usage.cached_tokens, usage.output_tokens)):
            sums[place] += count
    keys = ("input_per_million", "cached_per_million", "output_per_million")
    plain = sum(
        (
            count * Decimal(row[key])
            for row in rows
            for key, count in zip(keys, tokens[row["model"], row["valid_from"]], strict=True)
        ),
        Decimal(0),
    )
    assert total(costs) == plain / 1_000_000
    cent = Decimal("0.01")
    assert total(costs).quantize(cent, ROUND_HALF_EVEN) == (plain / 1_000_000).quantize(cent, ROUND_HALF_EVEN)


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**7))
def test_what_is_reserved_is_never_less_than_what_is_settled(asked: int, written: int, cached: int) -> None:
    prices = table({})
    reserved = prices.estimate("small", asked, written, DAY)
    settled = prices.of_usage("small", ChatUsage(asked, written, min(cached, asked)), DAY)
    assert reserved is not None and settled is not None
    assert reserved.amount >= settled.amount >= 0


@given(st.decimals(0, 10**9, places=9))
def test_an_amount_is_written_with_all_its_digits(amount: Decimal) -> None:
    assert Decimal(money_text(amount)) == amount
    assert "E" not in money_text(amount)


def test_a_price_is_exact_as_it_is_written() -> None:
    assert Price.model_validate({**ROW, "input_per_million": 0.1}).input_per_million == Decimal("0.1")
