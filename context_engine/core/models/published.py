"""The published chunk: a chunk as it leaves the engine, with one view for each kind of reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from context_engine.core.models.chunk import Chunk, Classification, Confidence, SourceType, TrustClass, json_value
from context_engine.core.models.chunk_dict import to_date


class Member(NamedTuple):
    """A candidate that was merged into another: its identity, authority and scores."""

    source_id: str
    chunk_id: str
    source_type: str
    authority_tier: int
    document_id: str | None
    document_version: str | None
    section: str | None
    title: str | None
    relevance: float
    similarity: float
    content_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceTag:
    """Where a chunk comes from: the seven keys every returned chunk carries.

    Attributes:
        fetched_at: UTC ISO 8601 ending in Z.
        ttl_seconds: the source's, else the manifest's, else 3600.
        extra: chunk_id, rag_score, relevance, content_sha256, document and dataset, retrieved_at, fetched_at_basis,
            also_in, search_id, defaulted, flags, namespace (if the source declares one), linked_from (the path that
            leads to it from another chunk).
    """

    source_id: str
    source_type: str
    authority_tier: int
    trust_class: str
    fetched_at: str
    ttl_seconds: int
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the tag as a dict with exactly the seven keys."""
        return {
            "source_id": self.source_id,
            "source_type": self.source_type,
            "authority_tier": self.authority_tier,
            "trust_class": self.trust_class,
            "fetched_at": self.fetched_at,
            "ttl_seconds": self.ttl_seconds,
            "extra": dict(self.extra),
        }


_WHERE_KNOWN: Final = ("page", "url")
"""Fields that a chunk dict has only if they are known."""

_DOCUMENT: Final = (
    *("document_id", "document_version", "section", "path", "page", "url"),
    *("effective_from", "effective_to", "superseded_by"),
)


