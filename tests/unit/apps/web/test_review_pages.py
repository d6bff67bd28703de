"""The auditor's and the operator's pages of a small bank with access rules; callers see their own records alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest
from fastapi.testclient import TestClient

from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.apps.web.addresses import document_address
from context_engine.apps.web.rendering import Page, standalone_page
from context_engine.apps.web.review import checks
from context_engine.apps.web.review.case import case_of
from context_engine.apps.web.review.listing import Filters
from context_engine.apps.web.review.pages import case_values
from context_engine.apps.web.sessions import Sessions
from context_engine.apps.web.site import WebSite
from context_engine.audit.review.replay import FirstDifference, Replay, ReplayReason
from context_engine.core.models import Event, Notice, NoticeCode, Principal
from context_engine.errors import InvalidRequest
from context_engine.ingest.kept_reports import FILE, KeptReports, kept_report
from context_engine.ingest.loaded_document import Skipped
from context_engine.ingest.report import IngestReport
from context_engine.insight.rehearsal import AnswerState
from context_engine.insight.subscriptions import FILE as SUBSCRIPTIONS
from context_engine.insight.subscriptions import KeptSubscription, Subscription, change_words, keep
from context_engine.service.deployment import Deployment, LiveDeployment
from context_engine.service.records import find_owned
from context_engine.wiring.audit_writers import close_writers
from context_engine.wiring.embedded_base import base_path
from tests.unit.apps.web.test_hostile_texts import PAYLOADS, problems
from tests.unit.service.small_bank import AUDITOR, CHAIR, CLERK, DOCUMENTS, Tokens, as_, caller, searched, small_bank

HOSTILE = "\n\n".join(f"# {payload}\n\nA loss event: {payload}\n" for payload in PAYLOADS)
SETTINGS = {"audit": {"audit_mode": "required"}, "server": {"server_rate_per_minute": 0}}


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    documents = {**DOCUMENTS, "web/hostile.txt": HOSTILE}
    deployment = small_bank(tmp_path_factory.mktemp("bank"), settings=SETTINGS, documents=documents)
    yield deployment
    deployment.close()
    close_writers()


@pytest.fixture(scope="module")
def client(bank: Deployment) -> Iterator[TestClient]:
    service = Service(LiveDeployment(lambda: bank), Tokens(), threads=4)
    with TestClient(create_app(service, WebSite(Sessions())), follow_redirects=False) as client:
        yield client


@pytest.fixture(scope="module")
def recorded(bank: Deployment, client: TestClient) -> dict[str, str]:
    """The id of a search of each caller, and of an answer of the clerk."""
    ids = {who.id: searched(bank, who, f"report a loss event to the {who.id}").search_id for who in (CLERK, CHAIR)}
    body = {"query": "Within how many hours must a loss event be reported?", "domain": "ORM"}
    answer = client.post("/api/v1/rag/answer", json=body, headers=as_(CLERK)).json()
    return {**ids, "answer": answer["answer_id"]}


def get(client: TestClient, path: str, principal: Principal = AUDITOR) -> Any:
    return client.get(path, headers=as_(principal))


def post(client: TestClient, path: str, principal: Principal = AUDITOR, **fields: str) -> Any:
    return client.post(path, data=fields, headers=as_(principal))


def test_the_list_has_every_callers_record_for_an_operator_and_the_own_ones_for_others(client, recorded):
    everything, own = get(client, "/review").text, get(client, "/review", CLERK).text

    assert all(record_id in everything for record_id in recorded.values())
    assert recorded["clerk"] in own
    assert recorded["answer"] in own
    assert recorded["chair"] not in own
    assert "report a loss event to the chair" not in own
    assert "Refused or withheld" not in own


def minutes(client: TestClient, recorded: dict[str, str]) -> str:
    """The id of the board's document, as addresses have it."""
    html = get(client, f"/review/{recorded['chair']}").text
    return re.findall(r'"/review/documents/ORM/board/([^"]+)"', html)[0]


