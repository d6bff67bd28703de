"""Writing: rows of the next commit are invisible until the state names it, so that readers see whole documents."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.opensearch.conditions import EVERYTHING, Query, StoreView, any_of, both
from context_engine.adapters.sources.opensearch.rows import (
    STORED,
    HeldDocument,
    Name,
    NewRow,
    RowWriter,
    WrittenDocument,
    new_rows,
)
from context_engine.adapters.sources.opensearch.server import INGEST, OpenSearchServer, SearchBody
from context_engine.adapters.sources.opensearch.state import (
    LEASE_S,
    WORDS_VERSION,
    IndexClass,
    IndexShape,
    StateDocument,
    make_index,
    other_model,
    stepped,
)
from context_engine.adapters.sources.stores.chunk_rows import ChunkRow, document_rows
from context_engine.adapters.sources.stores.places import Place, SourcePlace, claimed_by
from context_engine.adapters.sources.stores.sinks import CommittingSink
from context_engine.core.models import AccessClass, Chunk, Classification
from context_engine.core.protocols import Embedder, SinkReport
from context_engine.errors import SourceError, StoreCorrupt, StoreError

logger = logging.getLogger(__name__)
_DOCUMENT: Final = ("row", "source", "document_id", "version", "content_hash", "claimed", "source_file")
_OF_DOCUMENTS: Final = {"term": {"kind": "document"}}
_MOST_SOURCES: Final = 10_000


class ShapedStore(NamedTuple):
    """A store to write: the connection and prefix of its indices, how new ones are made, and changes sent at once."""

    connection: str
    prefix: str
    shape: IndexShape
    at_once: int


class OpenSearchSink(CommittingSink):
    """Writes documents, for one thread; a `ReportingSink` and `FileTrackingSink`.

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
        self._calls, self._store, self._now, self._embedder = server.writing(), store, now, embedder
        self._place, self._repair = place, repair
        self._known: dict[str, dict[tuple[str, str], HeldDocument]] = {}
        self._taken_now: dict[tuple[str, str], tuple[str, str]] = {}
        self._rows: list[NewRow] = []
        self._touched, self._marked, self._dying = set[str](), set[str](), set[str]()
        self._broken = self._closed = False
        self._writer = RowWriter(self._calls, store.at_once)
        self._document = StateDocument(self._calls, store.prefix)
        self._state, self._unclean = self._document.take(now().timestamp())
        self._next, self._classes = (
            self._state,
            {access_class.holds: access_class for access_class in self._state.classes},
        )
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
        model = state.model_id if embedder is None else embedder.model_id
        if embedder is not None and state.model_id not in (None, model) and not self._repair:
            raise other_model(state.model_id, embedder.model_id)
        dimension = state.dimension
        if embedder is not None and model != state.model_id:
            dimension = len(embedder.embed_documents(["dimension"])[0])
        self._next = replace(self._state, model_id=model, dimension=dimension, words_version=WORDS_VERSION)
        if model != state.model_id or state.words_version != WORDS_VERSION:
            self._classes, self._unclean = {}, True
            self._write_again(state.classes, EVERYTHING)
        else:
            self._move()
            if embedder is not None:
                rows = self._scan(self._indices, {"term": {"unembedded": True}}, ("document",))
                self._write_again(state.classes, any_of("row", sorted({row["document"] for row in rows})))
        if self._touched or self._next != self._state:
            self.commit()

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        """Write a document, replacing its chunks; return False, writing nothing, if `content_hash` is unchanged.

        Raises:
            InvalidRequest: a chunk cannot be stored, or its id already exists in the source; the document is unchanged.
            EmbedderError: the model failed: everything since the last commit is lost.
            SourceError: the server failed: everything since the last commit is lost.
        """
        known = self._documents(source_id).get((document_id, version))
        if known is not None and known.content_hash == content_hash:
            return False
        name = (source_id, document_id, version)
        rows = document_rows(chunks, document_id, version, lambda chunk_ids: self._taken(name, chunk_ids))
        moment = self._now().isoformat(timespec="seconds")
        document = WrittenDocument(name, content_hash, claimed_by(chunks) or "", moment, rows)
        with self._whole():
            self._remove(name)
            self._write(document, _holds(self._place(source_id) or SourcePlace(), document.claimed))
        return True

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        """Remove a document; return whether it existed."""
        if (document_id, version) not in self._documents(source_id):
            return False
        with self._whole():
            self._remove((source_id, document_id, version))
        return True

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return {(document_id, version): content_hash} of the source, including uncommitted changes."""
        return {name: stored.content_hash for name, stored in self._documents(source_id).items()}

    def file_of(self, source_id: str, document_id: str, version: str) -> str | None:
        """Return the path of a document's file, or None if its chunks do not state it."""
        stored = self._documents(source_id).get((document_id, version))
        return None if stored is None else stored.source_file

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
                self._calls.ask("POST", f"{','.join(sorted(self._touched))}/_refresh")
            before, number = self._state, self._state.writing
            known = self._classes.values()
            classes = [each._replace(generation=number) if each.index_name in self._touched else each for each in known]
            after = replace(
                self._next, generation=number, writing=number + 1, writer=before.writer,
                until=self._now().timestamp() + LEASE_S, classes=tuple(sorted(classes, key=lambda each: each.key)),
            )  # fmt: skip
            self._document.write(after)
        self._state = self._next = after
        self._classes = {each.holds: each for each in classes}
        # A search that began before the last commit reads the state of this one, and begins again.
        self._writer.delete(sorted(self._dying), {"range": {"died": {"lte": before.generation}}})
        self._touched, self._dying, self._marked, self._taken_now = set[str](), self._marked, set[str](), {}
        for documents in self._known.values():
            documents.update({name: each._replace(is_new=False) for name, each in documents.items() if each.is_new})

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

    def _documents(self, source_id: str) -> dict[tuple[str, str], HeldDocument]:
        if source_id not in self._known:
            self._known[source_id] = {
                (row["document_id"], row["version"]): HeldDocument(
                    "" if self._repair else row["content_hash"],
                    access_class.index_name,
                    row["row"],
                    row.get("source_file"),
                )
                for access_class in self._state.classes
                for row in self._scan(
                    [access_class.index_name], both(_OF_DOCUMENTS, {"term": {"source": source_id}}), _DOCUMENT
                )
            }
        return self._known[source_id]

    def _scan(self, indices: Sequence[str], query: Query, fields: Sequence[str]) -> Iterator[Any]:
        """Yield the rows of the last commit that match a query."""
        return self._calls.scan(indices, both(self._state.visible, query), fields)

    def _taken(self, name: Name, chunk_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return {chunk id: (document_id, version)} of the ids that another document of the source has."""
        source_id, *own = name
        mine = {"bool": {"filter": [{"term": {"document_id": own[0]}}, {"term": {"version": own[1]}}]}}
        query = both({"term": {"source": source_id}}, any_of("chunk_id", chunk_ids), {"bool": {"must_not": [mine]}})
        holders = {
            row["chunk_id"]: (row["document_id"], row["version"])
            for row in self._scan(self._indices, query, ("chunk_id", "document_id", "version"))
            if source_id in self._state.sources
        }
        known = self._documents(source_id)
        holders = {chunk_id: holder for chunk_id, holder in holders.items() if holder in known}
        now = {chunk_id: self._taken_now.get((source_id, chunk_id)) for chunk_id in chunk_ids}
        return holders | {chunk_id: holder for chunk_id, holder in now.items() if holder not in (None, tuple(own))}

    @property
    def _indices(self) -> list[str]:
        return [access_class.index_name for access_class in self._state.classes]

    def _remove(self, name: Name) -> None:
        """Take a document out of the next commit."""
        source_id, document_id, version = name
        stored = self._known[source_id].pop((document_id, version), None)
        if stored is None:
            return
        self._touched.add(stored.index_name)
        rows: Query = {"term": {"document": stored.row}}
        if not stored.is_new:
            self._marked.add(stored.index_name)
            self._writer.mark([stored.index_name], rows, self._state.writing)
            return
        self._flush()
        self._calls.ask("POST", f"{stored.index_name}/_refresh")
        self._writer.delete([stored.index_name], rows)
        own = (document_id, version)
        self._taken_now = {name: by for name, by in self._taken_now.items() if (name[0], by) != (source_id, own)}

    def _clean(self) -> None:
        """Remove the rows that no search sees, and indices that the state does not name."""
        names = self._names()
        for name in sorted(names - {f"{self._store.prefix}-state", *self._indices}):
            self._calls.ask("DELETE", name)
        indices = [index for index in self._indices if index in names]
        if indices:
            self._calls.ask("POST", f"{','.join(indices)}/_refresh")
            self._writer.delete(indices, {"bool": {"must_not": [self._state.visible]}})
            self._writer.mark(indices, both(self._state.visible, {"exists": {"field": "died"}}), None)
            self._calls.ask("POST", f"{','.join(indices)}/_refresh")

    def _names(self) -> set[str]:
        """Return the names of the store's indices on the server."""
        return {*self._calls.ask("GET", f"{self._store.prefix}-*/_alias")}

    def _forget_lost(self) -> None:
        """With `repair`, forget the classes whose index somebody has deleted.

        Raises:
            StoreCorrupt: an index is gone, without `repair`.
        """
        lost = {*self._indices} - self._names()
        if lost and not self._repair:
            raise StoreCorrupt(f"its index {min(lost)!r} is gone: write all documents again with '{INGEST} --repair'")
        classes = tuple(access_class for access_class in self._state.classes if access_class.index_name not in lost)
        self._state, self._classes = (
            replace(self._state, classes=classes),
            {access_class.holds: access_class for access_class in classes},
        )

    def _move(self) -> None:
        """Write documents whose access rules or classification have changed into the index of their class."""
        names = {
            "terms": {"field": "source", "size": _MOST_SOURCES},
            "aggs": {"claimed": {"terms": {"field": "claimed"}}},
        }
        body = {"size": 0, "query": both(self._state.visible, _OF_DOCUMENTS), "aggs": {"sources": names}}
        for access_class in self._state.classes:
            (result,) = self._calls.search([SearchBody([access_class.index_name], body)])
            for source in result["aggregations"]["sources"]["buckets"]:
                place = self._place(source["key"])
                for claimed in (bucket["key"] for bucket in source["claimed"]["buckets"]):
                    if place and _holds(place, claimed) != access_class.holds:
                        query = both({"term": {"source": source["key"]}}, {"term": {"claimed": claimed}})
                        self._write_again([access_class], query)

    def _write_again(self, classes: Sequence[IndexClass], query: Query) -> None:
        """Write the documents of some classes that match a query; a source without a known place stays in its class."""
        view = StoreView(self._calls, self._state, self._state.classes)
        for access_class in classes:
            for record in list(self._scan([access_class.index_name], both(_OF_DOCUMENTS, query), _DOCUMENT)):
                source_id, claimed = record["source"], record["claimed"]
                name, place = (source_id, record["document_id"], record["version"]), self._place(source_id)
                rows = view.rows({"term": {"document": record["row"]}}, STORED)
                self._documents(source_id)
                if access_class in self._classes.values():  # else its index is given up
                    self._remove(name)
                kept = [ChunkRow(row["chunk_id"], row["content"], row["fields"], b"") for row in rows]
                moment = rows[0]["indexed_at"] if rows else ""
                document = WrittenDocument(name, record["content_hash"], claimed, moment, kept)
                self._write(document, _holds(place, claimed) if place else access_class.holds)

    def _class_of(self, holds: AccessClass) -> IndexClass:
        """Return an access class; a new one gets an index."""
        if holds not in self._classes:
            every = (*self._state.classes, *self._classes.values())
            key = next((access_class.key for access_class in every if access_class.holds == holds), 0) or 1 + max(
                (access_class.key for access_class in every), default=0
            )
            index = f"{self._store.prefix}-{key}-{secrets.token_hex(4)}"
            make_index(self._calls, index, self._store.shape, self._next.dimension)
            self._classes[holds] = IndexClass(key, holds, index, self._state.writing)
        return self._classes[holds]

    def _write(self, document: WrittenDocument, holds: AccessClass) -> None:
        source_id, *own = document.name
        index_name, first, sources = self._class_of(holds).index_name, self._next.next_row, self._next.sources
        rows = new_rows(document, index_name, first, self._state.writing)
        self._next = replace(
            self._next, next_row=first + len(rows), sources=tuple(dict.fromkeys((*sources, source_id)))
        )
        self._touched.add(index_name)
        key = (own[0], own[1])
        self._known[source_id][key] = HeldDocument(
            document.content_hash, index_name, first, rows[0].fields.get("source_file"), True
        )
        self._taken_now |= {(source_id, row.chunk_id): key for row in document.rows}
        self._rows += rows
        if len(self._rows) >= self._store.at_once:
            self._flush()

    def _flush(self) -> None:
        """Embed and send what was written."""
        rows, self._rows = self._rows, []
        for some in (rows[at : at + self._store.at_once] for at in range(0, len(rows), self._store.at_once)):
            self._writer.write(some, self._embedder)
            if self._state.until - self._now().timestamp() < LEASE_S / 2:
                self._state = replace(self._state, until=self._now().timestamp() + LEASE_S)
                self._document.write(self._state)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Refuse everything after a failure that may have left half a document.

        Raises:
            StoreError: an earlier change failed.
        """
        if self._broken:
            raise StoreError(
                f"everything written since the last commit is lost, because a change failed: run '{INGEST}' again"
            )
        self._broken = True
        yield
        self._broken = False


def _holds(place: SourcePlace, claimed: str) -> AccessClass:
    return place.holds(Classification(claimed) if claimed else None)
