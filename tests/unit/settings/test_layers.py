from __future__ import annotations

import json
from typing import Any

import pytest

from context_engine.core.models import Settings
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.settings import call_layer, config_layer, effective_settings
from context_engine.settings.interpolate import FromVariable, Written
from context_engine.settings.layers import environment_layer, environment_notices, seed_layer, with_layer

OTHER: dict[str, Any] = {
    "stage1_top_k": 50,
    "stage2_top_k": 5,
    "min_relevance_score": 0.2,
    "min_chunks": 2,
    "scope_threshold": 0.1,
    "max_chunk_tokens": 256,
    "token_counter": "tiktoken:cl100k_base",
    "dedup_threshold": 0.9,
    "dedup_method": "exact",
    "relevance_weight": 0.5,
    "authority_weight": 0.3,
    "authority_boosts": {"tier_1": 0.5},
    "reranking_enabled": False,
    "reranker": "acme",
    "reranker_options": {"model": "m"},
    "rerank_weight": 0.25,
    "rerank_top_n": 3,
    "rerank_timeout_s": 1.5,
    "similarity_threshold": 0.75,
    "similarity_kind": "weighted",
    "strict_thresholds": True,
    "max_per_document": 3,
    "mmr_lambda": 0.7,
    "query_expansion": False,
    "query_expansion_weight": 0.5,
    "multi_query": True,
    "exact_first": False,
    "word_segmenter": "lindera",
    "query_max_chars": 500,
    "query_refinement": False,
    "query_refiner": "openai",
    "query_refiner_options": {"connection": "llm"},
    "query_refiner_timeout_s": 1.5,
    "embedder": "onnx",
    "embedder_options": {"model": "m"},
    "merge_method": "rrf",
    "keyword_weight": 0.4,
    "vector_weight": 0.6,
    "rrf_k": 10,
    "pairs_weight": 0.3,
    "head_weight": 0.1,
    "section_weight": 0.3,
    "sibling_weight": 0.1,
    "neighbour_weight": 0.05,
    "title_boost": 0.3,
    "definition_boost": 0.4,
    "expired": "refuse",
    "sources": ["sops"],
    "deadline_s": 5,
    "source_timeout_s": 2.5,
    "source_concurrency": 4,
    "context_max_tokens": 1000,
}


def test_the_table_of_other_values_is_complete() -> None:
    assert list(OTHER) == list(Settings.model_fields)


@pytest.mark.parametrize("key", list(OTHER))
def test_every_key_can_be_given_in_a_call_a_file_and_the_environment(key: str) -> None:
    value = OTHER[key]
    wanted = getattr(Settings.model_validate({key: value}), key)
    assert wanted != getattr(Settings(), key)
    variable = f"CONTEXT_ENGINE_{key.upper()}"
    text = value if isinstance(value, str) else json.dumps(value)
    for layer, origin in (
        (call_layer({key: value}), "call"),
        (
            config_layer({key: value}, "config/rag-pipeline.json", file="config/rag-pipeline.json"),
            "config/rag-pipeline.json",
        ),
        (config_layer({key: FromVariable(text)}, "f", file="f"), "f"),
        (environment_layer({variable: text}), variable),
    ):
        settings = effective_settings(call=layer)
        assert getattr(settings.values, key) == wanted
        assert settings.origins == {key: origin}


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
        ({"min_relevance": 0.1, "min_relevance_score": 0.1}, "says the same as 'min_relevance': give one of the two"),
        ({"stage2_top_k": 3, "top_k": 3}, "says the same as 'stage2_top_k'"),
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


def test_a_file_knows_no_short_names_and_is_named_in_the_error() -> None:
    with pytest.raises(ConfigError) as raised:
        config_layer({"top_k": 3}, "o", file="config/rag-pipeline.json", key="settings")
    assert str(raised.value).startswith("config/rag-pipeline.json: settings.top_k: unknown key.")
    assert config_layer({"top_k": 3, "min_relevance": 0.2}, "pipeline config").keys() == {
        "stage2_top_k",
        "min_relevance_score",
    }


def test_a_value_out_of_a_variable_is_not_shown() -> None:
    with pytest.raises(ConfigError) as raised:
        config_layer({"stage1_top_k": FromVariable("s3cret")}, "f", file="f")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(("text", "value"), [("TRUE", True), ("on", True), ("1", True), ("No", False), ("0", False)])
def test_words_for_flags(text: str, value: bool) -> None:
    assert environment_layer({"CONTEXT_ENGINE_STRICT_THRESHOLDS": text})["strict_thresholds"].value is value


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("CONTEXT_ENGINE_STAGE1_TOP_K", "40.0", "CONTEXT_ENGINE_STAGE1_TOP_K: must be a whole number"),
        ("CONTEXT_ENGINE_STAGE1_TOP_K", "many", "got 'many'"),
        ("CONTEXT_ENGINE_RERANKING_ENABLED", "maybe", "must be true or false, got 'maybe'"),
        ("CONTEXT_ENGINE_MIN_RELEVANCE_SCORE", "NaN", "got nan"),
        ("CONTEXT_ENGINE_SOURCES", "sops", "must be a list"),
        ("CONTEXT_ENGINE_STAGE1_TOPK", "4", "Did you mean 'CONTEXT_ENGINE_STAGE1_TOP_K'?"),
    ],
)
def test_an_environment_that_cannot_be_used(name: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=r"CONTEXT_ENGINE_") as raised:
        environment_layer({name: text})
    assert problem in str(raised.value)


def test_empty_variables_and_those_of_others_set_nothing() -> None:
    env = {"CONTEXT_ENGINE_STAGE1_TOP_K": "", "CONTEXT_ENGINE_STAGE": "uat", "STAGE1_TOP_K": "3", "RAG_MIN_CHUNKS": ""}
    assert environment_layer(env) == {} and seed_layer(env) == {}


