from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from context_engine.core.chunking.strategy import DEFAULT_STRATEGIES
from context_engine.core.models import AuthorityBoosts, Settings
from context_engine.errors import ConfigError
from context_engine.settings import Config, ConfigPaths, load_config, read_config

Write = Callable[[Mapping[str, Any]], ConfigPaths]


def load(paths: ConfigPaths, **env: str) -> Config:
    return load_config(paths, env=env)


def test_A25_without_any_file_the_defaults_are_in_force(write: Write) -> None:
    config = load(write({}))
    assert config.resolver().base().values == Settings()
    assert config.chunking == DEFAULT_STRATEGIES
    assert config.connections.names == () and config.notices == ()


def test_A25_the_seed_s_file(write: Write) -> None:
    keys = {
        "stage1_top_k": 50,
        "stage2_top_k": 10,
        "min_relevance_score": 0.2,
        "max_chunk_tokens": 400,
        "dedup_threshold": 0.9,
        "reranking_enabled": False,
    }
    strategies = {"chunking_strategies": {"sop_document": {"chunk_size": 256}}}
    config = load(write({"config/rag-pipeline.json": {**keys, **strategies}}))
    effective = config.resolver().base()
    assert effective.values.model_dump(include=set(keys)) == keys
    assert effective.origins == dict.fromkeys(keys, "config/rag-pipeline.json")
    assert (config.chunking["sop_document"].chunk_size, config.chunking["sop_document"].overlap) == (256, 64)


def test_a_file_may_hold_its_settings_in_groups_with_flat_ones_beside_them(write: Write) -> None:
    pipeline = {
        "stage2_top_k": 5,
        "search": {"stage1_top_k": "${K}", "authority_boosts": {"tier_1": 0.45}},
        "index": {"max_chunk_tokens": 256},
        "limits": {"source_concurrency": 4},
        "models": {"reranker": "jina", "reranker_options": {"connection": "models"}},
        "chunking_strategies": {"sop_document": {"chunk_size": 200}},
    }
    config = load(write({"config/rag-pipeline.json": pipeline}), K="30")
    effective = config.resolver().base()
    values = effective.values
    assert (values.stage2_top_k, values.stage1_top_k, values.authority_boosts.tier_1) == (5, 30, 0.45)
    assert (values.max_chunk_tokens, values.source_concurrency, values.reranker) == (256, 4, "jina")
    assert values.reranker_options == {"connection": "models"}
    assert set(effective.origins.values()) == {"config/rag-pipeline.json"} and len(effective.origins) == 7
    assert config.chunking["sop_document"].chunk_size == 200
    above = load_config(config.paths, env={"K": "30", "CONTEXT_ENGINE_SOURCE_CONCURRENCY": "6"}).resolver().base()
    assert above.values.source_concurrency == 6
    assert above.origins["source_concurrency"] == "CONTEXT_ENGINE_SOURCE_CONCURRENCY"


def test_values_out_of_variables_are_read_by_the_type_of_their_key(write: Write) -> None:
    paths = write(
        {
            "config/rag-pipeline.json": {"stage1_top_k": "${K:-50}", "expired": "${E}", "reranking_enabled": "${R}"},
            "config/chunking.json": {"sop_document": {"chunk_size": "${SIZE}"}},
            "config/authority.json": {"boosts": {"1": "${ONE}"}, "relevance_weight": "${W}"},
        }
    )
    config = load(paths, E="demote", R="no", SIZE="300", ONE="0.45", W="0.55")
    values = config.resolver().base().values
    assert (values.stage1_top_k, values.expired, values.reranking_enabled) == (50, "demote", False)
    assert (values.authority_boosts.tier_1, values.relevance_weight) == (0.45, 0.55)
    assert config.chunking["sop_document"].chunk_size == 300


