"""A question as a framework asks it, and the passages of its answer with their metadata."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from context_engine.apps.integrations.knowledge import Knowledge
from context_engine.core.context.fence import fence
from context_engine.core.models import TrustClass
from context_engine.errors import InvalidRequest, RetrievalFailed
from context_engine.service.contract.chunks import RetrievalChunk
from context_engine.service.contract.rag import RAGPipelineResponse, RAGQueryRequest
from context_engine.settings.messages import config_error

_OWN: Final = ("query", "cursor", "compare", "include_context_string", "max_tokens", "max_chars")
_OF_CHUNK: Final = (
    *("title", "section", "canonical_url", "citation_label", "rank", "confidence", "authority_tier", "source_type"),
    *("flags", "chunk_id", "doc_id", "namespace", "source_id", "source_org", "year", "content_type", "license", "tags"),
    *("score", "rerank_score", "final_score"),
)
_OF_TAG: Final = ("trust_class", "fetched_at", "ttl_seconds")
_OF_EXTRA: Final = (
    *("freshness", "classification", "document_version"),
    *("effective_from", "effective_to", "superseded_by", "also_in", "content_sha256"),
)
_OF_PLACE: Final = ("page", "page_end", "line", "source_file")
_TOLD: Final = ("citation_label", "source_type", "page")
_TOLD_IF_TRUSTED: Final = (*_TOLD, "title", "section", "effective_from", "effective_to")


class NoPassages(RetrievalFailed):
    """The search has nothing to give: out of scope, no match, or incomplete evidence.

    Attributes:
        result: the answer of the RAG API, with decision, warnings and sources.
    """

    code = "no_passages"


class SourcesMissing(RetrievalFailed):
    """A source or a stage is missing from the answer, and the retriever was set to fail in that case.

    Attributes:
        result: the answer of the RAG API, with its passages.
    """

    code = "sources_missing"


class RetrievedPassage(NamedTuple):
    """A passage for a framework.

    Attributes:
        text: fenced if the passage is not trusted.
        score: `final_score`.
        metadata: flat and JSON-ready, but for `provenance`; fields without a value are left out.
    """

    id: str
    text: str
    score: float
    metadata: dict[str, Any]

    @property
    def told_to_models(self) -> tuple[str, ...]:
        """Names of the metadata that a model needs to cite the passage; none that an untrusted document words."""
        return _TOLD if self.metadata["trust_class"] == TrustClass.UNTRUSTED else _TOLD_IF_TRUSTED


@dataclass(frozen=True, kw_only=True)
class Questions:
    """How a retriever asks.

    Attributes:
        domain: a registered domain; may be omitted if there is only one.
        top_k: most passages, 1 to 1000; None: as configured.
        filters: conditions on the fields of the documents, in any form of the RAG API.
        request: further fields of `RAGQueryRequest`, such as `persona_key`, `as_of`, `require_tiers` or `settings`.
        empty_allowed: return no passage where there is none, instead of raising `NoPassages`.
        degraded_allowed: return the passages of a degraded answer, marked, instead of raising `SourcesMissing`.
        fence_untrusted: put the text of untrusted passages in a fence that the text cannot close.
    """

    domain: str | None = None
    top_k: int | None = None
    filters: Mapping[str, Any] | str | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    empty_allowed: bool = False
    degraded_allowed: bool = True
    fence_untrusted: bool = True

    def checked(self) -> Questions:
        """Return these questions.

        Raises:
            InvalidRequest: a field cannot be used.
        """
        self.of("?")
        return self

    def of(self, query: str, **changed: Any) -> RAGQueryRequest:
        """Return the request for a question.

        Args:
            changed: fields for this question only; None leaves a field as it is.

        Raises:
            InvalidRequest: a field cannot be used.
        """
        for name in _OWN:
            if name in self.request:
                raise InvalidRequest(f"request: {name!r} is set by the retriever: leave it out")
        own = {"domain": self.domain, "top_k": self.top_k, "filters": self.filters}
        fields = {**self.request, **_given(own), **_given(changed), "query": query, "include_context_string": False}
        try:
            return RAGQueryRequest.model_validate(fields)
        except ValidationError as error:
            problem = str(config_error(error, fields, RAGQueryRequest, file=""))
        raise InvalidRequest(problem)

    def asked(self, knowledge: Knowledge, query: str, **changed: Any) -> RAGPipelineResponse:
        """Return the answer to a question.

        Raises:
            NoPassages, SourcesMissing: unless allowed.
            ContextEngineError: as `Knowledge.ask`.
        """
        answer = knowledge.ask(self.of(query, **changed))
        if answer.status != "complete" and not self.degraded_allowed:
            raise SourcesMissing(_described(answer, f"the answer is {answer.status}"), result=answer)
        if not answer.chunks and not self.empty_allowed:
            raise NoPassages(_described(answer, f"no passage, decision {answer.decision}"), result=answer)
        return answer

    async def aasked(self, knowledge: Knowledge, query: str, **changed: Any) -> RAGPipelineResponse:
        """Run `asked` in a worker thread; the same answer."""
        return await asyncio.to_thread(self.asked, knowledge, query, **changed)

    def passages(
        self, answer: RAGPipelineResponse, nonce: Callable[[], str] = lambda: secrets.token_hex(8)
    ) -> list[RetrievedPassage]:
        """Return the passages of an answer, best first.

        Args:
            nonce: makes the word that closes the fences of this answer.
        """
        word = nonce() if self.fence_untrusted else None
        shared = standing(answer)
        return [_passage(chunk, shared, word) for chunk in answer.chunks]


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def standing(answer: RAGPipelineResponse) -> dict[str, Any]:
    """Return what may be concluded from an answer, flat and JSON-ready."""
    return {
        "domain": answer.domain,
        "search_id": answer.search_id,
        "status": answer.status,
        "decision": answer.decision,
        "warnings": list(answer.warnings),
        "missing_sources": [source.source_id for source in answer.sources if source.problem is not None],
        "demo": answer.demo,
    }


def _described(answer: RAGPipelineResponse, problem: str) -> str:
    reasons = [f"{source.source_id}: {source.problem}" for source in answer.sources if source.problem is not None]
    return "; ".join([f"search {answer.search_id}: {problem}", *reasons, *answer.warnings])


def _passage(chunk: RetrievalChunk, shared: Mapping[str, Any], nonce: str | None) -> RetrievedPassage:
    tag: Mapping[str, Any] = chunk.provenance
    untrusted = tag.get("trust_class") == TrustClass.UNTRUSTED
    text = fence(chunk.content, nonce) if untrusted and nonce is not None else chunk.content
    return RetrievedPassage(
        f"{chunk.source_id or chunk.namespace}:{chunk.chunk_id}", text, chunk.final_score, _metadata(chunk, tag, shared)
    )


def _metadata(chunk: RetrievalChunk, tag: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    shown = chunk.model_dump(mode="json")
    values = {name: shown[name] for name in _OF_CHUNK}
    values |= {name: tag.get(name) for name in _OF_TAG}
    values |= {name: tag.get("extra", {}).get(name) for name in _OF_EXTRA}
    values |= {name: chunk.metadata.get(name) for name in _OF_PLACE}
    known = {name: value for name, value in values.items() if value not in (None, "", [])}
    return {**known, **shared, "provenance": shown["provenance"]}
