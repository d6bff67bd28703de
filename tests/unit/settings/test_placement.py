"""Which settings a call, a domain and a file may set, and what is said to those who set another."""

from __future__ import annotations

import json
from typing import Any

import pytest

from context_engine.core.models import (
    DomainSettings,
    SearchSettings,
    Settings,
    group_of,
    lifetime,
)
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.settings import call_layer, config_layer, effective_settings
from context_engine.settings.files import FromVariable
from context_engine.settings.layers import check_names, environment_layer

FILE = "config/rag-pipeline.json"
OTHER: dict[str, Any] = {
    "stage2_top_k": 5,
    "min_relevance_score": 0.2,
    "min_chunks": 2,
    "scope_threshold": 0.1,
    "similarity_threshold": 0.75,
    "similarity_kind": "weighted",
    "dedup_threshold": 0.9,
    "dedup_method": "exact",
    "relevance_weight": 0.5,
    "authority_weight": 0.3,
    "authority_boosts": {"tier_1": 0.5},
    "reranking_enabled": False,
    "rerank_weight": 0.25,
    "learnt_blend": {
        "measured_by": "weighted",
        "terms": {"stage1": {"weight": 1.5, "mean": 0.5, "deviation": 0.25}},
    },
    "max_per_document": 3,
    "mmr_lambda": 0.7,
    "recency_weight": 0.05,
    "expired": "refuse",
    "graph_hops": 2,
    "graph_edges": ["CITES"],
    "graph_most": 5,
    "graph_weight": 0.4,
    "query_expansion": False,
    "query_expansion_weight": 0.5,
    "multi_query": True,
    "word_segmenter": "lindera",
    "query_refinement": False,
    "query_refiner_timeout_s": 1.5,
    "scope_by_kind": {"code": 0.2},
    "stage1_top_k": 50,
    "sources": ["sops"],
    "strict_thresholds": True,
    "exact_first": False,
    "rerank_by": "deep",
    "rerank_top_n": 3,
    "deadline_s": 5,
    "source_timeout_s": 2.5,
    "soft_deadline_s": 1.5,
    "rerank_timeout_s": 1.5,
    "context_max_tokens": 1000,
    "context_untrusted_share": 0.5,
    "cache_ttl_s": 60.5,
    "cache_unversioned_ttl_s": 5.5,
    "max_chunk_tokens": 256,
    "token_counter": "tiktoken:cl100k_base",
    "query_max_chars": 500,
    "source_concurrency": 4,
    "audit_query": "digest",
    "audit_retention_days": 365,
    "mask_contexts": True,
    "mask_stored_queries": True,
    "cost_limit_request": 0.05,
    "cost_limit_job": 2,
    "cost_limit_domain_day": 20.5,
    "answer_unsupported": "refuse",
    "workflow": "agentic",
    "workflow_policy": "model",
    "workflow_rounds": 4,
    "workflow_hops": 2,
    "workflow_deadline_s": 30.5,
    "workflow_languages": ["en", "zh"],
    "merge_method": "rrf",
    "keyword_weight": 0.4,
    "vector_weight": 0.6,
    "cosine_floor": 0.5,
    "rrf_k": 10,
    "pairs_weight": 0.3,
    "head_weight": 0.1,
    "synonym_weight": 0.2,
    "section_weight": 0.3,
    "sibling_weight": 0.1,
    "neighbour_weight": 0.05,
    "title_boost": 0.3,
    "definition_boost": 0.4,
    "adapter": "off",
    "vector_form": "int8",
    "vector_dimensions": 256,
    "embedder": "onnx",
    "embedder_options": {"model": "m"},
    "reranker": "acme",
    "reranker_options": {"model": "m"},
    "rerankers": {"deep": {"reranker": "cross_encoder"}},
    "query_refiner": "openai",
    "query_refiner_options": {"connection": "llm"},
    "chat_model": "openai",
    "chat_model_options": {"connection": "llm"},
    "entailment": "acme",
    "entailment_options": {"model": "nli"},
    "prices": [
        {
            "model": "m",
            "valid_from": "2026-01-01",
            "currency": "USD",
            "input_per_million": 2.5,
            "output_per_million": 10,
        }
    ],
    "cost_limit_day": 100,
    "mask_logs": True,
    "mask_kinds": ["iban"],
    "mask_countries": ["SG"],
    "mask_phone_regions": ["SG"],
    "mask_patterns": {"staff": "STF-[0-9]{5}"},
    "mask_allow": ["@bank.example"],
    "maskers": {"acme_names": {}},
    "audit_mode": "required",
    "audit_origin": "audit.bank.example/retrieval",
    "audit_buffer": 50,
    "audit_timeout_s": 2.5,
    "audit_checkpoint_records": 100,
    "audit_checkpoint_s": 60.5,
    "audit_checkpoint_file": "checkpoints.txt",
    "audit_checkpoint_command": ["logger"],
    "audit_strict": True,
    "audit_witnesses": ["witness"],
    "tracing": True,
    "trace_content": True,
    "event_sinks": {"webhook": {"connection": "alarms"}},
    "event_source": "https://search.bank.example",
    "quality_check_s": 60.5,
    "quality_past_days": 30,
    "quality_run_length": 1000,
    "experiments": {"deep": {"domain": "NPA", "b": {"rerank_by": "deep"}}},
    "experiment_arm": "deep/b",
    "jobs_connection": "bank",
    "cache_memory_mb": 128,
    "server_max_concurrent": 4,
    "server_max_waiting": 8,
    "server_max_wait_s": 2.5,
    "server_max_body_bytes": 4096,
    "server_max_query_chars": 500,
    "server_max_top_k": 20,
    "server_max_candidates": 50,
    "server_max_deadline_s": 12.5,
    "server_rate_per_minute": 30,
    "server_rate_burst": 5,
    "server_drain_s": 2.5,
    "server_stop_s": 4.5,
    "server_allowed_hosts": ["rag.bank.example"],
    "server_allowed_origins": ["https://assistant.bank.example"],
    "server_pages": False,
    "server_public_url": "https://search.bank.example",
    "compare_mode": True,
    "compare_file": "comparisons.jsonl",
}


