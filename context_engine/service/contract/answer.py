"""The answer contract: a model's answer, its sources, and how they were found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from context_engine.core.models import MASK_CONTEXTS
from context_engine.core.policy.injection import INJECTION_SUSPECTED
from context_engine.core.text import leading
from context_engine.errors import InvalidRequest
from context_engine.service.contract.chunks import (
    SNIPPET_CHARS,
    Rank,
    RetrievalChunk,
    RetrievalResult,
    Score,
    SourceReference,
)
from context_engine.service.contract.rag import RAGPipelineResponse

ANSWER_VERSION: Final = "context_engine.answer.v1"


class _Section(BaseModel):
    """A section that keeps fields added by later minor versions."""

    model_config = ConfigDict(frozen=True, extra="allow")


class AnswerSection(_Section):
    """The model's answer."""

    text: str | None = Field(description="The answer in words; null if none was generated.")
    cited: tuple[str, ...] = Field(
        description="The labels in the text that are in `sources`, in the order of the text."
    )


class RetrievalSummarySection(_Section):
    """The retrieval of the sources."""

    query: str
    domain: str
    top_k: int = Field(ge=0, description="The number of chunks of the whole answer.")
    namespaces: tuple[str, ...]
    filters: dict[str, Any]
    results: tuple[RetrievalResult, ...]
    total_retrieved: int
    total_reranked: int
    top_score: Score | None
    average_score: Score | None
    execution_time_ms: Score
    embedding_model: str | None
    rerank_model: str | None


class UnknownsSection(_Section):
    """Gaps in the evidence for the answer."""

    labels_without_source: tuple[str, ...] = Field(
        description="Labels in the answer's text without a source: check these statements by hand."
    )
    sources_without_answer: tuple[str, ...] = Field(description="Sources that failed, wholly or in part.")
    out_of_scope: bool = Field(description="The question is not one for this domain.")
    evidence_incomplete: bool = Field(description="Required evidence, or a source, is missing.")
    warnings: tuple[str, ...]


class ProvenanceSection(_Section):
    """The origin of the answer."""

    search_id: str = Field(description="Id of the record of the search.")
    request_id: str | None
    retrieved_at: str | None = Field(description="When the last source answered, UTC; null if nothing was found.")
    status: str
    decision: str
    part: Rank
    parts: Rank
    demo: bool


class AnswerJson(_Section):
    """An answer with its sources, version `context_engine.answer.v1`."""

    version: Literal["context_engine.answer.v1"]
    persona: str | None
    answer: AnswerSection
    sources: tuple[SourceReference, ...]
    retrieval_summary: RetrievalSummarySection
    unknowns: UnknownsSection
    provenance: ProvenanceSection

    @classmethod
    def from_response(cls, response: RAGPipelineResponse, *, answer: str | None = None) -> Self:
        """Return the contract of an answer.

        Args:
            response: the response that the model was given; for an answer in parts, the part.
            answer: of the model, or None.
        """
        chunks = response.chunks
        labels = {chunk.citation_label for chunk in chunks}
        cited = cited_labels(answer or "")
        return cls(
            version=ANSWER_VERSION,
            persona=response.persona,
            answer=AnswerSection(text=answer, cited=tuple(label for label in cited if label in labels)),
            sources=tuple(map(_source, chunks)),
            retrieval_summary=_summary(response),
            unknowns=_unknowns(response, [label for label in cited if label not in labels]),
            provenance=_provenance(response),
        )

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """Parse a contract from JSON; fields of later minor versions are kept.

        Raises:
            InvalidRequest: not a JSON object, another version, or a missing or invalid field, named in the message.
        """
        try:
            data = json.loads(text)
        except ValueError:
            raise InvalidRequest("this is not JSON: an answer contract is one JSON object") from None
        version = data.get("version") if isinstance(data, dict) else None
        if version != ANSWER_VERSION:
            raise InvalidRequest(f"version must be {ANSWER_VERSION!r}, got {version!r}: this version reads no other")
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise InvalidRequest(f"answer contract: {place}: {first['msg']}") from None


def _source(chunk: RetrievalChunk) -> SourceReference:
    return SourceReference.of(dict(chunk), relevance_score=chunk.final_score, trusted=_is_trusted(chunk))


def _summary(response: RAGPipelineResponse) -> RetrievalSummarySection:
    statistics = response.statistics
    return RetrievalSummarySection(
        query=response.query,
        domain=response.domain,
        top_k=statistics.total_returned,
        namespaces=statistics.namespaces_searched,
        filters=statistics.filters_applied or {},
        results=tuple(map(_result, response.chunks)),
        total_retrieved=statistics.total_retrieved,
        total_reranked=statistics.total_reranked,
        top_score=statistics.top_score,
        average_score=statistics.average_score,
        execution_time_ms=statistics.total_time_ms,
        embedding_model=response.embedding_model,
        rerank_model=response.rerank_model,
    )


def _result(chunk: RetrievalChunk) -> RetrievalResult:
    snippet = leading(chunk.content, SNIPPET_CHARS)
    return RetrievalResult.of(
        dict(chunk),
        score=chunk.final_score,
        snippet=snippet,
        snippet_truncated=len(snippet) < len(chunk.content),
        trusted=_is_trusted(chunk),
        masked=bool(_extra(chunk).get(MASK_CONTEXTS)),
    )


def _unknowns(response: RAGPipelineResponse, labels: Iterable[str]) -> UnknownsSection:
    return UnknownsSection(
        labels_without_source=tuple(labels),
        sources_without_answer=tuple(
            source.source_id for source in response.sources if source.state in ("failed", "partial")
        ),
        out_of_scope=response.decision == "out_of_scope",
        evidence_incomplete=response.decision == "incomplete" or response.status != "complete",
        warnings=response.warnings,
    )


def _provenance(response: RAGPipelineResponse) -> ProvenanceSection:
    moments = [str(moment) for chunk in response.chunks if (moment := _extra(chunk).get("retrieved_at"))]
    return ProvenanceSection(
        search_id=response.search_id,
        request_id=response.request_id,
        retrieved_at=max(moments, default=None),
        status=response.status,
        decision=response.decision,
        part=response.part.number,
        parts=response.part.of,
        demo=response.demo,
    )


def _is_trusted(chunk: RetrievalChunk) -> bool:
    """Whether its text is in the context without a fence."""
    return chunk.provenance.get("trust_class") == "TRUSTED" and INJECTION_SUSPECTED not in chunk.flags


def _extra(chunk: RetrievalChunk) -> dict[str, Any]:
    extra = chunk.provenance.get("extra")
    return extra if isinstance(extra, dict) else {}


_GROUP: Final = re.compile(r"\[\s*(\d{1,4}(?:\s*[,;]\s*\d{1,4})*)\s*\](?!\()")
_NUMBER: Final = re.compile(r"\d+")


def cited_labels(text: str) -> list[str]:
    """Return the labels in a text, each once, in order; "[1, 3]" has two, and a link "[1](address)" has none.

    >>> cited_labels("Within a day [2][1]; the chair first [1, 3].")
    ['[2]', '[1]', '[3]']
    """
    numbers = (number for group in _GROUP.finditer(text) for number in _NUMBER.findall(group[1]))
    return list(dict.fromkeys(f"[{int(number)}]" for number in numbers))