def test_authority_json(write: Write) -> None:
    paths = write({"config/authority.json": {"authority_weight": 0.3, "boosts": {"1": 0.5, "5": 0.05}}})
    effective = load(paths).resolver().base()
    assert effective.values.authority_boosts == AuthorityBoosts(tier_1=0.5, tier_5=0.05)
    assert effective.values.authority_weight == 0.3
    assert effective.origins["authority_boosts"] == "config/authority.json"


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"rag-pipeline.json": {"stage1_topk": 1}}, "rag-pipeline.json: stage1_topk: unknown key. Did you mean"),
        (
            {"rag-pipeline.json": {"stage1_top_k": "40"}},
            "stage1_top_k: must be a whole number from 1 to 1000, got '40'",
        ),
        ({"rag-pipeline.json": {"access": {}}}, "access: this version does not enforce this key"),
        ({"rag-pipeline.json": {"stage1_top_k": "${NONE}"}}, "stage1_top_k: the variable NONE is not set"),
        ({"rag-pipeline.json": {"chunking_strategies": []}}, "chunking_strategies: must be a mapping"),
        (
            {"rag-pipeline.json": {"chunking_strategies": {"x": {"size": 1}}}},
            "chunking_strategies.x: unknown field 'size'",
        ),
        ({"chunking.json": {"sop_document": {"overlap": 600}}}, "config/chunking.json: sop_document: overlap 600"),
        ({"authority.json": {"boost": {}}}, "config/authority.json: boost: unknown key. Did you mean 'boosts'?"),
        (
            {"authority.json": {"boosts": {"0": 1}}},
            "config/authority.json: boosts.0: unknown tier. Valid: 1, 2, 3, 4, 5.",
        ),
        ({"authority.json": {"boosts": {"1": 0.1}}}, "config/authority.json: boosts: authority boosts must not rise"),
        ({"authority.json": {"boosts": [1]}}, "config/authority.json: boosts: must be a mapping of tier to boost"),
        (
            {"personas.json": {"p": {"max_result": 1}}},
            "personas.json: p.max_result: unknown key. Did you mean 'max_results'?",
        ),
        ({"personas.json": {"p": {"max_results": 0}}}, "p.stage2_top_k: must be a whole number"),
        (
            {"personas.json": {"p": {"rerank": True, "reranking_enabled": True}}},
            "p.reranking_enabled: sets the same as another",
        ),
        ({"personas.json": {"p": 3}}, "personas.json: p: must be a mapping"),
        (
            {"personas.json": {"p": {"merge_method": "rrf"}}},
            "personas.json: p.merge_method: is the same for all searches of an engine: set it in rag-pipeline.json",
        ),
        (
            {"personas.json": {"p": {"query_max_chars": 100}}},
            "personas.json: p.query_max_chars: is a limit for all searches: set it in rag-pipeline.json",
        ),
        (
            {"rag-pipeline.json": {"search": {"relevance_weight": 0.5}}, "authority.json": {"relevance_weight": 0.5}},
            "config/authority.json: relevance_weight: is also set in config/rag-pipeline.json",
        ),
        (
            {"rag-pipeline.json": {"index": {"deadline_s": 5}}},
            "rag-pipeline.json: index.deadline_s: belongs to 'search': move it to search.deadline_s",
        ),
        (
            {"rag-pipeline.json": {"relevance_weight": 0.5}, "authority.json": {"relevance_weight": 0.5}},
            "config/authority.json: relevance_weight: is also set in config/rag-pipeline.json",
        ),
        (
            {"rag-pipeline.json": {"chunking_strategies": {"x": {}}}, "chunking.json": {"x": {}}},
            "config/rag-pipeline.json: chunking_strategies: is also set in config/chunking.json",
        ),
    ],
)
def test_what_cannot_be_used_is_told_with_file_and_key(write: Write, files: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(write({f"config/{name}": content for name, content in files.items()}))
    assert problem in str(raised.value)


def test_B4_B28_a_persona_in_its_own_words(write: Write) -> None:
    row = {"similarity_threshold": 0.75, "max_results": 20, "min_results": 5, "rerank": True, "namespaces": ["sops"]}
    config = load(
        write(
            {"config/personas.json": {"researcher": row}, "config/rag-pipeline.json": {"similarity_kind": "weighted"}}
        )
    )
    values = config.resolver().base(persona="researcher").values
    assert (values.similarity_threshold, values.similarity_kind) == (0.75, "cosine")
    assert (values.stage2_top_k, values.min_chunks, values.reranking_enabled, values.sources) == (
        20,
        5,
        True,
        ("sops",),
    )
    assert config.resolver().base().values.similarity_kind == "weighted"


def test_reading_goes_on_after_a_problem(write: Write) -> None:
    paths = write(
        {
            "config/rag-pipeline.json": {"stage1_top_k": 0},
            "config/personas.json": {"p": {"x": 1}, "q": {"y": 1}},
            "config/chunking.json": "{",
            "config/authority.json": {"authority_weight": 0.3},
            "config/connections.yaml": "dify: {base_url: 'ftp://x'}",
        }
    )
    env = {"RAG_MIN_CHUNKS": "x", "CONTEXT_ENGINE_MIN_CHUNKS": "-1", "CONTEXT_ENGINE_STAGE": "uat"}
    _, problems = read_config(paths, env=env)
    assert [(problem.file, problem.key) for problem in problems] == [
        (None, "CONTEXT_ENGINE_STAGE"),
        ("config/connections.yaml", "dify.base_url"),
        ("config/rag-pipeline.json", "stage1_top_k"),
        (None, "RAG_MIN_CHUNKS"),
        (None, "CONTEXT_ENGINE_MIN_CHUNKS"),
        ("config/personas.json", "p.x"),
        ("config/personas.json", "q.y"),
        ("config/chunking.json", None),
    ]


def test_weights_of_the_files_are_checked_together_with_those_of_the_environment(write: Write) -> None:
    paths = write({"config/authority.json": {"relevance_weight": 0.9}})
    with pytest.raises(ConfigError, match=r"^config/authority.json: relevance_weight: .* set authority_weight to 0.1"):
        load_config(paths, env={})
    config = load_config(paths, env={"CONTEXT_ENGINE_AUTHORITY_WEIGHT": "0.05"})
    assert config.resolver().base().values.authority_weight == 0.05
