"""Questions over HTTP: who may ask what, and what an answer that there is not looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from fastapi.testclient import TestClient

from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.core.models import Authenticated, Chunk, Classification, Principal
from context_engine.errors import CursorExpired, NotAuthenticated
from context_engine.service.deployment import LiveDeployment

QUERY: Final = {"query": "approval of new products"}
OPEN: Final = {"id": "rules", "type": "bank_sop", "title": "Rules"}
CLOSED: Final = {"id": "board_minutes", "type": "bank_sop", "title": "Secret minutes", "access": {"roles": ["board"]}}
PEOPLE: Final = {
    "teller": Principal(id="teller"),
    "director": Principal(id="director", roles=frozenset({"board"}), clearance=Classification.RESTRICTED),
}


def chunk(name: str, text: str = "approval of new products") -> Chunk:
    return Chunk(content=f"The {text}, as told in {name}.", chunk_id=name, document_id=name, title=name)


class ByName:
    """Takes the name of a person for their token."""

    def authenticate(self, authorization: str | None) -> Authenticated:
        if authorization not in PEOPLE:
            raise NotAuthenticated("name somebody")
        return Authenticated(principal=PEOPLE[authorization])

    def close(self) -> None:
        pass


Serve = Callable[..., TestClient]


@pytest.fixture
def serve(make_deployment: Any) -> Iterator[Serve]:
    opened = []

    def start(domains: Any, *, as_: str = "teller", **options: Any) -> TestClient:
        deployment = make_deployment(domains, **options)
        service = Service(LiveDeployment(lambda: deployment), ByName(), threads=2)
        client = TestClient(create_app(service), headers={"authorization": as_})
        opened.append(client.__enter__())
        return opened[-1]

    yield start
    for client in opened:
        client.__exit__(None, None, None)


def query(client: TestClient, route: str = "query", **fields: Any) -> Any:
    return client.post(f"/api/v1/rag/{route}", json={**QUERY, **fields}, headers={"x-request-id": "call-1"})


BOTH: Final = {"NPA": [(OPEN, [chunk("open")]), (CLOSED, [chunk("hidden")])], "BOARD": [(CLOSED, [chunk("hidden")])]}


def test_without_a_token_nothing_is_answered(serve: Serve):
    client = serve(BOTH)
    asked = client.post("/api/v1/rag/query", json=QUERY, headers={"authorization": "nobody"})
    assert asked.status_code == 401
    assert asked.headers["content-type"] == "application/problem+json"
    assert client.get("/api/v1/rag/domains", headers={"authorization": ""}).status_code == 401


def test_what_is_denied_is_in_no_field(serve: Serve):
    """Two domains and two sources; the teller knows one of each, and leaves out the domain, for there is one."""
    client = serve(BOTH)
    for text in (
        query(client).text,
        query(client, "retrieve").text,
        query(client, domain="NPA", persona_key="educator").text,
        client.get("/api/v1/rag/domains").text,
        query(client, top_k=0).text,
    ):
        for secret in ("board_minutes", "Secret minutes", "hidden", "BOARD"):
            assert secret not in text
    assert query(client).json()["domain"] == "NPA"


@pytest.mark.parametrize(
    ("fields", "unknown"),
    [
        ({"domain": "BOARD"}, {"domain": "NONE0"}),
        ({"namespaces": ["board_minutes"]}, {"namespaces": ["nothing_there"]}),
        ({"require_sources": ["board_minutes"]}, {"require_sources": ["nothing_there"]}),
        ({"settings": {"sources": ["board_minutes"]}}, {"settings": {"sources": ["nothing_there"]}}),
    ],
)
def test_what_is_denied_is_refused_as_what_there_is_not(serve: Serve, fields: Any, unknown: Any):
    client = serve(BOTH)
    denied, absent = query(client, **fields), query(client, **unknown)
    assert denied.status_code == absent.status_code in (404, 422)
    names = {"BOARD": "NONE0", "board_minutes": "nothing_there"}
    said = denied.text.replace(denied.json()["instance"], absent.json()["instance"])
    for name, other in names.items():
        said = said.replace(name, other)
    assert said == absent.text


def test_a_persona_that_names_denied_sources_tells_nobody(serve: Serve):
    persona = {"minutes": {"namespaces": ["rules", "board_minutes"]}}
    client = serve({"NPA": BOTH["NPA"]}, config={"personas.json": persona})
    answer = query(client, persona_key="minutes")
    assert answer.json()["statistics"]["namespaces_searched"] == ["rules"]
    assert "board_minutes" not in answer.text
    director = query_as(client, "director", persona_key="minutes")
    assert director["statistics"]["namespaces_searched"] == ["rules", "board_minutes"]


def query_as(client: TestClient, name: str, **fields: Any) -> Any:
    return client.post("/api/v1/rag/query", json={**QUERY, **fields}, headers={"authorization": name}).json()


def test_the_domains_are_those_that_the_caller_may_search(serve: Serve):
    client = serve(BOTH, domain_fields={"NPA": {"title": "New products", "description": "What is approved."}})
    rules = {
        "source_id": "rules",
        "namespace": "rules",
        "title": "Rules",
        "authority_tier": 2,
        "source_type": "bank_sop",
    }
    told = client.get("/api/v1/rag/domains").json()
    assert told["domains"] == [
        {
            "domain": "NPA",
            "title": "New products",
            "description": "What is approved.",
            "usable": True,
            "sources": [rules],
        }
    ]
    assert {"builder", "creator", "educator", "researcher"} <= set(told["personas"])
    told = client.get("/api/v1/rag/domains", headers={"authorization": "director"}).json()
    assert [one["domain"] for one in told["domains"]] == ["BOARD", "NPA"]


def test_where_several_domains_may_be_searched_one_must_be_named(serve: Serve):
    problem = query(serve(BOTH, as_="director"))
    assert problem.status_code == 422
    assert "BOARD, NPA" in problem.json()["detail"]


def test_no_source_answered(serve: Serve):
    down = serve({"NPA": [(OPEN, OSError("the disk is gone")), ({**OPEN, "id": "more"}, OSError("down"))]})
    problem = query(down)
    assert problem.status_code == 502
    body = problem.json()
    assert (body["code"], body["type"]) == ("all_sources_failed", "urn:context-engine:problem:all_sources_failed")
    assert [(one["source_id"], one["state"]) for one in body["sources"]] == [("rules", "failed"), ("more", "failed")]
    assert body["search_id"].startswith("s-")


def test_one_source_of_two_answered(serve: Serve):
    answer = query(serve({"NPA": [(OPEN, [chunk("open")]), ({**OPEN, "id": "more"}, OSError("down"))]}))
    assert answer.status_code == 200
    body = answer.json()
    assert body["status"] == "degraded"
    assert [(one["source_id"], one["state"]) for one in body["sources"]] == [("rules", "ok"), ("more", "failed")]
    assert body["sources"][1]["problem"]


def test_strict_and_incomplete(serve: Serve):
    client = serve({"NPA": [(OPEN, [chunk("open")])]})
    problem = query(client, strict=True, require_tiers=[1])
    assert (problem.status_code, problem.json()["code"]) == (409, "evidence_incomplete")
    assert problem.json()["sources"][0]["source_id"] == "rules"
    loose = query(client, require_tiers=[1]).json()
    assert loose["decision"] == "incomplete"


@pytest.mark.parametrize(
    "fields",
    [
        {"top_k": 101},
        {"settings": {"stage2_top_k": 101}},
        {"query": "x" * 201},
        {"persona_key": "nobody"},
        {"filters": "year around 2020"},
        {"settings": {"stage3_top_k": 1}},
        {"settings": {"server_max_top_k": 1000}},
        {"settings": {"top_k": 3}, "top_k": 3},
        {"similarity_threshold": 0.5, "settings": {"similarity_kind": "nearness"}},
    ],
)
def test_what_cannot_be_used_is_422(serve: Serve, fields: Any):
    client = serve({"NPA": [(OPEN, [chunk("open")])]}, config={"rag-pipeline.json": {"server_max_query_chars": 200}})
    problem = query(client, **fields)
    assert problem.status_code == 422
    assert problem.json()["detail"]


def test_only_settings_of_the_search_are_told(serve: Serve):
    answer = query(serve({"NPA": [(OPEN, [chunk("open")])]})).json()
    assert {"stage1_top_k", "min_relevance_score", "context_max_tokens"} <= set(answer["effective"])
    for of_the_process in ("embedder_options", "audit_mode", "server_max_top_k", "query_max_chars", "mask_contexts"):
        assert of_the_process not in answer["effective"]


def test_the_id_of_the_call_comes_back(serve: Serve):
    client = serve({"NPA": [(OPEN, [chunk("open")])]})
    answer = client.post("/api/v1/rag/query", json=QUERY, headers={"x-request-id": "call-7"})
    assert answer.json()["request_id"] == "call-7"


def test_an_answer_is_kept_for_who_got_it(make_deployment: Any):
    deployment = make_deployment({"NPA": [(OPEN, [chunk("open")])]})
    service = Service(LiveDeployment(lambda: deployment), ByName(), threads=1)
    with TestClient(create_app(service), headers={"authorization": "teller"}) as client:
        body = query(client).json()
        kept = deployment.kept.get(PEOPLE["teller"], body["search_id"])
        assert kept.result.query == body["query"]
        with pytest.raises(CursorExpired):
            deployment.kept.get(PEOPLE["director"], body["search_id"])


def test_where_contexts_are_masked_so_are_chunks(serve: Serve):
    told = chunk("open", "approval of new products is with approvals@bank.example")
    rows = {"NPA": [(OPEN, [told])]}
    answer = query(serve(rows, domain_fields={"NPA": {"settings": {"mask_contexts": True}}}))
    assert answer.status_code == 200
    assert "approvals@bank.example" not in answer.text
    assert "approvals@bank.example" in query(serve(rows)).text


def test_text_of_an_untrusted_source_is_fenced_in_the_context_alone(serve: Serve):
    web = {"id": "web", "type": "general_web"}
    answer = query(serve({"NPA": [(web, [chunk("open")])]})).json()
    (one,) = answer["chunks"]
    assert one["content"] == "The approval of new products, as told in open."
    assert "<<<" in answer["context_string"]["formatted_context"]
    assert one["provenance"]["trust_class"] == "UNTRUSTED"


@pytest.mark.parametrize(
    ("fields", "pointer", "mend"),
    [
        ({"filters": 5}, "/filters", "a mapping or text"),
        ({"as_of": "soon"}, "/as_of", "2025-06-30"),
        ({"namespaces": ["a", 1]}, "/namespaces/1", "a list of text"),
    ],
)
def test_a_field_is_told_by_its_place_in_the_body(serve: Serve, fields: dict[str, Any], pointer: str, mend: str):
    """Not by the form that it might have had."""
    (told,) = query(serve(BOTH), **fields).json()["errors"]
    assert told["pointer"] == pointer
    assert mend in told["mend"]


def test_the_document_lists_the_personas_to_the_holder_of_a_token(serve: Serve):
    client = serve(BOTH)

    def listed(token: str) -> list[Any]:
        document = client.get("/openapi.json", headers={"authorization": token}).json()
        field = document["components"]["schemas"]["RAGQueryRequest"]["properties"]["persona_key"]["anyOf"][0]
        parameters = document["paths"]["/retrieval"]["post"]["parameters"]
        examples = next(parameter.get("examples") for parameter in parameters if parameter["name"] == "persona")
        return [field.get("enum"), None if examples is None else list(examples)]

    names = [persona["key"] for persona in client.get("/api/v1/rag/personas").json()["personas"]]
    assert len(names) > 3
    assert [sorted(enum) for enum in listed("teller")] == [names, names]
    assert listed("nobody") == [None, None]
