"""Precision and recall on made lines with look-alikes; the benchmark `bench_masking.py` runs all 2,000."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("stdnum")
pytest.importorskip("phonenumbers")

from context_engine.adapters.maskers import PersonalDataOptions, open_personal_data
from context_engine.core.policy.masking import PseudonymMask

_PATH = Path(__file__).parents[3] / "benchmarks" / "masking_lines.py"
_SPEC = importlib.util.spec_from_file_location("masking_lines", _PATH)
made = importlib.util.module_from_spec(_SPEC)
sys.modules["masking_lines"] = made
_SPEC.loader.exec_module(made)

MASKER = open_personal_data(PersonalDataOptions(countries=made.COUNTRIES, phone_regions=made.PHONE_REGIONS))


def places(text):
    return ((one.kind, one.start, one.end) for one in MASKER.find(text))


def check(count: int) -> None:
    found = made.tallies(made.lines(count), places)
    for kind in made.KINDS:
        assert found[kind].precision >= 0.98, (kind, found[kind])
        assert found[kind].recall >= 0.98, (kind, found[kind])


def test_precision_and_recall_of_every_kind_on_a_part():
    check(300)


@pytest.mark.slow
def test_precision_and_recall_of_every_kind_on_all_lines():
    check(2000)


def test_no_true_value_is_left_and_masked_again_a_line_stays():
    mask = PseudonymMask([MASKER], b"k" * 32)
    for line in made.lines(100):
        masked = mask(line.text)
        assert mask(masked) == masked
        assert not any(line.text[start:end] in masked for kind, start, end in line.truth if kind in ("CARD", "IBAN"))


def test_check_digits_of_the_made_lines_are_those_of_their_rules():
    assert made.luhn_digit("7992739871") == "3"
    assert made.iban("DE", "370400440532013000") == "DE89370400440532013000"
    assert made.resident_number("11010519491231002") == "11010519491231002X"
