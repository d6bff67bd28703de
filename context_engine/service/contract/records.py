"""What the ledger tells of one answer, as the RAG API gives it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


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
