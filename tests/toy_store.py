"""A store that is a dict of chunks, pickled into one file. It offers every capability of `core.protocols`."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pytest

from context_engine.adapters.sources.adapter import SinkOptions, SourceContext, source_adapter
from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.core.models import (
    AccessClass,
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    Chunk,
    ClassCalibration,
    HeldVectors,
    Link,
    LinkQuery,
    ScopeCalibration,
    Score,
    ScoreKind,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
    StoredAdapter,
    VectorAdapter,
    WholeDocument,
    scorer_name,
)
from context_engine.core.policy.access import access_class
from context_engine.core.protocols import Embedder
from context_engine.core.ranking.scope import SIGNAL_VERSION
from context_engine.core.text import terms
from context_engine.errors import StoreError
from context_engine.testing import FakeEmbedder
from context_engine.wiring import adapters
from tests.toy_graph import linked

Key = tuple[str, str, str]


class Kept(NamedTuple):
    """An adapter; `learnt_from` are the access classes that were read for it."""

    adapter: DomainAdapter
    evidence: Mapping[str, Any]
    learnt_from: frozenset[AccessClass]
    number: int


class Document(NamedTuple):
    content_hash: str
    access: AccessClass
    chunks: list[Chunk]
    indexed_at: str = "2026-01-05T00:00:00+00:00"


def key_of(held_class: AccessClass) -> int:
    """Return a key that depends on the class alone: numbers in order would tell how many classes there are."""
    return crc32(repr(held_class).encode())


class ToyStore:
    """Chunks by (source, document, version); searched by shared words, or by cosine if there is an embedder."""

    def __init__(self, path: Path, embedder: Embedder | None = None) -> None:
        self.path, self.embedder = path, embedder
        self.documents: dict[Key, Document] = {}
        self.calibrations: dict[tuple[str, str, int], ScopeCalibration] = {}
        self.kept: dict[tuple[str, str], Kept] = {}
        self.in_force: dict[str, list[str | None]] = {}
        if path.exists():
            for name, value in pickle.loads(path.read_bytes()).items():
                setattr(self, name, value)

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        names = ("documents", "calibrations", "kept", "in_force")
        self.path.write_bytes(pickle.dumps({name: getattr(self, name) for name in names}))

    def readable(self, source_ids: Collection[str], access: AccessScope | None) -> Iterator[tuple[str, Chunk]]:
        for (source_id, _, _), document in sorted(self.documents.items()):
            if source_id in source_ids and (access is None or access.admits(document.access)):
                yield from ((source_id, chunk) for chunk in document.chunks)

    def classes(self) -> list[AccessClass]:
        return sorted({document.access for document in self.documents.values()}, key=str)

    # Calibratable

    def calibration_plan(
        self,
        domain: str,
        source_ids: Sequence[str],
        asked_ids: Collection[str] = (),
        *,
        anew: bool = False,
        adapter_id: str | None = None,
    ) -> CalibrationPlan:
        held = [name for name in source_ids if any(key[0] == name for key in self.documents)]
        scorers = ["", *([self.scorer(domain, adapter_id)] if self.embedder else [])]
        parts = []
        for held_class in self.classes():
            key = key_of(held_class)
            chunks = self.of_class(held_class, held)
            ids = {chunk.chunk_id for chunk in chunks} | {chunk.document_id or "" for chunk in chunks}
            for scorer in scorers:
                stored = self.calibrations.get((domain, scorer, key))
                if chunks and (anew or stored is None or stored.chunks != len(chunks)):
                    parts.append(CalibrationPart(len(chunks), chunks, ids & set(asked_ids), scorer, key, held_class))
        return CalibrationPlan(parts, held, by_vector=self.embedder is not None)

    def of_class(self, wanted: AccessClass, source_ids: Collection[str]) -> list[Chunk]:
        documents = sorted(self.documents.items())
        return [
            chunk
            for (source_id, _, _), document in documents
            if source_id in source_ids and document.access == wanted
            for chunk in document.chunks
        ]

    def search_part(self, part: CalibrationPart, source_ids: Sequence[str], query: SourceQuery) -> SourceAnswer:
        chunks = self.of_class(part.state, source_ids)
        return self.ranked(chunks, query, by_vector=bool(part.scorer_id))

    def keep_calibrations(
        self, domain: str, plan: CalibrationPlan, found: Sequence[tuple[CalibrationPart, ScopeCalibration]]
    ) -> None:
        for part in plan.parts:
            self.calibrations.pop((domain, part.scorer_id, part.key), None)
        for part, calibration in found:
            self.calibrations[domain, part.scorer_id, part.key] = calibration
        self.save()

    def calibration(
        self, domain: str, *, by_vector: bool = True, access: AccessScope | None = None
    ) -> ScopeCalibration | None:
        scorer = self.scorer(domain) if by_vector and self.embedder else ""
        stored = [
            self.calibrations.get((domain, scorer, key_of(held_class)))
            for held_class in self.classes()
            if access is None or access.admits(held_class)
        ]
        sound = [calibration for calibration in stored if calibration and calibration.signal == SIGNAL_VERSION]
        return max(sound, key=lambda calibration: calibration.chunks, default=None)

    # StoredVectors

    def vector_model(self) -> str:
        return self.embedder.model_id if self.embedder else ""

    def held_vectors(self, source_ids: Sequence[str], *, access: AccessScope | None = None) -> HeldVectors:
        assert self.embedder is not None
        pairs = list(self.readable(source_ids, access))
        vectors = self.embedder.embed_documents([chunk.content for _, chunk in pairs])
        read = {document.access for key, document in self.documents.items() if key[0] in source_ids}
        origin = frozenset(held for held in read if access is None or access.admits(held))
        return HeldVectors(
            [source_id for source_id, _ in pairs],
            [chunk for _, chunk in pairs],
            np.ones(len(pairs), np.int64),
            np.asarray(vectors, np.float32).reshape(len(pairs), -1),
            origin,
        )

    # LearntAdapters and Trainable

    def adapters(self, domain: str | None = None, *, access: AccessScope | None = None) -> list[StoredAdapter]:
        return [
            StoredAdapter(
                name,
                adapter_id,
                kept.adapter.model_id,
                (),
                kept.evidence,
                f"{kept.number:04}",
                adapter_id == self.now(name),
            )
            for (name, adapter_id), kept in self.kept.items()
            for in_force in [adapter_id == self.now(name)]
            if domain in (None, name) and (access is None or all(map(access.admits, kept.learnt_from)))
        ]

    def switchable_adapters(self, domain: str, adapter_id: str | None) -> list[StoredAdapter]:
        if adapter_id is not None and (domain, adapter_id) not in self.kept:
            raise StoreError(f"there is no adapter {adapter_id!r}")
        return [adapter for adapter in self.adapters(domain) if adapter_id in (None, adapter.adapter_id)]

    def use_adapter(self, domain: str, adapter_id: str | None) -> None:
        self.switchable_adapters(domain, adapter_id)
        self.in_force[domain] = [self.now(domain), adapter_id]
        self.save()

    def undo_adapter(self, domain: str) -> bool:
        if domain not in self.in_force:
            return False
        self.in_force[domain].reverse()
        self.save()
        return True

    def search_adapted(
        self,
        source_ids: Sequence[str],
        query: SourceQuery,
        *,
        vector: Sequence[float] | None = None,
        adapter: VectorAdapter | None = None,
    ) -> SourceAnswer:
        chunks = [chunk for _, chunk in self.readable(source_ids, query.access)]
        return self.ranked(chunks, query, by_vector=True, vector=vector, adapter=adapter)

    def keep_adapter(
        self, domain: str, adapter: VectorAdapter, evidence: Mapping[str, Any], origin: Any
    ) -> StoredAdapter:
        self.kept[domain, adapter.adapter_id] = Kept(DomainAdapter.of(adapter), evidence, origin, len(self.kept))
        self.save()
        return self.switchable_adapters(domain, adapter.adapter_id)[0]

    def forget_adapters(self, domain: str, adapter_ids: Collection[str]) -> None:
        for adapter_id in adapter_ids:
            self.kept.pop((domain, adapter_id), None)
        self.save()

    def now(self, domain: str) -> str | None:
        return self.in_force.get(domain, [None])[-1]

    def scorer(self, domain: str, adapter_id: str | None = None) -> str:
        return scorer_name(self.vector_model(), adapter_id or self.now(domain))

    # Copyable; the vectors are made anew at every search, so that none are stored

    def document_hashes(self, source_id: str) -> dict[tuple[str, str], str]:
        items = self.documents.items()
        return {key[1:]: document.content_hash for key, document in items if key[0] == source_id}

    def stored_documents(self, source_id: str, keys: Sequence[tuple[str, str]]) -> Iterator[WholeDocument | None]:
        for key in keys:
            held = self.documents.get((source_id, *key))
            yield held and WholeDocument(*key, held.content_hash, held.indexed_at, held.access, held.chunks, ())

    def class_calibrations(self, domain: str) -> list[ClassCalibration]:
        return [
            ClassCalibration(held_class, calibration)
            for (name, _, key), calibration in self.calibrations.items()
            for held_class in self.classes()
            if (name, key) == (domain, key_of(held_class))
        ]

    # AccessProvable

    def copy_to(self, data_dir: Path) -> None:
        if not self.path.exists():
            raise StoreError(f"there is no store at {self.path}")
        copy = ToyStore(data_dir / self.path.name)
        copy.documents, copy.calibrations = self.documents, self.calibrations
        copy.kept, copy.in_force = self.kept, self.in_force
        copy.save()

    def rebuild(self) -> object:
        return None

    # search

    def search(self, source_id: str, query: SourceQuery) -> SourceAnswer:
        chunks = [chunk for _, chunk in self.readable([source_id], query.access)]
        name = self.now(query.domain)
        adapter = self.kept[query.domain, name].adapter if name and self.embedder else None
        answer = self.ranked(chunks, query, by_vector=self.embedder is not None, adapter=adapter)
        return replace(answer, calibration=self.calibration(query.domain, access=query.access))

    def ranked(
        self,
        chunks: Sequence[Chunk],
        query: SourceQuery,
        *,
        by_vector: bool,
        vector: Sequence[float] | None = None,
        adapter: VectorAdapter | None = None,
    ) -> SourceAnswer:
        if by_vector:
            assert self.embedder is not None
            scored = self.cosines(chunks, self.embedder, vector or self.embedder.embed_query(query.text), adapter)
            kind = ScoreKind.COSINE
        else:
            words = set(terms(query.text))
            scored = [float(len(words & set(terms(chunk.content)))) for chunk in chunks]
            kind = ScoreKind.LEXICAL
        ranked = sorted(zip(scored, chunks, strict=True), key=lambda pair: (-pair[0], pair[1].chunk_id))
        matches = [chunk._replace(scores=(Score(kind, score),)) for score, chunk in ranked if score > 0]
        return SourceAnswer(chunks=matches[: query.top_k], cut=max(len(matches) - query.top_k, 0))

    @staticmethod
    def cosines(
        chunks: Sequence[Chunk], embedder: Embedder, vector: Sequence[float], adapter: VectorAdapter | None
    ) -> list[float]:
        if not chunks:
            return []
        passages = np.asarray(embedder.embed_documents([chunk.content for chunk in chunks]), np.float32)
        question = np.asarray(vector, np.float32)
        if adapter is not None:
            passages, question = passages @ adapter.passage, question @ adapter.query
        lengths = np.linalg.norm(passages, axis=1) * max(float(np.linalg.norm(question)), 1e-9)
        return [float(value) for value in np.clip(passages @ question / np.maximum(lengths, 1e-9), -1.0, 1.0)]


class ToySource:
    """One source of the store; its `store` offers the capabilities."""

    score_kinds = frozenset({ScoreKind.LEXICAL, ScoreKind.COSINE})
    access_classes = True

    def __init__(self, store: ToyStore, source_id: str) -> None:
        self.store, self.source_id = store, source_id

    def search(self, query: SourceQuery) -> SourceAnswer:
        return self.store.search(self.source_id, query)

    def linked(self, query: LinkQuery) -> list[Link]:
        return linked(self.store, self.source_id, query)

    def list_chunks(self) -> Iterator[Chunk]:
        return (chunk for _, chunk in self.store.readable([self.source_id], None))

    def close(self) -> None:
        return None


class ToySink:
    """Writes documents; `specs` and `rules_of` decide their access classes."""

    def __init__(self, store: ToyStore, specs: Sequence[SourceSpec], rules_of: Any) -> None:
        self.store, self.specs, self.rules_of = store, {spec.id: spec for spec in specs}, rules_of

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        if self.documents(source_id).get((document_id, version)) == content_hash:
            return False
        whole = [
            chunk._replace(
                chunk_id=chunk.chunk_id or f"{document_id}#{number}",
                document_id=document_id,
                document_version=version or None,
            )
            for number, chunk in enumerate(chunks)
        ]
        document = Document(content_hash, self.place(source_id, chunks), whole)
        self.store.documents[source_id, document_id, version] = document
        return True

    def place(self, source_id: str, chunks: Sequence[Chunk]) -> AccessClass:
        claims = (chunk.classification for chunk in chunks if chunk.classification)
        claimed = max(claims, key=lambda claim: claim.rank, default=None)
        return access_class(self.rules_of(source_id), self.specs[source_id].classification, claimed)

    def accept_vectors(self, model_id: str, dimension: int) -> bool:
        return False

    def put_stored(self, source_id: str, document: WholeDocument) -> None:
        chunks = list(document.chunks)
        self.store.documents[source_id, *document.key] = Document(
            document.content_hash, self.place(source_id, chunks), chunks, document.indexed_at
        )

    def finish_copy(self, domain: str, source_ids: Sequence[str], calibrations: Sequence[ClassCalibration]) -> None:
        for held_class, calibration in calibrations:
            self.store.calibrations[domain, calibration.model_id, key_of(held_class)] = calibration
        self.commit()

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        return self.store.documents.pop((source_id, document_id, version), None) is not None

    def documents(self, source_id: str) -> dict[tuple[str, str], str]:
        return self.store.document_hashes(source_id)

    def commit(self) -> None:
        self.store.save()


def store_of(context: SourceContext) -> ToyStore:
    path = context.data_dir() / "toy.pickle"
    store: ToyStore = context.shared(("toy", path), lambda: ToyStore(path, context.embedder()))
    return store


@contextmanager
def open_toy_sink(specs: Sequence[SourceSpec], context: SourceContext, options: SinkOptions) -> Iterator[ToySink]:
    store = ToyStore(context.data_dir() / "toy.pickle", context.embedder())
    for spec in specs:  # a changed rule moves what is written already
        for key, document in store.documents.items():
            if key[0] == spec.id:
                claims = [chunk.classification for chunk in document.chunks if chunk.classification]
                held = access_class(
                    context.rules_of(spec.id), spec.classification, max(claims, key=lambda c: c.rank, default=None)
                )
                store.documents[key] = document._replace(access=held)
    sink = ToySink(store, specs, context.rules_of)
    yield sink
    sink.commit()


@source_adapter(open_sink=open_toy_sink)
def open_toy(spec: SourceSpec, context: SourceContext) -> ToySource:
    return ToySource(store_of(context), spec.id)


def open_words(_options: Mapping[str, Any], _context: Any) -> FakeEmbedder:
    return FakeEmbedder(64)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish the adapters `toy` and `notes` and the embedder `words`, as packages outside the tree publish theirs."""
    real = adapters.entry_points
    points = [
        EntryPoint("toy", "tests.toy_store:open_toy", adapters.SOURCES),
        EntryPoint("notes", "context_engine.testing.notes_adapter:open_notes", adapters.SOURCES),
        EntryPoint("words", "tests.toy_store:open_words", adapters.EMBEDDERS),
    ]

    def entry_points(*, group: str) -> list[EntryPoint]:
        return [*real(group=group), *(point for point in points if point.group == group)]

    monkeypatch.setattr(adapters, "entry_points", entry_points)
