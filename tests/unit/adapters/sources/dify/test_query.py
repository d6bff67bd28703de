"""Our filters in Dify's words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.adapters.sources.dify.query import push_down, shortened
from context_engine.core.policy.filters import parse_filter

FIELDS = {"kind": "string", "year": "number", "review": "time", "odd": "unknown", "title": "string"}


def rows(text, names=None):
    pushed = push_down(parse_filter(text), FIELDS, names or {})
    return (pushed.conditions and pushed.conditions["conditions"]), pushed.complete


def row(name, operator, value):
    return {"name": name, "comparison_operator": operator, "value": value}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("year=2024", row("year", "=", 2024.0)),
        ("year>2024", row("year", ">", 2024.0)),
        ("year>=2024", row("year", "≥", 2024.0)),
        ("year<2024", row("year", "<", 2024.0)),
        ("year<=2024", row("year", "≤", 2024.0)),
        ("review>=1735689600", row("review", "≥", 1735689600.0)),
        ("kind=新", row("kind", "is", "新")),
        ("kind~新", row("kind", "contains", "新")),
        ("kind is not empty", row("kind", "not empty", "")),
        ("kind=sop", row("kind", "in", ["sop", "SOP", "Sop"])),
        ({"kind_in": ["sop", "新"]}, row("kind", "in", ["sop", "SOP", "Sop", "新"])),
    ],
)
def test_what_dify_can_test(text, expected):
    assert rows(text) == ([expected], True)


@pytest.mark.parametrize(
    "text",
    [
        "kind=2024",  # equal to 2024.0 for us, not for Dify
        "kind>a", "kind~sop", "kind~5%", "kind~新_",
        "year~20", "kind is empty", "odd=1", "unknown=x", "title=x", "tier=1", "source_id=s",
        "year=soon", {"not": {"kind": "sop"}}, {"year_in": [2024]}, {"kind_in": []}, {"kind_nin": []}, "year!=2024",
    ],
)  # fmt: skip
def test_what_stays_here(text):
    assert rows(text) == (None, False)


def test_of_an_and_what_can_be_said_is_said():
    assert rows("year>2024; tier=1") == ([row("year", ">", 2024.0)], False)
    assert rows("year>2024; kind=新") == ([row("year", ">", 2024.0), row("kind", "is", "新")], True)


def test_an_or_is_said_whole_or_not_at_all():
    pushed = push_down(parse_filter({"or": [{"year": 2024}, {"kind": "新"}]}), FIELDS, {})
    assert pushed.conditions == {
        "logical_operator": "or",
        "conditions": [row("year", "=", 2024), row("kind", "is", "新")],
    }
    assert pushed.complete
    assert rows({"or": [{"year": 2024}, {"tier": 1}]}) == (None, False)


def test_a_negative_lets_documents_without_the_field_through():
    pushed = push_down(parse_filter("kind!=sop"), FIELDS, {})
    assert pushed.conditions == {
        "logical_operator": "or",
        "conditions": [row("kind", "not in", ["sop"]), row("kind", "empty", "")],
    }


def test_names_of_the_manifest():
    assert rows("version=新", {"document_version": "kind"}) == ([row("kind", "is", "新")], True)
    assert rows("document_version=新", {"document_version": "kind"}) == ([row("kind", "is", "新")], True)


def test_no_filter_is_nothing_and_never_an_empty_list():
    assert push_down(None, FIELDS, {}) == (None, True)
    assert push_down(parse_filter({"and": []}), FIELDS, {}) == (None, True)
    assert push_down(parse_filter({"or": []}), FIELDS, {}) == (None, False)


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
