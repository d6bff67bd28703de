"""Given chunks, ranked over HTTP: the whole second stage, an end for every chunk, and a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from context_engine.rag import rerank
from context_engine.service.deployment import Deployment
from context_engine.wiring.audit_writers import close_writers
from tests.unit.service.small_bank import CLERK, as_, client_of, small_bank

QUERY = "report a loss event"
WEB = {"chunk_id": "web", "content": "A loss event may be reported.", "source_id": "w", "authority_tier": 5}
SOP = {"chunk_id": "sop", "content": "Each loss event is reported at once.", "source_id": "s", "authority_tier": 1}


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    deployment = small_bank(tmp_path_factory.mktemp("bank"), settings={"audit": {"audit_mode": "required"}})
    yield deployment
    deployment.close()
    close_writers()


@pytest.fixture(scope="module")
def client(bank: Deployment) -> Iterator[TestClient]:
    with client_of(bank) as client:
        yield client


def ranked(client: TestClient, chunks: list[dict[str, Any]], status: int = 200, **fields: Any) -> Any:
    body = {"query": QUERY, "chunks": chunks, **fields}
    found = client.post("/api/v1/rag/rerank", json=body, headers=as_(CLERK))
    assert found.status_code == status, found.text
    return found.json()


def test_the_formula_is_that_of_a_search(client: TestClient) -> None:
    said = ranked(client, [{**WEB, "relevance_score": 0.9}, {**SOP, "relevance_score": 0.8}])
    assert [one["chunk_id"] for one in said["chunks"]] == ["sop", "web"]
    assert [one["rank"] for one in said["chunks"]] == [1, 2]
    assert [one["citation_label"] for one in said["chunks"]] == ["[1]", "[2]"]
    assert said["chunks"][0]["final_score"] == pytest.approx(0.6 * 0.8 + 0.4 * 0.4)
    assert said["chunks"][1]["final_score"] == pytest.approx(0.6 * 0.9 + 0.4 * 0.0)


def test_it_ranks_as_the_function_of_that_name(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    chunks = [WEB, SOP, {**SOP, "chunk_id": "again"}, {"content": "Lunch is at noon.", "chunk_id": "off"}]
    said = ranked(client, chunks, top_k=2)
    assert [one["chunk_id"] for one in said["chunks"]] == [one["chunk_id"] for one in rerank(QUERY, chunks, top_k=2)]


def test_every_chunk_has_its_end(client: TestClient) -> None:
    chunks = [WEB, SOP, {**SOP, "chunk_id": "again"}, {"content": "Lunch is at noon.", "chunk_id": "off"}]
    said = ranked(client, chunks)
    assert said["total_given"] == 4 == said["total_returned"] + len(said["not_returned"])
    ends = {one["chunk_id"]: one["outcome"] for one in said["not_returned"]}
    assert ends == {"sop": "merged", "off": "dropped"}  # of equal texts the first by id is kept


def test_the_chunks_of_an_answer_can_be_ranked_again(client: TestClient) -> None:
    answer = client.post("/api/v1/rag/query", json={"query": QUERY, "domain": "ORM"}, headers=as_(CLERK)).json()
    said = ranked(client, answer["chunks"], domain="ORM")
    assert len(said["chunks"]) == len(answer["chunks"]) > 1
    by_id = {one["chunk_id"]: one for one in said["chunks"]}
    for before, after in ((one, by_id[one["chunk_id"]]) for one in answer["chunks"]):
        assert {name: after[name] for name in ("namespace", "doc_id", "authority_tier", "source_type", "title")} == {
            name: before[name] for name in ("namespace", "doc_id", "authority_tier", "source_type", "title")
        }
        assert after["provenance"]["trust_class"] == before["provenance"]["trust_class"]


def test_a_ranking_is_recorded_as_one(client: TestClient) -> None:
    said = ranked(client, [SOP], domain="ORM")
    found = client.get(f"/api/v1/rag/records/{said['search_id']}", headers=as_(CLERK))
    assert found.status_code == 200
    assert found.json()["entry"]["kind"] == "rank"


def test_a_claim_of_metadata_alone_gives_no_tier(client: TestClient) -> None:
    said = ranked(client, [{"content": "A loss event is reported.", "metadata": {"year": 2024}}])
    assert (said["chunks"][0]["authority_tier"], said["chunks"][0]["namespace"]) == (5, "adapter")


@pytest.mark.parametrize(
    ("chunks", "fields"),
    [
        ([{"chunk_id": "a"}], {}),
        ([SOP], {"top_k": 0}),
        ([SOP], {"top_k": 101}),
        ([SOP], {"query": ""}),
        ([{**SOP, "authority_tier": "high"}], {}),
        ([SOP], {"top": 3}),
    ],
)
def test_what_cannot_be_used_is_refused(
    client: TestClient, chunks: list[dict[str, Any]], fields: dict[str, Any]
) -> None:
    assert ranked(client, chunks, status=422, **fields)["status"] == 422
