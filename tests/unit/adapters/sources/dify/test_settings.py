"""What a manifest may say of a Dify source."""

import pytest
from pydantic import ValidationError

from context_engine.adapters.sources.dify import DifySettings, check_dify
from context_engine.core.models import SourceSpec
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
