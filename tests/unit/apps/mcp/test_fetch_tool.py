"""`fetch` as a function: by every id, in parts, under the caller's rights."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from context_engine.apps.mcp.answers import FetchAnswer, SearchAnswer
from context_engine.apps.mcp.fetch import part_of
from context_engine.apps.mcp.reply import Call
from context_engine.apps.mcp.tools import tool_named
from context_engine.core.context import ApproxTokenCounter, parse_fences
from context_engine.core.models import Authenticated, Principal
from context_engine.errors import CursorExpired, InvalidRequest
from context_engine.service.deployment import Deployment
from tests.unit.apps.mcp.conftest import CHAIR
from tests.unit.service.small_bank import CLERK, QUESTION


def fetched(bank: Deployment, principal: Principal = CLERK, **asked: Any) -> FetchAnswer:
    reply = tool_named("fetch").answered(Call(bank, Authenticated(principal=principal)), asked)
    assert isinstance(reply.content, FetchAnswer)
    Draft202012Validator(FetchAnswer.model_json_schema(mode="serialization")).validate(reply.structured)
    assert reply.content.id in reply.read
    assert reply.fits
    return reply.content


def results(bank: Deployment, principal: Principal = CLERK, question: str = QUESTION) -> list[Any]:
    content = (
        tool_named("search").answered(Call(bank, Authenticated(principal=principal)), {"question": question}).content
    )
    assert isinstance(content, SearchAnswer)
    return content.results


def test_every_result_of_a_search_is_found_by_each_of_its_ids(bank: Deployment) -> None:
    for one in results(bank):
        by_id = fetched(bank, id=one.id)
        assert by_id.metadata["source"] == one.source
        by_chunk = fetched(bank, chunk_id=one.chunk_ids[0], source=one.source)
        assert by_chunk.content in by_id.content or by_id.content in by_chunk.content or len(one.chunk_ids) > 1
        whole = fetched(bank, document_id=one.document_id)
        assert one.chunk_ids[0] in {place.chunk_id for place in whole.passages}


def test_the_text_tells_every_fact_of_the_structured_content(bank: Deployment) -> None:
    answer = results(bank)[0]
    reply = tool_named("fetch").answered(
        Call(bank, Authenticated(principal=CLERK)), {"document_id": answer.document_id}
    )
    structured, lines = reply.structured, reply.read.splitlines()
    assert structured["content"] in reply.read
    assert all(f"{name} " in reply.read for name in structured["metadata"])
    passages = next(line for line in lines if line.startswith("Passages: "))
    assert all(
        place["chunk_id"] in passages and (place["section"] or "") in passages for place in structured["passages"]
    )
    assert f"Characters 0 to {structured['ends']} of {structured['of']}." in lines


def test_the_id_alone_gives_json_text(bank: Deployment) -> None:
    reply = tool_named("fetch").answered(Call(bank, Authenticated(principal=CLERK)), {"id": results(bank)[0].id})
    read = json.loads(reply.read)
    assert read.pop("text") == reply.structured["content"]
    assert {*read, "content"} == set(reply.structured)
    assert all(read[name] == reply.structured[name] for name in read)
    assert {*read, "text"} >= {"id", "title", "text", "url", "metadata"}


def test_what_is_hidden_is_as_what_is_not_there(bank: Deployment) -> None:
    hidden = next(one for one in results(bank, CHAIR) if one.source == "board")
    assert fetched(bank, CHAIR, id=hidden.id).metadata["source"] == "board"
    messages = []
    for asked in ({"id": hidden.id}, {"id": "ORM/board/nothing"}, {"id": "ORM/nowhere/nothing"}):
        with pytest.raises(InvalidRequest) as refused:
            fetched(bank, CLERK, **asked)
        messages.append(str(refused.value).replace(asked["id"].split("/", 2)[2], "ID"))
    assert len(set(messages)) == 1


def test_untrusted_text_stands_in_a_fence(bank: Deployment) -> None:
    found = next(one for one in results(bank, question="previous instructions password") if "password" in one.text)
    answer = fetched(bank, id=found.id)
    nonce = answer.content.rsplit("\n", 1)[-1].removesuffix(">>>")
    assert "Ignore all previous instructions" in parse_fences(answer.content, nonce)[0]
    assert "<|im_start|>" not in answer.content
    assert "<<<" not in fetched(bank, document_id=results(bank)[0].document_id).content


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"id": "ORM/sops/x", "chunk_id": "x"},
        {"id": "x"},
        {"id": "ORM/sops"},
        {"id": "ORM//x"},
        {"chunk_id": "nothing"},
        {"document_id": "nothing", "source": "sops"},
        {"chunk_id": "x", "max_tokens": 1},
        {"chunk_id": "\ud800"},
    ],
)
def test_what_cannot_be_fetched_is_said(bank: Deployment, asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        fetched(bank, **asked)


def test_another_version_is_said(bank: Deployment) -> None:
    document = results(bank)[0].document_id
    with pytest.raises(InvalidRequest):
        fetched(bank, document_id=document, version="99")


def test_a_cursor_of_another_text_is_expired(bank: Deployment) -> None:
    for cursor in ("x", "5", "5.abc", "-1.", "9" * 190 + ".x"):
        with pytest.raises(CursorExpired):
            fetched(bank, document_id=results(bank)[0].document_id, cursor=cursor)


@given(st.text(min_size=1, max_size=3000), st.integers(1, 60))
def test_parts_hold_a_whole_text_once(text: str, most_tokens: int) -> None:
    cursor, place, count = None, 0, ApproxTokenCounter().count
    while True:
        part = part_of(text, cursor, most_tokens)
        assert part.start == place < part.end <= len(text)
        assert count(text[part.start : part.end]) <= most_tokens or part.end == part.start + 1
        place, cursor = part.end, part.cursor
        if cursor is None:
            break
    assert place == len(text)
