from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from context_engine.core.models import SourceSpec
from context_engine.settings.messages import allowed_values, field_problem, got, unknown_key


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, "a whole number from 1 to 9"),
        ({"type": "integer", "minimum": 0, "maximum": 1_000_000}, "a whole number from 0 to 1000000"),
        ({"type": "number", "exclusiveMinimum": 0.0, "maximum": 0.5}, "a number above 0, up to 0.5"),
        ({"type": "integer", "minimum": 3}, "a whole number from 3 up"),
        ({"type": "number", "exclusiveMinimum": 0.5}, "a number above 0.5"),
        ({"type": "number"}, "a number"),
        ({"enum": ["a", "b"]}, "one of a, b"),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "true or false or null"),
        ({"type": "array", "items": {"type": "string"}}, "a list of text"),
        ({"type": "array", "items": {"type": "object"}}, "a list of mappings"),
        ({"type": "object"}, "a mapping"),
        ({"type": "string", "pattern": "^(a|b:.+)$"}, "text that matches the pattern ^(a|b:.+)$"),
        ({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}, "a day such as 2025-06-30 or null"),
    ],
)
def test_what_is_allowed_in_words(schema: dict[str, Any], words: str) -> None:
    assert allowed_values(schema) == words


def test_what_was_given_is_shown_in_short() -> None:
    assert got("x") == ", got 'x'" and got([1]) == ", got a list" and got({}) == ", got an empty mapping"
    assert got("x" * 100) == ", got '" + "x" * 56 + "..."


def test_a_key_that_promises_what_is_not_done_is_not_called_misspelt() -> None:
    assert "does not enforce" in unknown_key("retention", ["access", "id"])
    assert "mask_contexts" in unknown_key("pii", ["access", "id"])
    assert unknown_key("titel", ["title", "id"]) == "unknown key. Did you mean 'title'?"
    assert unknown_key("zzz", ["title", "id"]) == "unknown key. Valid: id, title."


def test_other_words_for_an_access_rule_are_answered_with_how_one_is_written() -> None:
    said = "unknown key: to say who may search it, use 'access: {roles: [...]}'."
    assert unknown_key("allowed_roles", ["access", "id"]) == said
    assert "'access: {clearance: CONFIDENTIAL}'" in unknown_key("min_clearance", ["access"])
    elsewhere = unknown_key("acl", ["include", "classification"])
    assert "does not enforce" in elsewhere and "at a domain or a source" in elsewhere


@pytest.mark.parametrize(
    ("written", "meant"), [("authority_tier", "tier"), ("kind", "type"), ("ttl", "ttl_seconds"), ("source_id", "id")]
)
def test_a_key_by_another_name_is_told_the_right_one(written: str, meant: str) -> None:
    assert unknown_key(written, list(SourceSpec.model_fields)) == f"unknown key. Did you mean {meant!r}?"


def test_another_name_for_what_is_not_known_here_is_left_to_spelling() -> None:
    assert unknown_key("ttl", ["title", "id"]) == "unknown key. Did you mean 'title'?"
    assert unknown_key("kind", ["zzz"]) == "unknown key. Valid: zzz."


class Formed(BaseModel):
    """Texts of two forms."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,9}$")] = "a"
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"


@pytest.mark.wording
@pytest.mark.parametrize(
    ("given", "problem"),
    [({"name": "a b"}, "must consist of letters, digits, _ and -"), ({"currency": "usd"}, "must match the pattern")],
)
def test_a_text_of_another_form_names_the_form_that_its_field_has(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Formed(**given)
    (details,) = caught.value.errors()
    assert field_problem(details, details["loc"], Formed).startswith(problem)
