"""Which of several rerankers runs: the engine's own, or one that a persona or a call names."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from context_engine.adapters.rerankers import CallableReranker
from context_engine.core.models import Chunk, EffectiveSettings, Score, ScoreKind, SearchRequest, Settings
from context_engine.core.protocols import Reranker
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.settings import find_config
from context_engine.wiring.adapters import RERANKERS
from context_engine.wiring.build import build_engine
from context_engine.wiring.check import check
from context_engine.wiring.models import RerankerChoice
from context_engine.wiring.setup import load_setup

CONFIG = {
    "reranker": "half",
    "rerankers": {"deep": {"reranker": "fixed", "options": {"score": 0.75}}, "plain": {"reranker": "half"}},
}
MANIFEST = "version: 1\ndomain: NPA\nsources:\n  - {id: sops, type: bank_sop, adapter: given}\n"


def half() -> Reranker:
    return CallableReranker(lambda _query, texts: [0.5 for _ in texts], name="half")


def fixed(options, _context) -> Reranker:
    score = options["score"]
    return CallableReranker(lambda _query, texts: [score for _ in texts], name=f"fixed {score}")


class Given:
    """A source with one chunk."""

    score_kinds = frozenset({ScoreKind.RELEVANCE})

    def __init__(self, spec, _context):
        self.source_id = spec.id

    def search(self, _query):
        from context_engine.core.models import SourceAnswer

        return SourceAnswer(chunks=(Chunk(content="A rule.", scores=(Score(ScoreKind.RELEVANCE, 0.9),)),))

    def close(self):
        pass


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Build an engine; the arguments are files of `config/`."""
    package = ModuleType("reranker_package")
    package.__dict__.update(half=half, fixed=fixed, given=Given)
    monkeypatch.setitem(sys.modules, "reranker_package", package)
    rerankers = [EntryPoint(name, f"reranker_package:{name}", RERANKERS) for name in ("half", "fixed")]
    sources = [EntryPoint("given", "reranker_package:given", "context_engine.sources")]

    def entry_points(*, group, name=None):
        return [one for one in (*rerankers, *sources) if one.group == group and name in (None, one.name)]

    monkeypatch.setattr("context_engine.wiring.adapters.entry_points", entry_points)

    def build(pipeline, personas=None, **options):
        for name, content in (("rag-pipeline.json", pipeline), ("personas.json", personas or {})):
            (tmp_path / "config").mkdir(exist_ok=True)
            (tmp_path / "config" / name).write_text(json.dumps(content), "utf-8")
        (tmp_path / "manifests").mkdir(exist_ok=True)
        (tmp_path / "manifests" / "npa.yaml").write_text(MANIFEST, "utf-8")
        return build_engine(cwd=tmp_path, env={}, data_dir=tmp_path / "data", **options)

    return build


def searched(engine, persona=None, **overrides):
    return engine.search(SearchRequest(query="rule", domain="NPA", persona=persona, overrides=overrides))


def test_a_persona_names_its_reranker_and_a_call_goes_before_it(engine):
    with engine(CONFIG, {"careful": {"rerank_by": "deep"}}) as built:
        results = [searched(built), searched(built, "careful"), searched(built, "careful", rerank_by="plain")]
        names = [built.reranker_name(result.settings.values) for result in results]
    assert [result.chunks[0].rerank_score for result in results] == [0.5, 0.75, 0.5]
    assert names == ["half", "fixed 0.75", "half"]
    # .5 * .9 + .5 * .75
    assert results[1].chunks[0].relevance == 0.5 * 0.9 + 0.5 * 0.75
    assert results[1].settings.origins["rerank_by"] == "persona careful (config/personas.json)"


def test_without_a_reranker_for_all_a_persona_may_have_one(engine):
    pipeline = {key: value for key, value in CONFIG.items() if key != "reranker"}
    with engine(pipeline, {"careful": {"rerank_by": "deep"}}) as built:
        scores = [searched(built, persona).chunks[0].rerank_score for persona in (None, "careful")]
        off = searched(built, "careful", reranking_enabled=False)
    assert scores == [None, 0.75]
    assert off.chunks[0].rerank_score is None


def test_a_name_that_is_none_is_refused_where_it_stands(engine):
    with engine(CONFIG, {"careful": {"rerank_by": "dep"}}) as built:
        with pytest.raises(ConfigError) as found:
            searched(built, "careful")
        with pytest.raises(InvalidRequest):
            searched(built, rerank_by="none of them")
    assert (found.value.file, found.value.key) == ("persona careful (config/personas.json)", "rerank_by")


def test_config_check_names_it_too(engine, tmp_path):
    rows = {"bad": {"model": "x"}}
    with pytest.raises(ConfigError):
        engine({**CONFIG, "rerankers": rows}, {"careful": {"rerank_by": "deep"}})
    report = check(find_config(env={}, cwd=tmp_path), env={})
    assert {(one.file, one.key) for one in report.problems} == {
        ("config/rag-pipeline.json", "rerankers.bad.model"),
        ("persona careful (config/personas.json)", "rerank_by"),
    }


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({}, "rerankers.deep.reranker"),
        ({"reranker": "fixed", "options": [1]}, "rerankers.deep.options"),
        ({"reranker": "nobody"}, "rerankers.deep.reranker"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(engine, row, key):
    with pytest.raises(ConfigError) as found:
        engine({"rerankers": {"deep": row}})
    assert (found.value.file, found.value.key) == ("config/rag-pipeline.json", key)


def test_one_that_is_given_in_code_runs_in_place_of_all(engine):
    with engine(CONFIG, {"careful": {"rerank_by": "deep"}}, reranker=half()) as built:
        result = searched(built, "careful")
    assert result.chunks[0].rerank_score == 0.5
    assert result.settings.origins["rerank_by"] == "code"


def test_an_engine_without_it_refuses_the_name(ask, chunk_of):
    with pytest.raises(InvalidRequest):
        ask([(2, [chunk_of("a", 0.9)])], rerank_by="deep")


def test_the_dict_api_reranks_by_the_name_as_well(engine, tmp_path):
    engine(CONFIG).close()
    setup = load_setup(env={}, cwd=tmp_path)
    choice = RerankerChoice.of(setup.resolver, models=setup.models(tmp_path / "data"))
    for name, expected in ((None, "half"), ("deep", "fixed 0.75")):
        found = choice.of_settings(EffectiveSettings(values=Settings(rerank_by=name)).values)
        assert found is not None and found.name == expected