def test_each_filter_narrows_the_list(client, recorded):
    def listed(query: str) -> set[str]:
        html = get(client, f"/review?{query}").text
        return {name for name, record_id in recorded.items() if f'href="/review/{record_id}"' in html}

    today = date.today().isoformat()
    person = re.findall(r"person=([0-9a-f]{32})", get(client, f"/review/{recorded['chair']}").text)[0]

    assert listed(f"person={person}") == {"chair"}
    assert listed("person=chair") == {"chair"}
    assert listed("kind=answers") == {"answer"}
    assert listed("domain=NONE") == set()
    assert listed(f"document={minutes(client, recorded)}") == {"chair"}
    assert listed("exception=denied") >= {"clerk"}
    assert listed("decision=answered") == {"clerk", "chair"}
    assert listed("until=2020-01-01") == set()
    assert listed(f"since=2020-01-01&until={today}") == set(recorded)


def test_an_id_opens_its_case(client):
    answer = get(client, "/review?id=%3Cx%3E")
    assert (answer.status_code, answer.headers["location"]) == (303, "/review/%3Cx%3E")


@pytest.mark.parametrize("query", ["since=yesterday", "before=x", "decision=maybe", "exception=odd", "kind=z"])
def test_a_filter_that_is_none_is_refused(client, query):
    answer = get(client, f"/review?{query}")
    assert (answer.status_code, "<h1" in answer.text) == (422, True)


def test_filters_survive_in_addresses():
    filters = Filters.of({"since": "2026-03-01", "domain": "a&b", "exception": "stale", "before": "17", "other": "x"})
    assert (filters.since, filters.before, filters.narrowed) == (date(2026, 3, 1), 17, True)
    assert filters.address() == "/review?since=2026-03-01&domain=a%26b&exception=stale"
    assert filters.address(exception="", before=9) == "/review?since=2026-03-01&domain=a%26b&before=9"
    assert (Filters().address(), Filters(before=3).narrowed) == ("/review", False)
    with pytest.raises(InvalidRequest):
        Filters.of({"until": "2026-13-01"})


def test_a_case_shows_question_funnel_chunks_and_integrity(client, recorded):
    html = get(client, f"/review/{recorded['clerk']}").text

    assert "report a loss event to the clerk" in html
    assert '<svg class="funnel"' in html
    assert "A <mark>loss</mark> <mark>event</mark> must be" in html
    assert "of the log" in html
    assert "Source board was not searched for the caller" in html


def test_what_a_caller_may_not_know_is_not_in_their_case(client, recorded):
    html = get(client, f"/review/{recorded['clerk']}", CLERK).text
    assert "was not searched for the caller" not in html
    assert "board" not in html


def test_the_case_of_an_answer_shows_its_sentences_and_verdicts(client, recorded):
    html = get(client, f"/review/{recorded['answer']}").text
    assert "must be reported within 24 hours." in html
    assert "supported" in html


@pytest.mark.parametrize("path", ["", "/proof"])
def test_somebody_elses_case_is_not_found(client, recorded, path):
    assert get(client, f"/review/{recorded['chair']}{path}", CHAIR).status_code in (200, 403)
    other = get(client, f"/review/{recorded['chair']}{path}", CLERK)
    assert other.status_code in (404, 403)
    assert "to the chair" not in other.text


@pytest.mark.parametrize("check", ["replay", "drift", "why"])
def test_checks_of_somebody_elses_case_are_not_found(client, recorded, check):
    assert post(client, f"/review/{recorded['chair']}/{check}", CLERK, chunk="a").status_code == 404


def test_a_replay_by_button_is_shown_and_remembered(client, recorded):
    for name in ("clerk", "answer"):
        assert "Identical: the record gives the same" in post(client, f"/review/{recorded[name]}/replay").text
        assert "replay identical" in get(client, f"/review/{recorded[name]}").text


