"""Dify's eighteen operators, over what chunks hold."""

from __future__ import annotations

from typing import Any

import pytest

from context_engine.apps.dify.conditions import OPERATORS, read_conditions
from context_engine.core.policy.filters import matches
from context_engine.errors import InvalidFilter

HELD = {
    "title": "NPA rules",
    "tier": 2,
    "year": "2024",
    "day": "2025-03-01",
    "moment": 1740787200.0,
    "tags": ["a", "b"],
}


def holds(name: str, operator: str, value: Any = None) -> bool:
    condition = {"name": name, "comparison_operator": operator, "value": value}
    return matches(read_conditions({"logical_operator": "and", "conditions": [condition]}), HELD)


def test_there_are_eighteen() -> None:
    assert len(OPERATORS) == 18


@pytest.mark.parametrize(
    ("name", "operator", "value", "held"),
    [
        ("title", "contains", "rules", True),
        ("title", "contains", "limits", False),
        ("title", "not contains", "limits", True),
        ("title", "start with", "NPA", True),
        ("title", "end with", "NPA", False),
        ("title", "end with", "rules", True),
        ("title", "is", "NPA rules", True),
        ("title", "is not", "NPA rules", False),
        ("missing", "is not", "x", True),
        ("missing", "empty", None, True),
        ("title", "empty", None, False),
        ("title", "not empty", None, True),
        ("tags", "in", ["b", "c"], True),
        ("tags", "in", "c, b", True),
        ("tags", "in", [], False),
        ("tags", "not in", ["c"], True),
        ("tags", "not in", [], True),
        ("tier", "=", 2, True),
        ("tier", "=", "2", True),
        ("tier", "≠", 2, False),
        ("tier", ">", 1, True),
        ("tier", "<", 2, False),
        ("tier", "≥", 2, True),
        ("tier", "≤", 1, False),
        ("year", "≥", 2024, True),
    ],
)
def test_an_operator(name: str, operator: str, value: Any, held: bool) -> None:
    assert holds(name, operator, value) is held


@pytest.mark.parametrize("name", ["day", "moment"])  # 1740787200 is 2025-03-01T00:00:00Z
@pytest.mark.parametrize("later", [1740873600, "1740873600", "2025-03-02", "2025-03-02T00:00:00Z"])
def test_dates_compare_as_text_and_as_seconds(name: str, later: Any) -> None:
    assert holds(name, "before", later) and not holds(name, "after", later)


@pytest.mark.parametrize("name", ["day", "moment"])
def test_the_same_day_is_neither_before_nor_after(name: str) -> None:
    assert not holds(name, "before", "2025-03-01") and not holds(name, "after", "2025-03-01")


def test_and_and_or() -> None:
    conditions = [
        {"name": "tier", "comparison_operator": "=", "value": 2},
        {"name": "title", "comparison_operator": "is", "value": "other"},
    ]
    assert not matches(read_conditions({"logical_operator": "and", "conditions": conditions}), HELD)
    assert matches(read_conditions({"logical_operator": "or", "conditions": conditions}), HELD)
    assert not matches(read_conditions({"conditions": conditions}), HELD)


def group(join: str, *parts: Any) -> dict[str, Any]:
    return {"logical_operator": join, "conditions": list(parts)}


def test_groups_stand_in_groups() -> None:
    other = {"name": "title", "comparison_operator": "is", "value": "other"}
    two = {"name": "tier", "comparison_operator": "=", "value": 2}
    three = {"name": "tier", "comparison_operator": "=", "value": 3}
    assert matches(read_conditions(group("and", two, group("or", other, two))), HELD)
    assert not matches(read_conditions(group("and", two, group("or", other, three))), HELD)
    assert matches(read_conditions(group("or", three, group("and", two, group("or", other, two)))), HELD)
    assert read_conditions(group("or", group("and"), two)) == read_conditions(group("and", two))
    assert read_conditions(group("and", group("or"), {"conditions": None})) is None


def test_a_mistake_in_a_group_is_told_with_its_place() -> None:
    wrong = {"name": "tier", "comparison_operator": "roughly", "value": 2}
    right = {"name": "tier", "comparison_operator": "=", "value": 2}
    with pytest.raises(InvalidFilter, match="metadata_condition, condition 2, condition 1: unknown operator 'roughly'"):
        read_conditions(group("and", right, group("or", wrong)))
    with pytest.raises(InvalidFilter, match=r"condition 1\.logical_operator must be"):
        read_conditions(group("and", group("xor", right)))


def test_groups_have_an_end() -> None:
    deep: Any = {"name": "tier", "comparison_operator": "=", "value": 2}
    for _ in range(51):
        deep = group("and", deep)
    with pytest.raises(InvalidFilter, match="levels deep"):
        read_conditions(deep)


@pytest.mark.parametrize("nothing", [None, {}, {"conditions": None}, {"logical_operator": "or", "conditions": []}])
def test_no_condition(nothing: Any) -> None:
    assert read_conditions(nothing) is None


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ({"name": "tier", "comparison_operator": ">=", "value": 1}, "unknown operator '>=' for 'tier'"),
        ({"name": "tier", "comparison_operator": "is", "value": None}, "must be a text or a number"),
        ({"name": "tier", "comparison_operator": "is"}, "must be a text or a number"),
        ({"name": "tier", "comparison_operator": "is", "value": ["a"]}, "must be a text or a number"),
        ({"name": "tier", "comparison_operator": "in", "value": 5}, "'in' takes a list"),
        ({"name": "day", "comparison_operator": "after", "value": "soon"}, "'soon' is not a date"),
        ({"comparison_operator": "is", "value": 5}, "has no 'name'"),
        ("text", "must be an object"),
    ],
)
def test_what_dify_would_pass_over_is_refused(condition: Any, told: str) -> None:
    with pytest.raises(InvalidFilter, match=told):
        read_conditions({"logical_operator": "and", "conditions": [condition]})


@pytest.mark.parametrize("value", [[], "x", {"conditions": {}}, {"conditions": [{}], "logical_operator": "xor"}])
def test_a_form_that_is_none(value: Any) -> None:
    with pytest.raises(InvalidFilter):
        read_conditions(value)
