"""From a request of the RAG API to one of the engine."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from context_engine.core.models import NOBODY, Caller, Condition, Registry, SearchRequest, ServerSettings
from context_engine.errors import InvalidFilter, InvalidRequest
from context_engine.service.contract.rag import RAGQueryRequest
from context_engine.service.request import check_limits, only_domain, search_request


def asked(**fields: Any) -> SearchRequest:
    request = RAGQueryRequest(query="approval", **fields)
    return search_request(request, "NPA", Registry(), principal=NOBODY, caller=Caller(app="test"), request_id="r-1")


def test_every_field_arrives():
    fields = {"persona_key": "educator", "as_of": "2025-06-30", "require_tiers": [1], "require_sources": ["a"]}
    request = asked(**fields, filters={"year_gte": 2020}, strict=True)
    assert request == SearchRequest(
        query="approval",
        domain="NPA",
        caller=Caller(app="test"),
        request_id="r-1",
        persona="educator",
        as_of=date(2025, 6, 30),
        require_tiers=(1,),
        require_sources=("a",),
        strict=True,
        filters=Condition("year", "gte", 2020),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("field", "overrides"),
    [
        ({}, {}),
        ({"namespaces": ["a", "b"]}, {"sources": ("a", "b")}),
        ({"top_k": 3}, {"stage2_top_k": 3}),
        ({"similarity_threshold": 0.5}, {"similarity_threshold": 0.5, "similarity_kind": "cosine"}),
        (
            {"similarity_threshold": 0.5, "settings": {"similarity_kind": "weighted"}},
            {"similarity_threshold": 0.5, "similarity_kind": "weighted"},
        ),
        ({"enable_reranking": False}, {"reranking_enabled": False}),
        ({"rerank_top_n": 12}, {"rerank_top_n": 12}),
        ({"max_tokens": 900}, {"context_max_tokens": 900}),
        ({"settings": {"dedup_method": "off"}}, {"dedup_method": "off"}),
    ],
)
def test_what_is_left_out_is_left_to_persona_and_settings(field: dict[str, Any], overrides: dict[str, Any]):
    assert asked(**field).overrides == overrides


@pytest.mark.parametrize("name", ["stage2_top_k", "top_k"])
def test_a_value_that_is_given_twice_is_refused(name: str):
    with pytest.raises(InvalidRequest, match=f"top_k and settings.{name}"):
        asked(top_k=3, settings={name: 4})


def test_a_filter_that_cannot_be_read_is_refused():
    with pytest.raises(InvalidFilter):
        asked(filters={"field": "year", "op": "around", "value": 2020})


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"query": "x" * 51}, "51 characters"),
        ({"top_k": 21}, "top_k"),
        ({"rerank_top_n": 21}, "rerank_top_n"),
        ({"settings": {"stage2_top_k": 21}}, "settings.stage2_top_k"),
        ({"settings": {"top_k": 21}}, "settings.top_k"),
        ({"settings": {"stage1_top_k": 31}}, "settings.stage1_top_k"),
        ({"settings": {"deadline_s": 5.5}}, "settings.deadline_s"),
    ],
)
def test_the_limits_of_a_service(fields: dict[str, Any], limit: str):
    limits = ServerSettings(
        server_max_query_chars=50, server_max_top_k=20, server_max_candidates=30, server_max_deadline_s=5.0
    )
    most = {"stage1_top_k": 30, "deadline_s": 5}
    check_limits(RAGQueryRequest(query="x" * 50, top_k=20, settings=most), limits)
    with pytest.raises(InvalidRequest, match=limit):
        check_limits(RAGQueryRequest(**{"query": "approval", **fields}), limits)


def test_the_domain_may_be_left_out_where_there_is_one(make_engine: Any):
    with make_engine([(1, [])]) as engine:
        one = engine.registry
    assert only_domain(one, None) == "NPA"
    assert only_domain(one, "ORM") == "ORM", "whether there is such a domain is the engine's to say"
    with pytest.raises(InvalidRequest):
        only_domain(Registry(), None)
    both = Registry(domains={**one.domains, "ORM": one.domain("NPA").model_copy(update={"domain": "ORM"})})
    with pytest.raises(InvalidRequest, match="NPA, ORM"):
        only_domain(both, None)
