"""Contracts of passages by id and of records."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from context_engine.service.contract.chunks import FetchedChunk

MOST_TOKENS: Final = 8000
Id = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class FetchQuery(BaseModel):
    """The chunks to fetch: by chunk id, by document, or both."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"domain": "NPA", "chunk_ids": ["NPA-REG-SCHEME@2025.1#0"]}],
            "anyOf": [
                {"required": [name], "properties": {name: {"minItems": 1}}} for name in ("chunk_ids", "document_ids")
            ],
        },
    )

    domain: Name | None = Field(None, description="A registered domain; may be omitted if there is only one.")
    source: Name | None = Field(
        None, description="Id of the source; null: every source of the domain that the caller may search."
    )
    chunk_ids: Annotated[tuple[Id, ...], Field(max_length=100)] = Field((), description="chunk_id of answers.")
    document_ids: Annotated[tuple[Id, ...], Field(max_length=20)] = Field(
        (), description="doc_id of answers: all chunks of the document, in order."
    )
    max_tokens: Annotated[int, Field(strict=True, ge=64, le=1_000_000)] = Field(
        MOST_TOKENS, description="Most tokens of the chunks; ids that do not fit are in left_out."
    )

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.chunk_ids and not self.document_ids:
            raise ValueError("nothing is requested: send chunk_ids or document_ids")
        return self


class UnansweredSource(BaseModel):
    """A source that could not be read."""

    model_config = ConfigDict(frozen=True)

    source_id: str
    code: str = Field(description="fetch_unsupported: it never supports fetching by id; other codes are temporary.")
    problem: str


class FetchResponse(BaseModel):
    """The requested chunks; unreadable ones are omitted."""

    model_config = ConfigDict(frozen=True)

    version: Literal["v1"] = "v1"
    domain: str
    chunks: tuple[FetchedChunk, ...]
    context_string: str = Field(description="The same for a model: labelled, with untrusted text in fences.")
    total_tokens: int = Field(description="Of context_string, estimated.")
    not_found: tuple[str, ...] = Field(description="Ids without a chunk.")
    left_out: tuple[str, ...] = Field(description="Ids of chunks that did not fit into max_tokens.")
    unanswered: tuple[UnansweredSource, ...] = Field(description="Sources that may have the ids that were not found.")
    demo: bool = Field(description="The documents are those of a fictitious bank.")


class RecordStanding(BaseModel):
    """The proof status of a record."""

    model_config = ConfigDict(frozen=True)

    index: int | None = Field(description="Its place in the log, from 0; null until it has one.")
    checkpoint: int | None = Field(
        description="Number of records that the newest checkpoint covers, if this is one of them; else null."
    )
    signed: bool = Field(description="The checkpoint is signed; the proof has the signatures.")


class RecordResponse(BaseModel):
    """A record as in 'context-engine audit show --json', without details that the caller may not know."""

    model_config = ConfigDict(frozen=True)

    version: Literal["v1"] = "v1"
    entry: dict[str, Any] = Field(
        description="The caller (by pseudonym), the outcome and what was shown. Only an operator sees denied sources "
        "and withheld chunks."
    )
    question: dict[str, Any] | None = Field(description="The question and everything derived from its words.")
    question_missing: str = Field(
        description="Why there is no question, or no answer in the record of an answer; empty where there is one."
    )
    answer: dict[str, Any] | None = Field(None, description="The sentences of a recorded answer and their quotes.")
    fates: tuple[dict[str, Any], ...] = Field(description="The outcome of each candidate.")
    settings: dict[str, Any] | None = Field(description="Each setting with its value and origin.")
    missing: tuple[dict[str, Any], ...] = Field(description="Parts that were erased, and by which entry.")
    contexts: tuple[dict[str, Any], ...] = Field(description="The contexts that a model was given.")
    answers: tuple[dict[str, Any], ...] = Field((), description="The answers that were composed from the search.")
    proof: RecordStanding
