"""The embeddings API in its documented form: order, batches, retries, cost, and a key that shows nowhere."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
import respx

from context_engine.adapters.embedders import CachedEmbedder
from context_engine.adapters.embedders.openai import (
    EMBEDDINGS_API,
    EmbedderUse,
    OpenAIEmbedder,
    OpenAIOptions,
    Usage,
    embedder_use,
    open_openai,
)
from context_engine.adapters.model_access import ModelContext
from context_engine.adapters.model_access.server import ModelServer
from context_engine.errors import ConfigError, EmbedderError
from context_engine.settings.connections import Connection
from context_engine.testing import FakeEmbedder, FixedClock


def test_questions_and_passages_are_counted_together() -> None:
    embedder = CachedEmbedder(FakeEmbedder(8))
    embedder.embed_documents(["one", "two", "one"])
    embedder.embed_query("limit")
    embedder.embed_query("limit")

    assert embedder_use(embedder) == EmbedderUse(embedded=2 + 1, from_cache=1 + 1)


def test_a_server_s_tokens_and_their_price_are_told(context: ModelContext) -> None:
    data = [{"index": place, "embedding": [1.0, 0.0]} for place in range(2)]
    with respx.mock() as router:
        router.post("https://models.example/v1/embeddings").respond(
            json={"data": data, "usage": {"total_tokens": 7_000}}
        )
        embedder = open_openai({**OPTIONS, "price_per_million_tokens": 0.13}, context)
        embedder.embed_documents(["first", "second"])

    use = embedder_use(embedder)

    assert (use.embedded, use.from_cache, use.tokens) == (2, 0, 7_000)
    assert use.cost == pytest.approx(7_000 * 0.13 / 1_000_000)
    assert str(use) == "embedder: 2 texts embedded, 0 from the cache, 7,000 tokens, cost 0.0009"


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (EmbedderUse(embedded=1, from_cache=0), "embedder: 1 text embedded, 0 from the cache"),
        (EmbedderUse(embedded=0, tokens=0, cost=0.0), "embedder: 0 texts embedded, 0 tokens, cost 0.0000"),
        (EmbedderUse(tokens=1, cost=0.00000013), "embedder: 1 token, cost below 0.0001"),
        (EmbedderUse(), "embedder: it does not say what it did"),
    ],
)
def test_what_is_not_known_is_not_told_as_0(use: EmbedderUse, told: str) -> None:
    assert str(use) == told


def test_of_an_embedder_of_another_package_nothing_is_known() -> None:
    assert embedder_use(FakeEmbedder(8)) == EmbedderUse()


URL = "https://models.example/v1/embeddings"

OPTIONS = {"connection": "models", "model": "text-embedding-3-small", "dimensions": 2, "cache": False}


def answer(vectors: list[list[float]], tokens: int = 7) -> dict[str, Any]:
    data = [{"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(vectors)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": "text-embedding-3-small", "usage": usage}


def of_length(request: httpx.Request) -> httpx.Response:
    """A vector that says how long the text is."""
    texts = json.loads(request.content)["input"]
    return httpx.Response(
        200, json=answer([[float(len(text)), 0.0] if len(text) % 2 else [0.0, 1.0] for text in texts])
    )


class MovedClock(FixedClock):
    """Its seconds pass when they are told to."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def api() -> Iterator[respx.MockRouter]:
    with respx.mock(assert_all_called=False) as router:
        yield router


@pytest.fixture
def make(context: ModelContext) -> Callable[..., tuple[OpenAIEmbedder, list[float]]]:
    """An embedder without caches, and the seconds it has slept."""

    def made(**options: Any) -> tuple[OpenAIEmbedder, list[float]]:
        slept: list[float] = []
        chosen = OpenAIOptions.model_validate({**OPTIONS, **options})
        server = ModelServer(
            EMBEDDINGS_API,
            lambda: context.connection("models"),
            lambda problem, later: EmbedderError(problem, retryable=later),
            clock=FixedClock(),
            attempts=chosen.attempts,
            sleep=slept.append,
        )
        return OpenAIEmbedder(server, chosen), slept

    return made


def test_one_call_asks_for_a_batch_and_puts_the_answer_in_order(api: respx.MockRouter, make: Any) -> None:
    shuffled = answer([[3.0, 4.0], [0.0, 2.0]])
    shuffled["data"].reverse()
    route = api.post(URL).respond(json=shuffled)
    embedder, _ = make()

    assert embedder.embed_documents(["first", "second"]) == [[3 / 5, 4 / 5], [0.0, 1.0]]

    request = route.calls.last.request
    assert json.loads(request.content) == {
        "model": "text-embedding-3-small",
        "input": ["first", "second"],
        "encoding_format": "float",
        "dimensions": 2,
    }
    assert request.headers["Authorization"] == "Bearer sk-very-secret"


