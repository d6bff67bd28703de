"""A domain that masks contexts: in parts, contexts, rankings and answers nothing personal is left."""

from __future__ import annotations

from typing import Any

import pytest

from context_engine.core.models import NOBODY, Caller
from context_engine.service.answers import build_context, rerank_chunks
from context_engine.service.contract.answer import AnswerJson
from context_engine.service.contract.context import ContextRequest, RerankRequest
from context_engine.service.contract.rag import RAGPipelineResponse, RAGQueryRequest
from context_engine.service.deployment import Deployment
from context_engine.service.query import answer_query

MAIL = "clerk.of.desk@bank.example"
CALLER = Caller(app="test")
ROW = {"id": "rules", "type": "bank_sop"}
MASKS = {"settings": {"mask_contexts": True}}


@pytest.fixture(scope="module")
def deployment(make_deployment: Any, chunk_of: Any) -> Any:
    chunks = [
        chunk_of(f"c{place}", 1.0 - place / 10, f"Approval rule {place}: write to {MAIL}. " + f"Step {place}. " * 60)
        for place in range(4)
    ]
    return make_deployment({"LOANS": [(ROW, chunks)]}, domain_fields={"LOANS": MASKS})


def parts(deployment: Deployment) -> list[RAGPipelineResponse]:
    asked = {"query": "approval rule", "max_tokens": 300}
    found = [answer_query(deployment, RAGQueryRequest(**asked), principal=NOBODY, caller=CALLER)]
    while cursor := found[-1].part.cursor:
        request = RAGQueryRequest(query="x", cursor=cursor)
        found.append(answer_query(deployment, request, principal=NOBODY, caller=CALLER))
    return found


def test_in_every_part_and_in_the_contract(deployment: Deployment) -> None:
    found = parts(deployment)
    assert len(found) > 1
    for one in found:
        assert MAIL not in one.model_dump_json()
        contract = AnswerJson.from_response(one)
        assert all(result.masked for result in contract.retrieval_summary.results)


def test_in_the_context_of_a_search_and_of_its_chunks(deployment: Deployment) -> None:
    response = parts(deployment)[0]
    of_search = build_context(deployment, ContextRequest(search_id=response.search_id), principal=NOBODY)
    assert MAIL not in of_search.model_dump_json()
    chunk = {**response.chunks[0].model_dump(), "content": f"Approval: write to {MAIL}."}
    of_chunks = build_context(deployment, ContextRequest(chunks=(chunk,)), principal=NOBODY)
    assert "Approval" in of_chunks.context_string.formatted_context
    assert MAIL not in of_chunks.model_dump_json()


def test_in_a_ranking_for_that_domain(deployment: Deployment) -> None:
    request = RerankRequest(query="approval rule", chunks=({"content": f"Approval: write to {MAIL}."},), domain="LOANS")
    said = rerank_chunks(deployment, request, principal=NOBODY, caller=CALLER)
    assert len(said.chunks) == 1
    assert MAIL not in said.model_dump_json()
