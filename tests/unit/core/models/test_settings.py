"""Settings: defaults, strict values, origins."""

import math

import pytest
from pydantic import ValidationError

from context_engine.core.models import (
    GROUPS,
    AuditSettings,
    AuthorityBoosts,
    CacheSettings,
    CostSettings,
    DomainSettings,
    EffectiveSettings,
    EventSettings,
    JobSettings,
    KeptRecords,
    MaskedOutputs,
    ModelSettings,
    PrivacySettings,
    QualitySettings,
    RankingSettings,
    SearchSettings,
    ServerSettings,
    Settings,
    TelemetrySettings,
    group_of,
)
from context_engine.core.models.deployment_settings import DomainCostLimits


def test_the_seeds_defaults():
    """A4, A9, A10, A12, A15, A26, A27."""
    settings = Settings()
    assert (settings.stage1_top_k, settings.stage2_top_k, settings.min_relevance_score) == (40, 8, 0.15)
    assert (settings.max_chunk_tokens, settings.dedup_threshold, settings.reranking_enabled) == (512, 0.85, True)
    assert (settings.relevance_weight, settings.authority_weight) == (0.6, 0.4)
    assert [settings.authority_boosts.of(tier) for tier in range(1, 6)] == [0.40, 0.30, 0.20, 0.10, 0.00]
    assert (settings.deadline_s, settings.source_timeout_s, settings.min_chunks) == (20.0, 10.0, 0)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("stage1_top_k", [0, -1, "5", True, 5.0, 1001, 10**9, None]),
        ("stage2_top_k", [0, -1, "5", True, 5.0, 1001, 10**9, None]),
        ("min_relevance_score", [-0.1, 1.1, math.nan, math.inf, "0.5", True]),
        ("scope_threshold", [-0.1, 1.1, math.nan, "0.5"]),
        ("min_chunks", [-1, 1001, True, "2", 1.5]),
        ("max_chunk_tokens", [0, 15, 8193, True]),
        ("dedup_threshold", [0.0, -1, 1.1, math.nan]),
        ("dedup_method", ["fuzzy", "", None]),
        ("relevance_weight", [-0.1, 1.1, math.nan]),
        ("authority_weight", [-0.1, 1.1, math.nan]),
        ("rerank_weight", [-0.1, 1.1, math.nan]),
        ("reranking_enabled", [1, 0, "true", "yes", None]),
        ("similarity_threshold", [-1.1, 1.1, math.nan, "0.7"]),
        ("similarity_kind", ["unknown", "lexical", "cos", None]),
        ("expired", ["ignore", "", None]),
        ("sources", ["sor", [1], {"a": 1}]),
        ("deadline_s", [0, -1, math.inf, math.nan, 601, "20"]),
        ("source_timeout_s", [0, -1, math.inf, math.nan, 601]),
        ("source_concurrency", [0, 257, True]),
        ("scope_by_kind", [{"duration": 0.2}, {"code": 2.0}, {"code": "auto"}, 0.2]),
        ("graph_hops", [-1, 3, True, "1", 1.0]),
        ("graph_edges", [[], ["LIKES"], "CITES", None]),
        ("graph_most", [0, 101, True]),
        ("graph_weight", [-0.1, 1.1, math.nan]),
        ("stage1_topk", [40]),
        ("access", [{}]),
    ],
)
def test_values_that_cannot_be_used(key, values):
    for value in values:
        with pytest.raises(ValidationError, match=key):
            Settings.model_validate({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("min_relevance_score", 0),
        ("min_relevance_score", 1),
        ("dedup_threshold", 1.0),
        ("similarity_threshold", 0),
        ("deadline_s", 600),
        ("sources", ["sor", "sops"]),
        ("sources", ("sor",)),
        ("scope_threshold", None),
    ],
)
def test_values_at_the_edge(key, value):
    assert getattr(Settings.model_validate({key: value}), key) in (value, tuple(value) if key == "sources" else value)


