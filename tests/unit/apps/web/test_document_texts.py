"""The text of a document on its page: in order, each word once, in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from fastapi.testclient import TestClient

from context_engine.adapters.identity.authenticator import NoAuthentication
from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.apps.web.sessions import Sessions
from context_engine.apps.web.site import WebSite
from context_engine.core.models import Chunk, FetchRequest
from context_engine.service.deployment import LiveDeployment
from context_engine.testing.fakes import ScriptedSource

LONG = "A sentence of a long document. " * 1000
"""31,000 characters: two of them fill no part, three do."""


class Library(ScriptedSource):
    """Gives its chunks by document and by id."""

    def fetch(self, request: FetchRequest) -> Sequence[Chunk]:
        wanted = {*request.document_ids, *request.chunk_ids}
        return [chunk for chunk in self._chunks if wanted & {chunk.document_id, chunk.chunk_id}]


def part_of_document(document: str, place: int, text: str, start: int, **fields: object) -> Chunk:
    return Chunk(
        content=text,
        chunk_id=f"{document}{fields.get('document_version', '')}#{place}",
        document_id=document,
        position=place,
        span=(start, start + len(text)),
        **fields,
    )


CHUNKS = [
    part_of_document("A", 0, "The desk reports losses daily.", 0),
    part_of_document("A", 1, "losses daily. The chief signs.", 17),
    *(part_of_document("L", place, f"Piece {place}. {LONG}", place * 40_000) for place in range(3)),
    part_of_document("V", 0, "The old limit is 5.", 0, document_version="1", superseded_by="2"),
    part_of_document("V", 0, "The new limit is 7.", 0, document_version="2"),
    Chunk(content="A note without a document.", chunk_id="note"),
]


@pytest.fixture(scope="module")
def client(make_deployment) -> Iterator[TestClient]:
    row = {"id": "sops", "type": "bank_sop", "adapter": "local"}
    deployment = make_deployment({"ORM": [(row, Library("sops", CHUNKS))]})
    service = Service(LiveDeployment(lambda: deployment), NoAuthentication(), threads=2)
    with TestClient(create_app(service, WebSite(Sessions()))) as client:
        yield client


def test_words_that_two_passages_share_are_shown_once(client):
    html = client.get("/documents/ORM/sops/A").text

    assert html.count("losses daily.") == 1
    assert "The chief signs." in html


def test_a_long_document_is_shown_in_parts_and_opens_at_the_passage(client):
    first, last = (client.get(f"/documents/ORM/sops/L{query}").text for query in ("", "?chunk=L%232"))

    assert ("Part 1 of 3" in first, "Piece 0." in first, "Piece 1." in first) == (True, True, False)
    assert ("Part 3 of 3" in last, "Piece 2." in last, "Piece 1." in last) == (True, True, False)
    assert "Part 3 of 3" in client.get("/documents/ORM/sops/L?part=99").text


def test_the_newest_version_is_shown_and_the_others_are_listed(client):
    newest, old = (client.get(f"/documents/ORM/sops/V{query}").text for query in ("", "?version=1"))

    assert ("The new limit is 7." in newest, "The old limit" in newest) == (True, False)
    assert 'href="/documents/ORM/sops/V?version=1"' in newest
    assert "superseded by 2" in old


def test_a_passage_without_a_document_is_shown_alone(client):
    assert "A note without a document." in client.get("/documents/ORM/sops/?chunk=note").text
    assert client.get("/documents/ORM/sops/").status_code == 404