def test_the_table_of_other_values_is_complete() -> None:
    assert list(OTHER) == list(Settings.model_fields)


@pytest.mark.parametrize("key", list(OTHER))
def test_every_key_can_be_set_by_the_deployment_flat_or_in_its_group(key: str) -> None:
    value = OTHER[key]
    wanted = getattr(Settings.model_validate({key: value}), key)
    assert wanted != getattr(Settings(), key)
    variable = f"CONTEXT_ENGINE_{key.upper()}"
    text = value if isinstance(value, str) else json.dumps(value)
    for layer, origin in (
        (config_layer({key: value}, FILE, file=FILE), FILE),
        (config_layer({group_of(key): {key: value}}, FILE, file=FILE), FILE),
        (config_layer({group_of(key): {key: FromVariable(text)}}, "f", file="f"), "f"),
        (config_layer({key: FromVariable(text)}, "f", file="f"), "f"),
        (config_layer({key: value}, "pipeline config"), "pipeline config"),
        (environment_layer({variable: text}), variable),
    ):
        settings = effective_settings(files=layer)
        assert getattr(settings.values, key) == wanted
        assert settings.origins == {key: origin}


@pytest.mark.parametrize("key", list(OTHER))
def test_a_call_sets_what_each_search_may_have_its_own_value_of(key: str) -> None:
    if key in SearchSettings.model_fields:
        settings = effective_settings(call=call_layer({key: OTHER[key]}))
        assert getattr(settings.values, key) == getattr(Settings.model_validate({key: OTHER[key]}), key)
        assert settings.origins == {key: "call"}
        return
    with pytest.raises(InvalidRequest) as refused:
        call_layer({key: OTHER[key]})
    assert str(refused.value).startswith(f"option {key!r}: {lifetime(key)}: set it in rag-pipeline.json, in ")
    assert f"in CONTEXT_ENGINE_{key.upper()}" in str(refused.value)
    with pytest.raises(InvalidRequest) as by_name:
        check_names([key], beside=[])
    assert str(by_name.value) == str(refused.value)


