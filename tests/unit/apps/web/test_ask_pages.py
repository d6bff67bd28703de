"""The pages of a small bank: ask, search, document, thumbs and suggestions; what a caller may not read is nowhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from context_engine.answer.asking import answered
from context_engine.answer.contract import AnswerRequest
from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.apps.web import ask_page, steps
from context_engine.apps.web.sessions import Sessions
from context_engine.apps.web.site import WebSite
from context_engine.core.models import Authenticated, Principal
from context_engine.errors import AuditError
from context_engine.service.deployment import Deployment, LiveDeployment
from context_engine.service.judging import ANSWERS, PASSAGES
from context_engine.wiring.audit_writers import close_writers
from tests.unit.service.small_bank import AUDITOR, CHAIR, CLERK, Tokens, as_, small_bank

QUESTION = "Within how many hours must a loss event be reported?"
ASKED = {"domain": "ORM", "q": QUESTION}
SECRET = "chair first"
"""Words of the board's minutes, which a clerk may not read."""


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    settings = {"audit": {"audit_mode": "required"}, "server": {"server_rate_per_minute": 0}}
    deployment = small_bank(tmp_path_factory.mktemp("bank"), settings=settings)
    yield deployment
    deployment.close()
    close_writers()


@pytest.fixture(scope="module")
def client(bank: Deployment) -> Iterator[TestClient]:
    service = Service(LiveDeployment(lambda: bank), Tokens(), threads=4)
    with TestClient(create_app(service, WebSite(Sessions())), follow_redirects=False) as client:
        yield client


def get(client: TestClient, path: str, principal: Principal = CLERK, **params: Any) -> Any:
    return client.get(path, params=params, headers=as_(principal))


def links(html: str, beginning: str) -> list[str]:
    return [link.replace("&amp;", "&") for link in re.findall(r'href="([^"]+)"', html) if link.startswith(beginning)]


def search_id(html: str) -> str:
    return re.findall(r'name="search_id" value="([^"]+)"', html)[0]


def kept(bank: Deployment, name: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (bank.data_dir / name).read_text("utf-8").splitlines()]


def test_the_front_page_is_a_form_that_needs_no_script(client):
    html = get(client, "/").text

    assert 'action="/" method="get"' in html
    assert 'name="q"' in html
    assert 'value="ORM"' in html
    assert not re.search(r"<script(?! src=)|style=|\son[a-z]+=", html)


def test_an_answer_opens_its_quote_in_the_document(client):
    html = get(client, "/", **ASKED).text
    (link, *_) = links(html, "/documents/ORM/sops/")
    document = client.get(link, headers=as_(CLERK)).text

    assert "A loss event must be reported within 24 hours." in html
    assert "<mark class=quote>A loss event must be reported within 24 hours</mark>" in document
    assert document.count('id="passage"') == 1


def test_a_page_makes_one_search(client, bank):
    before = rows(bank, "search")
    get(client, "/", **ASKED, compare="1")

    assert rows(bank, "search") == before + 1


def rows(bank: Deployment, kind: str) -> int:
    from context_engine.audit.ledger.look_up import Criteria

    ledger = bank.ledger.opened()
    if ledger is None:
        return 0
    ledger.integrate()
    return len(list(ledger.rows(Criteria(kind=kind))))


def test_a_comparison_stands_beside_the_answer(client):
    html = get(client, "/", **ASKED, compare="1").text

    assert "Beside the baseline" in html
    assert "Baseline</h3>" in html


def test_what_cannot_be_used_is_said_on_the_form(client):
    for field, value in (("domain", "NOWHERE"), ("persona", "nobody"), ("as_of", "yesterday")):
        answer = get(client, "/", **{**ASKED, field: value})
        assert answer.status_code == 422
        assert value in re.search(r'role="alert">([^<]*)', answer.text)[1]


@pytest.mark.slow
def test_a_search_is_rebuilt_from_its_record_for_its_owner_and_operators(client, bank):
    html = get(client, "/", **ASKED).text
    path = f"/searches/{search_id(html)}"
    bank.kept._packed.forget()

    for principal in (CLERK, AUDITOR):
        again = client.get(path, headers=as_(principal))
        assert again.status_code == 200
        assert "A loss event must be reported within 24 hours." in again.text
        assert links(again.text, "/documents/ORM/sops/")
    assert client.get(path, headers=as_(CHAIR)).status_code == 404


def test_what_is_left_of_an_erased_search_is_shown_without_texts(client, monkeypatch):
    path = f"/searches/{search_id(get(client, '/', **ASKED).text)}"

    def erased(*_: object) -> None:
        raise AuditError("the question was erased")

    monkeypatch.setattr(steps, "own_result", erased)
    answer = get(client, path)

    assert answer.status_code == 200
    assert "Parts of its record were erased" in answer.text
    assert QUESTION not in answer.text
    assert "sops/" in answer.text


def test_a_recorded_search_shows_no_text_that_its_asker_may_not_read_today(client, bank, monkeypatch):
    question = "To whom does the board want each loss event reported?"
    path = f"/searches/{search_id(get(client, '/', CHAIR, domain='ORM', q=question).text)}"
    assert SECRET in get(client, path, CHAIR).text
    bank.kept._packed.forget()
    demoted = Authenticated(principal=replace(CHAIR, roles=frozenset()))
    monkeypatch.setitem(Tokens.known, "chair", demoted)
    answer = get(client, path, CHAIR)

    assert "texts that you may not read today" in answer.text
    assert SECRET not in answer.text
    assert SECRET in get(client, path, AUDITOR).text


