"""The personas, as the RAG API lists them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class PersonaEntry(BaseModel):
    """A named profile of settings, with the values that a search with it has where its domain says nothing else."""

    model_config = ConfigDict(frozen=True)

    key: str = Field(description="For persona_key of a request.")
    description: str = Field(description="What it is for; empty where that is not written down.")
    origin: str = Field(description="The file that it stands in; built-in where there is none.")
    similarity_threshold: float | None = Field(description="Least cosine of a chunk; null: none is asked for.")
    max_results: int
    min_results: int
    rerank: bool = Field(description="Runs the model reranker, where one is configured.")
    rerank_by: str | None = Field(description="Which of the configured rerankers; null: the usual one.")
    namespaces: tuple[str, ...] | None = Field(
        description="Sources that it searches, those that the caller may know; null: all of the domain."
    )
    settings: dict[str, Any] = Field(description="All that it sets, by the names of the settings.")


class PersonasResponse(BaseModel):
    """The personas, by name."""

    model_config = ConfigDict(frozen=True)

    personas: tuple[PersonaEntry, ...]