@pytest.mark.parametrize("key", list(OTHER))
def test_a_domain_sets_all_but_the_models_and_what_counts_as_personal_data(key: str) -> None:
    values = {key: OTHER[key]}
    if key in DomainSettings.model_fields:
        assert config_layer(values, "o", file="f", model=DomainSettings).keys() == {key}
        return
    with pytest.raises(ConfigError, match=f"f: settings.{key}: {lifetime(key)}"):
        config_layer(values, "o", file="f", key="settings", model=DomainSettings)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"search": {"reranker": "jina"}}, "f: search.reranker: belongs to 'models': move it to models.reranker"),
        (
            {"models": {"stage2_top_k": 5}},
            "f: models.stage2_top_k: belongs to 'search': move it to search.stage2_top_k",
        ),
        ({"search": {"stage2_topk": 5}}, "f: search.stage2_topk: unknown key. Did you mean 'stage2_top_k'?"),
        ({"search": {"stage2_top_k": 0}}, "f: search.stage2_top_k: must be a whole number from 1 to 1000, got 0"),
        ({"limits": {"limits": {}}}, "f: limits.limits: is a group of settings in rag-pipeline.json"),
        ({"limits": 5}, "f: limits: must be a mapping of keys to values, got 5"),
        ({"index": ["max_chunk_tokens"]}, "f: index: must be a mapping of keys to values, got a list"),
        (
            {"stage2_top_k": 5, "search": {"stage2_top_k": 5}},
            "f: search.stage2_top_k: sets the same as 'stage2_top_k': keep one of the two",
        ),
        (
            {"search": {"stage2_top_k": 5}, "stage2_top_k": 6},
            "f: stage2_top_k: sets the same as 'search.stage2_top_k': keep one of the two",
        ),
        ({"hidden_cells": "read"}, "f: hidden_cells: is a setting of ingest: set it in ingest.json or in "),
        ({"x.stage2_top_k": 5}, "f: x.stage2_top_k: unknown key. Did you mean"),
        ({"serach": {"stage2_top_k": 5}}, "f: serach: unknown key. Did you mean 'search'?"),
    ],
)
def test_a_key_in_the_wrong_place_of_a_file_is_refused_and_its_place_named(
    values: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        config_layer(values, "f", file="f")
    assert str(refused.value).startswith(problem)


def test_a_model_that_a_call_names_is_refused_with_the_switch_that_it_has() -> None:
    with pytest.raises(InvalidRequest, match="; to do without, set reranking_enabled to false"):
        call_layer({"reranker": "noop"})
    with pytest.raises(InvalidRequest, match="; to do without, set query_refinement to false"):
        call_layer({"query_refiner": None})


def test_a_limit_may_be_set_in_a_manifest_and_the_message_says_so() -> None:
    with pytest.raises(InvalidRequest) as refused:
        call_layer({"source_concurrency": 4})
    assert str(refused.value) == (
        "option 'source_concurrency': is a limit for all searches: set it in rag-pipeline.json, in "
        "CONTEXT_ENGINE_SOURCE_CONCURRENCY, in the manifest of a domain or in the pipeline config"
    )


@pytest.mark.parametrize("group", ["search", "limits", "index", "models"])
def test_groups_are_for_files_and_pipeline_configs(group: str) -> None:
    with pytest.raises(
        InvalidRequest, match=f"option '{group}': is a group of settings in rag-pipeline.json: set its keys here"
    ):
        call_layer({group: {}})
    with pytest.raises(
        ConfigError, match=f"settings.{group}: is a group of settings in rag-pipeline.json: set its keys here"
    ):
        config_layer({group: {}}, "o", file="f", key="settings", model=DomainSettings)
