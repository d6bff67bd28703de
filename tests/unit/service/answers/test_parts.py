"""An answer in parts: each chunk once, for who asked alone, and recorded as it is read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from context_engine.audit.review.replay import replay
from context_engine.core.context import ApproxTokenCounter, named_counter
from context_engine.core.models import Caller
from context_engine.errors import CursorExpired
from context_engine.service.contract.rag import RAGPipelineResponse, RAGQueryRequest
from context_engine.service.deployment import Deployment
from context_engine.service.query import answer_query, next_part
from context_engine.wiring.audit_writers import close_writers
from tests.unit.service.small_bank import CHAIR, CLERK, as_, client_of, small_bank

_ENTRIES = {name: f"select entry from {name} where entry is not null" for name in ("pending", "log")}
COUNTER = ApproxTokenCounter()
KINDS = ("fraud", "theft", "fire", "error", "flood", "outage")
DOCUMENTS = {
    f"rules/{kind}.md": f"# 1 Losses by {kind}\n\nA loss event by {kind} must be reported. "
    + " ".join(f"The {kind} desk tells case {100 * place + number} too." for number in range(12))
    for place, kind in enumerate(KINDS)
} | {"board/minutes.md": "# 1 Minutes\n\nThe board.\n", "web/c.txt": "A loss event of kind W needs no report.\n"}
ASKED = {"query": "report a loss event", "domain": "ORM", "settings": {"min_relevance_score": 0.0}}


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    required = {"audit": {"audit_mode": "required"}}
    deployment = small_bank(tmp_path_factory.mktemp("bank"), documents=DOCUMENTS, settings=required)
    yield deployment
    deployment.close()
    close_writers()


@pytest.fixture(scope="module")
def client(bank: Deployment) -> Iterator[TestClient]:
    with client_of(bank) as client:
        yield client


def ask(bank: Deployment, **fields: Any) -> RAGPipelineResponse:
    request = RAGQueryRequest.model_validate({**ASKED, **fields})
    return answer_query(bank, request, principal=CLERK, caller=Caller(app="test"))


def all_parts(bank: Deployment, **fields: Any) -> list[RAGPipelineResponse]:
    found = [ask(bank, **fields)]
    while cursor := found[-1].part.cursor:
        found.append(ask(bank, cursor=cursor))
    return found


@pytest.mark.parametrize("limits", [{"max_tokens": 300}, {"max_chars": 900}, {"max_tokens": 400, "max_chars": 900}])
def test_every_chunk_is_in_one_part_under_one_label(bank: Deployment, limits: dict[str, int]) -> None:
    whole, parts = ask(bank), all_parts(bank, **limits)
    assert len(parts) > 2
    assert [(one.part.number, one.part.of) for one in parts] == [(n + 1, len(parts)) for n in range(len(parts))]
    dealt = [chunk.chunk_id for one in parts for chunk in one.chunks]
    assert sorted(dealt) == sorted(chunk.chunk_id for chunk in whole.chunks)
    assert len({one.search_id for one in parts}) == 1
    labels: dict[str, int] = {}
    for one in parts:
        text = one.context_string
        assert text is not None
        assert len(text.formatted_context) <= limits.get("max_chars", 10**9)
        assert text.total_tokens == COUNTER.count(text.formatted_context) <= limits.get("max_tokens", 6000)
        assert text.num_chunks == len(one.chunks)
        for chunk in one.chunks:
            assert f"### {chunk.citation_label} " in text.formatted_context
            assert labels.setdefault(chunk.citation_label, one.part.number) == one.part.number
        assert one.statistics.total_returned == len(whole.chunks)


def test_without_a_limit_there_is_one_part(bank: Deployment) -> None:
    assert ask(bank).part.model_dump() == {"number": 1, "of": 1, "cursor": None}
    assert ask(bank, max_tokens=100_000).part.model_dump() == {"number": 1, "of": 1, "cursor": None}


def test_parts_without_a_context_string_hold_the_same_chunks(bank: Deployment) -> None:
    with_text, without = all_parts(bank, max_tokens=300), all_parts(bank, max_tokens=300, include_context_string=False)
    chunks = [[chunk.chunk_id for chunk in one.chunks] for one in with_text]
    assert [[chunk.chunk_id for chunk in one.chunks] for one in without] == chunks
    assert all(one.context_string is None for one in without)


def test_a_cursor_gives_the_same_part_again(bank: Deployment) -> None:
    cursor = ask(bank, max_tokens=300).part.cursor
    assert ask(bank, cursor=cursor) == ask(bank, cursor=cursor)


def test_each_part_that_is_read_is_recorded_and_can_be_made_again(bank: Deployment) -> None:
    parts = all_parts(bank, max_tokens=300, max_chars=900)
    entries = _contexts(bank, parts[0].search_id)
    assert [entry.get("part", 1) for entry in entries] == [one.part.number for one in parts]
    result = bank.kept.get(CLERK, parts[0].search_id).result
    again = replay(
        result, code_version="0", contexts=entries, counter=lambda name: named_counter(name, lambda _: COUNTER)
    )
    assert [one.identical for one in again.contexts] == [True] * len(parts)


def _contexts(bank: Deployment, search_id: str) -> list[dict[str, Any]]:
    """The records of what was read of a search, by part."""
    close_writers()
    with closing(sqlite3.connect(bank.setup.env["CONTEXT_ENGINE_AUDIT_LEDGER"])) as ledger:
        rows = [json.loads(entry) for table in ("pending", "log") for (entry,) in ledger.execute(_ENTRIES[table])]
    found = [row for row in rows if row.get("kind") == "context" and row.get("search") == search_id]
    return sorted(found, key=lambda row: row.get("part", 1))


def tampered(cursor: str) -> list[str]:
    middle = len(cursor) // 2
    other = "A" if cursor[middle] != "A" else "B"
    return [cursor[:middle] + other + cursor[middle + 1 :], cursor[:-2], cursor + "AAAA", "x", "é", "AAAA" * 20]


def test_a_cursor_is_for_who_got_it_and_cannot_be_made_up(bank: Deployment, client: TestClient) -> None:
    cursor = ask(bank, max_tokens=300).part.cursor
    assert cursor is not None
    good = client.post("/api/v1/rag/query", json={**ASKED, "cursor": cursor}, headers=as_(CLERK))
    assert good.status_code == 200
    others = [client.post("/api/v1/rag/query", json={**ASKED, "cursor": cursor}, headers=as_(CHAIR))]
    others += [
        client.post("/api/v1/rag/query", json={**ASKED, "cursor": one}, headers=as_(CLERK)) for one in tampered(cursor)
    ]
    assert {one.status_code for one in others} <= {410, 422}
    assert {(one.json()["code"], one.json()["detail"]) for one in others} == {
        ("cursor_expired", others[0].json()["detail"])
    }


def test_a_cursor_with_one_character_changed_is_none(bank: Deployment) -> None:
    cursor = ask(bank, max_tokens=300).part.cursor
    assert cursor is not None
    assert len(cursor) <= 200
    for place, char in enumerate(cursor):
        for other in {"A", "b", "-", "="} - {char}:
            with pytest.raises(CursorExpired):
                ask(bank, cursor=cursor[:place] + other + cursor[place + 1 :])


@given(st.text(max_size=120))
def test_no_text_is_a_cursor(bank: Deployment, text: str) -> None:
    with pytest.raises(CursorExpired):
        next_part(bank, CLERK, text)


def test_the_parts_of_an_answer_that_is_forgotten_are_gone(bank: Deployment) -> None:
    cursor = ask(bank, max_tokens=300).part.cursor
    bank.kept._packed.forget()
    with pytest.raises(CursorExpired):
        ask(bank, cursor=cursor)


def test_untrusted_text_stays_in_its_fence_in_every_part(bank: Deployment) -> None:
    for one in all_parts(bank, max_tokens=300):
        assert one.context_string is not None
        text = one.context_string.formatted_context
        if any(chunk.namespace == "web" for chunk in one.chunks):
            before = text.partition("needs no report")[0]
            assert "<<<untrusted " in before
