from __future__ import annotations

from typing import Any

import pytest

from context_engine.errors import ConfigError, InvalidRequest
from context_engine.settings import call_layer, config_layer
from context_engine.settings.files import FromVariable, Unparsed
from context_engine.settings.layers import environment_layer


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"stage1_topk": 5}, "option 'stage1_topk': unknown key. Did you mean 'stage1_top_k'?"),
        ({"stage2_top_k": "5"}, "option 'stage2_top_k': must be a whole number from 1 to 1000, got '5'"),
        ({"stage2_top_k": True}, "must be a whole number from 1 to 1000, got True"),
        ({"top_k": 0}, "option 'top_k': must be a whole number from 1 to 1000, got 0"),
        ({"top_k": 1001}, "got 1001"),
        ({"top_k": 5.0}, "got 5.0"),
        ({"top_k": None}, "got None"),
        ({"min_relevance": -0.01}, "option 'min_relevance': must be a number from 0 to 1, got -0.01"),
        ({"min_relevance": float("nan")}, "got nan"),
        ({"min_relevance": True}, "got True"),
        ({"min_relevance": 0.1, "min_relevance_score": 0.1}, "sets the same as 'min_relevance': keep one of the two"),
        ({"stage2_top_k": 3, "top_k": 3}, "sets the same as 'stage2_top_k'"),
        ({"reranking_enabled": 1}, "must be true or false, got 1"),
        ({"expired": "drop"}, "must be one of flag, demote, refuse, got 'drop'"),
        ({"deadline_s": 0}, "must be a number above 0, up to 600, got 0"),
        ({"context_max_tokens": 1}, "must be a whole number from 64 to 1000000, got 1"),
        ({"similarity_threshold": 2}, "must be a number from -1 to 1 or null, got 2"),
        ({"sources": "sops"}, "must be a list of text or null, got 'sops'"),
        ({"sources": []}, "names no source"),
        ({"authority_boosts": {"tier_1": 2}}, "tier_1: must be a number from 0 to 1, got 2"),
        ({"authority_boosts": {"tier_6": 0.1}}, "tier_6: unknown tier. Valid: tier_1, tier_2"),
        ({"authority_boosts": {"tier_5": 0.9}}, "must not rise from tier 1 to tier 5"),
        ({"authority_boosts": [0.4]}, "must be a mapping, got a list"),
        ({"allowed_groups": ["x"]}, "option 'allowed_groups': this version does not enforce this key"),
        ({"stage1_top_k": "x" * 500}, "..."),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        call_layer(options)
    assert problem in str(raised.value) and len(str(raised.value)) < 250


def test_limits_are_inclusive() -> None:
    assert call_layer({"top_k": 1})["stage2_top_k"].value == 1
    assert call_layer({"top_k": 1000})["stage2_top_k"].value == 1000
    assert call_layer({"min_relevance": 0})["min_relevance_score"].value == 0.0
    assert call_layer({"min_relevance": 1})["min_relevance_score"].value == 1.0


def test_a_value_out_of_a_variable_is_not_shown() -> None:
    with pytest.raises(ConfigError) as raised:
        config_layer({"stage1_top_k": FromVariable("s3cret")}, "f", file="f")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(("text", "value"), [("TRUE", True), ("on", True), ("1", True), ("No", False), ("0", False)])
def test_words_for_flags(text: str, value: bool) -> None:
    assert environment_layer({"CONTEXT_ENGINE_STRICT_THRESHOLDS": text})["strict_thresholds"].value is value


def test_null_is_a_value() -> None:
    layer = environment_layer({"CONTEXT_ENGINE_SIMILARITY_THRESHOLD": "null"})
    assert layer["similarity_threshold"].value is None


def test_text_typed_on_a_command_line_is_shown_and_text_out_of_a_variable_is_not() -> None:
    with pytest.raises(InvalidRequest) as typed:
        call_layer({"relevance_weight": Unparsed("abc")})
    assert str(typed.value) == "option 'relevance_weight': must be a number from 0 to 1, got 'abc'"
    assert call_layer({"relevance_weight": Unparsed("0.5")})["relevance_weight"].value == 0.5
    for key in ("relevance_weight", "dedup_method"):
        with pytest.raises(ConfigError) as hidden:
            config_layer({key: FromVariable("s3cret ")}, "f", file="f")
        assert "s3cret" not in str(hidden.value)
