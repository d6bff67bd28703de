"""What a manifest may say of a Dify source."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from context_engine.adapters.sources.dify import DifySettings, check_dify
from context_engine.adapters.sources.dify.settings import SharedDataset, shared_datasets
from context_engine.core.models import DomainSpec, SourceSpec
from context_engine.core.policy.access import OPEN_ACCESS, ManifestPolicy
from context_engine.errors import ConfigError

ID = "b644b4ec-c827-43bf-b869-905045e19833"


def spec(**fields):
    return SourceSpec(
        **{"id": "s", "type": "bank_sop", "adapter": "dify", "connection": "c", "dataset_ids": (ID,), **fields}
    )


def test_the_defaults():
    found = check_dify(spec())
    assert (found.max_calls, found.attempts, found.cache_ttl_s, found.stale_s) == (40, 3, 60.0, 0.0)
    assert (found.legs, found.cosine, found.metadata.used()) == ((), False, {})


@pytest.mark.parametrize(
    ("fields", "key", "words"),
    [
        ({"connection": None}, "sources.s.connection", "name one of connections.yaml"),
        ({"dataset_ids": ()}, "sources.s.dataset_ids", "at least one"),
        ({"dataset_ids": ("not-a-uuid",)}, "sources.s.dataset_ids", "copy the UUID"),
        ({"dataset_ids": (ID.replace("-", ""),)}, "sources.s.dataset_ids", "copy the UUID"),
        ({"settings": {"max_call": 1}}, "sources.s.settings.max_call", "max_calls"),
        ({"settings": {"max_calls": 0}}, "sources.s.settings.max_calls", "at least 1"),
        ({"settings": {"legs": ["semantic"]}}, "sources.s.settings.legs", "[semantic, full_text]"),
        ({"settings": {"vector_store": "weaviat"}}, "sources.s.settings.vector_store", "weaviate"),
        ({"settings": {"metadata": {"tier": "x"}}}, "sources.s.settings.metadata.tier", "unknown key"),
        ({"settings": {"stale_s": float("nan")}}, "sources.s.settings.stale_s", ""),
    ],
)
def test_what_cannot_be_used_is_named(fields, key, words):
    with pytest.raises(ConfigError) as raised:
        check_dify(spec(**fields))
    assert raised.value.key == key
    assert words in raised.value.problem


@pytest.mark.parametrize("store", ["pgvector", "weaviate", "qdrant"])
def test_stores_that_give_cosine(store):
    assert DifySettings(vector_store=store).cosine


@pytest.mark.parametrize("store", ["chroma", "milvus", "elasticsearch", "opensearch", "other"])
def test_stores_that_give_other_numbers(store):
    assert not DifySettings(vector_store=store).cosine


def test_settings_are_frozen():
    with pytest.raises(ValidationError):
        DifySettings().max_calls = 1


ONE, TWO = "0000000a-0000-4000-8000-000000000001", "0000000b-0000-4000-8000-000000000002"

ANALYST, BOARD = {"roles": ["analyst"]}, {"roles": ["board"]}


def domain(name: str, *sources: dict[str, Any], **fields: Any) -> DomainSpec:
    rows = [{"type": "bank_sop", "adapter": "dify", "connection": "dify", **source} for source in sources]
    return DomainSpec(version=1, domain=name, sources=rows, **fields)


def found(*domains: DomainSpec) -> tuple[SharedDataset, ...]:
    return shared_datasets(domains, ManifestPolicy({one.domain: one for one in domains}))


def test_a_second_source_with_another_rule_is_a_second_door() -> None:
    rules = {"id": "rules", "dataset_ids": [ONE, TWO], "access": ANALYST}
    copy = {"id": "copy", "dataset_ids": [ONE.upper()]}
    assert found(domain("A", rules, copy)) == (SharedDataset(ONE, ("copy", "rules")),)
    assert found(domain("A", rules, {**copy, "access": ANALYST})) == ()
    assert found(domain("A", rules), domain("B", {**copy, "access": BOARD})) == (SharedDataset(ONE, ("copy", "rules")),)


def test_the_rules_of_the_domains_count() -> None:
    rules, copy = {"id": "rules", "dataset_ids": [ONE]}, {"id": "copy", "dataset_ids": [ONE]}
    assert found(domain("A", rules, access=ANALYST), domain("B", copy)) == (SharedDataset(ONE, ("copy", "rules")),)
    assert found(domain("A", rules, access=ANALYST), domain("B", copy, access=ANALYST)) == ()


def test_a_classification_is_a_condition_where_there_is_a_rule() -> None:
    low = {"id": "low", "dataset_ids": [ONE], "classification": "internal"}
    high = {"id": "high", "dataset_ids": [ONE], "classification": "restricted"}
    assert found(domain("A", low, high)) == ()
    assert found(domain("A", low, high, access=ANALYST)) == (SharedDataset(ONE, ("high", "low")),)


def test_one_source_and_no_policy_have_nothing_to_differ() -> None:
    rules = {"id": "rules", "dataset_ids": [ONE], "access": ANALYST}
    assert found(domain("A", rules), domain("B", {"id": "other", "dataset_ids": [TWO]})) == ()
    both = [domain("A", rules, {"id": "copy", "dataset_ids": [ONE]})]
    assert shared_datasets(both, OPEN_ACCESS) == ()
