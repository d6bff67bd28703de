"""What can be searched, as the RAG API lists it."""

from __future__ import annotations

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
