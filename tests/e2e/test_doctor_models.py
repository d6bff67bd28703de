"""`doctor` tries the models of the configuration: one that fails is named, with what mends it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import respx
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.wiring import model_report
from context_engine.wiring.model_report import _tried

MANIFEST = "version: 1\ndomain: BANK\nsources: [{id: sops, type: bank_sop}]\n"
OPENAI = {"embedder": "openai", "embedder_options": {"connection": "models", "dimensions": 2, "attempts": 1}}
SERVER = "https://models.example"


@pytest.fixture
def doctored(tmp_path: Path) -> Any:
    def run(pipeline: dict[str, Any], *more: str) -> Result:
        files = {
            "config/rag-pipeline.json": json.dumps(pipeline),
            "config/connections.yaml": f"models: {{base_url: '{SERVER}', api_key: very-secret}}\n",
            "manifests/bank.yaml": MANIFEST,
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, "utf-8")
        place = ("--config-dir", str(tmp_path), "--data-dir", str(tmp_path / "data"))
        result = CliRunner().invoke(main, ["doctor", *place, *more])
        assert "very-secret" not in result.output
        return result

    return run


def models(result: Result) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(result.stdout)["models"]
    return found


def test_a_reranker_whose_extra_is_missing_is_named_with_what_installs_it(
    doctored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    result = doctored({"reranker": "cross_encoder"}, "--json")
    (one,) = models(result)

    assert (result.exit_code, json.loads(result.stdout)["ok"]) == (1, False)
    assert (one["kind"], one["name"], one["ok"]) == ("reranker", "cross_encoder", False)
    assert "pip install 'dify-context-engine[" in one["problem"]


def test_models_that_work_are_good_each_asked_once(doctored: Any) -> None:
    scores = {"results": [{"index": place, "relevance_score": 0.5} for place in range(2)]}
    with respx.mock() as server:
        embeddings = server.post(f"{SERVER}/v1/embeddings").respond(
            json={"data": [{"index": 0, "embedding": [1.0, 0.0]}]}
        )
        rerank = server.route(path__regex="rerank").respond(json=scores)
        result = doctored({**OPENAI, "reranker": "jina", "reranker_options": {"connection": "models"}})

    assert "embedder openai good" in result.stdout
    assert "reranker jina good" in result.stdout
    assert embeddings.called
    assert rerank.call_count == 1


CHAT = {"chat_model": "anthropic", "chat_model_options": {"connection": "models", "model": "m", "attempts": 1}}


def test_a_chat_model_is_asked_for_one_token(doctored: Any) -> None:
    answer = {"content": [], "stop_reason": "max_tokens", "usage": {"input_tokens": 8, "output_tokens": 1}}
    with respx.mock() as server:
        messages = server.post(f"{SERVER}/v1/messages").respond(json=answer)
        result = doctored(CHAT)

    assert "chat model anthropic good" in result.stdout
    assert json.loads(messages.calls.last.request.content)["max_tokens"] == 1
    assert messages.call_count == 1


def test_a_chat_model_that_does_not_answer_is_told(doctored: Any) -> None:
    with respx.mock() as server:
        server.post(f"{SERVER}/v1/messages").respond(529, text="very-secret")
        result = doctored(CHAT)

    assert result.exit_code == 1
    assert "✗ chat model anthropic: chat model anthropic: models.example is overloaded (529)" in result.stdout


def test_a_server_that_refuses_is_told(doctored: Any) -> None:
    with respx.mock() as server:
        server.post(f"{SERVER}/v1/embeddings").respond(401)
        result = doctored(OPENAI)

    assert result.exit_code == 1
    assert "✗ embedder openai: embedding server" in result.stdout


def test_without_a_query_or_without_models_none_is_tried(doctored: Any) -> None:
    assert models(doctored(OPENAI, "--no-query", "--json")) == []
    off = {"reranker": "cross_encoder", "reranking_enabled": False}
    assert [models(doctored(settings, "--json")) for settings in ({}, off)] == [[], []]


def test_of_a_stranger_s_exception_the_type_alone_is_told() -> None:
    def fails() -> str | None:
        raise ValueError("very-secret")

    assert _tried(fails) == "failed with ValueError (its text is in the debug log)"


def test_a_model_that_hangs_does_not_hang_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    end = threading.Event()
    monkeypatch.setattr(model_report, "MODEL_S", 0.05)
    try:
        assert _tried(lambda: str(end.wait(30))) == "no answer within 0.05 s"
    finally:
        end.set()
