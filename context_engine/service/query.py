"""A question of the RAG API, answered."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from context_engine.core.context import ContextPart
from context_engine.core.engine import Engine
from context_engine.core.models import Caller, Context, Principal, SearchResult
from context_engine.service.answers.parts import answer_part, dealt, next_part
from context_engine.service.comparing.compare import comparison_asked_for
from context_engine.service.contract.rag import RAGPipelineResponse, RAGQueryRequest
from context_engine.service.deployment import Deployment
from context_engine.service.kept import KeptAnswer
from context_engine.service.request.asking import asked_filter, only_domain, search_request
from context_engine.service.response.build import response_of
from context_engine.service.response.context_text import COUNTER


def answer_query(
    deployment: Deployment,
    request: RAGQueryRequest,
    *,
    principal: Principal,
    caller: Caller,
    request_id: str | None = None,
) -> RAGPipelineResponse:
    """Return the answer to a question, and keep it for some minutes for who asked.

    Args:
        principal: who asks; decides what is searched.
        caller: what is recorded of the program that asks; it grants nothing.
        request_id: of the call.

    Raises:
        UnknownDomain: the domain is not registered, or not for this principal.
        InvalidRequest: a field that cannot be used.
        CursorExpired: the rest of an answer is not kept any more, or was never for this principal.
        AllSourcesFailed: no source answered.
        EvidenceIncomplete: `strict`, and required evidence is missing.
        AuditUnavailable: the answer could not be recorded, and must not be given without.
        ConfigError, PolicyError, MaskingError: as `Engine.search`.
    """
    if request.cursor is not None:
        return next_part(deployment, principal, request.cursor)
    started = time.monotonic()
    engine = deployment.engine
    domain = only_domain(deployment.known_to(principal), request.domain)
    result = engine.search(search_request(request, domain, principal=principal, caller=caller, request_id=request_id))
    several = request.max_tokens is not None or request.max_chars is not None
    parts = dealt(engine, result, max_chars=request.max_chars) if several else ()
    context = _read(engine, result, parts) if request.include_context_string else None
    response = response_of(
        result,
        context,
        asked=asked_filter(request),
        mask=engine.mask,
        reranker=engine.reranker_name(result.settings.values),
        demo=deployment.demo,
        total_ms=(time.monotonic() - started) * 1000.0,
    )
    answer = KeptAnswer(result=result, response=response, parts=parts)
    deployment.kept.keep(principal, answer if len(parts) > 1 else replace(answer, response=None))
    first, comparison = answer_part(answer, 1), comparison_asked_for(deployment, request.compare, result, context)
    return first if comparison is None else first.model_copy(update={"comparison": comparison})


def _read(engine: Engine, result: SearchResult, parts: Sequence[ContextPart]) -> Context:
    """Return what a model reads first, and record it."""
    if not parts:
        return engine.context(result, counter=COUNTER)
    engine.read(result, parts[0].context)
    return parts[0].context
