"""Answers a question of the RAG API, completely or in numbered parts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from context_engine.core.context import ContextPart, limited, parts_of_result
from context_engine.core.engine import Engine
from context_engine.core.models import Caller, Context, Principal, SearchResult
from context_engine.errors import CursorExpired
from context_engine.service.comparing import comparison_asked_for
from context_engine.service.contract.rag import AnswerPart, RAGPipelineResponse, RAGQueryRequest
from context_engine.service.deployment import Deployment
from context_engine.service.kept import CURSOR_EXPIRED, KeptAnswer, make_cursor, read_cursor
from context_engine.service.request import asked_filter, only_domain, search_request
from context_engine.service.response import COUNTER, citation_labels, context_string, response_of


def answer_query(
    deployment: Deployment,
    request: RAGQueryRequest,
    *,
    principal: Principal,
    caller: Caller,
    request_id: str | None = None,
) -> RAGPipelineResponse:
    """Return the answer to a question, and keep it for some minutes for the caller.

    Args:
        principal: the caller, whose rights decide what is searched.
        caller: the program that asks, for the record; it grants nothing.

    Raises:
        UnknownDomain: not registered, or not for this principal.
        InvalidRequest: an unusable field, or an unknown persona.
        CursorExpired: the rest of the answer is no longer kept, or is not this principal's.
        AllSourcesFailed: no source answered.
        EvidenceIncomplete: `strict`, and required evidence is missing.
        AuditUnavailable: the answer could not be recorded, and may not be given without a record.
        ConfigError, PolicyError, MaskingError: as `Engine.search`.
    """
    if request.persona_key is not None:
        deployment.setup.resolver.base(persona=request.persona_key)  # an unknown one is wrong with a cursor too
    if request.cursor is not None:
        return next_part(deployment, principal, request.cursor)
    started = time.monotonic()
    engine = deployment.engine
    registry = deployment.known_to(principal)
    domain = only_domain(registry, request.domain)
    result = engine.search(
        search_request(request, domain, registry, principal=principal, caller=caller, request_id=request_id)
    )
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
    """Return the context of the first part, and record that it was read."""
    if not parts:
        return engine.context(result, counter=COUNTER)
    engine.read(result, parts[0].context)
    return parts[0].context


def dealt(engine: Engine, result: SearchResult, *, max_chars: int | None) -> tuple[ContextPart, ...]:
    """Return the parts of an answer; the context of each fits `context_max_tokens` and `max_chars`.

    Raises:
        MaskingError: a masker failed.
    """
    limit = limited(COUNTER, result.settings.values.context_max_tokens, max_chars)
    assert limit is not None
    return tuple(parts_of_result(result, counter=limit.counter, budget=limit.budget, mask=engine.mask))


def answer_part(answer: KeptAnswer, number: int) -> RAGPipelineResponse:
    """Return a part of an answer: its chunks and their context string, with the statistics of the whole.

    Args:
        answer: the answer; without parts it is its only part.
        number: 1-based.
    """
    response, parts = answer.response, answer.parts
    assert response is not None
    if not parts:
        return response
    part = parts[number - 1]
    blocks = [block for other in parts for block in other.context.blocks]
    labels = citation_labels(blocks, (key for other in parts for key in other.keys))
    chunks = {(chunk.source_id, chunk.chunk_id): chunk for chunk in response.chunks}
    return response.model_copy(
        update={
            "chunks": tuple(chunks[key].model_copy(update={"citation_label": labels[key]}) for key in part.keys),
            "context_string": None if response.context_string is None else context_string(part.context),
            "part": AnswerPart(
                number=number,
                of=len(parts),
                cursor=make_cursor(response.search_id, number + 1) if number < len(parts) else None,
            ),
        }
    )


def next_part(deployment: Deployment, principal: Principal, cursor: str) -> RAGPipelineResponse:
    """Return the part of a cursor, and record that it was read; the same cursor gives the same part.

    Args:
        principal: the caller, who must have received the part before.

    Raises:
        CursorExpired: the answer is no longer kept, is another principal's, or the cursor is forged.
        AuditUnavailable: the reading could not be recorded, and no text may be given without a record.
    """
    search_id, numbers = read_cursor(cursor)
    try:
        answer = deployment.kept.get(principal, search_id)
    except CursorExpired:
        raise CursorExpired(CURSOR_EXPIRED) from None
    number = numbers[0]
    if answer.response is None or number > len(answer.parts):
        raise CursorExpired(CURSOR_EXPIRED)
    if answer.response.context_string is not None:
        deployment.engine.read(answer.result, answer.parts[number - 1].context)
    return answer_part(answer, number)
