"""Small values: scores, times, the shared empty mapping, canonical JSON, the public names."""

import copy
import importlib
import pickle
import pkgutil
from datetime import UTC, datetime, timedelta, timezone

import pytest

import context_engine.core.models
from context_engine.core.models import (
    NOTHING,
    Chunk,
    Classification,
    Score,
    ScoreKind,
    TrustClass,
    canonical_json,
    default_trust,
    usable_score,
    utc_text,
)


def test_a_chunk_gives_the_score_of_a_kind():
    chunk = Chunk(content="x", scores=(Score(ScoreKind.BM25, 0.0), Score(ScoreKind.COSINE, 0.5)))
    assert (chunk.score(ScoreKind.COSINE), chunk.score(ScoreKind.BM25)) == (0.5, 0.0)
    assert chunk.score(ScoreKind.RERANK) is None


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 3, 2, 10, tzinfo=UTC), "2026-03-02T10:00:00Z"),
        (datetime(2026, 3, 2, 18, tzinfo=timezone(timedelta(hours=8))), "2026-03-02T10:00:00Z"),
        (datetime(2026, 3, 2, 10, 0, 0, 1000, tzinfo=UTC), "2026-03-02T10:00:00.001000Z"),
    ],
)
def test_moments_are_written_in_utc_with_a_z(moment, text):
    assert utc_text(moment) == text


def test_a_set_is_a_list_in_one_order():
    chunk = Chunk(content="text", metadata={"tags": {"b", "a", "c"}, "years": frozenset({2026, 2025})})
    assert chunk.to_dict()["metadata"] == {"tags": ["a", "b", "c"], "years": [2025, 2026]}


def test_the_empty_mapping_stays_empty_and_stays_itself():
    with pytest.raises(TypeError, match="pass a mapping of your own"):
        NOTHING["a"] = 1
    with pytest.raises(TypeError):
        NOTHING.update(a=1)
    with pytest.raises(TypeError):
        NOTHING.setdefault("a", 1)
    assert NOTHING == {}
    assert pickle.loads(pickle.dumps(Chunk(content="x"))).metadata is NOTHING
    assert copy.deepcopy(NOTHING) is NOTHING


@pytest.mark.parametrize(
    ("kind", "inside", "outside"),
    [
        (ScoreKind.RELEVANCE, [0.0, 1.0, 0], [-1e-9, 1.0000001]),
        (ScoreKind.COSINE, [-1.0, 1.0, 1.0000001], [-1.1, 1.1, 12.4]),
        (ScoreKind.WEIGHTED, [0.0, 1.0, 1.0000001], [-0.1, 1.1]),
        (ScoreKind.RRF, [0.0, 0.0328, 5.0], [-0.1]),
        (ScoreKind.BM25, [0.0, 40.0], [-0.1]),
        (ScoreKind.FULLTEXT, [0.0, 40.0], [-0.1]),
        (ScoreKind.LEXICAL, [0.0, 40.0], [-0.1]),
        (ScoreKind.RERANK, [0.0, 1.0, -9.0, 9.0], []),
        (ScoreKind.UNKNOWN, [-1e9, 1e9], []),
    ],
)
def test_what_a_number_of_a_kind_may_be(kind, inside, outside):
    for value in inside:
        assert usable_score(kind, value) == value
    for value in [*outside, float("nan"), float("inf"), -float("inf"), None, True, "high", [], 10**400]:
        assert usable_score(kind, value) is None


def test_every_kind_has_been_thought_of():
    assert len(ScoreKind) == 9


def test_classifications_are_ordered():
    assert [one.rank for one in Classification] == [0, 1, 2, 3]
    assert Classification.PUBLIC.rank < Classification.RESTRICTED.rank


def test_tiers_1_to_4_are_trusted_by_default():
    assert [default_trust(tier) for tier in range(1, 6)] == [TrustClass.TRUSTED] * 4 + [TrustClass.UNTRUSTED]


def test_canonical_json_does_not_depend_on_the_order_of_keys():
    assert canonical_json({"b": 1, "a": {"d": "é", "c": [1, 2]}}) == '{"a":{"c":[1,2],"d":"é"},"b":1}'
    assert canonical_json({"a": {"c": [1, 2], "d": "é"}, "b": 1}) == canonical_json(
        {"b": 1, "a": {"d": "é", "c": [1, 2]}}
    )
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


CORE = (
    "errors",
    *(f"core.{room}" for room in ("models", "protocols", "text", "ranking", "policy", "engine")),
    "adapters.rerankers",
    "adapters.sources.callable",
)


def modules():
    for name in CORE:
        module = importlib.import_module(f"context_engine.{name}")
        yield module
        for info in pkgutil.iter_modules(getattr(module, "__path__", [])):
            yield importlib.import_module(f"{module.__name__}.{info.name}")


@pytest.mark.parametrize(
    "module", [module for module in modules() if hasattr(module, "__all__")], ids=lambda one: one.__name__
)
def test_public_names_exist_and_are_sorted(module):
    names = list(module.__all__)
    assert all(hasattr(module, name) for name in names)
    assert len(set(names)) == len(names)

    def rank(name):
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    assert names == sorted(names, key=rank)


def test_what_the_models_package_gives_is_defined_in_one_of_its_modules():
    own = set()
    for info in pkgutil.iter_modules(context_engine.core.models.__path__):
        own.update(vars(importlib.import_module(f"context_engine.core.models.{info.name}")))
    assert set(context_engine.core.models.__all__) <= own
