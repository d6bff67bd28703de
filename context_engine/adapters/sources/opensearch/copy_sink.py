"""Copies between stores: whole documents as they are read here, and the sink that takes those of another store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from context_engine.adapters.sources.opensearch.class_texts import IndexTexts
from context_engine.adapters.sources.opensearch.conditions import Query, StoreView, any_of, both
from context_engine.adapters.sources.opensearch.documents import OF_DOCUMENTS
from context_engine.adapters.sources.opensearch.rows import STORED, chunk_row
from context_engine.adapters.sources.opensearch.server import OpenSearchServer
from context_engine.adapters.sources.opensearch.sink import OpenSearchSink
from context_engine.adapters.sources.opensearch.state import LearntDocument, change_learnt
from context_engine.adapters.sources.stores.chunk_rows import as_written
from context_engine.adapters.sources.stores.vector_form import other_vectors
from context_engine.core.models import AccessClass, ClassCalibration, WholeDocument
from context_engine.errors import SourceForbidden, SourceNotFound

Key = tuple[str, str]
_RECORD: Final = ("document_id", "version", "content_hash", "indexed_at", "document")
_ROWS: Final = (*STORED, "document", "row", "part", "vector")


def document_hashes(view: StoreView, source_id: str) -> dict[Key, str]:
    """Return {(document_id, version): content_hash} of a source, in the order of writing."""
    records = view.calls.snapshot(view.indices, _of_source(view, source_id, OF_DOCUMENTS), _RECORD)
    return {(row["document_id"], row["version"]): row["content_hash"] for row in records}


def hashes_of(server: OpenSearchServer, prefix: str, source_id: str) -> dict[Key, str]:
    """Return `document_hashes`; nothing if there are no indices yet."""
    try:
        view = StoreView.read(server.writing(), prefix)
    except SourceNotFound:
        return {}
    return document_hashes(view, source_id)


def stored_documents(view: StoreView, source_id: str, keys: Sequence[Key]) -> list[WholeDocument | None]:
    """Return each document of a source, None for one that it has not got; see `Copyable`.

    Raises:
        StoreCorrupt: a chunk is not as it was written.
    """
    named = any_of("document_id", {document_id for document_id, _ in keys})
    records = view.calls.snapshot(view.indices, _of_source(view, source_id, OF_DOCUMENTS, named), _RECORD)
    by_key = {(row["document_id"], row["version"]): row for row in records}
    known = [by_key[key]["document"] for key in keys if key in by_key]
    rows: dict[int, list[Any]] = {document: [] for document in known}
    inside = _of_source(view, source_id, any_of("document", known), {"bool": {"must_not": [OF_DOCUMENTS]}})
    for row in view.calls.snapshot(view.indices, inside, _ROWS):
        rows[row["document"]].append(row)
    access = {access_class.index_name: access_class.holds for access_class in view.classes}
    model = view.state.model_id or ""
    return [
        _document(record, rows[record["document"]], access[record["_index"]], model) if record else None
        for record in map(by_key.get, keys)
    ]


def _document(
    record: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], access: AccessClass, model: str
) -> WholeDocument:
    chunks, vectors = [], dict[int, list[Sequence[float]]]()
    for row in rows:
        own = vectors.setdefault(row["row"], [])
        own += [row["vector"]] if "vector" in row else []
        if row["part"] == 0:
            chunks.append(as_written(chunk_row(row)))
    names = {name: record[name] for name in _RECORD[:-1]}
    given = list(vectors.values())
    return WholeDocument(**names, access=access, chunks=chunks, vectors=given, model_id=model if any(given) else "")


def _of_source(view: StoreView, source_id: str, *parts: Query) -> Query:
    return both(view.state.visible, {"term": {"source": source_id}}, *parts)


class OpenSearchCopySink(OpenSearchSink):
    """A sink of a store that is also a `CopySink`."""

    def accept_vectors(self, model_id: str, dimension: int) -> bool:
        """Prepare for vectors of another store; return whether the server can keep any (`CopySink`)."""
        stored = self._next
        if stored.model_id is not None:
            if (stored.model_id, stored.dimension) != (model_id, dimension):
                raise other_vectors((stored.model_id, stored.dimension), (model_id, dimension))
            return True
        if not self._keeps_vectors():
            return False
        if self._touched:
            self.commit()
        with self._whole():
            self._next = replace(self._next, model_id=model_id, dimension=dimension)
            self._rebuild()
        return True

    def finish_copy(self, domain: str, source_ids: Sequence[str], calibrations: Sequence[ClassCalibration]) -> None:
        """Commit, and replace the calibrations if any are given (`CopySink`)."""
        self.commit()
        texts, classes = IndexTexts(self._view), self._state.classes

        def copy(learnt: LearntDocument) -> None:
            learnt.copy_calibrations(domain, source_ids, calibrations, classes, texts)

        if calibrations:
            change_learnt(self._calls, self._store.prefix, copy)

    def _keeps_vectors(self) -> bool:
        """Return whether the server has the plugin k-NN; taken for granted if its user may not list the plugins."""
        try:
            plugins = self._calls.ask("GET", "_cat/plugins?h=component&format=json")
        except SourceForbidden:
            return True
        return any("knn" in plugin["component"].lower() for plugin in plugins)
