"""Writing, and copies between stores: rows of the next commit are invisible until the state names it.

So readers see whole documents.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from context_engine.adapters.sources.opensearch.class_texts import IndexTexts
from context_engine.adapters.sources.opensearch.conditions import EVERYTHING, Query, StoreView, any_of, both
from context_engine.adapters.sources.opensearch.documents import OF_DOCUMENTS, DocumentWriter, ShapedStore
from context_engine.adapters.sources.opensearch.rows import STORED, chunk_row
from context_engine.adapters.sources.opensearch.server import INGEST, OpenSearchServer, SearchBody
from context_engine.adapters.sources.opensearch.state import (
    LEASE_S,
    WORDS_VERSION,
    LearntDocument,
    change_learnt,
    stepped,
)
from context_engine.adapters.sources.stores.chunk_rows import Place, as_written
from context_engine.adapters.sources.stores.vector_form import other_vectors
from context_engine.core.models import AccessClass, ClassCalibration, WholeDocument
from context_engine.core.protocols import Embedder, SinkReport
from context_engine.errors import SourceError, SourceForbidden, SourceNotFound, StoreCorrupt, StoreError

logger = logging.getLogger(__name__)
_MOST_SOURCES: Final = 10_000


class OpenSearchSink(DocumentWriter):
    """Writes documents, for one thread; a `ReportingSink`, `FileTrackingSink`, `ScrubbingSink` and `CopySink`.

    Opening makes the store if it is not there, removes what a killed writer left, moves the documents whose access
    rules have changed, and writes all documents into new indices if they were analysed by another version.

    Args:
        server: that has the store.
        now: returns the time, aware.
        embedder: embeds new rows and old rows without vectors; None leaves rows without vectors.
        place: where the documents of each source belong.
        repair: write every document again, and make vectors of another model anew.

    Raises:
        StoreLocked: another writer is at work.
        StoreVersionMismatch: the store is of a later version, or its vectors of another model.
        SourceError: the server failed.
    """

    def __init__(
        self,
        server: OpenSearchServer,
        store: ShapedStore,
        *,
        now: Callable[[], datetime],
        embedder: Embedder | None,
        place: Place,
        repair: bool = False,
    ) -> None:
        super().__init__(server, store, now=now, embedder=embedder, place=place, repair=repair)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._forget_lost()
        if self._unclean:
            self._clean()
        state, embedder = self._state, self._embedder
        model, dimension = self._vectors_for(state.model_id, state.dimension)
        self._next = replace(self._state, model_id=model, dimension=dimension, words_version=WORDS_VERSION)
        if model != state.model_id or state.words_version != WORDS_VERSION:
            self._rebuild()
        else:
            self._move()
            if embedder is not None:
                rows = self._scan(self._indices, {"term": {"unembedded": True}}, ("document",))
                documents = any_of("row", sorted({row["document"] for row in rows}))
                self._write_again(state.classes, documents, embed=True)
        if self._touched or self._next != self._state:
            self.commit()

    def commit(self) -> None:
        """Make everything written so far durable and searchable.

        Raises:
            EmbedderError: the model failed; nothing is committed.
            StoreLocked: another process writes, because this one was silent for too long; nothing is committed.
            SourceError: the server failed: everything since the last commit is lost.
        """
        with self._whole():
            self._flush()
            if self._touched:
                self._calls.refresh(self._touched)
            before, number = self._state, self._state.writing
            known = self._classes.values()
            classes = [each._replace(generation=number) if each.index_name in self._touched else each for each in known]
            after = replace(
                self._next, generation=number, writing=number + 1, writer=before.writer,
                until=self._now().timestamp() + LEASE_S, classes=tuple(sorted(classes, key=lambda each: each.key)),
            )  # fmt: skip
            if self._moved:  # before anybody sees them moved
                change_learnt(self._calls, self._store.prefix, lambda learnt: learnt.forget_moved(self._moved))
            self._document.write(after)
            if self._moved:  # what was learnt meanwhile was learnt before they moved
                change_learnt(self._calls, self._store.prefix, lambda learnt: learnt.forget_moved(self._moved))
        self._state = self._next = after
        self._classes = {each.holds: each for each in classes}
        # A search that began before the last commit reads the state of this one, and begins again.
        self._writer.delete(sorted(self._dying), {"range": {"died": {"lte": before.generation}}})
        self._touched, self._dying, self._marked, self._taken_now = set[str](), self._marked, set[str](), {}
        self._moved = set()
        for documents in self._known.values():
            documents.update({name: each._replace(is_new=False) for name, each in documents.items() if each.is_new})

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

    def scrub(self) -> str:
        """Commit, remove every row that no search sees, and let the server merge; return where copies may stay.

        Raises:
            EmbedderError, StoreLocked, SourceError: as `commit`.
        """
        self.commit()
        with self._whole():
            self._state = self._next = stepped(self._state, unfinished=False)
            self._document.write(self._state)
            self._clean()
            if self._indices:
                self._calls.ask("POST", f"{','.join(self._indices)}/_forcemerge?only_expunge_deletes=true")
        self._dying = set()
        return (
            "the server's files keep copies until a merge drops them, its transaction log until it is rolled over, "
            "and snapshots until they are deleted"
        )

    def close(self) -> None:
        """Release the store without committing; may be called twice."""
        if self._closed:
            return
        self._closed = True
        unfinished = bool(self._touched or self._broken)
        try:
            if unfinished or self._dying or self._unclean:
                # A search that began before the last commit meets another number, and begins again.
                self._state = stepped(self._state, unfinished=unfinished)
                self._document.write(self._state)
                self._clean()
            self._document.write(replace(self._state, writer="", until=0.0))
        except (SourceError, StoreError) as error:
            logger.warning("OpenSearch: the store was not released: %s", error)

    def report(self, written: int) -> SinkReport:
        """Return the report of a run, which names the connection and the indices."""
        return SinkReport(f"indices '{self._store.prefix}-*' of connection {self._store.connection!r}")

    def _keeps_vectors(self) -> bool:
        """Return whether the server has the plugin k-NN; taken for granted if its user may not list the plugins."""
        try:
            plugins = self._calls.ask("GET", "_cat/plugins?h=component&format=json")
        except SourceForbidden:
            return True
        return any("knn" in plugin["component"].lower() for plugin in plugins)

    def _forget_lost(self) -> None:
        """With `repair`, forget the classes whose index somebody has deleted.

        Raises:
            StoreCorrupt: an index is gone, without `repair`.
        """
        lost = {*self._indices} - self._names()
        if lost and not self._repair:
            raise StoreCorrupt(f"its index {min(lost)!r} is gone: write all documents again with '{INGEST} --repair'")
        classes = tuple(access_class for access_class in self._state.classes if access_class.index_name not in lost)
        self._state = replace(self._state, classes=classes)
        self._classes = {each.holds: each for each in classes}

    def _move(self) -> None:
        """Write documents whose access rules or classification have changed into the index of their class."""
        names = {
            "terms": {"field": "source", "size": _MOST_SOURCES},
            "aggs": {"claimed": {"terms": {"field": "claimed"}}},
        }
        body = {"size": 0, "query": both(self._state.visible, OF_DOCUMENTS), "aggs": {"sources": names}}
        for access_class in self._state.classes:
            (result,) = self._calls.search([SearchBody([access_class.index_name], body)])
            for source in result["aggregations"]["sources"]["buckets"]:
                place = self._place(source["key"])
                for claimed in (bucket["key"] for bucket in source["claimed"]["buckets"]):
                    if place and place.holds(claimed) != access_class.holds:
                        query = both({"term": {"source": source["key"]}}, {"term": {"claimed": claimed}})
                        self._write_again([access_class], query)

    def _rebuild(self) -> None:
        """Write all documents into new indices."""
        self._classes, self._unclean = {}, True
        self._write_again(self._state.classes, EVERYTHING, embed=self._next.model_id != self._state.model_id)


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