def test_a_follow_up_carries_the_questions_before(client):
    first = search_id(get(client, "/", **ASKED).text)
    html = get(client, "/", domain="ORM", q="What is an incident?", thread=first).text
    thread = re.findall(r'name="thread" value="([^"]+)"', html)

    assert QUESTION in html
    assert thread == [first, search_id(html)]
    assert QUESTION not in get(client, "/", CHAIR, domain="ORM", q="What is an incident?", thread=first).text


def test_a_model_is_given_the_questions_before(client, monkeypatch):
    histories: list[list[str]] = []

    def watched(deployment: Deployment, asked: AnswerRequest, **options: Any) -> Any:
        histories.append([turn.content for turn in asked.history])
        return answered(deployment, asked, **options)

    monkeypatch.setattr(ask_page, "answered", watched)
    first = search_id(get(client, "/", **ASKED).text)
    get(client, "/", domain="ORM", q="And for incidents?", thread=first)

    assert histories == [[], [QUESTION]]


def test_a_question_without_a_subject_is_refused_in_words(client):
    assert "does not say what it is about" in get(client, "/", domain="ORM", q="What about that?").text


def test_thumbs_are_kept_as_judgements(client, bank):
    html = get(client, "/", **ASKED).text
    asked = search_id(html)
    fields = {
        "search_id": asked,
        "source_id": "sops",
        "chunk_id": re.findall(r'name="chunk_id" value="([^"]+)"', html)[0],
    }
    as_script = {**as_(CLERK), "Accept": "application/json"}

    assert client.post("/judgements", data={**fields, "thumb": "up"}, headers=as_script).status_code == 204
    page = client.post("/judgements", data={"search_id": asked, "thumb": "down", "back": "/?q=x"}, headers=as_(CLERK))
    passage, answer = kept(bank, PASSAGES)[-1], kept(bank, ANSWERS)[-1]

    assert 'href="/?q=x"' in page.text
    assert (passage["query"], passage["domain"], passage["grade"], passage["search_id"]) == (QUESTION, "ORM", 2, asked)
    assert answer["grade"] == 0
    assert passage["by"] == answer["by"]
    assert "clerk" not in passage["by"]


def test_thumbs_of_others_searches_and_of_other_sites_are_refused(client):
    asked = search_id(get(client, "/", **ASKED).text)
    fields = {"search_id": asked, "thumb": "up"}

    assert client.post("/judgements", data=fields, headers=as_(CHAIR)).status_code == 404
    foreign = {**as_(CLERK), "Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    assert client.post("/judgements", data=fields, headers=foreign).status_code == 403
    assert client.post("/judgements", data={**fields, "thumb": "sideways"}, headers=as_(CLERK)).status_code == 422


def test_an_unreadable_document_is_an_unknown_one(client):
    minutes = get(client, "/documents/ORM/board/board%2Fminutes.md")
    nothing = get(client, "/documents/ORM/board/nothing")
    words = [re.sub(r"Request \S+", "", answer.text) for answer in (minutes, nothing)]

    assert (minutes.status_code, nothing.status_code) == (404, 404)
    assert words[0] == words[1]


def test_what_a_caller_may_not_read_is_on_no_page(client):
    question = "To whom does the board want each loss event reported?"
    clerk, chair = (get(client, "/", principal, domain="ORM", q=question).text for principal in (CLERK, CHAIR))

    assert SECRET in chair
    assert SECRET not in clerk
    assert get(client, "/suggest", domain="ORM", q="minut").json() == {"suggestions": []}
    assert get(client, "/suggest", CHAIR, domain="ORM", q="minut").json() == {"suggestions": ["Minutes"]}


def test_suggestions_begin_with_what_is_typed(client):
    assert get(client, "/suggest", domain="ORM", q="inc").json()["suggestions"] == ["Incidents"]
    assert get(client, "/suggest", domain="ORM", q="i").json() == {"suggestions": []}
    assert get(client, "/suggest", domain="NOWHERE", q="inc").json() == {"suggestions": []}


@pytest.mark.slow
def test_where_a_document_was_shown_is_for_operators(client):
    get(client, "/", **ASKED)
    (link, *_) = links(get(client, "/", **ASKED).text, "/documents/ORM/sops/")
    path = link.partition("?")[0]

    assert "List the answers" not in get(client, path).text
    assert "Where it was shown" not in get(client, path, shown="1").text
    assert re.search(r"\d+ records", get(client, path, AUDITOR, shown="1").text)


TWO_PARTS = {
    **ASKED,
    "q": "Within how many hours must a loss event be reported, and who paints the office?",
    "steps": "1",
}


def test_several_steps_show_each_search_and_which_found_a_passage(client: TestClient) -> None:
    html = get(client, "/", **TWO_PARTS).text
    heading = re.findall(r"How it was found, by (\d+) searches", html)
    searches = links(html.partition("steps-heading")[2].partition("</section>")[0], "/searches/")

    assert heading == [str(len(searches))] and len(searches) >= 3
    assert "a part of the question" in html and "found by search" in html
    assert 'name="steps" value="1"' in html.partition("follow")[2], "a follow-up question takes several steps too"
    assert SECRET not in html


def test_the_page_of_the_first_search_keeps_the_steps(client: TestClient) -> None:
    html = get(client, "/", **TWO_PARTS).text
    again = get(client, links(html, "/searches/")[0]).text
    assert "How it was found, by" in again and "a part of the question" in again


@pytest.mark.wording
def test_a_comparison_with_several_steps_is_refused(client: TestClient) -> None:
    answer = get(client, "/", **TWO_PARTS, compare="1")
    assert answer.status_code == 422
    assert "a comparison is of one search" in answer.text
