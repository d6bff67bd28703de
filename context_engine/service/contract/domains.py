"""Published forms of the lists of domains and personas."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Listed(BaseModel):
    model_config = ConfigDict(frozen=True)


class SourceEntry(_Listed):
    """A source of a domain: a namespace."""

    source_id: str = Field(description="What `namespaces` of a request names.")
    title: str
    authority_tier: int = Field(ge=1, le=5, description="1 is the system of record, 5 the general web.")
    source_type: str


class DomainEntry(_Listed):
    """A domain, with the sources of it that the caller may search."""

    domain: str = Field(description="What `domain` of a request names.")
    title: str
    description: str
    usable: bool = Field(description="False: its configuration cannot be used, and a search of it is an error.")
    sources: tuple[SourceEntry, ...]


class DomainsResponse(_Listed):
    """What the caller may search; there is nothing else for them."""

    domains: tuple[DomainEntry, ...]
    personas: tuple[str, ...] = Field(description="What `persona_key` of a request may name.")
    demo: bool = Field(description="The knowledge is the fictitious bank's.")


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
