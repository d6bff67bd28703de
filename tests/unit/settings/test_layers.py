from __future__ import annotations

import pytest

from context_engine.errors import ConfigError, InvalidRequest
from context_engine.settings import call_layer, config_layer, effective_settings
from context_engine.settings.layers import environment_layer, environment_notices, seed_layer, with_layer


def test_a_file_knows_no_short_names_and_is_named_in_the_error() -> None:
    with pytest.raises(ConfigError) as raised:
        config_layer({"top_k": 3}, "o", file="config/rag-pipeline.json", key="settings")
    assert str(raised.value).startswith("config/rag-pipeline.json: settings.top_k: unknown key.")
    assert config_layer({"top_k": 3, "min_relevance": 0.2}, "pipeline config").keys() == {
        "stage2_top_k",
        "min_relevance_score",
    }


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("CONTEXT_ENGINE_STAGE1_TOP_K", "40.0", "CONTEXT_ENGINE_STAGE1_TOP_K: must be a whole number"),
        ("CONTEXT_ENGINE_STAGE1_TOP_K", "many", "got 'many'"),
        ("CONTEXT_ENGINE_RERANKING_ENABLED", "maybe", "must be true or false, got 'maybe'"),
        ("CONTEXT_ENGINE_MIN_RELEVANCE_SCORE", "NaN", "got nan"),
        ("CONTEXT_ENGINE_SOURCES", "sops", "must be a list"),
        ("CONTEXT_ENGINE_TOKEN_COUNTER", "tiktoken", "got 'tiktoken'. What counts the tokens of chunks"),
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


def test_C4_C6_the_older_names() -> None:
    env = {
        "RAG_MIN_SIMILARITY": "0.0",
        "RAG_MIN_CHUNKS": "2",
        "RAG_COMPARE_MODE": "on",
        "RAG_RERANKER_ENABLED": "false",
        "RAG_RERANKER_TYPE": "cross_encoder",
    }
    assert {key: (setting.value, setting.origin) for key, setting in seed_layer(env).items()} == {
        "min_relevance_score": (0.0, "RAG_MIN_SIMILARITY"),
        "min_chunks": (2, "RAG_MIN_CHUNKS"),
        "compare_mode": (True, "RAG_COMPARE_MODE"),
        "reranking_enabled": (False, "RAG_RERANKER_ENABLED"),
        "reranker": ("cross_encoder", "RAG_RERANKER_TYPE"),
    }
    with pytest.raises(ConfigError, match=r"RAG_RERANKER_TYPE: must be one of noop, cross_encoder, llm, got 'bert'"):
        seed_layer({"RAG_RERANKER_TYPE": "bert"})
    with pytest.raises(ConfigError, match="RAG_MIN_SIMILARITY: must be a number from 0 to 1"):
        seed_layer({"RAG_MIN_SIMILARITY": "1.5"})


def test_variables_that_change_nothing_are_named() -> None:
    found = environment_notices({"CONTEXT_ENGINE_HANDBOOK_FOLDER": "k", "CONTEXT_ENGINE_EMPTY": "", "X": "1"})
    assert [(notice.code, notice.subject) for notice in found] == [
        ("variable_unknown", "CONTEXT_ENGINE_HANDBOOK_FOLDER"),
    ]


def test_a_misspelt_variable_is_an_error_and_not_called_harmless_beside() -> None:
    env = {"CONTEXT_ENGINE_DEDUP_TRESHOLD": "0.9"}
    with pytest.raises(ConfigError, match="Did you mean 'CONTEXT_ENGINE_DEDUP_THRESHOLD'"):
        environment_layer(env)
    assert environment_notices(env) == ()


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
