"""Newer texts come first where relevance is about equal, and only there."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.engine.comparison import ComparisonStep, compare
from context_engine.core.models import Chunk
from context_engine.core.ranking.select import newer_first, newness
from context_engine.service.comparing import code_of

TODAY = date(2026, 3, 2)


def dated(day: date | None) -> Chunk:
    return Chunk(content="text", effective_from=day)


def test_newness_halves_in_two_years():
    assert newness(TODAY, TODAY) == 1.0
    assert newness(TODAY - timedelta(days=730), TODAY) == 0.5
    assert newness(TODAY - timedelta(days=1460), TODAY) == 0.25
    assert newness(TODAY + timedelta(days=9), TODAY) == 1.0
    assert newness(None, TODAY) == 0.5


def test_relevance_loses_the_weight_times_the_lost_newness():
    chunks = [dated(TODAY), dated(TODAY - timedelta(days=730)), dated(None)]
    assert newer_first([0.8, 0.8, 0.01], chunks, TODAY, 0.1) == [0.8, 0.8 - 0.1 * 0.5, 0.0]
    assert newer_first([0.8, 0.8, 0.01], chunks, TODAY, 0.0) == [0.8, 0.8, 0.01]


def test_a_document_without_a_first_day_is_dated_by_its_own_date():
    own = Chunk(content="text", metadata={"date": "2024-03-02"})
    assert newer_first([0.5], [own], TODAY, 0.2) == [0.5 - 0.2 * (1.0 - 0.5 ** (730 / 730))]


DAYS = st.none() | st.dates(date(1990, 1, 1), date(2030, 1, 1))
UNIT = st.floats(0.0, 1.0)


@given(UNIT, UNIT, DAYS, DAYS, st.floats(0.0, 0.2))
def test_no_text_overtakes_another_that_is_clearly_more_relevant(first, second, day, other, weight):
    before, after = [first, second], newer_first([first, second], [dated(day), dated(other)], TODAY, weight)
    assert all(0.0 <= value <= own for value, own in zip(after, before))
    if first - second > weight + 1e-9:
        assert after[0] > after[1]


@pytest.fixture
def answered(ask, chunk_of):
    old = chunk_of("old", 0.70, "A loss is reported within four hours.")._replace(effective_from=date(2018, 1, 1))
    new = chunk_of("new", 0.68, "Losses are told to the register at once.")._replace(effective_from=date(2026, 1, 1))
    return lambda **settings: ask([(2, [old, new])], query="when is a loss reported", **settings)


def test_a_search_puts_the_newer_of_two_equals_first_and_recomputes_to_the_same_bytes(answered):
    assert [chunk.chunk_id for chunk in answered().chunks] == ["old", "new"]
    result = answered(recency_weight=0.05)
    assert [chunk.chunk_id for chunk in result.chunks] == ["new", "old"]
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_a_comparison_names_recency_as_the_reason(answered):
    changes = {change.key[1]: change for change in compare(answered(recency_weight=0.05)).changes}
    assert changes["new"].cause is ComparisonStep.RECENCY
    assert code_of(changes["new"]) == "newer"
