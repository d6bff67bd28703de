"""Contracts of the lists of domains and personas."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Listed(BaseModel):
    model_config = ConfigDict(frozen=True)


class SourceEntry(_Listed):
    """A source of a domain."""

    source_id: str = Field(description="For `namespaces` of a request.")
    namespace: str = Field(description="Likewise, with all its sources; the id of the source if it declares none.")
    title: str
    authority_tier: int = Field(ge=1, le=5, description="1 is the system of record, 5 the general web.")
    source_type: str


class DomainEntry(_Listed):
    """A domain, with the sources that the caller may search."""

    domain: str = Field(description="For `domain` of a request.")
    title: str
    description: str
    usable: bool = Field(description="False: its configuration is invalid, and searching it is an error.")
    sources: tuple[SourceEntry, ...]


class DomainsResponse(_Listed):
    """The domains that the caller may search; others are not mentioned."""

    domains: tuple[DomainEntry, ...]
    personas: tuple[str, ...] = Field(description="For `persona_key` of a request.")
    demo: bool = Field(description="The documents are those of a fictitious bank.")


class PersonaEntry(BaseModel):
    """A named profile of settings, with the effective values unless a domain overrides them."""

    model_config = ConfigDict(frozen=True)

    key: str = Field(description="For persona_key of a request.")
    description: str = Field(description="Its purpose, or empty.")
    origin: str = Field(description="The file that defines it, or built-in.")
    similarity_threshold: float | None = Field(description="Least cosine of a chunk; null: no minimum.")
    max_results: int
    min_results: int
    rerank: bool = Field(description="Runs the model reranker, if one is configured.")
    rerank_by: str | None = Field(description="Which of the configured rerankers; null: the default.")
    namespaces: tuple[str, ...] | None = Field(
        description="Sources or namespaces that it searches, among those the caller may know; null: all of the domain."
    )
    settings: dict[str, Any] = Field(description="All settings of the persona, by name.")


class PersonasResponse(BaseModel):
    """The personas, by name."""

    model_config = ConfigDict(frozen=True)

    personas: tuple[PersonaEntry, ...]
