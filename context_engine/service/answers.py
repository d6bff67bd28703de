"""Builds contexts from a search or from given chunks, and ranks given chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from context_engine.core.context import (
    context_of_dicts,
    for_a_model,
    inject_rag_context,
    limited,
    must_be_masked,
    system_prompt,
)
from context_engine.core.models import (
    Caller,
    Citation,
    Context,
    ContextBlock,
    Outcome,
    Principal,
    SearchRequest,
    SearchResult,
    advice_on_dicts,
    chunk_from_dict,
)
from context_engine.service.contract.context import (
    ContextCitation,
    ContextOmission,
    ContextRequest,
    ContextResponse,
    RerankRequest,
    RerankResponse,
)
from context_engine.service.contract.rag import GivenChunks
from context_engine.service.deployment import Deployment
from context_engine.service.response import COUNTER, citation_labels, context_string, retrieval_chunk
from context_engine.wiring.functions import function_domain


def build_context(deployment: Deployment, request: ContextRequest, *, principal: Principal) -> ContextResponse:
    """Return the context for a model.

    Args:
        principal: the caller; for a search, the one who received the answer.

    Raises:
        CursorExpired: the answer of that search is no longer kept, or belongs to somebody else.
        InvalidRequest: an unusable chunk or message.
        AuditUnavailable: the reading could not be recorded, and no text may be given without a record.
        MaskingError: a masker failed.
    """
    kept = None if request.chunks is not None else deployment.kept.get(principal, request.search_id or "").result
    if kept is None:
        context = _of_chunks(deployment, request, request.chunks or ())
    else:
        context = _of_search(deployment, request, kept)
    namespace_of = str if kept is None else kept.namespace_of
    text = context.text
    role = {} if request.role is None else {"role": request.role}
    messages = None if request.messages is None else tuple(inject_rag_context(request.messages, text))
    return ContextResponse.model_construct(
        search_id=request.search_id,
        context_string=context_string(context),
        form=context.form,
        citations=tuple(
            context_citation(citation, block, namespace_of(citation.source_id))
            for citation, block in zip(context.citations, context.blocks, strict=True)
        ),
        left_out=tuple(
            ContextOmission.model_construct(
                namespace=namespace_of(omission.source_id),
                source_id=omission.source_id,
                chunk_id=omission.chunk_id,
                rank=omission.rank,
                reason=omission.reason,
                tokens=omission.tokens,
                room=omission.room,
            )
            for omission in context.left_out
        ),
        notes=context.notes,
        system_prompt=system_prompt(text, **role),
        messages=messages,
    )


def _of_search(deployment: Deployment, request: ContextRequest, result: SearchResult) -> Context:
    limit = limited(COUNTER, request.max_tokens or result.settings.values.context_max_tokens, request.max_chars)
    assert limit is not None
    return deployment.engine.context(result, counter=limit.counter, budget=limit.budget, form=request.form)


def _of_chunks(deployment: Deployment, request: ContextRequest, chunks: GivenChunks) -> Context:
    dicts = chunk_dicts(chunks)
    mask = deployment.engine.mask if must_be_masked(dicts) else None
    return context_of_dicts(dicts, request.max_chars, request.max_tokens, counter=COUNTER, form=request.form, mask=mask)


def context_citation(citation: Citation, block: ContextBlock, namespace: str) -> ContextCitation:
    """Return the published form of a citation and its block."""
    return ContextCitation.model_construct(
        citation_label=citation.label,
        attribution=citation.attribution,
        namespace=namespace,
        source_id=citation.source_id,
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


_NAMES: Final = {
    "namespace": "source_id",
    "doc_id": "document_id",
    "content_type": "doc_type",
    "provenance": "_provenance",
    "final_score": "_rag_score",
}
"""Fields of the RAG API, and the equivalent keys of a chunk dict."""

_METADATA: Final = {
    "canonical_url": "url",
    "source_org": "source_org",
    "year": "year",
    "content_type": "content_type",
    "license": "license",
    "tags": "tags",
}
"""Fields of the RAG API, and the equivalent fields of a chunk's metadata."""

_OF_THE_ANSWER: Final = frozenset(("citation_label", "flags"))
"""Keys that an answer added to a chunk; its tag holds the flags as well."""


def chunk_dicts(chunks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return chunks with the keys of `context_engine.rag`; existing keys win.

    The `score` of a chunk with the tag of an answer is dropped: it is relative to that answer and not comparable with
    chunks from elsewhere.
    """
    return [_chunk_dict(chunk) for chunk in chunks]


def _chunk_dict(chunk: Mapping[str, Any]) -> dict[str, Any]:
    if not chunk.keys() & (_NAMES.keys() | _METADATA.keys()):
        return dict(chunk)
    known = {key: value for key, value in chunk.items() if value is not None}
    own = {key: value for key, value in known.items() if key not in {*_NAMES, *_METADATA, *_OF_THE_ANSWER}}
    named = {key: known[name] for name, key in _NAMES.items() if name in known}
    if "provenance" in known:
        own.pop("score", None)
    fields = {key: known[name] for name, key in _METADATA.items() if name in known}
    return {**named, **own, "metadata": {**fields, **(known.get("metadata") or {})}}


_NO_DOMAIN: Final = "rerank"


def rerank_chunks(
    deployment: Deployment,
    request: RerankRequest,
    *,
    principal: Principal,
    caller: Caller,
    request_id: str | None = None,
) -> RerankResponse:
    """Return chunks ranked by dedup, relevance filter, reranker, authority and selection, like `rag.rerank`.

    Each chunk states its own source, tier, trust and dates; the default is tier 5. No source is asked, no filter of the
    domain applies, and nothing is out of scope.

    Args:
        principal: the caller, for the record; the origin of the chunks is not checked.

    Raises:
        InvalidRequest: an unusable chunk or option.
        AuditUnavailable: the ranking could not be recorded, and may not be given without a record.
        MaskingError: a masker failed.
    """
    dicts = chunk_dicts(request.chunks)
    notices = advice_on_dicts(dicts)
    chunks = [chunk_from_dict(chunk, notices) for chunk in dicts]
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
    labels = citation_labels((), [(chunk.source_id, chunk.chunk_id) for chunk in shown.chunks])
    return RerankResponse.model_construct(
        status=str(result.status),
        decision=str(result.decision),
        search_id=result.search_id,
        request_id=request_id,
        query=result.query,
        domain=name,
        chunks=tuple(retrieval_chunk(chunk, labels[chunk.source_id, chunk.chunk_id], "") for chunk in shown.chunks),
        total_given=len(chunks),
        total_returned=len(shown.chunks),
        reranking_enabled=reranked,
        rerank_model=engine.reranker_name(result.settings.values) if reranked else None,
        not_returned=tuple(fate.to_dict() for fate in result.fates if fate.outcome is not Outcome.RETURNED),
        warnings=shown.warnings,
    )


def _overrides(request: RerankRequest) -> dict[str, Any]:
    wanted = {
        "stage2_top_k": request.top_k,
        "reranking_enabled": request.enable_reranking,
        "rerank_top_n": request.rerank_top_n,
    }
    return {"scope_threshold": 0.0, **{key: value for key, value in wanted.items() if value is not None}}
