"""Judgements over HTTP and by the tool: whose they are, what is refused, and where they are read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from context_engine.apps.mcp.reply import Call
from context_engine.apps.mcp.tools import tool_named
from context_engine.core.models import Caller
from context_engine.errors import InvalidRequest, RecordNotFound
from context_engine.evaluation.qrels import read_qrels
from context_engine.service.deployment import Deployment
from context_engine.service.judgements import ANSWERS, PASSAGES
from tests.unit.service.small_bank import AUDITOR, CHAIR, CLERK, as_, caller, client_of, searched, small_bank

PATH = "/api/v1/rag/feedback"


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    deployment = small_bank(tmp_path_factory.mktemp("bank"), settings={"audit": {"audit_mode": "required"}})
    yield deployment
    deployment.close()


@pytest.fixture(scope="module")
def client(bank: Deployment) -> Iterator[TestClient]:
    with client_of(bank) as opened:
        yield opened


def last(bank: Deployment, name: Any) -> dict[str, Any]:
    assert bank.data_dir is not None
    row: dict[str, Any] = json.loads((bank.data_dir / name).read_text("utf-8").splitlines()[-1])
    return row


def test_a_passage_is_judged_in_the_file_that_eval_and_the_adapter_read(bank: Deployment, client: TestClient) -> None:
    result = searched(bank, CLERK)
    passage = {"source_id": result.chunks[0].source_id, "chunk_id": result.chunks[0].chunk_id}
    reply = client.post(PATH, json={"search_id": result.search_id, "thumb": "up", **passage}, headers=as_(CLERK))
    assert (reply.status_code, reply.json()["judged"]) == (200, "passage")
    assert bank.data_dir is not None
    (grades,) = read_qrels(bank.data_dir / PASSAGES).values()
    assert grades == {f"={passage['chunk_id']}": 2}


def test_a_person_that_a_program_names_has_a_pseudonym_of_their_own(bank: Deployment, client: TestClient) -> None:
    result, judges = searched(bank, CLERK), []
    for more in ({}, {"person": "jo"}, {"person": "li"}, {"person": "jo"}):
        body = {"search_id": result.search_id, "thumb": "down", **more}
        assert client.post(PATH, json=body, headers=as_(CLERK)).status_code == 200
        judges.append(last(bank, ANSWERS)["by"])
    assert len(set(judges)) == 3
    assert judges[1] == judges[3]
    assert "jo" not in judges


def test_the_person_for_whom_a_program_asked_is_the_judge(bank: Deployment, client: TestClient) -> None:
    result = searched(bank, CLERK, caller=Caller(on_behalf_of="jo"))
    body = {"search_id": result.search_id, "thumb": "up"}
    client.post(PATH, json=body, headers=as_(CLERK))
    asked_for = last(bank, ANSWERS)["by"]
    client.post(PATH, json={**body, "person": "jo"}, headers=as_(CLERK))
    assert last(bank, ANSWERS)["by"] == asked_for


def test_an_operator_judges_in_the_own_name(bank: Deployment, client: TestClient) -> None:
    result = searched(bank, CLERK, caller=Caller(on_behalf_of="jo"))
    body = {"search_id": result.search_id, "thumb": "up"}
    client.post(PATH, json={**body, "person": AUDITOR.id}, headers=as_(AUDITOR))
    own = last(bank, ANSWERS)["by"]
    client.post(PATH, json=body, headers=as_(AUDITOR))
    assert last(bank, ANSWERS)["by"] == own


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"thumb": "sideways"}, 422),
        ({"chunk_id": "c"}, 422),
        ({"chunk_id": "c", "source_id": "s", "answer_id": "a"}, 422),
        ({"chunk_id": "none", "source_id": "sops"}, 422),
        ({"search_id": "unknown"}, 404),
    ],
)
def test_what_names_no_answer_of_the_caller_is_refused(
    bank: Deployment, client: TestClient, more: dict[str, str], status: int
) -> None:
    body = {"search_id": searched(bank, CLERK).search_id, "thumb": "up", **more}
    assert client.post(PATH, json=body, headers=as_(CLERK)).status_code == status


def test_nobody_judges_the_answers_of_others(bank: Deployment, client: TestClient) -> None:
    body = {"search_id": searched(bank, CHAIR).search_id, "thumb": "up"}
    assert client.post(PATH, json=body, headers=as_(CLERK)).status_code == 404
    assert client.post(PATH, json=body).status_code == 401


def test_the_tool_passes_a_judgement_on(bank: Deployment) -> None:
    call, result = Call(bank, caller(CLERK)), searched(bank, CLERK)
    chunk = result.chunks[0]
    given = {"search_id": result.search_id, "thumb": "down", "id": f"ORM/{chunk.source_id}/{chunk.chunk_id}"}
    reply = tool_named("feedback").answered(call, given)
    assert (reply.structured["judged"], last(bank, PASSAGES)["grade"]) == ("passage", 0)
    reply = tool_named("feedback").answered(call, {"search_id": result.search_id, "thumb": "up"})
    assert (reply.structured["judged"], last(bank, ANSWERS)["grade"]) == ("answer", 2)
    with pytest.raises(InvalidRequest):
        tool_named("feedback").answered(call, {**given, "id": "ORM"})
    with pytest.raises(RecordNotFound):
        tool_named("feedback").answered(call, {**given, "search_id": "unknown"})


def test_the_answer_of_an_experiment_says_its_arm(bank: Deployment, client: TestClient, tmp_path: Any) -> None:
    experiments = {"quality": {"experiments": {"deep": {"domain": "ORM", "b": {"stage2_top_k": 2}}}}}
    other = small_bank(tmp_path, settings=experiments | {"audit": {"audit_mode": "required"}})
    with client_of(other) as opened:
        result = searched(other, CLERK)
        body = {"search_id": result.search_id, "thumb": "up"}
        assert opened.post(PATH, json=body, headers=as_(CLERK)).status_code == 200
        arm = last(other, ANSWERS)["experiment"]
        assert arm in ("deep/a", "deep/b")
        ledger = other.ledger.opened()
        assert ledger is not None
        stored = ledger.entry(result.search_id)
        assert stored is not None
        assert json.loads(stored.entry or b"")["experiment"] == arm
    other.close()
