"""Contract of the explanation of an answer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from context_engine.service.contract.chunks import ChunkShown, Namespace
from context_engine.service.contract.comparison import Difference


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True)


class ExplainedSource(_Told):
    """The outcome of a source."""

    source_id: str
    title: str
    authority_tier: int | None = Field(description="Null if erased from the record.")
    state: str = Field(description="ok, empty, partial or failed.")
    candidates: int
    elapsed_ms: float
    problem: str | None


class ExplainedStage(_Told):
    """A step of the funnel."""

    name: str
    entered: int
    left: int


class ChunkNotShown(_Told):
    """A candidate that is not in the answer, and the reason."""

    namespace: Namespace
    source_id: str
    chunk_id: str
    title: str | None
    outcome: str = Field(description="dropped, or merged into another.")
    stage: str
    reason: str
    value: float | str | None = Field(description="The number that was tested, if any.")
    limit: float | str | None = Field(description="The limit it was tested against.")
    into: str | None = Field(description="SOURCE/CHUNK that it was merged into.")
    why: str = Field(description="The same in words.")


class ExplainedSwap(_Told):
    """A pair whose order the authority tier reversed."""

    winner: str = Field(description="SOURCE/CHUNK that ranks above because of its tier.")
    loser: str
    winner_tier: int
    loser_tier: int
    gap: float = Field(description="Relevance by which the loser was ahead.")


class ExplainedSetting(_Told):
    """A setting that differs from the default."""

    name: str
    value: Any
    origin: str


class ExplainedNotice(_Told):
    """A notice for the reader."""

    code: str
    subject: str
    message: str | None


class Explanation(_Told):
    """The explanation of an answer: the question, the funnel, what was shown or not shown, and why."""

    version: Literal["v1"] = "v1"
    search_id: str
    time: str = Field(description="UTC.")
    domain: str
    question: str | None
    question_missing: str = Field(description="Why the question is missing, or empty.")
    persona: str | None
    as_of: str | None = Field(description="The day for which the answer was to hold.")
    status: str
    decision: str
    recorded: bool = Field(description="Whether searches are recorded; otherwise this is kept for a few minutes only.")
    sources: tuple[ExplainedSource, ...]
    funnel: tuple[ExplainedStage, ...]
    outcomes: dict[str, int] = Field(description="Number of candidates returned, merged and dropped.")
    scope_threshold: float | None = Field(description="Best absolute relevance below which a question is out of scope.")
    shown: tuple[ChunkShown, ...]
    not_shown: tuple[ChunkNotShown, ...] = Field(description="The closest ones, at most ten.")
    swaps: tuple[ExplainedSwap, ...] = Field(description="At most ten.")
    swap_count: int
    settings: tuple[ExplainedSetting, ...] = Field(
        description="The settings of the search that differ from the default."
    )
    notices: tuple[ExplainedNotice, ...]
    comparison: Difference | None = Field(description="Between the candidates by relevance only and the answer.")
    missing: tuple[str, ...] = Field(description="Erased parts of the record.")
    demo: bool = Field(description="The documents are those of a fictitious bank.")
