"""Laws of masking: masked again a text stays, spellings of one value have one pseudonym, the rest is untouched."""

from __future__ import annotations

import pytest

pytest.importorskip("stdnum")
pytest.importorskip("phonenumbers")

from hypothesis import given
from hypothesis import strategies as st

from context_engine.adapters.maskers import PersonalDataOptions, open_personal_data
from context_engine.core.policy.masking import PseudonymMask

MASKER = open_personal_data(PersonalDataOptions(countries=("SG", "CN", "FR"), phone_regions=("SG", "US")))
MASK = PseudonymMask([MASKER], b"0123456789abcdef")
PIECES = (
    "4111 1111 1111 1111", "4111111111111111", "DE89 3704 0044 0532 0130 00", "gb82west12345698765432", "S1234567D",
    "+65 6123 4567", "6123 4567", "call ", "jane@mail.example", "[CARD 0123456789ab]", "[IBAN ", "4111", " ", "-", "\n",
    "１２", "\u200b", "(", ")", "/", ".", "12", "0", "A", "@", "11010519491231002X", "é", "\u00a0",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=12).map("".join)


@given(TEXTS)
def test_masked_again_a_text_stays(text):
    masked = MASK(text)
    assert MASK(masked) == masked


@given(TEXTS)
def test_places_are_within_the_text_and_hold_something(text):
    assert all(0 <= one.start < one.end <= len(text) and one.value for one in MASKER.find(text))


@given(st.sampled_from(["4111111111111111", "DE89370400440532013000"]), st.lists(st.integers(0, 3), max_size=6))
def test_spellings_of_one_value_have_one_pseudonym(number, gaps):
    groups = [number[place : place + 4] for place in range(0, len(number), 4)]
    written = groups[0] + "".join(
        (" ", "-", "\u00a0", "\u2011")[gap] + group for gap, group in zip((*gaps, *[0] * 8), groups[1:])
    )
    assert MASK(written) == MASK(number) == MASK(written.lower())


@given(st.text(alphabet="abc defg,;:\n", max_size=60))
def test_text_without_digits_and_addresses_is_untouched(text):
    assert MASK(text) == text
