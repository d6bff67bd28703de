"""What the models of requests and answers have in common."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


class Asked(BaseModel):
    """A request: what it does not know, it refuses."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Answered(BaseModel):
    """An answer, or a part of one."""

    model_config = ConfigDict(frozen=True)


def _with_text(chunk: dict[str, Any]) -> dict[str, Any]:
    content = chunk.get("content")
    if not isinstance(content, str) or not content.strip():
        raise ValueError("a chunk needs its text in 'content'")
    for name in ("metadata", "provenance", "_provenance"):
        if chunk.get(name) is not None and not isinstance(chunk[name], Mapping):
            raise ValueError(f"{name} must be an object")
    return chunk


def _written(day: Any) -> Any:
    """Refuse what pydantic would take for seconds since 1970."""
    if isinstance(day, int | float):
        raise ValueError("a day is text: write it as 2025-06-30")
    return day


Flag = Annotated[bool, Field(strict=True)]
Day = Annotated[date, BeforeValidator(_written)]
Query = Annotated[str, Field(min_length=1, max_length=10_000)]
MaxTokens = Annotated[int, Field(strict=True, ge=64, le=1_000_000)]
MaxChars = Annotated[int, Field(strict=True, ge=256, le=10_000_000)]
GivenChunks = Annotated[
    tuple[Annotated[dict[str, Any], AfterValidator(_with_text)], ...],
    Field(
        max_length=1000,
        description="Chunks as an answer of this API holds them, or as `context_engine.rag` does; each needs "
        "`content`, every other field may be left out.",
        examples=[[{"content": "Losses above USD 10,000 are reported within a day.", "chunk_id": "sop-1#3"}]],
    ),
]
