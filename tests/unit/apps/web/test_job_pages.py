"""The pages of jobs: a form that starts one, its progress, its findings, and nothing of somebody else's."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.apps.web.sessions import Sessions
from context_engine.apps.web.site import WebSite
from context_engine.service.deployment import LiveDeployment
from context_engine.wiring.audit_writers import close_writers
from tests.unit.service.small_bank import CHAIR, CLERK, Tokens, as_, small_bank

pytestmark = pytest.mark.slow
LIMIT = "What is the facility limit?"
TEXT = "# Agreement\n\nThe facility limit is USD 5 million.\n"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    bank = small_bank(tmp_path_factory.mktemp("bank"), settings={"server": {"server_rate_per_minute": 0}})
    service = Service(LiveDeployment(lambda: bank), Tokens(), threads=4)
    with TestClient(create_app(service, WebSite(Sessions())), follow_redirects=False) as client:
        client.headers.update(as_(CLERK))
        yield client
    close_writers()


def posted(client: TestClient, path: str, **fields: str) -> Any:
    return client.post(path, data=fields, headers={"Sec-Fetch-Site": "same-origin"})


def started(client: TestClient) -> str:
    """Start a job with one document and return its address."""
    address: str = posted(client, "/jobs", title="Facility <review>", domain="ORM", budget="2.50").headers["location"]
    given = {"documents": [{"name": "a.md", "content": TEXT}]}
    assert client.post(f"/api/v1{address}/documents", json=given).status_code == 200
    return address


def test_a_job_is_run_from_its_page_and_shows_its_findings(client):
    address = started(client)
    assert f'action="{address}/run"' in client.get(address).text
    assert posted(client, f"{address}/run", question=LIMIT).headers["location"] == address
    until = time.monotonic() + 60
    while "data-running" in (html := client.get(address).text):
        assert time.monotonic() < until
        time.sleep(0.02)

    assert "The facility limit is USD 5 million" in html
    assert "Facility &lt;review&gt;" in html
    quote = next(link for link in re.findall(r'href="([^"]+)"', html) if link.startswith("/documents/"))
    assert "<mark class=quote>" in client.get(quote.replace("&amp;", "&")).text
    assert address in client.get("/jobs").text


def test_notes_are_added_and_a_refused_one_is_told(client):
    address = started(client)
    assert posted(client, f"{address}/notes", kind="risk", text="Unsigned.").status_code == 303
    assert "Unsigned." in client.get(address).text
    refused = posted(client, f"{address}/notes", kind="constraint", text="word " * 1_001)
    assert refused.status_code == 422
    assert "a constraint has 1 to 5,000 characters" in refused.text


def test_a_form_that_cannot_be_used_is_shown_again(client):
    refused = posted(client, "/jobs", title="Mine", domain="ORM", budget="much")
    assert refused.status_code == 422
    assert "is no amount" in refused.text and 'value="Mine"' in refused.text


def test_somebody_elses_job_and_its_documents_are_not_there(client):
    address, chair = started(client), as_(CHAIR)
    job_id = address.rpartition("/")[2]
    for path in (address, f"/documents/ORM/{job_id}/a"):
        assert client.get(path, headers=chair).status_code == 404
    assert client.get(f"/documents/ORM/{job_id}/a").status_code == 200
    assert job_id not in client.get("/jobs", headers=chair).text


def test_a_closed_job_has_no_forms(client):
    address = started(client)
    assert posted(client, f"{address}/close").status_code == 303
    assert f'action="{address}' not in client.get(address).text


def test_another_sites_page_changes_nothing(client):
    answer = client.post("/jobs", data={"title": "x"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code in (400, 403)
