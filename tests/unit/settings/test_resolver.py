from __future__ import annotations

import pytest

from context_engine.core.models import DomainSpec, SearchRequest
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.settings import SettingsResolver, config_layer
from context_engine.settings.layers import environment_layer, seed_layer
from context_engine.settings.resolver import persona_layers


def domain(**settings: object) -> DomainSpec:
    sources = [{"id": "sops", "type": "bank_sop"}]
    return DomainSpec.model_validate({"version": 1, "domain": "NPA", "sources": sources, "settings": settings})


def request(persona: str | None = None, **overrides: object) -> SearchRequest:
    return SearchRequest(query="q", domain="NPA", persona=persona, overrides=overrides)


def test_B5_each_layer_wins_over_those_below_it() -> None:
    """One key, taken away from the highest layer downwards."""
    top = {"stage1_top_k": 7}
    expected = [
        (7, "call"),
        (6, "pipeline config"),
        (5, "persona p (config/personas.json)"),
        (4, "domain NPA (manifests/npa.yaml)"),
        (3, "CONTEXT_ENGINE_STAGE1_TOP_K"),
        (1, "config/rag-pipeline.json"),
        (40, "default"),
    ]
    for absent in range(7):
        resolver = SettingsResolver(
            environment=environment_layer({"CONTEXT_ENGINE_STAGE1_TOP_K": "3"} if absent < 5 else {}),
            files=config_layer({"stage1_top_k": 1} if absent < 6 else {}, "config/rag-pipeline.json"),
            personas=persona_layers({"p": {"stage1_top_k": 5} if absent < 3 else {}}, "config/personas.json"),
            domain_files={"NPA": "manifests/npa.yaml"},
        ).with_pipeline({"stage1_top_k": 6} if absent < 2 else {})
        spec = domain(**({"stage1_top_k": 4} if absent < 4 else {}))
        settings = resolver.resolve(spec, request("p", **(top if absent < 1 else {})))
        entry = settings.to_dict()["stage1_top_k"]
        assert (entry["value"], entry["origin"]) == expected[absent]


def test_the_new_names_win_over_the_older_ones_and_those_over_files() -> None:
    old = {"RAG_MIN_SIMILARITY": "0.3"}
    files = config_layer({"min_relevance_score": 0.1}, "f", file="f")
    both = SettingsResolver(
        environment=environment_layer({"CONTEXT_ENGINE_MIN_RELEVANCE_SCORE": "0.4"}), seeds=seed_layer(old), files=files
    )
    assert both.base().values.min_relevance_score == 0.4
    assert SettingsResolver(seeds=seed_layer(old), files=files).base().values.min_relevance_score == 0.3


def test_an_unknown_persona_names_the_nearest() -> None:
    resolver = SettingsResolver(personas=persona_layers({"researcher": {}}, "f"))
    with pytest.raises(InvalidRequest, match=r"unknown persona 'reseacher'\. Did you mean 'researcher'"):
        resolver.resolve(domain(), request("reseacher"))
    with pytest.raises(InvalidRequest, match=r"personas\.json names none"):
        SettingsResolver().resolve(domain(), request("x"))


def test_settings_of_a_domain_are_checked_with_their_place() -> None:
    resolver = SettingsResolver(domain_files={"NPA": "manifests/npa.yaml"})
    with pytest.raises(ConfigError, match=r"manifests/npa.yaml: settings.min_chunks: must be a whole number"):
        resolver.resolve(domain(min_chunks=-1), request())


def test_pipelines_do_not_touch_each_other() -> None:
    base = SettingsResolver()
    one, two = base.with_pipeline({"stage2_top_k": 3}), base.with_pipeline({"top_k": 4})
    spec = domain()
    values = [each.resolve(spec, request()).values.stage2_top_k for each in (one, two, base, one)]
    assert values == [3, 4, 8, 3]
    with pytest.raises(ConfigError, match=r"pipeline config: stage2_topk: unknown key\. Did you mean 'stage2_top_k'"):
        base.with_pipeline({"stage2_topk": 3})


def test_without_own_options_the_cached_settings_are_returned_and_never_those_of_another_domain() -> None:
    resolver = SettingsResolver()
    one, same_name = domain(min_chunks=1), domain(min_chunks=2)
    first = resolver.resolve(one, request())
    assert resolver.resolve(one, request()) is first
    assert resolver.resolve(same_name, request()).values.min_chunks == 2
    assert resolver.resolve(one, request(min_chunks=3)).values.min_chunks == 3
    assert resolver.resolve(one, request()).values.min_chunks == 1
    assert resolver.resolve(None, request()).values.min_chunks == 0


@pytest.mark.parametrize("key", ["cache_ttl_s", "cache_unversioned_ttl_s"])
def test_a_call_may_shorten_a_lifetime_of_the_cache_but_not_lengthen_it(key: str) -> None:
    spec = domain(**{key: 60.0})
    resolver = SettingsResolver(personas=persona_layers({"patient": {key: 600.0}}, "personas.json"))
    for seconds, persona in ((0.0, None), (60.0, None), (600.0, "patient")):
        values = resolver.resolve(spec, request(persona, **{key: seconds})).values
        assert getattr(values, key) == seconds
    with pytest.raises(InvalidRequest, match=rf"option '{key}': .* \(60 s, from domain NPA\), not lengthen it"):
        resolver.resolve(spec, request(**{key: 60.5}))
    with pytest.raises(InvalidRequest, match=r"\(0 s, from default\)"):
        resolver.resolve(domain(), request(**{key: 1.0}))


def test_the_cache_is_bounded() -> None:
    resolver = SettingsResolver()
    for number in range(600):
        spec = domain().model_copy(update={"domain": f"D{number}"})
        assert resolver.resolve(spec, request()).values.stage1_top_k == 40
    assert len(resolver._cache) <= 256