def test_boosts_may_be_equal_but_never_rise_with_the_tier():
    assert AuthorityBoosts(tier_1=0.2, tier_2=0.2, tier_3=0.2).of(3) == 0.2
    with pytest.raises(ValidationError, match="authority boosts must not rise from tier 1 to tier 5"):
        AuthorityBoosts(tier_5=0.5)
    with pytest.raises(ValidationError):
        AuthorityBoosts(tier_1=1.1)
    with pytest.raises(ValidationError):
        AuthorityBoosts(tier_6=0.0)


def test_the_scope_threshold_is_calibrated_unless_it_is_set():
    assert Settings().scope_threshold == "auto"
    assert Settings(scope_threshold=0.0).scope_threshold == 0.0
    assert Settings(scope_threshold=None).scope_threshold is None
    with pytest.raises(ValidationError):
        Settings(scope_threshold="automatic")


def test_settings_are_frozen():
    with pytest.raises(ValidationError):
        Settings().stage1_top_k = 5


def test_effective_settings_tell_value_and_origin_of_every_key():
    effective = EffectiveSettings(values=Settings(stage2_top_k=10), origins={"stage2_top_k": "call"})
    shown = effective.to_dict()
    assert list(shown) == list(Settings.model_fields)
    assert shown["stage2_top_k"] == {"value": 10, "origin": "call"}
    assert shown["stage1_top_k"] == {"value": 40, "origin": "default"}
    assert shown["authority_boosts"]["value"]["tier_1"] == 0.4


def test_the_two_weights_are_together_at_most_one():
    assert Settings(relevance_weight=0.9, authority_weight=0.1 + 1e-10).authority_weight > 0.1
    with pytest.raises(ValidationError, match=r"relevance_weight 0.9 and authority_weight 0.4 .* set authority_weight"):
        Settings(relevance_weight=0.9)
    with pytest.raises(ValidationError, match="lower one of them"):
        Settings(relevance_weight=0.5, authority_weight=0.5 + 1e-8)


def test_each_key_is_in_one_group():
    keys = [key for group in GROUPS.values() for key in group.model_fields]
    assert sorted(keys) == sorted(Settings.model_fields)
    assert not GROUPS.keys() & set(keys), "a file could not tell a group from a key of its name"
    assert [group_of(key) for key in ("mmr_lambda", "max_chunk_tokens", "source_concurrency", "reranker", "rrf_k")] == [
        *("search", "index", "limits", "models", "models")
    ]
    of_the_deployment = set(PrivacySettings.model_fields) - set(MaskedOutputs.model_fields)
    of_the_deployment |= set(AuditSettings.model_fields) - set(KeptRecords.model_fields)
    of_the_deployment |= set(CostSettings.model_fields) - set(DomainCostLimits.model_fields)
    of_the_deployment |= set(TelemetrySettings.model_fields) | set(ServerSettings.model_fields)
    of_the_deployment |= (
        set(CacheSettings.model_fields) | set(EventSettings.model_fields) | set(JobSettings.model_fields)
    )
    of_the_deployment |= set(QualitySettings.model_fields)
    not_a_domains = {*ModelSettings.model_fields, *of_the_deployment}
    assert set(DomainSettings.model_fields) == set(Settings.model_fields) - not_a_domains


def test_settings_are_given_to_who_asks_for_a_group_whole_or_as_the_group_alone():
    settings = Settings(stage2_top_k=5, reranker="jina")
    assert isinstance(settings, SearchSettings) and isinstance(settings, ModelSettings)
    assert settings.group(SearchSettings) == SearchSettings(stage2_top_k=5)
    assert settings.group(ModelSettings) == ModelSettings(reranker="jina")
    assert set(settings.group(RankingSettings).model_dump()) == set(RankingSettings.model_fields)


def test_a_group_has_no_key_of_another():
    for group in GROUPS.values():
        for key in Settings.model_fields.keys() - group.model_fields.keys():
            with pytest.raises(ValidationError, match=key):
                group.model_validate({key: getattr(Settings(), key)})
