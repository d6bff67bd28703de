"""The page of contradictions: for operators alone, each with both sides, settled by a form with a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.apps.web.review.conflict_pages import ConflictFilters, marked_words
from context_engine.apps.web.sessions import Sessions
from context_engine.apps.web.site import WebSite
from context_engine.core.models import Principal
from context_engine.errors import InvalidRequest
from context_engine.service.deployment import Deployment, LiveDeployment
from context_engine.wiring.audit_writers import close_writers
from tests.unit.apps.web.test_hostile_texts import PAYLOADS, problems
from tests.unit.service.small_bank import AUDITOR, CLERK, DOCUMENTS, Tokens, as_, searched, small_bank

pytestmark = pytest.mark.slow  # a bank, a ledger and a service
PAGE = "/review/conflicts?domain=ORM"
RULE = "A severe loss event must be reported to the regulator within {} hours of its discovery{}.\n"
SETTINGS = {"audit": {"audit_mode": "required"}, "server": {"server_rate_per_minute": 0}}


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    payload = " ".join(PAYLOADS)
    documents = {
        **DOCUMENTS,
        "rules/c.md": f"# 1 Severe losses\n\n{RULE.format(24, '')}",
        "web/d.txt": RULE.format(72, ""),
        "web/e.txt": f"The desk <b>must</b> report {payload} to its head each day.\n",
        "web/f.txt": f"The desk <b>may</b> report {payload} to its head each day.\n",
    }
    deployment = small_bank(tmp_path_factory.mktemp("bank"), settings=SETTINGS, documents=documents)
    yield deployment
    deployment.close()
    close_writers()


@pytest.fixture(scope="module")
def client(bank: Deployment) -> Iterator[TestClient]:
    service = Service(LiveDeployment(lambda: bank), Tokens(), threads=4)
    with TestClient(create_app(service, WebSite(Sessions())), follow_redirects=False) as client:
        yield client


def get(client: TestClient, path: str = PAGE, principal: Principal = AUDITOR) -> Any:
    return client.get(path, headers=as_(principal))


def post(client: TestClient, form: str, principal: Principal = AUDITOR, **fields: str) -> Any:
    return client.post(f"/review/conflicts/{form}", data={"domain": "ORM", **fields}, headers=as_(principal))


def test_each_finding_shows_both_sides_and_leads_to_its_answers(bank: Deployment, client: TestClient) -> None:
    search = searched(bank, CLERK, "severe loss event reported to the regulator").search_id
    html = get(client).text
    assert re.search(r"within <mark>24 hours</mark>.*within <mark>72 hours</mark>", html, re.S)
    assert "has less authority: should yield" in html
    assert re.search(r'href="/documents/ORM/sops/[^"]+quote=[^"]+#passage"', html)
    records = re.findall(r'href="(/review\?passage=[^"]+)">shown in 1 answer<', html)
    assert records and f"/review/{search}" in get(client, records[0].replace("&amp;", "&")).text


def test_it_is_for_operators(client: TestClient) -> None:
    assert get(client, principal=CLERK).status_code == 403
    assert post(client, "settle", CLERK, id="x", reason="r").status_code == 403
    assert post(client, "compare", CLERK).status_code == 403


def test_the_kind_narrows_it_and_another_domain_is_refused(client: TestClient) -> None:
    assert "<mark>24 hours</mark>" in get(client, f"{PAGE}&kind=number").text
    assert "<mark>24 hours</mark>" not in get(client, f"{PAGE}&kind=date").text
    assert get(client, "/review/conflicts?domain=NONE").status_code == 422
    assert get(client, f"{PAGE}&kind=odd").status_code == 422


def test_a_decision_needs_a_reason_and_is_kept_with_a_name(client: TestClient) -> None:
    finding = re.findall(r'name="id" value="([0-9a-f]{12})"', get(client, f"{PAGE}&kind=number").text)[0]
    assert post(client, "settle", id=finding, reason=" ").status_code == 422
    assert post(client, "settle", id="0" * 12, reason="r").status_code == 422
    answer = post(client, "settle", id=finding, reason="The web page is <old>")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PAGE}#settled")
    html = get(client).text
    folded = html[html.index('<details id="settled"') :]
    assert "The web page is &lt;old&gt;" in folded and "settled by auditor" in folded
    assert f'value="{finding}"' not in html


def test_documents_are_compared_again_by_a_button(client: TestClient) -> None:
    assert post(client, "compare", kind="number").headers["location"] == f"{PAGE}&kind=number"


def test_a_form_of_another_site_does_nothing(client: TestClient) -> None:
    foreign = {**as_(AUDITOR), "Sec-Fetch-Site": "cross-site"}
    for form in ("settle", "compare"):
        assert client.post(f"/review/conflicts/{form}", headers=foreign).status_code == 403


def test_hostile_texts_are_text(client: TestClient) -> None:
    html = get(client).text
    assert "&lt;script&gt;" in html
    assert problems(html) == []


@pytest.mark.parametrize(
    ("text", "words", "marked"),
    [
        ("The desk SHALL report.", ["must"], "The desk <mark>SHALL</mark> report."),
        ("It may not <b>report</b> it.", ["not report"], "It may <mark>not &lt;b&gt;report</mark>&lt;/b&gt; it."),
        ("It pays USD 5 or EUR 5.", ["usd 5"], "It pays <mark>USD 5</mark> or EUR 5."),
        ("Nothing of it.", ["usd 5", ""], "Nothing of it."),
    ],
)
def test_words_are_marked_as_they_are_written(text: str, words: list[str], marked: str) -> None:
    assert str(marked_words(text, words)) == marked


def test_filters_survive_in_the_address() -> None:
    filters = ConflictFilters.of({"kind": "date", "parallel": "1"}, ["ORM", "NPA"])
    assert filters.address() == "/review/conflicts?domain=ORM&kind=date&parallel=1"
    with pytest.raises(InvalidRequest):
        ConflictFilters.of({"kind": "odd"}, ["ORM"])
