"""A declared dataset with everything Dify would have made of it: ids, positions, search units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from context_engine.core.text import terms
from context_engine.testing.fake_dify.data import FakeDataset, FakeDocument, FakeSegment
from context_engine.testing.fake_dify.keywords import keywords_of
from context_engine.testing.fakes import FakeEmbedder

OWNER: Final = "00000000-0000-4000-8000-000000000001"
_EMBEDDER: Final = FakeEmbedder(1024)


@dataclass(frozen=True)
class StoredDocument:
    """A document with its id and the metadata Dify answers with."""

    id: str
    document: FakeDocument
    metadata: Mapping[str, Any] | None
    position: int

    @property
    def searchable(self) -> bool:
        """Whether its chunks may be found."""
        document = self.document
        return document.enabled and not document.archived and document.indexing_status == "completed"


@dataclass(frozen=True)
class StoredSegment:
    """A chunk with its ids; `keywords` is None in a high-quality dataset."""

    id: str
    position: int
    segment: FakeSegment
    document: StoredDocument
    keywords: tuple[str, ...] | None

    @property
    def searchable(self) -> bool:
        """Whether it may be found."""
        return self.segment.enabled and self.document.searchable

    @property
    def node_id(self) -> str:
        """The id of its place in the index."""
        return str(uuid5(UUID(self.id), "node"))

    @property
    def hash(self) -> str:
        """SHA-256 of the text and the word None, in hex, as Dify makes it."""
        return sha256(f"{self.segment.content}None".encode()).hexdigest()


class Unit(NamedTuple):
    """What the vector store holds: a chunk, its summary, or one child of a parent (`child` is its position, from 1)."""

    segment: StoredSegment
    child: int | None
    text: str
    vector: Mapping[int, float]
    terms: Sequence[str]
    summary: bool = False


@dataclass(frozen=True)
class StoredDataset:
    """A dataset with its ids, in the order of creation."""

    dataset: FakeDataset
    documents: Sequence[StoredDocument]
    segments: Sequence[StoredSegment]
    created_at: int

    @property
    def id(self) -> str:
        """The dataset's UUID."""
        return self.dataset.dataset_id

    @cached_property
    def units(self) -> Sequence[Unit]:
        """What its vector store holds; nothing where it has none."""
        return [unit for segment in self.segments for unit in _units(segment)] if _has_vectors(self.dataset) else []


def store(dataset: FakeDataset, created_at: int) -> StoredDataset:
    """Return the dataset as Dify holds it."""
    base = UUID(dataset.dataset_id)
    documents: list[StoredDocument] = []
    segments: list[StoredSegment] = []
    for number, document in enumerate(dataset.documents):
        identity = document.id or str(uuid5(base, f"{number}:{document.name}"))
        metadata, place = _metadata(document, dataset.built_in_fields), document.place or number + 1
        stored = StoredDocument(identity, document, metadata, place)
        documents.append(stored)
        segments += [_segment(dataset, stored, place, each) for place, each in enumerate(document.segments, 1)]
    return StoredDataset(dataset, documents, segments, created_at)


def _has_vectors(dataset: FakeDataset) -> bool:
    return dataset.indexing_technique == "high_quality" and dataset.provider == "vendor"


def _segment(dataset: FakeDataset, document: StoredDocument, place: int, given: str | FakeSegment) -> StoredSegment:
    segment = FakeSegment(given) if isinstance(given, str) else given
    keywords: tuple[str, ...] | None = None
    if dataset.indexing_technique == "economy":
        keywords = _keywords(segment.content) if segment.keywords is None else tuple(segment.keywords)
    identity = segment.id or str(uuid5(UUID(document.id), str(place)))
    return StoredSegment(identity, segment.position or place, segment, document, keywords)


@lru_cache(maxsize=65_536)
def _keywords(text: str) -> tuple[str, ...]:
    return tuple(keywords_of(text))


def _units(segment: StoredSegment) -> list[Unit]:
    children = segment.segment.children
    texts: list[tuple[int | None, str]] = (
        list(enumerate(children, 1)) if children else [(None, segment.segment.content)]
    )
    units = [Unit(segment, child, text, vector_of(text), terms(text)) for child, text in texts]
    summary = segment.segment.summary
    if summary is not None:
        units.append(Unit(segment, None, summary, vector_of(summary), terms(summary), summary=True))
    return units


@lru_cache(maxsize=65_536)
def vector_of(text: str) -> Mapping[int, float]:
    """Return the hashed vector of a text by the places that are not zero."""
    return {place: value for place, value in enumerate(_EMBEDDER.embed_query(text)) if value}


def built_in_values(document: FakeDocument) -> dict[str, str | float]:
    """Return what Dify itself says of a document where built-in fields are asked for."""
    return {
        "document_name": document.name,
        "uploader": "admin",
        "upload_date": float(document.completed_at),
        "last_update_date": float(document.completed_at),
        "source": "file_upload",
    }


def _metadata(document: FakeDocument, built_in: bool) -> Mapping[str, Any] | None:
    return {**(document.metadata or {}), **built_in_values(document)} if built_in else document.metadata
