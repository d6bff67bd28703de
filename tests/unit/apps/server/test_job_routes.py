"""Jobs over HTTP: from the start to the deletion."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from context_engine.jobs import run as stages
from context_engine.jobs.owned import OwnedJobs
from context_engine.wiring.audit_writers import close_writers
from tests.unit.service.small_bank import AUDITOR, CHAIR, CLERK, as_, client_of, small_bank

TEXTS = {
    "a.md": "# Agreement A\n\nThe facility limit is USD 5 million.\n",
    "b.md": "# Agreement B\n\nThe facility limit is USD 7 million.\n",
}
LIMIT = "What is the facility limit?"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    deployment = small_bank(tmp_path_factory.mktemp("bank"), settings={"server": {"server_rate_per_minute": 0}})
    with client_of(deployment) as client:
        client.headers.update(as_(CLERK))
        yield client
    close_writers()


def sent(client: TestClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(f"/api/v1/jobs{path}", json=body)
    assert answer.status_code == 200, answer.text
    value: dict[str, Any] = answer.json()
    return value


def started(client: TestClient) -> str:
    job_id: str = sent(client, "", {"title": "Facility review", "budget_limit": 2.5})["job_id"]
    texts = [{"name": name, "content": text} for name, text in TEXTS.items()]
    assert sent(client, f"/{job_id}/documents", {"documents": texts})["added"] == 2
    return job_id


def ended(client: TestClient, job_id: str) -> dict[str, Any]:
    until = time.monotonic() + 60
    while (state := client.get(f"/api/v1/jobs/{job_id}").json())["running"]:
        assert time.monotonic() < until
        time.sleep(0.02)
    value: dict[str, Any] = state
    return value


def test_a_job_runs_in_the_background_and_keeps_its_findings(client):
    job_id = started(client)
    sent(client, f"/{job_id}/notes", {"kind": "constraint", "text": "Amounts in USD."})
    assert sent(client, f"/{job_id}/run", {"question": LIMIT})["job"]["job_id"] == job_id
    state = ended(client, job_id)
    job = state["job"]

    assert state["problem"] is None
    assert [finding["document_id"] for finding in job["findings"]] == ["a", "b"]
    assert job["completed_stages"][0]["question"] == LIMIT
    assert job["constraints"]["rules"] == ["Amounts in USD."]
    assert job["constraints"]["budget_limit"] == 2.5
    assert job_id in [line["job_id"] for line in client.get("/api/v1/jobs").json()["jobs"]]

    answer = sent(client, f"/{job_id}/ask", {"query": "When must a loss event be reported?"})
    assert "24 hours" in answer["text"]
    assert len(client.get(f"/api/v1/jobs/{job_id}").json()["job"]["findings"]) == 3


def test_a_job_that_is_not_running_is_shown_with_all_that_its_run_kept(client, monkeypatch):
    job_id = started(client)

    def ends_meanwhile(jobs: OwnedJobs, job_id: str) -> bool:
        jobs.add(job_id, "constraint", "Amounts in USD.")
        return False

    monkeypatch.setattr(OwnedJobs, "is_running", ends_meanwhile)
    state = client.get(f"/api/v1/jobs/{job_id}").json()
    assert state["running"] is False
    assert state["job"]["constraints"]["rules"] == ["Amounts in USD."]


@pytest.mark.slow
def test_a_run_that_ended_early_in_another_process_is_said_to_go_on(client, monkeypatch):
    """The process that answers knows that the stage is open and that nobody runs it, and no more."""

    def killed(*_args, **_options):
        raise MemoryError

    job_id = started(client)
    with monkeypatch.context() as patched:
        patched.setattr(stages, "_asked", killed)
        sent(client, f"/{job_id}/run", {"question": LIMIT})
        here = ended(client, job_id)
    client.app.state.service.jobs._states.clear()  # as in another worker
    there = client.get(f"/api/v1/jobs/{job_id}").json()
    assert here["problem"].startswith("the run failed (MemoryError)")
    assert (there["running"], there["job"]["state"]) == (False, "in_progress")
    assert there["problem"].startswith("the last run ended early in another process")
    sent(client, f"/{job_id}/run", {})
    assert (ended(client, job_id)["problem"], client.get(f"/api/v1/jobs/{job_id}").json()["problem"]) == (None, None)


def test_somebody_elses_job_is_not_there(client):
    job_id = started(client)
    chair, auditor = as_(CHAIR), as_(AUDITOR)
    for method, path, body in (
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/close", None),
        ("POST", "/run", {"question": LIMIT}),
        ("POST", "/notes", {"kind": "risk", "text": "Late."}),
    ):
        answer = client.request(method, f"/api/v1/jobs/{job_id}{path}", json=body, headers=chair)
        assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found")
    assert client.get(f"/api/v1/jobs/{job_id}", headers=auditor).status_code == 200
    assert client.get("/api/v1/jobs", headers=chair).json()["jobs"] == []


@pytest.mark.slow
def test_a_run_that_cannot_begin_is_refused_at_once(client):
    empty = sent(client, "", {"title": "Empty"})["job_id"]
    for job_id, body, word in ((empty, {"question": LIMIT}, "no documents"), (started(client), {}, "no stage is open")):
        answer = client.post(f"/api/v1/jobs/{job_id}/run", json=body)
        assert answer.status_code == 422
        assert word in answer.json()["detail"]


@pytest.mark.parametrize("name", ["../a.md", "a.exe", ".md", "x/y.md"])
def test_a_document_needs_a_plain_name(client, name):
    job_id = sent(client, "", {"title": "Names"})["job_id"]
    answer = client.post(f"/api/v1/jobs/{job_id}/documents", json={"documents": [{"name": name, "content": "x"}]})
    assert answer.status_code == 422


def test_a_closed_job_is_read_only_and_a_deleted_one_gone(client):
    job_id = started(client)
    assert client.post(f"/api/v1/jobs/{job_id}/close").json()["state"] == "closed"
    assert client.post(f"/api/v1/jobs/{job_id}/notes", json={"kind": "risk", "text": "Late."}).status_code == 422
    assert client.delete(f"/api/v1/jobs/{job_id}").json() == {"job_id": job_id, "deleted": True}
    assert client.get(f"/api/v1/jobs/{job_id}").status_code == 404


def test_a_method_that_an_address_lacks_is_refused_with_those_that_it_has(client):
    answer = client.options("/api/v1/jobs")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    assert client.put("/api/v1/jobs/job-x").headers["allow"] == "DELETE, GET"