def test_a_replay_that_differs_is_loud_everywhere(client, recorded, monkeypatch):
    def altered(_ledger: Any, record_id: str, _now: Any, _query: Any = None) -> Replay:
        difference = FirstDifference("chunks[0].final", 0.7, 0.2)
        reason = ReplayReason.RECORD_ALTERED
        return Replay(search_id=record_id, identical=False, difference=difference, reason=reason, explanation="altered")

    path = f"/review/{recorded['chair']}"
    with monkeypatch.context() as patched:
        patched.setattr(checks, "replayed", altered)
        html = post(client, f"{path}/replay").text
    assert re.search(r'role="alert">.*?NOT identical: altered', html, re.S)
    assert "chunks[0].final" in html
    assert 'role="alert"' in get(client, path).text
    assert recorded["chair"] in get(client, "/review?exception=replay_differs").text
    assert recorded["clerk"] not in get(client, "/review?exception=replay_differs").text
    post(client, f"{path}/replay")
    assert 'role="alert"' not in get(client, path).text


@pytest.mark.slow
def test_drift_and_why_by_button(client, recorded):
    path = f"/review/{recorded['clerk']}"
    assert "All chunks are as they were shown" in post(client, f"{path}/drift").text
    chunk = re.findall(r'form="why" name="chunk" value="([^"]+)"', get(client, path).text)[0]
    assert "was shown at rank 1" in post(client, f"{path}/why", chunk=chunk).text
    assert "no candidate of this search" in post(client, f"{path}/why", chunk="nothing").text
    assert "Name a chunk" in post(client, f"{path}/why").text


@pytest.mark.parametrize("path", ["/review/x/replay", "/review/x/why", "/review/integrity/verify"])
def test_a_button_of_another_site_does_nothing(client, path):
    for foreign in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://elsewhere.example"}):
        assert client.post(path, headers={**as_(AUDITOR), **foreign}).status_code == 403


def test_integrity_is_verified_by_a_button(client, recorded):
    assert "Nothing was pruned" in get(client, "/review/integrity").text
    assert post(client, "/review/integrity/verify").headers["location"] == "/review/integrity"
    for _ in range(400):
        if "Checking:" not in (html := get(client, "/review/integrity").text):
            break
    assert "Self-consistent" in html


def test_subscriptions_are_listed_with_their_last_change(bank, client):
    assert "There is none" in get(client, "/review/subscriptions").text
    file, at = bank.data_dir / SUBSCRIPTIONS, "2026-03-01T00:00:00Z"
    question = Subscription("q1", "ORM", "clerk", "ana", at, query=f"Who reports? {PAYLOADS[0]}")
    document = Subscription("d1", "ORM", "", "ana", at, source_id="sops", document_id="SOP/1")
    told = Event("q1-2", "answer_changed", "q1", datetime(2026, 3, 2, 10, tzinfo=UTC), {"lost": [{}], "gained": []})
    nothing = AnswerState("", ())
    keep(file, KeptSubscription(question, nothing, 2, told, delivered=False))
    keep(file, KeptSubscription(document, nothing))
    html = get(client, "/review/subscriptions").text
    assert "1 lost<small>2026-03-02 10:00 UTC</small>" in html and "not delivered yet" in html
    assert "/documents/ORM/sops/SOP%2F1" in html and html.index("Who reports?") < html.index("SOP/1")
    assert problems(html) == []


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            {"change": "decision", "decisions": ["answered", "out_of_scope"], "lost": [1]},
            "answered becomes out of scope, 1 lost",
        ),
        ({"change": "order", "decisions": ["answered", "answered"]}, "the same texts in another order"),
        (
            {"changed": [1], "added": [1, 2], "answers_that_showed_it": {"count": 1}},
            "1 changed, 2 added, shown in 1 answer",
        ),
        ({"removed": [1], "answers_that_showed_it": {"count": 1200}}, "1 removed, shown in 1,200 answers"),
        ({"removed": [1], "answers_that_showed_it": None}, "1 removed"),
    ],
)
def test_a_change_in_words(data, words):
    assert change_words(Event("e", "k", "s", datetime(2026, 3, 2, tzinfo=UTC), data)) == words


@pytest.mark.parametrize("path", ["/review/integrity", "/review/subscriptions", "/admin"])
def test_pages_about_everybody_are_for_operators(client, path):
    assert get(client, path, CLERK).status_code == 403


