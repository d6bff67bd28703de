"""Script injections in every field of documents, questions and addresses are text on every page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser

import pytest
from fastapi.testclient import TestClient

from context_engine.adapters.identity.authenticator import NoAuthentication
from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.apps.web.addresses import document_address
from context_engine.apps.web.sessions import Sessions
from context_engine.apps.web.site import WebSite
from context_engine.core.models import Chunk, FetchRequest
from context_engine.service.deployment import LiveDeployment
from context_engine.testing.fakes import ScriptedSource

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style></textarea></svg><svg onload=alert(1)>",
    "javascript:alert(1)",
    "[limit](javascript:alert(1)) ![limit](data:text/html,x)",
    "<a href=javascript:alert(1)>limit</a>",
    "{{ 7 * 7 }} {% raw %} ${alert(1)}",
    "\u202egnihsihp\u202c \x1b[31m \ue000mark\ue001",
)


class _Reader(HTMLParser):
    """Collects what would run, load or lead elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("img", "iframe", "object", "embed", "style", "base") or (tag == "script" and "src" not in given):
            self.bad.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.bad.append(f"{tag} {name}")
            if name in ("href", "src", "action") and not re.match(r"/|#|data:,$|https://", value or ""):
                self.bad.append(f"{tag} {name}={value}")


def problems(html: str) -> list[str]:
    reader = _Reader()
    reader.feed(html)
    return reader.bad


class Hostile(ScriptedSource):
    """Gives the same chunks by id."""

    def fetch(self, request: FetchRequest) -> Sequence[Chunk]:
        return [chunk for chunk in self._chunks if {chunk.document_id} & {*request.document_ids}]


def hostile_chunk(number: int, payload: str) -> Chunk:
    return Chunk(
        content=f"# {payload}\n\nThe limit number {number} is {payload} for the desk.\n\n| {payload} |\n|---|\n",
        chunk_id=f"c{number}{payload}",
        document_id=f"d{number}{payload}",
        document_version=payload,
        title=payload,
        section=payload,
        heading_path=(payload,),
        superseded_by=payload,
        doc_type=payload,
        metadata={"url": payload, "source_file": payload, payload: payload, "page": 1},
    )


@pytest.fixture(scope="module")
def client(make_deployment) -> Iterator[TestClient]:
    chunks = [hostile_chunk(number, payload) for number, payload in enumerate(PAYLOADS)]
    row = {"id": "web", "type": "general_web", "adapter": "local", "title": PAYLOADS[1]}
    deployment = make_deployment({"ORM": [(row, Hostile("web", chunks))]})
    service = Service(LiveDeployment(lambda: deployment), NoAuthentication(), threads=2)
    with TestClient(create_app(service, WebSite(Sessions()))) as client:
        yield client


def test_the_reader_sees_what_is_bad():
    assert problems("<img src=x><p onclick=x><a href='javascript:x'>") == [
        "img",
        "img src=x",
        "p onclick",
        "a href=javascript:x",
    ]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_hostile_question_is_text(client, payload):
    for fields in ({"q": f"limit {payload}"}, {"q": "limit", "persona": payload}, {"q": "limit", "domain": payload}):
        html = client.get("/", params={"domain": "ORM", **fields}).text
        assert problems(html) == []
        assert "<h1" in html


def test_hostile_documents_are_text_in_an_answer_and_a_comparison(client):
    html = client.get("/", params={"domain": "ORM", "q": "limit for the desk", "compare": "1"}).text

    assert problems(html) == []
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "\u202e" not in html


@pytest.mark.parametrize("number", range(len(PAYLOADS)))
def test_a_hostile_document_is_text_on_its_page(client, number):
    chunk = hostile_chunk(number, PAYLOADS[number])
    address = document_address("ORM", "web", chunk.document_id, chunk_id=chunk.chunk_id, quoted=PAYLOADS[number])
    answer = client.get(address)

    assert answer.status_code == 200
    assert problems(answer.text) == []
    assert "The limit number" in answer.text


def test_a_hostile_address_is_text(client):
    for path in (
        "/documents/%3Cscript%3E/web/x",
        "/documents/ORM/%22%3E/x",
        "/searches/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
    ):
        answer = client.get(path)
        assert answer.status_code == 404
        assert problems(answer.text) == []
