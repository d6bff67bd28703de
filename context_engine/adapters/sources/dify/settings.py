"""The `settings:` of a Dify source in a manifest, and datasets shared by several sources.

Dify's key opens every dataset of its workspace, so only a source's access rule protects a dataset. If a second source
with another rule has the same dataset, a caller who may search either source can read all of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from context_engine.core.models import AccessClass, DomainSpec, SourceSpec, SourceType
from context_engine.core.policy.access import access_class
from context_engine.core.protocols import AccessPolicy
from context_engine.errors import ConfigError
from context_engine.settings.messages import config_error

COSINE_STORES: Final = frozenset({"pgvector", "weaviate", "qdrant"})
"""Vector stores whose scores Dify gives as cosine similarity; the others give distances, products or BM25."""
UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
Name = Annotated[str, Field(min_length=1, max_length=255)]
Technique = Literal["economy", "high_quality"]
Store = Literal["pgvector", "weaviate", "qdrant", "chroma", "milvus", "elasticsearch", "opensearch", "other"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MetadataNames(_Frozen):
    """The names of metadata fields in Dify; where a name is omitted, the manifest's value applies.

    Dates may be ISO text, numbers such as 20240401, or unix seconds (the day in the domain's zone).
    """

    authority_tier: Name | None = Field(None, description="1 to 5, as a number or in words such as 'tier2'.")
    source_type: Name | None = Field(None, description="One of our five types, or a word of `source_types`.")
    trust_class: Name | None = Field(None, description="TRUSTED or UNTRUSTED.")
    classification: Name | None = Field(None, description="public, internal, confidential or restricted.")
    document_version: Name | None = None
    effective_from: Name | None = Field(None, description="First day in force.")
    effective_to: Name | None = Field(None, description="First day no longer in force.")
    superseded_by: Name | None = None
    fetched_at: Name | None = Field(None, description="When the content left its origin.")
    ttl_seconds: Name | None = None
    doc_type: Name | None = None
    section: Name | None = None

    def used(self) -> dict[str, str]:
        """Return {our name: Dify's name} of the configured fields."""
        return {ours: name for ours, name in self.model_dump().items() if name is not None}


class DifySettings(_Frozen):
    """The settings of a Dify source, with their defaults."""

    indexing_technique: Technique | None = Field(
        None, description="Used if Dify does not report how the datasets are indexed."
    )
    legs: tuple[Literal["semantic", "full_text"], ...] = Field(
        (),
        description="[semantic, full_text]: search high-quality datasets twice and fuse the answers, if the rate "
        "budget allows it.",
    )
    vector_store: Store = Field(
        "other", description="Dify's vector store; semantic scores count as cosine for pgvector, weaviate and qdrant."
    )
    metadata: MetadataNames = Field(
        default_factory=lambda: MetadataNames(), description="The names of the documents' metadata fields."
    )
    source_types: Mapping[str, SourceType] = Field(
        default_factory=dict, description="The bank's words for source types, e.g. {internal_sop: bank_sop}."
    )
    chunk_line: bool = Field(
        False,
        description="Chunks begin with a line that gives document, version, dates, section and page, as written by the "
        "plugin's tool 'Chunk by document type' and `ingest --to dify`: it is parsed and removed.",
    )
    max_calls: Annotated[int, Field(ge=1, le=1000)] = Field(
        40, description="Most retrieve calls of one search, retries included."
    )
    attempts: Annotated[int, Field(ge=1, le=10)] = Field(3, description="Most tries of one call.")
    cache_ttl_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        60.0, description="How long an answer is reused, in seconds; 0: never."
    )
    stale_s: Annotated[float, Field(ge=0, le=604_800, allow_inf_nan=False)] = Field(
        0.0, description="How much longer an earlier answer may be used while Dify is down, in seconds; 0: never."
    )
    lookup_ttl_s: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = Field(
        300.0, description="How long Dify's description of a dataset is reused, in seconds."
    )

    @field_validator("legs")
    @classmethod
    def _both_or_none(cls, legs: tuple[str, ...]) -> tuple[str, ...]:
        if legs and sorted(legs) != ["full_text", "semantic"]:
            raise ValueError("must be [semantic, full_text], or be left out")
        return legs

    @property
    def cosine(self) -> bool:
        """Whether semantic scores are cosine similarity."""
        return self.vector_store in COSINE_STORES


def check_dify(spec: SourceSpec) -> DifySettings:
    """Return the settings of a Dify source.

    Raises:
        ConfigError: no connection, no dataset and no rules for documents that would make one, an id that is not a UUID,
            or an unusable setting.
    """
    settings = read_settings(spec)
    if not spec.dataset_ids and not spec.documents:
        problem = (
            "adapter 'dify' needs at least one dataset id: 'context-engine ingest DOCUMENTS --domain NAME --to dify' "
            "creates the dataset and prints its id, 'context-engine domains import' lists the existing ones"
        )
        raise ConfigError(problem, key=f"sources.{spec.id}.dataset_ids")
    return settings


def without_dataset(spec: SourceSpec) -> str | None:
    """Return why a source cannot be searched yet, and what makes it searchable; None if it names a dataset."""
    if spec.dataset_ids:
        return None
    return (
        "it has no dataset yet: 'context-engine ingest DOCUMENTS --domain NAME --to dify --write-ids MANIFEST' creates "
        "it and writes its id into the manifest; 'context-engine domains import' lists the existing ones"
    )


def read_settings(spec: SourceSpec) -> DifySettings:
    """Return the settings of a Dify source, which may have no dataset yet.

    Raises:
        ConfigError: no connection, an id that is not a UUID, or an unusable setting.
    """
    where = f"sources.{spec.id}"
    if spec.connection is None:
        raise ConfigError("adapter 'dify' needs a connection: name one of connections.yaml", key=f"{where}.connection")
    for dataset_id in spec.dataset_ids:
        if not UUID.fullmatch(dataset_id):
            problem = f"{dataset_id!r} is not a dataset id: copy the UUID from the dataset's address in Dify"
            raise ConfigError(problem, key=f"{where}.dataset_ids")
    try:
        return DifySettings.model_validate(dict(spec.settings))
    except ValidationError as error:
        first = config_error(error, dict(spec.settings), DifySettings, file="")
        key = ".".join(part for part in (where, "settings", first.key) if part)
        raise ConfigError(first.problem, key=key) from None


class SharedDataset(NamedTuple):
    """A dataset that is subject to more than one access rule; at least two of its `sources` admit different callers."""

    dataset_id: str
    sources: tuple[str, ...]


def shared_datasets(domains: Iterable[DomainSpec], policy: AccessPolicy) -> tuple[SharedDataset, ...]:
    """Return the datasets that several sources hold with different rules or classifications, sorted by id."""
    classes_of: dict[str, dict[str, AccessClass]] = {}
    for source in (source for domain in domains for source in domain.sources):
        needed = access_class(policy.rules_of(source.id), source.classification, None)
        for dataset in source.dataset_ids:
            classes_of.setdefault(dataset.lower(), {})[source.id] = needed
    return tuple(
        SharedDataset(dataset, tuple(sorted(classes)))
        for dataset, classes in sorted(classes_of.items())
        if len(set(classes.values())) > 1
    )