def test_texts_are_sent_a_hundred_at_a_time_and_tokens_are_paid_for(api: respx.MockRouter, make: Any) -> None:
    route = api.post(URL).mock(side_effect=of_length)
    embedder, _ = make(price_per_million_tokens=0.13)

    vectors = embedder.embed_documents(["x" * (1 + number % 2) for number in range(250)])

    assert [len(json.loads(call.request.content)["input"]) for call in route.calls] == [100, 100, 50]
    assert vectors == [[1.0, 0.0], [0.0, 1.0]] * 125
    assert embedder.usage == Usage(calls=3, tokens=21, cost=21 * 0.13 / 1_000_000)


def test_many_questions_are_sent_at_once_with_their_prefix(api: respx.MockRouter, make: Any) -> None:
    route = api.post(URL).respond(json=answer([[0.0, 2.0], [3.0, 4.0]]))
    embedder, _ = make(query_prefix="ask: ", document_prefix="read: ")

    assert embedder.embed_queries(["limit", "risk"]) == [[0.0, 1.0], [3 / 5, 4 / 5]]
    assert [json.loads(call.request.content)["input"] for call in route.calls] == [["ask: limit", "ask: risk"]]


def test_an_empty_text_is_not_sent_and_has_no_direction(api: respx.MockRouter, make: Any) -> None:
    route = api.post(URL).mock(side_effect=of_length)
    embedder, _ = make()

    assert embedder.embed_documents(["", "x", "  "]) == [[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
    assert json.loads(route.calls.last.request.content)["input"] == ["x"]


def test_it_waits_as_long_as_the_server_asks(api: respx.MockRouter, make: Any) -> None:
    busy = httpx.Response(429, headers={"Retry-After": "7"}, json={"error": {"message": "Rate limit reached"}})
    api.post(URL).mock(side_effect=[busy, httpx.Response(503), httpx.Response(200, json=answer([[1.0, 0.0]]))])
    embedder, slept = make()

    assert embedder.embed_query("x") == [1.0, 0.0]
    assert slept[0] == 7.0
    assert 1.0 <= slept[1] <= 1.5


def test_it_gives_up_after_its_attempts(api: respx.MockRouter, make: Any) -> None:
    route = api.post(URL).respond(500)
    embedder, slept = make(attempts=3)

    with pytest.raises(EmbedderError, match=r"models\.example failed inside \(500\)") as found:
        embedder.embed_query("x")

    assert found.value.retryable
    assert (route.call_count, len(slept)) == (3, 2)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_what_cannot_succeed_later_is_asked_once(api: respx.MockRouter, make: Any, status: int) -> None:
    route = api.post(URL).respond(status, json={"error": {"message": "no: secret question"}})
    embedder, _ = make()

    with pytest.raises(EmbedderError) as found:
        embedder.embed_query("secret question")

    assert not found.value.retryable
    assert "secret" not in str(found.value)
    assert route.call_count == 1


def test_a_server_that_cannot_be_reached_is_said(api: respx.MockRouter, make: Any) -> None:
    api.post(URL).mock(side_effect=httpx.ConnectError("sk-very-secret"))
    embedder, slept = make(attempts=2)

    with pytest.raises(EmbedderError, match=r"models\.example could not be reached \(ConnectError\)") as found:
        embedder.embed_query("x")

    assert found.value.__cause__ is None
    assert found.value.__context__ is None
    assert len(slept) == 1


def test_the_key_stands_in_no_log_and_no_error(
    api: respx.MockRouter, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    api.post(URL).respond(401, json={"error": {"message": "Incorrect API key provided"}})
    embedder, _ = make()

    with caplog.at_level(logging.DEBUG), pytest.raises(EmbedderError) as found:
        embedder.embed_query("x")

    assert "sk-very-secret" not in caplog.text + str(found.value) + repr(found.value.__dict__)


def test_a_key_that_was_rotated_is_read_again(api: respx.MockRouter) -> None:
    keys = iter(["old", "new", "new"])
    server = ModelServer(
        EMBEDDINGS_API,
        lambda: Connection.model_validate({"base_url": "https://models.example", "api_key": next(keys)}),
        lambda problem, later: EmbedderError(problem, retryable=later),
        clock=FixedClock(),
    )

    def check(request: httpx.Request) -> httpx.Response:
        good = request.headers["Authorization"] == "Bearer new"
        return httpx.Response(200, json=answer([[1.0, 0.0]])) if good else httpx.Response(401)

    route = api.post(URL).mock(side_effect=check)
    embedder = OpenAIEmbedder(server, OpenAIOptions.model_validate(OPTIONS))

    assert embedder.embed_query("x") == [1.0, 0.0]
    assert embedder.embed_query("y") == [1.0, 0.0]
    assert route.call_count == 3


def test_calls_keep_to_the_rate_of_the_plan(api: respx.MockRouter) -> None:
    api.post(URL).mock(side_effect=of_length)
    clock, slept, key = MovedClock(), list[float](), str(uuid4())

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.seconds += seconds

    server = ModelServer(
        EMBEDDINGS_API,
        lambda: Connection.model_validate(
            {"base_url": "https://models.example", "api_key": key, "rate_per_minute": 4, "rate_share": 0.5}
        ),
        lambda problem, later: EmbedderError(problem, retryable=later),
        clock=clock,
        sleep=sleep,
    )
    embedder = OpenAIEmbedder(server, OpenAIOptions.model_validate(OPTIONS))

    for _ in range(5):
        embedder.embed_query("x")
        clock.seconds += 1.0

    # Two calls in any 60 s: at 0 and 1, then at 60 and 61, then at 120.
    assert slept == [58.0, 58.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        [],
        {"data": "x"},
        {"data": []},
        answer([[1.0, 0.0], [1.0, 0.0]]),
        answer([[]]),
        answer([["x"]]),  # type: ignore[list-item]
        {"data": [{"index": 1, "embedding": [1.0, 0.0]}]},
        {"data": [{"index": 0, "embedding": [1e999, 0.0]}]},
        {"data": [{"index": 0, "embedding": [10**400, 0.0]}]},
        {"data": [{"index": 0, "embedding": [1.0, 0.0]}, {"index": 0, "embedding": [0.0, 1.0]}]},
        answer([[1.0, 0.0, 0.0]]),
    ],
)
def test_an_answer_of_another_form_is_refused(api: respx.MockRouter, make: Any, wrong: Any) -> None:
    api.post(URL).respond(content=json.dumps(wrong))
    embedder, _ = make()

    with pytest.raises(EmbedderError, match=r"another form|other than 2 dimensions"):
        embedder.embed_query("x")


def test_an_answer_that_is_not_json_is_refused(api: respx.MockRouter, make: Any) -> None:
    api.post(URL).respond(text="<html>Sign in</html>")
    embedder, _ = make()

    with pytest.raises(EmbedderError, match=r"the answer is not JSON \(text/plain, 20 bytes\): check that"):
        embedder.embed_query("x")


@pytest.mark.parametrize(
    ("base_url", "asked"),
    [
        ("https://models.example", "https://models.example/v1/embeddings"),
        ("https://models.example/v1", "https://models.example/v1/embeddings"),
        ("https://models.example/openai/v1", "https://models.example/openai/v1/embeddings"),
    ],
)
def test_a_base_url_with_a_path_is_taken_as_it_stands(api: respx.MockRouter, base_url: str, asked: str) -> None:
    route = api.post(asked).mock(side_effect=of_length)
    server = ModelServer(
        EMBEDDINGS_API,
        lambda: Connection.model_validate({"base_url": base_url}),
        lambda problem, _later: EmbedderError(problem),
        clock=FixedClock(),
    )

    OpenAIEmbedder(server, OpenAIOptions.model_validate(OPTIONS)).embed_query("x")

    assert route.called
    assert "Authorization" not in route.calls.last.request.headers


def test_the_dimension_is_known_asked_for_or_read_from_the_server(api: respx.MockRouter, make: Any) -> None:
    route = api.post(URL).mock(side_effect=of_length)

    assert make(model="text-embedding-3-large", dimensions=None)[0].dimension == 3072
    assert make(model="text-embedding-3-large", dimensions=256)[0].dimension == 256
    assert not route.called
    assert make(model="house-model", dimensions=None)[0].dimension == 2
    assert route.call_count == 1


def test_what_changes_vectors_changes_the_model_id(make: Any) -> None:
    changes = ({}, {"dimensions": 3}, {"dimensions": None}, {"query_prefix": "q: "}, {"model": "other"})

    assert len({make(**change)[0].model_id for change in changes}) == len(changes)


def test_the_prefixes_of_a_known_model_are_in_its_id(make: Any) -> None:
    """So that vectors made before its prefixes were known are not searched with questions that have one."""
    plain, known = (
        make(model="qwen3-embedding:0.6b", dimensions=None, query_prefix=given)[0].model_id for given in ("", None)
    )

    assert plain == "qwen3-embedding:0.6b"
    assert known.startswith("qwen3-embedding:0.6b+")


def test_it_opens_with_its_caches_and_asks_nothing(api: respx.MockRouter, context: ModelContext) -> None:
    route = api.post(URL).mock(side_effect=of_length)
    embedder = open_openai({**OPTIONS, "cache": True}, context)
    assert not route.called

    assert [embedder.embed_documents(["x", "yy"]) for _ in range(2)] == [[[1.0, 0.0], [0.0, 1.0]]] * 2
    assert route.call_count == 1


def test_options_are_read_strictly(context: ModelContext) -> None:
    with pytest.raises(ConfigError, match="is required") as found:
        open_openai({}, context)
    assert found.value.key == "connection"
