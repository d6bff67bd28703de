"""Published forms of passages by id and of records."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from context_engine.service.contract.chunks import FetchedChunk

MOST_TOKENS: Final = 8000

Id = Annotated[str, StringConstraints(min_length=1, max_length=1000)]

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class FetchQuery(BaseModel):
    """Which chunks are wanted: some by their ids, all of some documents, or both."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={"examples": [{"domain": "NPA", "chunk_ids": ["NPA-REG-SCHEME@2025.1#0"]}]},
    )

    domain: Name | None = Field(None, description="A registered domain; may be left out where there is only one.")
    source: Name | None = Field(
        None, description="Id of the source; null: every source of the domain that may be searched is looked in."
    )
    chunk_ids: Annotated[tuple[Id, ...], Field(max_length=100)] = Field((), description="chunk_id of answers.")
    document_ids: Annotated[tuple[Id, ...], Field(max_length=20)] = Field(
        (), description="doc_id of answers: all chunks of the document, in its order."
    )
    max_tokens: Annotated[int, Field(strict=True, ge=64, le=1_000_000)] = Field(
        MOST_TOKENS, description="Most tokens of the chunks; the ids of those that do not fit are in left_out."
    )

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.chunk_ids and not self.document_ids:
            raise ValueError("nothing is asked for: send chunk_ids or document_ids")
        return self


class UnansweredSource(BaseModel):
    """A source that could not be looked in."""

    model_config = ConfigDict(frozen=True)

    source_id: str
    code: str = Field(description="fetch_unsupported: it can never give chunks by their ids; others: not now.")
    problem: str


class FetchResponse(BaseModel):
    """What there is of what was asked for; what may not be read is not there."""

    model_config = ConfigDict(frozen=True)

    version: Literal["v1"] = "v1"
    domain: str
    chunks: tuple[FetchedChunk, ...]
    context_string: str = Field(description="The same for a model: labelled, untrusted text in fences.")
    total_tokens: int = Field(description="Of context_string, estimated.")
    not_found: tuple[str, ...] = Field(description="Ids for which there is nothing.")
    left_out: tuple[str, ...] = Field(description="Ids of chunks that there are, and that max_tokens had no room for.")
    unanswered: tuple[UnansweredSource, ...] = Field(description="Where an id may stand that was not found.")
    demo: bool = Field(description="The knowledge is the fictitious bank's.")


class RecordStanding(BaseModel):
    """How firmly a record stands."""

    model_config = ConfigDict(frozen=True)

    index: int | None = Field(description="Its place in the log, from 0; null while it waits to be given one.")
    checkpoint: int | None = Field(
        description="Number of records that the newest checkpoint vouches for, if this is one of them; else null."
    )
    signed: bool = Field(description="Somebody signed that checkpoint; the proof has the signatures.")


class RecordResponse(BaseModel):
    """A record: what 'context-engine audit show --json' writes, without what its caller may not know."""

    model_config = ConfigDict(frozen=True)

    version: Literal["v1"] = "v1"
    entry: dict[str, Any] = Field(
        description="Who asked (by pseudonym), what came of it and what was shown. Only an operator learns which "
        "sources were denied and which chunks withheld."
    )
    question: dict[str, Any] | None = Field(description="All that was made of the question's words.")
    question_missing: str = Field(description="Why there is no question; empty where there is one.")
    fates: tuple[dict[str, Any], ...] = Field(description="What became of each candidate.")
    settings: dict[str, Any] | None = Field(description="Each setting with its value and origin.")
    missing: tuple[dict[str, Any], ...] = Field(description="Parts that were erased since, and by which entry.")
    contexts: tuple[dict[str, Any], ...] = Field(description="What a model was given to read of it.")
    proof: RecordStanding