class PublishedChunk:
    """A chunk as it leaves the engine. Each method that returns a dict is a view for one kind of reader.

    `fields` holds every published field once. The contracts in `service/contract/chunks.py` read from it by name.

    Attributes:
        chunk: the text and everything its source knows about it.
        source_type, authority_tier, trust_class, classification: as limited by the manifest.
        url: the address of the passage, from the source's template or the document, or None.
    """

    __slots__ = ()

    source_id: str
    chunk_id: str
    chunk: Chunk
    source_type: SourceType
    authority_tier: int
    trust_class: TrustClass
    classification: Classification
    url: str | None

    @property
    def content(self) -> str:
        """The chunk's text."""
        return self.chunk.content

    @property
    def title(self) -> str | None:
        """The document's title."""
        return self.chunk.title

    @property
    def section(self) -> str | None:
        """The number of the text's section."""
        return self.chunk.section

    @property
    def page(self) -> int | None:
        """The page the text begins on, 1-based."""
        return self.chunk.page

    @property
    def namespace(self) -> str:
        """The namespace of its source; the id of the source if it declares none."""
        return self.source_id

    def standing(self) -> dict[str, Any]:
        """Return the chunk's identity and the authority in force."""
        return {
            "source_id": self.source_id,
            "chunk_id": self.chunk_id,
            "source_type": str(self.source_type),
            "authority_tier": self.authority_tier,
            "trust_class": str(self.trust_class),
            "classification": str(self.classification),
        }

    def fields(self) -> dict[str, Any]:
        """Return every published field as JSON values; flags and tags are tuples."""
        chunk = self.chunk
        return {
            **self.standing(),
            "namespace": self.namespace,
            "content": chunk.content,
            "document_id": chunk.document_id,
            "document_version": chunk.document_version,
            "doc_type": chunk.doc_type,
            "title": chunk.title,
            "section": chunk.section,
            "path": chunk.path,
            "page": chunk.page,
            "position": chunk.position,
            "url": self.url,
            "effective_from": json_value(chunk.effective_from),
            "effective_to": json_value(chunk.effective_to),
            "superseded_by": chunk.superseded_by,
            "source_org": _text(chunk, "source_org"),
            "year": _year(chunk),
            "content_type": _text(chunk, "content_type") or chunk.doc_type,
            "license": _text(chunk, "license"),
            "tags": _tags(chunk.own_field("tags")),
            "metadata": json_value(chunk.metadata),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the chunk dict with the authority in force: the view of a program."""
        return {**self.chunk.to_dict(), **self.standing()}

    def facts(self) -> dict[str, Any]:
        """Return the text with its origin and authority: the view of a model."""
        fields = self.fields()
        return {
            "source": fields["source_id"],
            "document_id": fields["document_id"],
            "document_version": fields["document_version"],
            "document_type": fields["doc_type"],
            "authority_tier": fields["authority_tier"],
            "source_type": fields["source_type"],
            "trust_class": fields["trust_class"],
            "classification": fields["classification"],
            "effective_from": fields["effective_from"],
            "effective_to": fields["effective_to"],
            "superseded_by": fields["superseded_by"],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedChunk(PublishedChunk):
    """A returned chunk with every number that decided its rank.

    Attributes:
        rank: 1-based.
        relevance: [0, 1], as used in the formula of `final`.
        absolute: [0, 1], compared with `min_relevance_score`.
        boost: the tier's authority boost, [0, 0.4] by default.
        final: 0.6 * relevance + 0.4 * boost by default.
        confidence: strong, fair or weak, from the absolute signal and the scope threshold in force.
        rerank_score: [0, 1] from a model reranker; None if none ran.
        recalled: [0, 1], relevance of stage 1, before reranker and exact matches; None if read from a record.
        flags: below_threshold, threshold_not_applicable, expired, effective_unknown, superseded, linked ...
    """

    rank: int
    source_id: str
    chunk_id: str
    domain: str
    chunk: Chunk
    source_type: SourceType
    authority_tier: int
    trust_class: TrustClass
    classification: Classification
    relevance: float
    absolute: float
    boost: float
    final: float
    rerank_score: float | None
    flags: tuple[str, ...]
    also_in: tuple[Member, ...]
    provenance: ProvenanceTag
    confidence: Confidence
    url: str | None = None
    recalled: float | None = field(default=None, compare=False)

    @property
    def namespace(self) -> str:
        """The namespace of its source; the id of the source if it declares none."""
        return str(self.provenance.extra.get("namespace", self.source_id))

    def fields(self) -> dict[str, Any]:
        """Return every published field, including the numbers of the ranking and the tag."""
        return {
            **PublishedChunk.fields(self),  # super() does not work in a dataclass with slots
            "rank": self.rank,
            "recalled": self.recalled,
            "relevance": self.relevance,
            "absolute": self.absolute,
            "boost": self.boost,
            "final": self.final,
            "rerank_score": self.rerank_score,
            "confidence": str(self.confidence),
            "flags": self.flags,
            "provenance": json_value(self.provenance.to_dict()),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the chunk dict of `context_engine.rag`: its keys, `_rag_score` with its parts, `_provenance`."""
        own = {key: value for key, value in self.chunk.to_dict().items() if key not in _WHERE_KNOWN}
        known = {name: value for name in _WHERE_KNOWN if (value := getattr(self, name)) is not None}
        return {
            **own,
            **known,
            "rank": self.rank,
            **self.standing(),
            "domain": self.chunk.extra.get("domain", self.domain),
            "confidence": str(self.confidence),
            **({} if self.rerank_score is None else {"rerank_score": self.rerank_score}),
            "_rag_score": round(self.final, 4),
            "_relevance_score": round(self.relevance, 4),
            "_authority_boost": self.boost,
            "_provenance": self.provenance.to_dict(),
        }

    def to_metadata(self, search_id: str) -> dict[str, Any]:
        """Return the document's metadata, overridden by the engine's fields: the view of a workflow."""
        fields, tag = self.fields(), self.provenance
        metadata = fields["metadata"]
        return {
            **metadata,
            **self.standing(),
            "confidence": fields["confidence"],
            "relevance": round(self.relevance, 6),
            "absolute_relevance": round(self.absolute, 6),
            "final": round(self.final, 6),
            **{name: fields[name] for name in _DOCUMENT},
            "page": metadata.get("page") if self.page is None else self.page,
            "fetched_at": tag.fetched_at,
            "fetched_at_basis": tag.extra.get("fetched_at_basis"),
            "ttl_seconds": tag.ttl_seconds,
            "freshness": tag.extra.get("freshness"),
            "content_sha256": tag.extra.get("content_sha256"),
            "flags": list(self.flags),
            "also_in": [{"source_id": double.source_id, "chunk_id": double.chunk_id} for double in self.also_in],
            "search_id": search_id,
            **{name: tag.extra[name] for name in ("namespace", "linked_from") if name in tag.extra},
        }

    def to_entry(self) -> dict[str, Any]:
        """Return the chunk for a ledger entry, which is never erased and so holds no text."""
        tag = self.provenance
        entry: dict[str, Any] = {
            "source": self.source_id,
            "chunk": self.chunk_id,
            "document": self.chunk.document_id,
            "version": self.chunk.document_version,
            "sha256": tag.extra.get("content_sha256"),
            "tier": self.authority_tier,
            "type": self.source_type,
            "trust": self.trust_class,
            "fetched_at": tag.fetched_at,
            "final": round(self.final, 4),
        }
        return {**entry, "flags": list(self.flags)} if self.flags else entry


def _text(chunk: Chunk, name: str) -> str | None:
    """Return a field of the document as text; None if missing, a list or a mapping."""
    value = chunk.own_field(name)
    return None if value is None or isinstance(value, list | tuple | Mapping) else str(value)


def _year(chunk: Chunk) -> int | None:
    """Return the document's year, else the year of its date or of the day it came into force."""
    own: Any = chunk.own_field("year")
    digits = f"{own:g}" if isinstance(own, float) else str(own).strip()
    if len(digits) == 4 and digits.isascii() and digits.isdigit():
        return int(digits)
    day = to_date(chunk.own_field("date")) or chunk.effective_from
    return None if day is None else day.year


def _tags(value: Any) -> tuple[str, ...]:
    """Return tags that are a list, or a text with commas."""
    items = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
    return tuple(tag for item in items if (tag := str(item).strip()))
