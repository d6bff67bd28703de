"""Compare mode and personas over HTTP: off unless asked for, and then beside the same answer."""

import json

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from context_engine.adapters.identity.authenticator import NoAuthentication
from context_engine.adapters.sources.callable import CallableSource
from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.core.engine import Engine
from context_engine.core.policy.access import AccessViews
from context_engine.service.deployment import Deployment, LiveDeployment
from context_engine.wiring.setup import load_setup

RULE = "A proposal above the materiality limit goes to the product committee for approval."
MANIFEST = {
    "version": 1,
    "domain": "NPA",
    "sources": [
        {"id": "sops", "type": "bank_sop", "classification": "PUBLIC"},
        {"id": "web", "type": "general_web", "classification": "PUBLIC"},
        {"id": "cases", "type": "system_of_record", "access": {"roles": ["auditor"]}},
    ],
}
ASKED = {"query": "approval of a proposal", "domain": "NPA"}


@pytest.fixture
def client(tmp_path, chunk_of):
    """Make a client of a service; keywords are variables of its environment."""
    held = {
        "sops": [chunk_of("sop", 0.8, RULE), chunk_of("copy", 0.7, RULE)],
        "web": [chunk_of("page", 0.9), chunk_of("weak", 0.05)],
        "cases": [chunk_of("case", 0.95)],
    }
    personas = {"wide": {"max_results": 20, "min_results": 1, "rerank": False, "namespaces": ["sops", "cases"]}}
    for name, content in (("manifests/npa.yaml", MANIFEST), ("config/personas.json", personas)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content), "utf-8")

    def make(**env):
        setup = load_setup(config_dir=tmp_path, env={"HOME": str(tmp_path), **env}, cwd=tmp_path)
        engine = Engine(
            setup.registry,
            lambda _domain, spec: CallableSource(lambda _query, _name, _top_k: list(held[spec.id]), spec.id),
            resolve=setup.resolver.resolve,
            access=setup.access,
        )
        deployment = Deployment(setup=setup, engine=engine, views=AccessViews(setup.registry, setup.access))
        return TestClient(create_app(Service(LiveDeployment(lambda: deployment), NoAuthentication(), threads=2)))

    return make


def test_off_by_default(client):
    assert client().post("/api/v1/rag/query", json=ASKED).json()["comparison"] is None


@pytest.mark.parametrize("path", ["/api/v1/rag/query", "/api/v1/rag/retrieve"])
@pytest.mark.parametrize(
    ("env", "address", "body", "expected"),
    [
        ({"RAG_COMPARE_MODE": "on"}, "", {}, True),
        ({"RAG_COMPARE_MODE": "on"}, "", {"compare": False}, False),
        ({}, "?compare=true", {}, True),
        ({}, "", {"compare": True}, True),
        ({}, "?compare=false", {"compare": True}, False),
    ],
)
def test_the_request_goes_before_the_setting(client, path, env, address, body, expected):
    found = client(**env).post(path + address, json={**ASKED, **body})
    assert (found.status_code, found.json()["comparison"] is not None) == (200, expected)


def test_the_answer_is_the_same_with_and_without(client):
    made = client()
    plain, compared = (made.post("/api/v1/rag/query", json={**ASKED, "compare": on}).json() for on in (False, True))
    said = compared.pop("comparison")
    assert [one["chunk_id"] for one in plain["chunks"]] == [one["chunk_id"] for one in said["enhanced"]["chunks"]]
    assert compared["context_string"]["formatted_context"] == said["enhanced"]["context"]["text"]


@pytest.mark.parametrize("path", ["/api/v1/rag/compare", "/api/chat/compare"])
def test_the_designed_shape_at_both_addresses(client, path):
    found = client().post(path, json=ASKED)
    data = found.json()["data"]
    assert (found.status_code, found.json()["success"]) == (200, True)
    assert data["baseline"]["chunks_scores"] == [0.9, 0.8, 0.7, 0.05]
    assert {one["chunk_id"]: one["code"] for one in data["difference"]["left"]} == {
        "copy": "merged",
        "weak": "below_min_relevance",
    }
    assert client().post(path, json={**ASKED, "cursor": "x"}).status_code == 422


def test_what_the_caller_may_not_read_is_in_no_baseline(client):
    assert "case" not in client().post("/api/v1/rag/compare", json=ASKED).text.replace("cases", "")


def test_who_wants_no_text_gets_none(client):
    data = client().post("/api/v1/rag/compare", json={**ASKED, "include_context_string": False}).json()["data"]
    assert [data[side]["context"]["text"] for side in ("baseline", "enhanced")] == [None, None]
    assert data["baseline"]["context"]["tokens"] > 0


def test_a_file_keeps_comparisons_without_texts_and_question(client, tmp_path):
    path = tmp_path / "comparisons.jsonl"
    made = client(CONTEXT_ENGINE_COMPARE_FILE=str(path))
    made.post("/api/v1/rag/query", json=ASKED)
    assert not path.exists()
    given = made.post("/api/v1/rag/compare", json=ASKED).json()
    (line,) = path.read_text("utf-8").splitlines()
    saved = json.loads(line)
    assert (saved["data"]["query"], saved["data"]["search_id"]) == (None, given["data"]["search_id"])
    assert ASKED["query"] not in line and RULE not in line and RULE in json.dumps(given)


def test_a_file_that_cannot_be_written_costs_no_answer(client, tmp_path):
    found = client(CONTEXT_ENGINE_COMPARE_FILE=str(tmp_path)).post("/api/v1/rag/compare", json=ASKED)
    assert found.status_code == 200


def test_personas_tell_what_they_set_and_no_source_that_is_not_known(client):
    (persona,) = client().get("/api/v1/rag/personas").json()["personas"]
    assert persona == {
        "key": "wide",
        "description": "",
        "origin": "config/personas.json",
        "similarity_threshold": None,
        "max_results": 20,
        "min_results": 1,
        "rerank": False,
        "rerank_by": None,
        "namespaces": ["sops"],
        "settings": {"stage2_top_k": 20, "min_chunks": 1, "sources": ["sops"], "reranking_enabled": False},
    }


def test_a_persona_is_heard_and_the_request_goes_before_it(client):
    data = client().post("/api/v1/rag/compare", json={**ASKED, "persona_key": "wide", "top_k": 1}).json()["data"]
    assert (data["persona"], [one["chunk_id"] for one in data["enhanced"]["chunks"]]) == ("wide", ["sop"])
