"""The settings of one search, and where each of them came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from context_engine.core.models.settings import Settings


class EffectiveSettings(BaseModel):
    """The settings a search ran with, and the origin of each value ("call", "file config/rag-pipeline.json" ...)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    values: Settings = Field(default_factory=lambda: Settings())
    origins: Mapping[str, str] = Field(default_factory=dict)

    @property
    def chunk_limit(self) -> int | None:
        """The most tokens of every chunk where `max_chunk_tokens` was set; None where it has its default.

        The default bounds the rows of the chunking table alone, so that a profile keeps its own size.
        """
        return self.values.max_chunk_tokens if "max_chunk_tokens" in self.origins else None

    def to_dict(self) -> dict[str, Any]:
        """Return {key: {"value", "origin"}}, keys in declaration order; text out of a variable by its expression."""
        values = self.values.model_dump(mode="json")
        for key in values.keys() & self.origins.keys():
            if isinstance(values[key], str | dict):
                values[key] = as_written(getattr(self.values, key), values[key])
        return {key: {"value": value, "origin": self.origins.get(key, "default")} for key, value in values.items()}


def as_written(value: Any, plain: Any) -> Any:
    """Return a plain value with the expression in place of every text that came out of a variable.

    Args:
        value: as it is used.
        plain: the same as JSON holds it.
    """
    if isinstance(plain, str):
        return getattr(value, "written", plain)
    if isinstance(plain, dict) and isinstance(value, Mapping):
        return {key: as_written(value.get(key), one) for key, one in plain.items()}
    if isinstance(plain, list) and isinstance(value, list | tuple):
        return [as_written(one, other) for one, other in zip(value, plain, strict=True)]
    return plain
