"""The three forms of rerank APIs, against answers in their documented form."""

from __future__ import annotations

import json
from math import exp
from typing import Any

import httpx
import pytest
import respx

from context_engine.adapters.model_access import ModelContext
from context_engine.adapters.rerankers.http import open_cohere, open_jina, open_tei
from context_engine.errors import ConfigError, RerankerError

COHERE = "https://models.example/v2/rerank"
JINA = "https://models.example/v1/rerank"
TEI = "https://models.example/rerank"
OPTIONS = {"connection": "models", "attempts": 1}

COHERE_ANSWER = {
    "results": [
        {"index": 2, "relevance_score": 0.98},
        {"index": 0, "relevance_score": 0.31},
        {"index": 1, "relevance_score": 0.07},
    ],
    "id": "07734bd2-2473-4f07-94e1-0d9f0e6843cf",
    "meta": {"api_version": {"version": "2", "is_experimental": False}, "billed_units": {"search_units": 1}},
}
JINA_ANSWER = {
    "model": "jina-reranker-v2-base-multilingual",
    "object": "list",
    "usage": {"total_tokens": 38},
    "results": [
        {"index": 2, "relevance_score": 0.98, "document": {"text": "c"}},
        {"index": 0, "relevance_score": 0.31, "document": {"text": "a"}},
        {"index": 1, "relevance_score": 0.07, "document": {"text": "b"}},
    ],
}
TEI_ANSWER = [{"index": 2, "score": 0.98}, {"index": 0, "score": 0.31}, {"index": 1, "score": 0.07}]


@pytest.mark.parametrize(
    ("open_one", "url", "answer", "asked", "name"),
    [
        (
            open_cohere,
            COHERE,
            COHERE_ANSWER,
            {"model": "rerank-v3.5", "query": "q", "documents": ["a", "b", "c"], "top_n": 3},
            "cohere:rerank-v3.5",
        ),
        (
            open_jina,
            JINA,
            JINA_ANSWER,
            {"model": "jina-reranker-v2-base-multilingual", "query": "q", "documents": ["a", "b", "c"], "top_n": 3},
            "jina:jina-reranker-v2-base-multilingual",
        ),
        (open_tei, TEI, TEI_ANSWER, {"query": "q", "texts": ["a", "b", "c"], "truncate": True}, "tei"),
    ],
)
def test_each_form_is_asked_and_read(
    api: respx.MockRouter,
    context: ModelContext,
    chunks: Any,
    open_one: Any,
    url: str,
    answer: Any,
    asked: Any,
    name: str,
) -> None:
    route = api.post(url).respond(json=answer)
    reranker = open_one(OPTIONS, context)
    assert not route.called

    assert reranker.rerank("q", chunks("a", "b", "c")) == [0.31, 0.07, 0.98]

    request = route.calls.last.request
    assert json.loads(request.content) == asked
    assert request.headers["Authorization"] == "Bearer sk-very-secret"
    assert reranker.name == name


def test_more_texts_than_a_server_takes_are_sent_in_parts(
    api: respx.MockRouter, context: ModelContext, chunks: Any
) -> None:
    def by_length(request: httpx.Request) -> httpx.Response:
        texts = json.loads(request.content)["texts"]
        return httpx.Response(200, json=[{"index": at, "score": len(text) / 100} for at, text in enumerate(texts)])

    route = api.post(TEI).mock(side_effect=by_length)
    texts = ["x" * (1 + number) for number in range(70)]

    assert open_tei(OPTIONS, context).rerank("q", chunks(*texts)) == [(1 + number) / 100 for number in range(70)]
    assert [len(json.loads(call.request.content)["texts"]) for call in route.calls] == [32, 32, 6]


def test_scores_outside_0_to_1_are_logits_all_of_them(
    api: respx.MockRouter, context: ModelContext, chunks: Any
) -> None:
    api.post(TEI).respond(json=[{"index": 0, "score": -1.0}, {"index": 1, "score": 0.5}])

    scores = open_tei(OPTIONS, context).rerank("q", chunks("a", "b"))

    assert scores == pytest.approx([1 / (1 + exp(1.0)), 1 / (1 + exp(-0.5))])


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        [],
        "text",
        {"results": []},
        {"results": [{"index": 0, "relevance_score": 0.5}]},
        {"results": [{"index": 0, "relevance_score": 0.5}, {"index": 0, "relevance_score": 0.4}]},
        {"results": [{"index": 0, "relevance_score": 0.5}, {"index": 2, "relevance_score": 0.4}]},
        {"results": [{"index": 0, "relevance_score": 0.5}, {"index": 1, "relevance_score": None}]},
        {"results": [{"index": 0}, {"index": 1}]},
        {"results": [{"index": 0, "relevance_score": 0.5}, {"index": 1, "relevance_score": 10**400}]},
        {"results": [{"index": 0, "relevance_score": 0.5}] * 3},
    ],
)
def test_an_answer_of_another_form_is_refused(
    api: respx.MockRouter, context: ModelContext, chunks: Any, wrong: Any
) -> None:
    api.post(JINA).respond(json=wrong)

    with pytest.raises(RerankerError, match="another form than jina's rerank API"):
        open_jina(OPTIONS, context).rerank("q", chunks("a", "b"))


def test_a_score_that_is_not_finite_is_refused(api: respx.MockRouter, context: ModelContext, chunks: Any) -> None:
    api.post(TEI).respond(content='[{"index": 0, "score": NaN}]')

    with pytest.raises(RerankerError, match="not finite"):
        open_tei(OPTIONS, context).rerank("q", chunks("a"))


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (429, {"error": "Model is overloaded", "error_type": "Overloaded"}, "has no room"),
        (413, {"error": "batch size 40 > maximum allowed batch size 32"}, "lower batch_size"),
        (401, {"message": "invalid api token"}, "API key was refused"),
        (500, {"message": "internal server error"}, r"failed inside \(500\)"),
    ],
)
def test_refusals_are_said_in_our_words(
    api: respx.MockRouter, context: ModelContext, chunks: Any, status: int, body: Any, words: str
) -> None:
    api.post(TEI).respond(status, json=body)

    with pytest.raises(RerankerError, match=words) as found:
        open_tei(OPTIONS, context).rerank("q", chunks("a"))
    assert "sk-very-secret" not in str(found.value)


def test_a_passing_failure_is_asked_again_once(
    api: respx.MockRouter, context: ModelContext, chunks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    again = httpx.Response(429, headers={"Retry-After": "0"})
    route = api.post(TEI).mock(side_effect=[again, httpx.Response(200, json=[{"index": 0, "score": 0.5}])])

    assert open_tei({"connection": "models"}, context).rerank("q", chunks("a")) == [0.5]
    assert route.call_count == 2


def test_a_connection_that_is_not_there_is_said_when_it_is_opened() -> None:
    def missing(name: str) -> Any:
        raise ConfigError(f"unknown connection {name!r}")

    from context_engine.testing import FixedClock

    with pytest.raises(ConfigError, match="unknown connection 'models'"):
        open_jina(OPTIONS, ModelContext(connection=missing, clock=FixedClock()))
