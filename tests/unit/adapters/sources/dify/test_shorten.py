"""Queries of at most 250 characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.adapters.sources.dify.shorten import shortened

FILLER = "Please tell me in as much detail as you possibly can what the bank has to do "


@pytest.mark.parametrize("query", ["limit", "x" * 250, "😀" * 250, "新" * 250, "  spaced  out  "])
def test_what_fits_is_left_alone(query):
    assert shortened(query) == query


def test_codes_stay_and_function_words_go():
    query = FILLER * 4 + "when NPA-SOP-001 clause 4.2.1(b) says 5 % and FCAA Notice 637 does not"
    found = shortened(query)
    assert len(found) <= 250
    assert {"NPA-SOP-001", "4.2.1(b)", "5", "FCAA", "637"} <= set(found.split())


def test_words_that_came_before_go_first_and_the_order_stays():
    found = shortened("limit " * 100 + "of NPA-001 approval")
    assert found == "limit of NPA-001 approval"


def test_rare_words_before_common_ones():
    common = [f"common{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    words = [word.replace("common", "commonword") for word in common] * 2 + ["extraordinary", "provisioning"]
    found = shortened(" ".join(words)).split()
    assert {"extraordinary", "provisioning"} <= set(found)


def test_text_without_spaces_is_cut_at_its_punctuation():
    found = shortened("新产品审批需要委员会批准，" * 40)
    assert found == "新产品审批需要委员会批准"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=900))
def test_always_fits_always_the_same_and_never_empty(query):
    found = shortened(query)
    assert len(found) <= 250
    assert found == shortened(query)
    assert bool(found.strip()) == bool(query.strip())
    if len(query) > 250:
        assert set("".join(found.split())) <= set(query)