def test_null_is_a_value() -> None:
    layer = environment_layer({"CONTEXT_ENGINE_SIMILARITY_THRESHOLD": "null"})
    assert layer["similarity_threshold"].value is None


def test_C4_C6_the_older_names() -> None:
    env = {
        "RAG_MIN_SIMILARITY": "0.0",
        "RAG_MIN_CHUNKS": "2",
        "RAG_RERANKER_ENABLED": "false",
        "RAG_RERANKER_TYPE": "cross_encoder",
    }
    assert {key: (setting.value, setting.origin) for key, setting in seed_layer(env).items()} == {
        "min_relevance_score": (0.0, "RAG_MIN_SIMILARITY"),
        "min_chunks": (2, "RAG_MIN_CHUNKS"),
        "reranking_enabled": (False, "RAG_RERANKER_ENABLED"),
        "reranker": ("cross_encoder", "RAG_RERANKER_TYPE"),
    }
    with pytest.raises(ConfigError, match=r"RAG_RERANKER_TYPE: must be one of noop, cross_encoder, llm, got 'bert'"):
        seed_layer({"RAG_RERANKER_TYPE": "bert"})
    with pytest.raises(ConfigError, match="RAG_MIN_SIMILARITY: must be a number from 0 to 1"):
        seed_layer({"RAG_MIN_SIMILARITY": "1.5"})


def test_variables_that_change_nothing_are_named() -> None:
    found = environment_notices({"RAG_COMPARE_MODE": "on", "CONTEXT_ENGINE_DIFY_KEY": "k", "X": "1"})
    assert [(notice.code, notice.subject) for notice in found] == [
        ("variable_without_effect", "RAG_COMPARE_MODE"),
        ("variable_unknown", "CONTEXT_ENGINE_DIFY_KEY"),
    ]


def test_the_seeds_names_of_hybrid_search() -> None:
    given = {
        "HYBRID_SEARCH_ENABLED": "true",
        "HYBRID_MERGE_METHOD": "rrf",
        "HYBRID_VECTOR_WEIGHT": "0.4",
        "HYBRID_KEYWORD_WEIGHT": "0.6",
        "RRF_K": "10",
    }
    values = {key: setting.value for key, setting in seed_layer(given).items()}
    assert values == {"merge_method": "rrf", "vector_weight": 0.4, "keyword_weight": 0.6, "rrf_k": 10}


def test_hybrid_search_switched_off_means_no_embedder() -> None:
    layer = seed_layer({"HYBRID_SEARCH_ENABLED": "false"})
    found = effective_settings(seeds=layer, files=config_layer({"embedder": "onnx"}, "f", file="f"))
    assert found.values.embedder is None and found.origins["embedder"] == "HYBRID_SEARCH_ENABLED"
    with pytest.raises(ConfigError, match="HYBRID_SEARCH_ENABLED: must be true or false"):
        seed_layer({"HYBRID_SEARCH_ENABLED": "maybe"})


def test_a_layer_over_settings_changes_only_its_keys() -> None:
    base = effective_settings(files=config_layer({"stage1_top_k": 50, "min_chunks": 1}, "f", file="f"))
    over = with_layer(base, call_layer({"top_k": 3}))
    assert (over.values.stage1_top_k, over.values.min_chunks, over.values.stage2_top_k) == (50, 1, 3)
    assert over.origins == {"stage1_top_k": "f", "min_chunks": "f", "stage2_top_k": "call"}
    assert base.values.stage2_top_k == 8 and "stage2_top_k" not in base.origins


def test_weights_that_add_up_to_more_than_one_are_refused_with_the_other_one_to_set() -> None:
    """0.9 + 0.4 = 1.3; 0.9 leaves 0.1, and 0.9 + 0.1 is 1 however floats round."""
    both = "relevance_weight 0.9 and authority_weight 0.4 add up to more than 1: "
    with pytest.raises(InvalidRequest) as asked:
        effective_settings(call=call_layer({"relevance_weight": 0.9}))
    assert str(asked.value) == f"{both}set authority_weight to 0.1 or less too"
    file = config_layer({"relevance_weight": 0.9}, "config/authority.json", file="config/authority.json")
    with pytest.raises(ConfigError) as written:
        effective_settings(files=file)
    assert (
        str(written.value) == f"config/authority.json: relevance_weight: {both}set authority_weight to 0.1 or less too"
    )
    given = {"relevance_weight": 0.9, "authority_weight": 0.4}
    with pytest.raises(InvalidRequest, match="lower one of them"):
        effective_settings(call=call_layer(given))
    mended = effective_settings(files=file, call=call_layer({"authority_weight": 0.1}))
    assert (mended.values.relevance_weight, mended.values.authority_weight) == (0.9, 0.1)
    with pytest.raises(InvalidRequest, match=r"set relevance_weight to 0\.3 or less too"):
        effective_settings(call=call_layer({"authority_weight": 0.7}))


def test_text_typed_on_a_command_line_is_shown_and_text_out_of_a_variable_is_not() -> None:
    with pytest.raises(InvalidRequest) as typed:
        call_layer({"relevance_weight": Written("abc")})
    assert str(typed.value) == "option 'relevance_weight': must be a number from 0 to 1, got 'abc'"
    assert call_layer({"relevance_weight": Written("0.5")})["relevance_weight"].value == 0.5
    for key in ("relevance_weight", "dedup_method"):
        with pytest.raises(ConfigError) as hidden:
            config_layer({key: FromVariable("s3cret ")}, "f", file="f")
        assert "s3cret" not in str(hidden.value)
