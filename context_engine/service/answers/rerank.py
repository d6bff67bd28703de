"""Chunks that were found elsewhere, ranked by the second stage of the deployment's engine."""

from __future__ import annotations

from typing import Any, Final

from context_engine.core.context import for_a_model
from context_engine.core.models import (
    Caller,
    Outcome,
    Principal,
    SearchRequest,
    advice_on_dicts,
    chunk_from_dict,
)
from context_engine.service.answers.given_chunks import chunk_dicts
from context_engine.service.contract.rerank import RerankRequest, RerankResponse
from context_engine.service.deployment import Deployment
from context_engine.service.response.chunks import citation_labels, retrieval_chunk
from context_engine.wiring.functions import function_domain

_NO_DOMAIN: Final = "rerank"


def rerank_chunks(
    deployment: Deployment,
    request: RerankRequest,
    *,
    principal: Principal,
    caller: Caller,
    request_id: str | None = None,
) -> RerankResponse:
    """Return chunks ranked by dedup, relevance filter, reranker, authority and selection, as `rag.rerank` does it.

    Each chunk speaks for itself: its source, tier, trust and dates are what it says they are, tier 5 where it says
    nothing. No source is asked, no filter of the domain holds, and nothing is out of scope.

    Args:
        principal: who asks, for the record; whose chunks these are is the caller's business.
        caller: what is recorded of the program that asks.
        request_id: of the call.

    Raises:
        InvalidRequest: a chunk or an option that cannot be used.
        AuditUnavailable: the ranking could not be recorded, and must not be given without.
        MaskingError: a masker failed.
    """
    given = chunk_dicts(request.chunks)
    notices = advice_on_dicts(given)
    chunks = [chunk_from_dict(chunk, notices) for chunk in given]
    name = request.domain or _NO_DOMAIN
    asked = SearchRequest(
        query=request.query,
        domain=name,
        principal=principal,
        caller=caller,
        request_id=request_id,
        overrides=_overrides(request),
    )
    engine = deployment.engine
    domain = function_domain(name, deployment.known_to(principal).domains.get(name))
    result = engine.rank(asked, chunks, domain=domain, notices=notices, recorder=deployment.rankings)
    shown, reranked = for_a_model(result, engine.mask), bool(result.rerank_scores)
    labels = citation_labels(shown.chunks, None)
    return RerankResponse.model_construct(
        status=str(result.status),
        decision=str(result.decision),
        search_id=result.search_id,
        request_id=request_id,
        query=result.query,
        domain=name,
        chunks=tuple(retrieval_chunk(one, labels[one.source_id, one.chunk_id], "") for one in shown.chunks),
        total_given=len(chunks),
        total_returned=len(shown.chunks),
        reranking_enabled=reranked,
        rerank_model=engine.reranker_name(result.settings.values) if reranked else None,
        not_returned=tuple(fate.to_dict() for fate in result.fates if fate.outcome is not Outcome.RETURNED),
        warnings=shown.warnings,
    )


def _overrides(request: RerankRequest) -> dict[str, Any]:
    given = {
        "stage2_top_k": request.top_k,
        "reranking_enabled": request.enable_reranking,
        "rerank_top_n": request.rerank_top_n,
    }
    return {"scope_threshold": 0.0, **{key: value for key, value in given.items() if value is not None}}