def test_who_saw_a_document(client, recorded):
    path = f"/review/documents/ORM/board/{minutes(client, recorded)}"
    html = get(client, path).text
    assert recorded["chair"] in html
    assert "<b>1</b> showed it" in html
    assert "No answer of yours used it" in get(client, path, CLERK).text


def test_a_case_as_one_file_loads_and_runs_nothing(bank, recorded):
    record = find_owned(bank, caller(AUDITOR), recorded["clerk"])
    case = case_of(record, operator=True, mask=None, demo=False)
    values = {**case_values(case, record), "finding": None, "replayed": None}
    html = standalone_page(Page("review/case.html", values))

    assert "report a loss event to the clerk" in html
    assert not re.search(r'(href|src|action)="(?!#)|<form|<button|<script|<link', html)
    assert json.loads(json.dumps(case.to_dict()))["record"]["entry"]["id"] == recorded["clerk"]


@pytest.mark.slow
def test_hostile_texts_are_text_on_every_page(bank, client):
    payload = " ".join(PAYLOADS)
    case = f"/review/{searched(bank, CLERK, f'loss event {payload}').search_id}"
    for html in (get(client, case).text, post(client, f"{case}/replay").text, post(client, f"{case}/drift").text):
        assert problems(html) == []
    assert problems(post(client, f"{case}/why", chunk=payload).text) == []
    assert "&lt;script&gt;" in get(client, case).text
    for path in ("/review", "/review?document=%22%3E%3Cscript%3E&person=%3Cimg", "/review/documents/%3Cb%3E/%22/%3E"):
        assert problems(get(client, path).text) == []


@pytest.fixture
def reported(bank: Deployment) -> Iterator[KeptReports]:
    """A base whose last ingest said something of a file with one document and of one with several."""
    base = base_path(bank.setup.data_dir(bank.data_dir))
    notices = [Notice(NoticeCode.CONTENTS_LEFT_OUT, f"rules/{name}.md", f"<b>{name}</b> lost a list") for name in "ab"]
    report = IngestReport(
        files=3, documents=3, chunks=4, unchanged=1, replaced=0, removed=0, elapsed_s=1.0,
        skipped=(Skipped("old.bin", "is of an unknown kind", error=False),), notices=tuple(notices),
        sources={"sops": {"documents": 3, "unchanged": 1}}, shared=frozenset({"rules/b.md"}),
    )  # fmt: skip
    at = datetime(2026, 3, 2, 10, tzinfo=UTC)
    kept = KeptReports(base)
    kept.add(kept_report(report, at=at, by="pseudonym-4711", domain="ORM", adapter="local", source_ids=["sops"]))
    yield kept
    (base / FILE).unlink()


@pytest.mark.wording
def test_the_operators_page_has_the_last_ingests(client, reported):
    html = get(client, "/admin").text
    for part in ("2026-03-02 10:00:00 UTC", "by pseudonym-47", "old.bin", "&lt;b&gt;a&lt;/b&gt; lost a list"):
        assert part in html
    assert re.search(r'<th scope="row">sops</th><td class="number">3</td><td class="number">2</td>', html)
    assert problems(html) == []


@pytest.mark.wording
def test_a_document_has_what_its_ingest_said_and_of_a_file_with_several_for_operators_alone(client, bank, reported):
    def page(name: str, who: Principal) -> str:
        found = searched(bank, AUDITOR, "report an event without a loss").chunks
        chunk = next(each for each in found if each.chunk.path == f"rules/{name}.md")
        html: str = get(client, document_address("ORM", "sops", chunk.chunk.document_id), who).text
        return html

    assert "&lt;b&gt;a&lt;/b&gt; lost a list" in page("a", CLERK)
    assert "lost a list" not in page("b", CLERK)
    assert "&lt;b&gt;b&lt;/b&gt; lost a list" in page("b", AUDITOR)


def test_the_operators_page_has_sources_figures_and_rules(client, recorded):
    html = get(client, "/admin").text
    for part in ("sops", "Searches a day", "Who may read what", "degraded"):
        assert part in html
    assert re.search(r"<th[^>]*>board<small>role</small>", html)
    assert '<svg class="chart"' in html
