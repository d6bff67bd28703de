"""A name that several sources share: what is searched by it, and where an answer says it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from context_engine.audit.record.parts import load_result, save_result
from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.models import NOBODY, Caller, Chunk, Principal, SearchRequest, SearchResult
from context_engine.errors import InvalidRequest
from context_engine.service.answers import build_context
from context_engine.service.comparing import compare
from context_engine.service.contract.answer import AnswerJson
from context_engine.service.contract.context import ContextRequest
from context_engine.service.contract.rag import RAGPipelineResponse, RAGQueryRequest
from context_engine.service.deployment import Deployment
from context_engine.service.domains import domains_known_to, personas_known_to
from context_engine.service.explaining.explain import explained_result
from context_engine.service.query import answer_query
from context_engine.settings.resolver import built_in_personas

BOARD: Final = Principal(id="director", roles=frozenset({"board"}))
CLOSED: Final = {"access": {"roles": ["board"]}, "classification": "public"}


def source(source_id: str, text: str, **fields: Any) -> tuple[dict[str, Any], list[Chunk]]:
    chunk = Chunk(content=f"The approval limit {text}.", chunk_id=source_id[0], document_id=source_id, title=text)
    return {"id": source_id, "type": "bank_sop", "classification": "public", **fields}, [chunk]


DESK: Final = {
    "DESK": [
        source("sheets", "of each product", namespace="products"),
        source("prices", "for a price change of any size", namespace="products"),
        source("rules", "above which the head of the desk signs"),
        source("minutes", "that the board has in mind", namespace="board", **CLOSED),
    ]
}
PERSONAS: Final = {
    **built_in_personas(),
    "product": {"namespaces": ["products"]},
    "both": {"namespaces": ["products", "board"]},
    "board": {"namespaces": ["board"]},
}


@pytest.fixture
def desk(make_deployment: Any) -> Deployment:
    deployment: Deployment = make_deployment(DESK, config={"personas.json": PERSONAS})
    return deployment


def asked(desk: Deployment, principal: Principal = NOBODY, **fields: Any) -> RAGPipelineResponse:
    request = RAGQueryRequest(query="approval limit", domain="DESK", **fields)
    return answer_query(desk, request, principal=principal, caller=Caller())


def ids(response: RAGPipelineResponse) -> set[str]:
    return {chunk.source_id for chunk in response.chunks}


def searched(desk: Deployment, *names: str) -> SearchResult:
    return desk.engine.search(
        SearchRequest(query="approval limit", domain="DESK", overrides={"namespaces": names} if names else {})
    )


@pytest.mark.parametrize(
    ("fields", "source_ids"),
    [
        ({}, {"sheets", "prices", "rules"}),
        ({"namespaces": ["products"]}, {"sheets", "prices"}),
        ({"namespaces": ["products", "rules"]}, {"sheets", "prices", "rules"}),
        ({"namespaces": ["prices"]}, {"prices"}),
        ({"settings": {"namespaces": ["rules"]}}, {"rules"}),
        ({"persona_key": "product"}, {"sheets", "prices"}),
        ({"persona_key": "product", "namespaces": ["rules"]}, {"rules"}),
        ({"filters": {"namespace": "products"}}, {"sheets", "prices"}),
        ({"filters": {"namespace_in": ["products", "rules"]}}, {"sheets", "prices", "rules"}),
        ({"filters": {"namespace_ne": "products"}}, {"rules"}),
        ({"filters": {"not": {"namespace": "rules"}}}, {"sheets", "prices"}),
    ],
)
def test_only_the_sources_named_are_searched(desk: Deployment, fields: dict[str, Any], source_ids: set[str]) -> None:
    assert ids(asked(desk, **fields)) == source_ids


def test_an_unknown_namespace_is_refused_with_the_nearest(desk: Deployment) -> None:
    with pytest.raises(InvalidRequest, match=r"no source or namespace 'product'\. Did you mean 'products'\?"):
        asked(desk, namespaces=["product"])


def test_a_namespace_of_denied_sources_is_as_unknown_as_one_that_there_is_not(desk: Deployment) -> None:
    for name in ("board", "bored"):
        with pytest.raises(InvalidRequest) as refused:
            asked(desk, namespaces=[name])
        assert (
            str(refused.value)
            == f"domain 'DESK' has no source or namespace {name!r}. Valid: prices, products, rules, sheets."
        )
    assert ids(asked(desk, BOARD, namespaces=["board"])) == {"minutes"}
    assert ids(asked(desk, persona_key="both")) == {"sheets", "prices"}
    assert ids(asked(desk, BOARD, persona_key="both")) == {"sheets", "prices", "minutes"}
    personas = {persona.key: persona.namespaces for persona in personas_known_to(desk, NOBODY).personas}
    assert (personas["both"], personas["board"]) == (("products",), ())


def test_every_part_of_an_answer_says_namespace_and_source(desk: Deployment) -> None:
    response = asked(desk, compare=True)
    of_source = {"sheets": "products", "prices": "products", "rules": "rules"}
    assert {chunk.source_id: chunk.namespace for chunk in response.chunks} == of_source
    tags = {chunk.source_id: chunk.provenance["extra"].get("namespace") for chunk in response.chunks}
    assert tags == {"sheets": "products", "prices": "products", "rules": None}
    assert response.statistics.namespaces_searched == ("products", "rules")

    contract = AnswerJson.from_response(response)
    assert {
        row.source_id: row.namespace for row in (*contract.sources, *contract.retrieval_summary.results)
    } == of_source
    assert contract.retrieval_summary.namespaces == ("products", "rules")
    context = build_context(desk, ContextRequest(search_id=response.search_id), principal=NOBODY)
    assert {row.source_id: row.namespace for row in (*context.citations, *context.left_out)} == of_source

    result = searched(desk)
    explained = explained_result(desk, result, recorded=False)
    assert {row.source_id: row.namespace for row in (*explained.shown, *explained.not_shown)} == of_source
    assert {row.source_id: row.namespace for row in compare(result).enhanced.chunks} == of_source
    listed = domains_known_to(desk, NOBODY).domains[0].sources
    assert {row.source_id: row.namespace for row in listed} == of_source


def test_a_record_gives_the_same_bytes_with_and_without_namespaces(desk: Deployment) -> None:
    for names in ((), ("products",), ("rules",)):
        result = searched(desk, *names)
        again = load_result(save_result(result, code_version="1"))
        assert stage_two_bytes(recompute(again)) == stage_two_bytes(again) == stage_two_bytes(result)
        assert ('"namespace"' in str(stage_two_bytes(result))) == (names != ("rules",))


def test_a_written_contract_of_an_earlier_version_is_still_read(desk: Deployment) -> None:
    written = AnswerJson.from_response(asked(desk)).model_dump(mode="json")
    for row in (*written["sources"], *written["retrieval_summary"]["results"]):
        del row["source_id"]
    read = AnswerJson.model_validate(written)
    assert {row.source_id for row in read.sources} == {None}
