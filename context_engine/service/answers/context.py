"""Chunks as what a model reads: of a search, or as a caller hands them over."""

from __future__ import annotations

from context_engine.core.context import (
    context_of_dicts,
    inject_rag_context,
    limited,
    must_be_masked,
    system_prompt,
)
from context_engine.core.models import Citation, Context, ContextBlock, Principal
from context_engine.service.answers.given_chunks import chunk_dicts
from context_engine.service.contract.context import (
    ContextCitation,
    ContextOmission,
    ContextRequest,
    ContextResponse,
)
from context_engine.service.contract.forms import GivenChunks
from context_engine.service.deployment import Deployment
from context_engine.service.response.context_text import COUNTER, context_string


def build_context(deployment: Deployment, request: ContextRequest, *, principal: Principal) -> ContextResponse:
    """Return what a model is to read.

    Args:
        principal: who asks; of a search it must be who got the answer.

    Raises:
        CursorExpired: the answer of that search is not kept any more, or was somebody else's.
        InvalidRequest: a chunk or a message that cannot be used.
        AuditUnavailable: the reading could not be recorded, and the text must not be given without.
        MaskingError: a masker failed.
    """
    if request.chunks is not None:
        context = _of_chunks(deployment, request, request.chunks)
    else:
        context = _of_search(deployment, request, principal)
    text = context.text
    role = {} if request.role is None else {"role": request.role}
    messages = None if request.messages is None else tuple(inject_rag_context(request.messages, text))
    return ContextResponse.model_construct(
        search_id=request.search_id,
        context_string=context_string(context),
        form=context.form,
        citations=tuple(map(_citation, context.citations, context.blocks)),
        left_out=tuple(
            ContextOmission.model_construct(
                namespace=one.source_id,
                chunk_id=one.chunk_id,
                rank=one.rank,
                reason=one.reason,
                tokens=one.tokens,
                room=one.room,
            )
            for one in context.left_out
        ),
        notes=context.notes,
        system_prompt=system_prompt(text, **role),
        messages=messages,
    )


def _of_search(deployment: Deployment, request: ContextRequest, principal: Principal) -> Context:
    result = deployment.kept.get(principal, request.search_id or "").result
    limit = limited(COUNTER, request.max_tokens or result.settings.values.context_max_tokens, request.max_chars)
    assert limit is not None
    return deployment.engine.context(result, counter=limit.counter, budget=limit.budget, form=request.form)


def _of_chunks(deployment: Deployment, request: ContextRequest, chunks: GivenChunks) -> Context:
    given = chunk_dicts(chunks)
    mask = deployment.engine.mask if must_be_masked(given) else None
    return context_of_dicts(given, request.max_chars, request.max_tokens, counter=COUNTER, form=request.form, mask=mask)


def _citation(citation: Citation, block: ContextBlock) -> ContextCitation:
    return ContextCitation.model_construct(
        citation_label=citation.label,
        attribution=citation.attribution,
        namespace=citation.source_id,
        chunk_ids=citation.chunk_ids,
        doc_id=citation.document_id,
        document_version=citation.document_version,
        title=citation.title,
        section=citation.section,
        page=citation.page,
        canonical_url=citation.url,
        authority_tier=citation.authority_tier,
        trusted=block.trusted,
        truncated=block.truncated,
    )
