"""A dataset as Dify stores it: ids, positions, search units, keywords, and pending indexing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import pairwise
from math import inf
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from context_engine.core.text import STOP_WORDS, has_cjk, terms
from context_engine.testing.fake_dify.data import FakeDataset, FakeDocument, FakeSegment
from context_engine.testing.fakes import FakeEmbedder

MOST_KEYWORDS: Final = 10
_WORD: Final = re.compile(r"\w+")
_PARTICLES: Final = re.compile("[的是在和与及并对向不应为之或等其于以将被由]")


def keywords_of(text: str) -> list[str]:
    """Return the ten most common words of a text as written; earlier words win ties.

    Chinese is split at particles and then into words of two characters: about as many words as Dify's dictionary finds,
    though not always the same ones.
    """
    counts = Counter(word for word in _words(text) if len(word) > 1 and word.casefold() not in STOP_WORDS)
    return [word for word, _ in counts.most_common(MOST_KEYWORDS)]


def _words(text: str) -> list[str]:
    out: list[str] = []
    for word in _WORD.findall(text):
        out += _cjk_words(word) if has_cjk(word) else [word]
    return out


def _cjk_words(run: str) -> list[str]:
    words: list[str] = []
    for piece in filter(None, _PARTICLES.split(run)):
        cuts = [*range(0, max(len(piece) - 1, 1), 2), len(piece)]
        words += [piece[start:end] for start, end in pairwise(cuts)]
    return words


OWNER: Final = "00000000-0000-4000-8000-000000000001"
_EMBEDDER: Final = FakeEmbedder(1024)


@dataclass(frozen=True)
class StoredDocument:
    """A document with its id and the metadata in Dify's answers."""

    id: str
    document: FakeDocument
    metadata: Mapping[str, Any] | None
    position: int

    @property
    def searchable(self) -> bool:
        """Whether a search finds its chunks."""
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
        """Whether a search finds it."""
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
    """A unit of the vector store: a chunk, its summary, or a child chunk (`child` is its position, from 1)."""

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
        """The units in the vector store; empty in an economy dataset."""
        return [unit for segment in self.segments for unit in _units(segment)] if _has_vectors(self.dataset) else []


def store(dataset: FakeDataset, created_at: int) -> StoredDataset:
    """Return a dataset in its stored form."""
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


def _segment(dataset: FakeDataset, document: StoredDocument, place: int, declared: str | FakeSegment) -> StoredSegment:
    segment = FakeSegment(declared) if isinstance(declared, str) else declared
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
    """Return the non-zero elements of the hashed vector of a text, by place."""
    return {place: value for place, value in enumerate(_EMBEDDER.embed_query(text)) if value}


def built_in_values(document: FakeDocument) -> dict[str, str | float]:
    """Return Dify's built-in metadata fields of a document."""
    return {
        "document_name": document.name,
        "uploader": "admin",
        "upload_date": float(document.completed_at),
        "last_update_date": float(document.completed_at),
        "source": "file_upload",
    }


def _metadata(document: FakeDocument, built_in: bool) -> Mapping[str, Any] | None:
    return {**(document.metadata or {}), **built_in_values(document)} if built_in else document.metadata


_STAGES: Final = (("waiting", 0.2), ("parsing", 0.4), ("cleaning", 0.5), ("splitting", 0.6), ("indexing", 1.0))


class Indexing(NamedTuple):
    """Pending indexing of a document.

    Attributes:
        started: start, on the fake's clock.
        takes_s: duration in seconds; infinite for an update that never ends.
        segments: the chunks of the document afterwards.
        error: the reason of failure, or None.
        completed_at: unix seconds.
    """

    started: float
    takes_s: float
    segments: Sequence[FakeSegment]
    error: str | None
    completed_at: int


class HeldDataset:
    """A dataset with its documents by their ids.

    Args:
        created_at: unix seconds.
        clock: monotonic seconds, for indexing.
    """

    def __init__(self, dataset: FakeDataset, created_at: int, clock: Callable[[], float]) -> None:
        self.dataset, self.created_at, self._clock = dataset, created_at, clock
        self._stored: StoredDataset | None = store(dataset, created_at)
        self._documents = {
            stored_document.id: replace(stored_document.document, id=stored_document.id, place=stored_document.position)
            for stored_document in self._stored.documents
        }
        self._work: dict[str, Indexing] = {}

    @property
    def stored(self) -> StoredDataset:
        """The current stored form."""
        self._settle()
        if self._stored is None:
            self._stored = store(replace(self.dataset, documents=list(self._documents.values())), self.created_at)
        return self._stored

    @property
    def documents(self) -> list[FakeDocument]:
        """The current documents, each with its id and place."""
        self._settle()
        return list(self._documents.values())

    def document(self, identity: str) -> FakeDocument | None:
        """Return a document by its id."""
        self._settle()
        return self._documents.get(identity)

    def put(self, document: FakeDocument, indexing: Indexing | None = None) -> None:
        """Add a document, or replace the one with its id, and start indexing it."""
        assert document.id is not None
        self._documents[document.id] = document
        self._stored = None
        if indexing is not None:
            self._work[document.id] = indexing

    def remove(self, identity: str) -> None:
        """Drop a document."""
        self._work.pop(identity, None)
        self._documents.pop(identity, None)
        self._stored = None

    def change(self, **fields: Any) -> None:
        """Change fields of the dataset itself."""
        self.dataset = replace(self.dataset, **fields)
        self._stored = None

    def _settle(self) -> None:
        """Update documents to the current state of indexing."""
        now = self._clock()
        for identity, work in list(self._work.items()):
            if work.takes_s == inf:
                continue
            document = self._documents[identity]
            done = (now - work.started) / work.takes_s if work.takes_s else 1.0
            if done >= 1.0:
                del self._work[identity]
                self.put(_indexed(document, work))
            elif document.indexing_status != (status := next(name for name, until in _STAGES if done < until)):
                self.put(replace(document, indexing_status=status))


def _indexed(document: FakeDocument, work: Indexing) -> FakeDocument:
    status = "error" if work.error else "completed"
    segments = () if work.error else work.segments
    return replace(
        document, indexing_status=status, error=work.error, segments=segments, completed_at=work.completed_at
    )
