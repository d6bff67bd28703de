"""Quantities and bands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.answer.bands import outside, quantities


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a seven-year bond", [(7.0, "year")]),
        ("USD 1.5 million or 5 %", [(1_500_000.0, "USD"), (5.0, "%")]),
        ("within 10 business days", [(10.0, "day")]),
        ("3 basis points", [(3.0, "basis point")]),
        ("EUR 250,000", [(250_000.0, "EUR")]),
        ("section 4.2 of SOP-001", []),
    ],
)
def test_quantities(text, read):
    assert [(quantity.value, quantity.unit) for quantity in quantities(text)] == read


@pytest.mark.parametrize(
    ("asked", "band", "is_outside"),
    [
        ("5 years", "up to 5 years", False),
        ("6 years", "up to 5 years", True),
        ("5 years", "below 5 years", True),
        ("5 years", "over 5 years", True),
        ("5 years", "at least 5 years", False),
        ("USD 50,000", "above USD 50,000 to USD 500,000", True),
        ("USD 60,000", "above USD 50,000 to USD 500,000", False),
        ("USD 600,000", "above USD 50,000 to USD 500,000", True),
        ("USD 10,000", "USD 10,000 to USD 50,000", False),
        ("12 %", "above 5 % to 15 %", False),
        ("12 %", "up to 5 years", False),
        ("EUR 12", "up to USD 5", False),
    ],
)
def test_bands(asked, band, is_outside):
    assert outside(quantities(asked), band) is is_outside


@given(st.integers(0, 99), st.integers(0, 99))
def test_of_two_bands_that_meet_one_holds_each_value(value, edge):
    asked = quantities(_days(value))
    assert outside(asked, f"up to {_days(edge)}") is not outside(asked, f"over {_days(edge)}")


def _days(number):
    return "1 day" if number == 1 else f"{number} days"  # "1 days" is a slip and no value
