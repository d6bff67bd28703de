"""Answers over HTTP: as JSON, as a stream of events, in the form of the OpenAI chat API, and given ones checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from context_engine.service.deployment import Deployment
from context_engine.wiring.audit_writers import close_writers
from tests.unit.service.small_bank import AUDITOR, CHAIR, CLERK, as_, client_of, small_bank

QUESTION = "Within how many hours must a loss event be reported?"
ASKED = {"query": QUESTION, "domain": "ORM"}


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    deployment = small_bank(
        tmp_path_factory.mktemp("bank"),
        settings={"audit": {"audit_mode": "required"}, "server": {"server_rate_per_minute": 0}},
    )
    yield deployment
    deployment.close()
    close_writers()


@pytest.fixture(scope="module")
def client(bank: Deployment) -> Iterator[TestClient]:
    with client_of(bank) as client:
        yield client


def post(client: TestClient, path: str, body: dict[str, Any], principal: Any = CLERK) -> Any:
    return client.post(path, json=body, headers=as_(principal))


def events(text: str) -> list[tuple[str, Any]]:
    """(name, data) of each event of a stream."""
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    lines = [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]
    return [(block.get("event", ""), block["data"]) for block in lines]


def test_an_answer_shows_its_sentence_its_quote_and_its_passage(client):
    answer = post(client, "/api/v1/rag/answer", ASKED).json()
    (sentence, *_) = answer["sentences"]

    assert (answer["mode"], answer["refusal"], answer["asked"]) == ("extractive", None, QUESTION)
    assert sentence["text"] == "A loss event must be reported within 24 hours."
    assert sentence["quotes"][-1]["label"] in {citation["citation_label"] for citation in answer["citations"]}


def test_an_answer_by_a_workflow_names_its_searches(client):
    asked = {**ASKED, "query": f"{QUESTION[:-1]} and what do late reports cost?", "workflow": "agentic", "rounds": 3}
    answer = post(client, "/api/v1/rag/answer", asked).json()
    workflow = answer["workflow"]
    assert [searched["why"] for searched in workflow["rounds"]] == ["question", "part", "part"]
    assert answer["search_id"] == workflow["rounds"][0]["search_id"]
    assert post(client, "/api/v1/rag/answer", ASKED).json()["workflow"] is None

    (name, start), *_, (last, end) = events(post(client, "/api/v1/rag/answer", {**asked, "stream": True}).text)
    assert (name, last) == ("start", "end")
    assert json.loads(start)["search_id"] == json.loads(end)["workflow"]["rounds"][0]["search_id"]


@pytest.mark.parametrize("fields", [{"workflow": "agentic", "compare": True}, {"rounds": 2}, {"rounds": 21}])
def test_what_a_workflow_cannot_do_is_a_problem_of_the_request(client, fields):
    assert post(client, "/api/v1/rag/answer", {**ASKED, **fields}).status_code == 422


def test_the_record_of_an_answer_is_its_callers(client):
    answer = post(client, "/api/v1/rag/answer", ASKED).json()
    path = f"/api/v1/rag/records/{answer['answer_id']}"
    own = client.get(path, headers=as_(CLERK))

    assert own.status_code == 200
    assert own.json()["answer"]["sentences"][0]["text"] == answer["sentences"][0]["text"]
    assert client.get(path, headers=as_(CHAIR)).status_code == 404
    assert client.get(path, headers=as_(AUDITOR)).status_code == 200


def test_nothing_is_answered_from_what_the_caller_may_not_read(client):
    question = {"query": "To whom does the board want each loss event reported?", "domain": "ORM"}
    clerk = post(client, "/api/v1/rag/answer", question).json()
    chair = post(client, "/api/v1/rag/answer", question, CHAIR).json()

    assert "chair first" not in json.dumps(clerk)
    assert "chair first" in json.dumps(chair)


def test_a_stream_begins_with_the_passages_and_ends_with_the_whole_answer(client):
    response = post(client, "/api/v1/rag/answer", {**ASKED, "stream": True})
    stream = events(response.text)
    whole = json.loads(stream[-1][1])

    assert response.headers["content-type"].startswith("text/event-stream")
    assert [name for name, _ in stream] == ["start", *["sentence"] * len(whole["sentences"]), "end"]
    assert json.loads(stream[1][1])["text"] == whole["sentences"][0]["text"]
    assert response.text.startswith("id: 1\n")


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_before_the_first_event_is_a_problem(client, stream):
    response = post(client, "/api/v1/rag/answer", {"query": QUESTION, "domain": "OMR", "stream": stream})
    assert (response.status_code, response.json()["code"]) == (404, "unknown_domain")


def test_a_looser_treatment_than_configured_is_refused(client):
    response = post(client, "/api/v1/rag/answer", {**ASKED, "unsupported": "show"})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")


def test_a_chat_client_asks_a_domain_as_its_model(client):
    chat = {"model": "ORM", "messages": [{"role": "user", "content": QUESTION}], "temperature": 0.7, "user": "jo"}
    answer = post(client, "/v1/chat/completions", chat).json()
    (choice,) = answer["choices"]

    assert answer["object"] == "chat.completion"
    assert choice["message"]["content"].startswith("A loss event must be reported within 24 hours. [")
    assert "\n- [" in choice["message"]["content"]
    assert answer["context_engine"]["sentences"]


def test_a_chat_streams_sentences_and_then_the_sources(client):
    messages = [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
    chat = {"model": "ORM", "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
    data = [data for _, data in events(post(client, "/v1/chat/completions", chat).text)]
    chunks = [json.loads(text) for text in data[:-1]]
    whole = post(client, "/v1/chat/completions", {**chat, "stream": False}).json()

    assert data[-1] == "[DONE]"
    written = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
    assert written == whole["choices"][0]["message"]["content"]
    assert chunks[-1]["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


@pytest.mark.parametrize(
    ("chat", "status", "code"),
    [
        ({"model": "OMR", "messages": [{"role": "user", "content": QUESTION}]}, 404, "unknown_domain"),
        ({"model": "ORM", "messages": [{"role": "assistant", "content": "Hello"}]}, 422, "invalid_request"),
        ({"model": "ORM", "messages": []}, 422, "invalid_request"),
        ({"model": "ORM", "messages": [{"role": "user", "content": "limit " * 4000}]}, 422, "invalid_request"),
        ({"model": "ORM:" + "x" * 196, "messages": [{"role": "user", "content": QUESTION}]}, 422, "invalid_request"),
    ],
)
def test_a_chat_client_gets_errors_in_its_own_form(client, chat, status, code):
    response = post(client, "/v1/chat/completions", chat)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("field", "status"),
    [
        ({"n": 2}, 422),
        ({"response_format": {"type": "json_object"}}, 422),
        ({"tool_choice": "required"}, 422),
        ({"tool_choice": {"type": "function", "function": {"name": "pay"}}}, 422),
        ({"n": 1, "response_format": {"type": "text"}, "tools": [], "tool_choice": "auto"}, 200),
    ],
)
def test_what_a_chat_client_would_wait_for_in_vain_is_refused(client, field, status):
    chat = {"model": "ORM", "messages": [{"role": "user", "content": QUESTION}]}
    response = post(client, "/v1/chat/completions", {**chat, **field})
    assert response.status_code == status, response.text


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_a_long_conversation_goes_on(client):
    turns = [{"role": role, "content": "x" * 20} for _ in range(300) for role in ("user", "assistant")]
    turns[-1]["content"] = "x" * 200_000
    shown = {"role": "user", "content": [{"type": "text", "text": "Look."}, PICTURE]}
    asked = {"role": "user", "content": QUESTION}
    response = post(client, "/v1/chat/completions", {"model": "ORM", "messages": [*turns, shown, asked]})
    assert response.status_code == 200, response.text
    assert response.json()["context_engine"]["question"] == QUESTION


@pytest.mark.wording
@pytest.mark.parametrize(
    ("path", "chat", "words"),
    [
        ("/v1/chat/completions", {"content": [{"type": "text", "text": QUESTION}, PICTURE]}, "image_url"),
        ("/v1/chat/completions", {"content": "long " * 2001}, "10000 characters"),
        ("/v1/chat/completions", {"content": QUESTION, "model": "gpt"}, "GET /v1/models"),
        ("/v1/responses", {"content": QUESTION}, "POST /v1/chat/completions"),
    ],
)
def test_a_chat_client_learns_what_this_service_takes(client, path, chat, words):
    model, content = chat.get("model", "ORM"), chat["content"]
    response = post(client, path, {"model": model, "messages": [{"role": "user", "content": content}]})
    assert response.status_code in (404, 422)
    assert words in response.json()["error"]["message"], response.text


@pytest.mark.wording
def test_its_message_says_what_to_send_and_names_no_field_that_it_lacks(client):
    message = post(client, "/v1/chat/completions", {"model": "ORM", "messages": []}).json()["error"]["message"]
    assert "/messages" in message and "at least 1" in message and "'errors'" not in message, message
    chat = {"model": "ORM", "messages": [{"role": "system", "content": "Be brief."}]}
    message = post(client, "/v1/chat/completions", chat).json()["error"]["message"]
    assert "user message" in message and "'detail'" not in message, message


def test_without_a_token_no_chat(client):
    response = client.post("/v1/chat/completions", json={})
    assert (response.status_code, response.json()["error"]["code"]) == (401, "not_authenticated")


def test_the_domains_are_the_models(client):
    names = [model["id"] for model in client.get("/v1/models", headers=as_(CLERK)).json()["data"]]
    assert names[0] == "ORM"
    assert all(name == "ORM" or name.startswith("ORM:") for name in names)


def test_a_model_is_shown_by_its_id(client):
    persona = client.get("/v1/models", headers=as_(CLERK)).json()["data"][1]["id"]
    for name in ("ORM", persona):
        model = client.get(f"/v1/models/{name}", headers=as_(CLERK)).json()
        assert (model["id"], model["object"]) == (name, "model")
    for name in ("OMR", "ORM:nobody", "NPA"):
        response = client.get(f"/v1/models/{name}", headers=as_(CLERK))
        assert (response.status_code, response.json()["error"]["code"]) == (404, "unknown_domain"), name


def test_an_answer_of_the_callers_own_model_is_checked(client):
    found = post(client, "/api/v1/rag/answer", ASKED).json()
    label = found["sentences"][0]["labels"][0]
    text = f"A loss event must be reported within 24 hours {label}. It must be reported within 72 hours {label}."
    answer = post(client, "/api/v1/rag/check", {"search_id": found["search_id"], "text": text}).json()

    assert [sentence["text"] for sentence in answer["sentences"]] == ["A loss event must be reported within 24 hours."]
    assert (answer["withheld"], answer["mode"]) == (1, "model")


def test_a_search_of_somebody_else_checks_nothing(client):
    found = post(client, "/api/v1/rag/answer", ASKED).json()
    response = post(client, "/api/v1/rag/check", {"search_id": found["search_id"], "text": "Yes [1]."}, CHAIR)
    assert response.status_code == 410


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/rag/answer", {"query": QUESTION, "domain": "VAULT"}),
        ("/api/v1/rag/answer", {"query": QUESTION, "domain": "ORM", "persona_key": "nobody"}),
        ("/v1/chat/completions", {"model": "VAULT", "messages": [{"role": "user", "content": QUESTION}]}),
    ],
)
def test_a_question_that_is_refused_before_its_search_is_recorded(client, bank, path, body):
    ledger = bank.ledger.opened()

    def refusals() -> int:
        ledger.integrate()
        entries = (json.loads(stored.entry or b"{}") for stored in ledger.entries(0, ledger.size))
        return sum(entry["kind"] == "refusal" for entry in entries)

    before = refusals()
    assert post(client, path, body).status_code in (404, 422)
    assert refusals() == before + 1
