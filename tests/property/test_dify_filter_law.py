"""What is sent to Dify lets through no less than the filter, by Dify's own law as the fake keeps it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from context_engine.adapters.sources.dify.query import push_down
from context_engine.core.models import And, Condition, Filter, FilterOp, Not, Or
from context_engine.core.policy.filters import matches
from context_engine.testing import FakeDataset, FakeDocument
from context_engine.testing.fake_dify.retrieve import matching_documents
from context_engine.testing.fake_dify.stored import store

TYPES = {"kind": "string", "owner": "string", "year": "number", "review": "time"}
WORDS = st.sampled_from(
    ["sop", "SOP", "Sop", "policy note", "新规", "2024", "2024.0", "2025-01-01", "a_b", "5%", "-x", "ß"]
)
NUMBERS = st.one_of(st.integers(2020, 2026), st.sampled_from([2024.0, 2024.5, 0, -1]))
METADATA = st.fixed_dictionaries(
    {}, optional={"kind": WORDS, "owner": WORDS, "year": NUMBERS, "review": st.integers(0, 2_000_000_000)}
)
LISTS = (FilterOp.IN, FilterOp.NOT_IN)
BARE = (FilterOp.EMPTY, FilterOp.NOT_EMPTY)


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    op = draw(st.sampled_from(list(FilterOp)))
    value: Any = None
    if op in LISTS:
        value = tuple(draw(st.lists(WORDS | NUMBERS, max_size=3)))
    elif op not in BARE:
        value = draw(WORDS | NUMBERS)
    if op in (FilterOp.CONTAINS, FilterOp.NOT_CONTAINS, FilterOp.STARTS_WITH, FilterOp.ENDS_WITH):
        value = str(value)
    return Condition(draw(st.sampled_from([*TYPES, "tier", "unknown"])), op, value)


FILTERS: st.SearchStrategy[Filter] = st.recursive(
    conditions(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, max_size=3).map(lambda parts: Or(tuple(parts))),
        inner.map(Not),
    ),
    max_leaves=6,
)


def fields_of(metadata: dict[str, Any]) -> dict[str, Any]:
    return {**metadata, "tier": 2, "source_id": "s"}


def spelled_oddly(have: Any) -> bool:
    """Whether a text is equal to another for us that is not one of the spellings that are sent."""
    return isinstance(have, str) and have.casefold() != have.lower()


@given(FILTERS, st.lists(METADATA, max_size=4))
def test_dify_drops_nothing_that_keeps_the_filter(filter: Filter, rows: list[dict[str, Any]]) -> None:
    pushed = push_down(filter, TYPES, {})
    if pushed.conditions is None:
        return
    documents = [FakeDocument(str(number), ["x"], row or None) for number, row in enumerate(rows)]
    stored = store(FakeDataset("d", documents=documents), 0)
    kept = matching_documents(stored, pushed.conditions)
    for row, document in zip(rows, stored.documents, strict=True):
        if matches(filter, fields_of(row)) and not any(map(spelled_oddly, row.values())):
            assert document.id in kept, (row, pushed.conditions)


@given(FILTERS, METADATA)
def test_what_is_said_whole_says_the_same(filter: Filter, row: dict[str, Any]) -> None:
    pushed = push_down(filter, TYPES, {})
    if pushed.conditions is None or not pushed.complete:
        return
    stored = store(FakeDataset("d", documents=[FakeDocument("0", ["x"], row or None)]), 0)
    if matching_documents(stored, pushed.conditions):
        assert matches(filter, fields_of(row)), (row, pushed.conditions)
