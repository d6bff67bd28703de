"""Records and proofs for those whom they are about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from context_engine.audit.formats.keys import SigningKey, VerifierKey
from context_engine.audit.ledger.prove import parse_proof, verify_proof
from context_engine.core.models import Principal
from context_engine.errors import AuditOff, NotPermitted, RecordNotFound, RecordNotWritten
from context_engine.service import records
from context_engine.service.deployment import Deployment
from context_engine.service.kept import KeptAnswer
from context_engine.service.records import proof_of_record, record_of
from context_engine.wiring.audit_writers import close_writers
from tests.unit.service.small_bank import AUDITOR, CHAIR, CLERK, as_, caller, client_of, searched, small_bank

REQUIRED = {"audit": {"audit_mode": "required"}}


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """With rules, and every search recorded before it is answered."""
    deployment = small_bank(tmp_path_factory.mktemp("bank"), settings=REQUIRED)
    yield deployment
    deployment.close()
    close_writers()


@pytest.fixture(scope="module")
def client(bank: Deployment) -> Iterator[TestClient]:
    with client_of(bank) as client:
        yield client


def record(client: TestClient, record_id: str, principal: Principal, what: str = "") -> Any:
    return client.get(f"/api/v1/rag/records/{record_id}{what}", headers=as_(principal))


def test_a_record_is_there_right_after_its_answer(bank: Deployment, client: TestClient) -> None:
    result = searched(bank, CLERK, request_id="r-1")
    found = record(client, result.search_id, CLERK)
    assert found.status_code == 200
    said = found.json()
    assert (said["entry"]["id"], said["entry"]["kind"], said["entry"]["request_id"]) == (
        result.search_id,
        "search",
        "r-1",
    )
    assert [one["chunk"] for one in said["entry"]["chunks"]] == [one.chunk_id for one in result.chunks]
    assert len(said["fates"]) == len(result.fates)
    assert said["question"]["result"]["request"]["query"] == result.query
    assert isinstance(said["proof"]["index"], int)


def test_only_an_operator_learns_what_access_control_took(bank: Deployment, client: TestClient) -> None:
    record_id = searched(bank, CLERK).search_id
    own, all_of_it = (record(client, record_id, one) for one in (CLERK, AUDITOR))
    assert all_of_it.json()["entry"]["denied"] == [["board", "source_rule"]]
    assert "board" not in own.text
    assert not {"denied", "withheld", "hashes"} & own.json()["entry"].keys()


def test_what_belongs_to_others_looks_absent(bank: Deployment, client: TestClient) -> None:
    record_id = searched(bank, CHAIR).search_id
    absent = record_id[:-4] + "0000"
    theirs, nobodys = (record(client, one, CLERK) for one in (record_id, absent))
    assert theirs.status_code == nobodys.status_code == 404
    told = [
        {**one.json(), "instance": "", "detail": one.json()["detail"].replace(name, "")}
        for one, name in ((theirs, record_id), (nobodys, absent))
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize("name", ["no such", "a" * 200, "ä", "..", "key-1", "' OR 1=1 --"])
def test_any_name_is_answered(client: TestClient, name: str) -> None:
    for principal in (CLERK, AUDITOR):
        assert record(client, name, principal).status_code == 404


def test_a_proof_of_rules_is_for_operators(bank: Deployment, client: TestClient) -> None:
    record_id = searched(bank, CLERK).search_id
    assert record(client, record_id, AUDITOR, "/proof").status_code == 200
    for name in (record_id, "absent"):
        assert record(client, name, CLERK, "/proof").status_code == 403


def test_without_a_token_nothing_is_told(client: TestClient) -> None:
    assert client.get("/api/v1/rag/records/absent").status_code == 401


def test_nobody_owns_what_nobody_was_authenticated_for(bank: Deployment) -> None:
    nobody = Principal()
    record_id = searched(bank, nobody).search_id
    with pytest.raises(RecordNotFound):
        record_of(bank, replace(caller(CLERK), principal=nobody), record_id)


def test_the_proof_is_checked_with_the_key_alone(tmp_path: Path) -> None:
    key = SigningKey.generate("audit.bank.example")
    bank = small_bank(tmp_path, rules=False, settings=REQUIRED, env={"CONTEXT_ENGINE_AUDIT_KEY": key.text})
    record_id = searched(bank, CLERK).search_id
    text = proof_of_record(bank, caller(CLERK), record_id)
    proof = parse_proof(text)
    verify_proof(proof, (VerifierKey.parse(key.verifier.text),))
    assert record_id.encode() in proof.entry
    size = bank.ledger.opened().size  # type: ignore[union-attr]
    assert proof_of_record(bank, caller(CLERK), record_id) == text  # covered: no other checkpoint is made
    assert bank.ledger.opened().size == size  # type: ignore[union-attr]
    with pytest.raises(RecordNotFound):
        proof_of_record(bank, caller(CHAIR), record_id)
    said = record_of(bank, caller(CLERK), record_id).proof
    assert (said.signed, said.checkpoint) == (True, size)
    bank.close()
    close_writers()


def test_without_auditing_a_problem_says_so(tmp_path: Path) -> None:
    bank = small_bank(tmp_path, env={"CONTEXT_ENGINE_AUDIT_LEDGER": ""})
    with client_of(bank) as client:
        answer = record(client, searched(bank, CLERK).search_id, CLERK)
    assert (answer.status_code, answer.json()["code"]) == (409, "audit_off")
    with pytest.raises(AuditOff):
        proof_of_record(bank, caller(AUDITOR), "any")
    bank.close()


class TestBestEffort:
    """An answer does not wait for its record."""

    @pytest.fixture
    def bank(self, tmp_path: Path) -> Iterator[Deployment]:
        deployment = small_bank(tmp_path, settings={"audit": {"audit_mode": "best_effort"}})
        yield deployment
        deployment.close()
        close_writers()

    def test_before_the_first_record_there_is_no_ledger(self, bank: Deployment) -> None:
        with pytest.raises(RecordNotFound):
            record_of(bank, caller(AUDITOR), "absent")

    def test_who_got_the_answer_waits_for_its_record(self, bank: Deployment) -> None:
        result = searched(bank, CLERK)
        bank.kept.keep(CLERK, KeptAnswer(result=result))
        assert record_of(bank, caller(CLERK), result.search_id).entry["id"] == result.search_id

    def test_one_that_does_not_come_is_to_be_asked_for_again(
        self, bank: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(records, "_WAIT_S", 0.05)
        result = replace(searched(bank, CLERK), search_id="never-written")
        bank.kept.keep(CLERK, KeptAnswer(result=result))
        with pytest.raises(RecordNotWritten) as error:
            record_of(bank, caller(CLERK), "never-written")
        assert error.value.retry_after_s == 0.05
        with pytest.raises(RecordNotFound) as others:
            record_of(bank, caller(CHAIR), "never-written")
        assert not isinstance(others.value, RecordNotWritten)


def test_a_proof_asked_for_by_who_may_not_have_it_looks_nothing_up(bank: Deployment) -> None:
    with pytest.raises(NotPermitted):
        proof_of_record(bank, caller(CLERK), "anything at all")
