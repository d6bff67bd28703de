"""What is asked, refused before any source is."""

from datetime import date, datetime

import pytest

from context_engine.core.models import MAX_QUERY_CHARS, And, SearchRequest, checked_query, checked_top_k
from context_engine.errors import InvalidFilter, InvalidRequest


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "query is empty"),
        ("   \n\t ", "query is empty"),
        ("\u00a0\u3000", "query is empty"),
        ("x" * 100_000, "query has 100000 characters, at most 10000 are allowed"),
        ("x" * (MAX_QUERY_CHARS + 1), "at most 10000"),
        ("\x00\x01binary", "query holds binary data"),
        ("lone \ud800 surrogate", "query holds binary data"),
        (b"bytes", "query must be text, got bytes"),
        (None, "query must be text, got NoneType"),
        (7, "query must be text, got int"),
        (["a"], "query must be text, got list"),
    ],
)
def test_a_query_that_cannot_be_searched_for(ask, query, message):
    asked = []
    with pytest.raises(InvalidRequest, match=message):
        ask([(1, lambda *given: asked.append(given) or [])], query=query)
    with pytest.raises(InvalidRequest, match=message):
        checked_query(query)
    assert asked == []


@pytest.mark.parametrize("query", ["?", "x" * MAX_QUERY_CHARS, "审批", "MAS Notice 637(4)(b)?: [", "a\tb\nc", "😀"])
def test_a_query_that_can(query):
    assert checked_query(query) == query
    assert SearchRequest(query=query, domain="NPA").query == query


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "must be from 1 to 1000, got 0"),
        (-1, "must be from 1 to 1000, got -1"),
        (1001, "must be from 1 to 1000, got 1001"),
        (10**9, "must be from 1 to 1000, got 1000000000"),
        ("5", "must be a whole number from 1 to 1000, got '5'"),
        (True, "must be a whole number from 1 to 1000, got True"),
        (5.0, "must be a whole number from 1 to 1000, got 5.0"),
        (float("nan"), "must be a whole number"),
        (None, "must be a whole number from 1 to 1000, got None"),
    ],
)
@pytest.mark.parametrize("name", ["stage1_top_k", "stage2_top_k"])
def test_a_top_k_that_cannot_be_used_is_refused_before_any_source_is_asked(ask, name, value, message):
    asked = []
    with pytest.raises(InvalidRequest, match=f"{name} {message}"):
        ask([(1, lambda *given: asked.append(given) or [])], **{name: value})
    with pytest.raises(InvalidRequest, match=f"top_k {message}"):
        checked_top_k(value, "top_k")
    assert asked == []


@pytest.mark.parametrize("value", [1, 8, 1000])
def test_a_top_k_that_can(value):
    assert checked_top_k(value, "top_k") == value


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"domain": ""}, InvalidRequest, "domain is empty"),
        ({"domain": "  "}, InvalidRequest, "domain is empty"),
        ({"require_tiers": (0,)}, InvalidRequest, "require_tiers takes tiers 1 to 5, got 0"),
        ({"require_tiers": (9,)}, InvalidRequest, "got 9"),
        ({"require_tiers": ("1",)}, InvalidRequest, "got '1'"),
        ({"require_tiers": (True,)}, InvalidRequest, "got True"),
        ({"require_sources": "sor"}, InvalidRequest, "require_sources takes a tuple of ids, got 'sor'"),
        ({"principal": {"id": "dora"}}, InvalidRequest, "principal takes a Principal, got dict"),
        ({"as_of": datetime(2025, 6, 30)}, InvalidRequest, "as_of takes a date"),
        ({"as_of": "2025-06-30"}, InvalidRequest, "as_of takes a date, e.g. date.*, got '2025-06-30'"),
        ({"filters": {"year": 2026}}, InvalidFilter, "filters takes a Filter, got dict"),
        ({"filters": "tier<=2"}, InvalidFilter, "filters takes a Filter, got str"),
    ],
)
def test_fields_that_cannot_be_used(fields, error, message):
    with pytest.raises(error, match=message):
        SearchRequest(**{"query": "q", "domain": "NPA", **fields})


def test_a_request_is_frozen():
    request = SearchRequest(query="q", domain="NPA", as_of=date(2025, 6, 30), filters=And(()), require_tiers=(1, 2))
    with pytest.raises(AttributeError):
        request.query = "other"
