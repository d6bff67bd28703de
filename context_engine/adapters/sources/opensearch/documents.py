"""The documents of the next commit: written, replaced and moved to other classes, unseen until the state names them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.opensearch.conditions import Query, StoreView, any_of, both
from context_engine.adapters.sources.opensearch.rows import (
    STORED,
    HeldDocument,
    NewRow,
    RowWriter,
    chunk_row,
    new_rows,
    vectors_of,
)
from context_engine.adapters.sources.opensearch.server import INGEST, OpenSearchServer
from context_engine.adapters.sources.opensearch.state import LEASE_S, IndexClass, IndexShape, StateDocument, make_index
from context_engine.adapters.sources.stores.chunk_rows import Place
from context_engine.adapters.sources.stores.copies import StoreName
from context_engine.adapters.sources.stores.sinks import Name, ServerSink, WrittenDocument
from context_engine.core.models import AccessClass
from context_engine.core.protocols import Embedder

OF_DOCUMENTS: Final = {"term": {"kind": "document"}}
_DOCUMENT: Final = ("row", "source", "document_id", "version", "content_hash", "claimed", "source_file", "indexed_at")


class ShapedStore(NamedTuple):
    """A store to write: the connection and prefix of its indices, how new ones are made, and changes sent at once."""

    connection: str
    prefix: str
    shape: IndexShape
    at_once: int

    @property
    def named(self) -> StoreName:
        """Its name."""
        return StoreName(f"opensearch {self.connection}", self.prefix)


class DocumentWriter(ServerSink[HeldDocument]):
    """Writes the documents of the next commit, for one thread; the arguments are those of `OpenSearchSink`."""

    ingest = INGEST

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
        self._touched, self._marked, self._dying, self._moved = set[str](), set[str](), set[str](), set[int]()
        self._closed = False
        self._writer = RowWriter(self._calls, store.at_once)
        self._document = StateDocument(self._calls, store.prefix)
        self._state, self._unclean = self._document.take(now().timestamp())
        self._next, self._classes = self._state, {each.holds: each for each in self._state.classes}

    def _write_again(self, classes: Sequence[IndexClass], query: Query, *, embed: bool = False) -> None:
        """Write the documents of some classes that match a query; a source without a known place stays in its class.

        Args:
            embed: make their vectors anew.
        """
        for access_class in classes:
            for record in list(self._scan([access_class.index_name], both(OF_DOCUMENTS, query), _DOCUMENT)):
                source_id, claimed = record["source"], record["claimed"]
                name, place = (source_id, record["document_id"], record["version"]), self._place(source_id)
                own: Query = {"term": {"document": record["row"]}}
                rows = self._view.rows(own, (*STORED, "row", "indexed_at"))
                kept = {} if embed else vectors_of(self._calls, access_class.index_name, both(self._state.visible, own))
                vectors = None if embed else [kept.get(row["row"], ()) for row in rows]
                self._documents(source_id)
                if access_class in self._classes.values():  # else its index is given up
                    self._remove(name)
                moment = rows[0]["indexed_at"] if rows else record.get("indexed_at", "")
                chunks = [chunk_row(row) for row in rows]
                document = WrittenDocument(name, record["content_hash"], claimed, moment, chunks, vectors)
                holds = place.holds(claimed) if place else access_class.holds
                if holds != access_class.holds:
                    self._moved |= {access_class.key, self._class_of(holds).key}
                self._write(document, holds)

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
                    [access_class.index_name], both(OF_DOCUMENTS, {"term": {"source": source_id}}), _DOCUMENT
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
    def _view(self) -> StoreView:
        """What readers of everything see: the last commit."""
        return StoreView(self._calls, self._state, self._state.classes, self._document.learnt)

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
        self._calls.refresh([stored.index_name])
        self._writer.delete([stored.index_name], rows)
        own = (document_id, version)
        self._taken_now = {name: by for name, by in self._taken_now.items() if (name[0], by) != (source_id, own)}

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

    def _clean(self) -> None:
        """Remove the rows that no search sees, and indices that the state does not name."""
        names = self._names()
        for name in sorted(names - {f"{self._store.prefix}-state", *self._indices}):
            self._calls.ask("DELETE", name)
        indices = [index for index in self._indices if index in names]
        if indices:
            self._calls.refresh(indices)
            self._writer.delete(indices, {"bool": {"must_not": [self._state.visible]}})
            self._writer.mark(indices, both(self._state.visible, {"exists": {"field": "died"}}), None)
            self._calls.refresh(indices)

    def _names(self) -> set[str]:
        """Return the names of the store's indices on the server."""
        return {*self._calls.ask("GET", f"{self._store.prefix}-*/_alias")}
