"""How an answer came to be, as it is published."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from context_engine.service.contract.chunks import ChunkShown
from context_engine.service.contract.comparison import Difference


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True)


class ExplainedSource(_Told):
    """What a source did."""

    source_id: str
    title: str
    authority_tier: int | None = Field(description="Null where the record does not say it any more.")
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
    """A candidate that is not in the answer, and what became of it."""

    namespace: str
    chunk_id: str
    title: str | None
    outcome: str = Field(description="dropped, or merged into another.")
    stage: str
    reason: str
    value: float | str | None = Field(description="The number that was tested, where one was ...")
    limit: float | str | None = Field(description="... and what it was tested against.")
    into: str | None = Field(description="SOURCE/CHUNK that it was merged into.")
    why: str = Field(description="The same in words.")


class ExplainedSwap(_Told):
    """A pair whose order the authority tier turned round."""

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
    """What a reader should know."""

    code: str
    subject: str
    message: str | None


class Explanation(_Told):
    """How an answer came to be: the question, the funnel, what was shown and what was not, and why."""

    version: Literal["v1"] = "v1"
    search_id: str
    time: str = Field(description="UTC.")
    domain: str
    question: str | None
    question_missing: str = Field(description="Why there is no question; empty where there is one.")
    persona: str | None
    as_of: str | None = Field(description="The day the answer was to be true for.")
    status: str
    decision: str
    recorded: bool = Field(description="Searches are recorded here; without that this is known for some minutes only.")
    sources: tuple[ExplainedSource, ...]
    funnel: tuple[ExplainedStage, ...]
    outcomes: dict[str, int] = Field(description="How many candidates were returned, merged and dropped.")
    scope_threshold: float | None = Field(description="Best absolute relevance below which a question is out of scope.")
    shown: tuple[ChunkShown, ...]
    not_shown: tuple[ChunkNotShown, ...] = Field(description="Those that came closest, ten at most.")
    swaps: tuple[ExplainedSwap, ...] = Field(description="Ten at most.")
    swap_count: int
    settings: tuple[ExplainedSetting, ...] = Field(description="Those of the search that differ from the default.")
    notices: tuple[ExplainedNotice, ...]
    comparison: Difference | None = Field(description="From the candidates by relevance alone to the answer.")
    missing: tuple[str, ...] = Field(description="Parts of the record that were erased.")
    demo: bool = Field(description="The knowledge is the fictitious bank's.")
