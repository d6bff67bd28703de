"""Writing: nodes of the next commit are invisible until the state names it, so that readers see whole documents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from context_engine.adapters.sources.neo4j.class_texts import NodeTexts
from context_engine.adapters.sources.neo4j.conditions import GraphView
from context_engine.adapters.sources.neo4j.nodes import COUNTED, NodeWriter
from context_engine.adapters.sources.neo4j.rows import (
    NewDocument,
    NodeDocument,
    WholeChunk,
    embed,
    new_document,
    whole_chunks,
)
from context_engine.adapters.sources.neo4j.server import INGEST, GraphServer
from context_engine.adapters.sources.neo4j.state import (
    VISIBLE,
    WORDS_VERSION,
    Lease,
    StoreClass,
    class_indexes,
    lock_state,
    store_indexes,
    write_learnt,
)
from context_engine.adapters.sources.stores.chunk_rows import Place
from context_engine.adapters.sources.stores.sinks import Name, ServerSink, WrittenDocument
from context_engine.adapters.sources.stores.term_counts import WRITTEN, ClassCounts, TermCounts
from context_engine.adapters.sources.stores.vector_form import other_vectors
from context_engine.core.models import AccessClass, ClassCalibration
from context_engine.core.protocols import Embedder, SinkReport
from context_engine.errors import SourceError, StoreError

logger = logging.getLogger(__name__)
_LIST_S: Final = 600.0


class Neo4jSink(ServerSink[NodeDocument]):
    """Writes documents, for one thread; a `ReportingSink`, `FileTrackingSink`, `ScrubbingSink` and `CopySink`.

    Opening makes the store and its indexes if they are not there, removes what a killed writer left, moves the
    documents whose access rules have changed, and writes all documents again if they were analysed by another version.

    Args:
        server: that has the store.
        store: its name.
        at_once: chunks written in one transaction.
        now: returns the time, aware.
        embedder: embeds new documents and old ones without vectors; None leaves documents without vectors.
        place: where the documents of each source belong.
        repair: write every document again, and make vectors of another model anew.

    Raises:
        StoreLocked: another writer is at work.
        StoreVersionMismatch: the store is of a later version, or its vectors of another model.
        SourceError: the server failed.
    """

    ingest = INGEST

    def __init__(
        self,
        server: GraphServer,
        store: str,
        at_once: int,
        *,
        now: Callable[[], datetime],
        embedder: Embedder | None,
        place: Place,
        repair: bool = False,
    ) -> None:
        self._store, self._at_once, self._now, self._embedder = store, at_once, now, embedder
        self._place, self._repair = place, repair
        self._known: dict[str, dict[tuple[str, str], NodeDocument]] = {}
        self._pending: list[NewDocument] = []
        self._counts, self._touched, self._moved = TermCounts(), set[int](), set[int]()
        self._closed = False
        self._lease = Lease(server, store, now().timestamp())
        self._nodes = NodeWriter(self._lease, store, now)
        self._state = self._next = self._lease.state
        self._classes = {each.holds: each for each in self._state.classes}
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        if self._lease.unclean:
            self._nodes.undo(self._state.generation)
        state, embedder = self._state, self._embedder
        model, dimension = self._vectors_for(state.model_id, state.dimension)
        self._next = replace(state, model_id=model, dimension=dimension, words_version=WORDS_VERSION)
        reworded, others = state.words_version != WORDS_VERSION, state.model_id not in (None, model)
        keys, anew = [each.key for each in state.classes], reworded or dimension != state.dimension
        indexes = class_indexes(self._store, keys, dimension, anew=anew)
        self._lease.server.change_schema([*store_indexes(self._store), *indexes])
        if others or reworded:
            self._write_again("true", embed=others)
        elif embedder is not None:
            self._write_again("n.unembedded", embed=True)
        self._move()
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
            counts = dict(self._counts.changes())
            classes = [self._counted(each, counts.get(each.key)) for each in self._classes.values()]
            # Readers of the last commit still see what died with this one; those of earlier ones begin again.
            after = replace(self._next, generation=self._commit, cleaned=self._state.generation, classes=tuple(classes))
            self._nodes.commit(after, list(counts.items()), self._moved)
        self._state = self._next = after
        self._classes = {each.holds: each for each in classes}
        self._counts, self._touched, self._moved = TermCounts(), set[int](), set[int]()
        for documents in self._known.values():
            documents.update({name: each._replace(is_new=False) for name, each in documents.items() if each.is_new})

    def accept_vectors(self, model_id: str, dimension: int) -> bool:
        """Prepare for vectors of another store (`CopySink`)."""
        stored = self._next
        if stored.model_id is None:
            keys = [each.key for each in self._classes.values()]
            self._lease.server.change_schema(class_indexes(self._store, keys, dimension, anew=False))
            self._next = replace(stored, model_id=model_id, dimension=dimension)
        elif (stored.model_id, stored.dimension) != (model_id, dimension):
            raise other_vectors((stored.model_id, stored.dimension), (model_id, dimension))
        return True

    def finish_copy(self, domain: str, source_ids: Sequence[str], calibrations: Sequence[ClassCalibration]) -> None:
        """Commit, and replace the calibrations if any are given (`CopySink`)."""
        self.commit()
        with self._nodes.writing() as transaction:
            lock_state(transaction, self._store)
            view = GraphView.read(transaction, self._store)
            view.learnt.copy_calibrations(domain, source_ids, calibrations, view.classes, NodeTexts(view))
            write_learnt(transaction, self._store, view.learnt)

    def scrub(self) -> str:
        """Commit, and remove the field values that no chunk has any more.

        Raises:
            EmbedderError, SourceError: as `commit`.
        """
        self.commit()
        self._clean()
        self._nodes.scrub()
        return (
            f"freed records of store {self._store!r} may hold copies until they are reused, transaction logs and "
            "backups until they are recycled"
        )

    def close(self) -> None:
        """Release the store without committing; may be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._touched or self._broken:
                self._nodes.undo(self._state.generation)
            self._clean()
            self._lease.release(self._now().timestamp())
        except (SourceError, StoreError) as error:
            logger.warning("Neo4j: the store was not released: %s", error)

    def report(self, written: int) -> SinkReport:
        """Return the report of a run, which names the store."""
        return SinkReport(f"store {self._store!r} of the Neo4j server")

    @property
    def _commit(self) -> int:
        return self._state.generation + 1

    def _read(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return rows as this writer sees them: without what it has removed, with what it has flushed."""
        values |= {"generation": self._commit}
        with self._lease.server.reading(_LIST_S) as transaction:
            return transaction.rows(statement, **values)

    def _documents(self, source_id: str) -> dict[tuple[str, str], NodeDocument]:
        if source_id not in self._known:
            rows = self._read(
                f"MATCH (n:{self._store}:Document {{source: $source}}) WHERE {VISIBLE}"
                " RETURN n.document_id, n.version, n.content_hash, n.row, n.last, n.source_file ORDER BY n.row",
                source=source_id,
            )
            self._known[source_id] = {
                (document_id, version): NodeDocument("" if self._repair else content_hash, first, last, file)
                for document_id, version, content_hash, first, last, file in rows
            }
        return self._known[source_id]

    def _taken(self, name: Name, chunk_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return {chunk id: (document_id, version)} of the ids that another document of the source has."""
        source_id, *own = name
        rows = self._read(
            f"MATCH (n:{self._store}:Chunk)-[:BELONGS_TO]->(d)"
            f" WHERE n.chunk_id IN $ids AND n.source = $source AND {VISIBLE}"
            " RETURN n.chunk_id, d.document_id, d.version",
            ids=chunk_ids,
            source=source_id,
        )
        pending = [
            (node["chunk_id"], each.record["document_id"], each.record["version"])
            for each in self._pending
            if each.record["source"] == source_id
            for node in each.chunks
        ]
        wanted = {*chunk_ids}
        return {
            chunk_id: (document_id, version)
            for chunk_id, document_id, version in (*rows, *pending)
            if chunk_id in wanted and [document_id, version] != own
        }

    def _remove(self, name: Name) -> None:
        """Take a document out of the next commit."""
        source_id, document_id, version = name
        stored = self._documents(source_id).pop((document_id, version), None)
        if stored is None:
            return
        if stored.is_new:
            self._flush()
        for key, *texts in self._nodes.remove(stored.first, stored.last, self._commit):
            self._touched.add(key)
            self._count(key, texts, -1)

    def _count(self, key: int, texts: Sequence[str | None], sign: int) -> None:
        """Count the words of a chunk, or discount them.

        Args:
            texts: its COUNTED fields; a chunk that is not searched has none.
        """
        words, title, head, written = (text.split() if text else [] for text in texts)
        if texts[0] is not None:
            self._counts.add(key, words, [*title, *head], sign, [WRITTEN + word for word in written])

    def _write(self, document: WrittenDocument, holds: AccessClass) -> None:
        source_id, *own = document.name
        key, first, rows = self._class_of(holds).key, self._next.next_row, document.rows
        new = new_document(document, key=key, first=first, commit=self._commit)
        self._next = replace(
            self._next,
            next_row=first + 1 + len(rows),
            sources=tuple(dict.fromkeys((*self._next.sources, source_id))),
        )
        for node in new.chunks:
            self._count(key, [node.get(field) for field in COUNTED], 1)
        self._touched.add(key)
        self._known[source_id][own[0], own[1]] = NodeDocument(
            document.content_hash, first, new.record["last"], new.record["source_file"], is_new=True
        )
        self._pending.append(new)
        if sum(len(each.chunks) for each in self._pending) >= self._at_once:
            self._flush()

    def _flush(self) -> None:
        """Embed and write what is pending."""
        documents, self._pending = self._pending, []
        if documents:
            self._nodes.write(documents, embed(documents, self._embedder))

    def _counted(self, each: StoreClass, counts: ClassCounts | None) -> StoreClass:
        """Return a class after the commit."""
        texts, words = (0, 0) if counts is None else (counts.number, counts.words)
        generation = self._commit if each.key in self._touched else each.generation
        return each._replace(generation=generation, texts=each.texts + texts, words=each.words + words)

    def _clean(self) -> None:
        """Remove what died with the last commit; searches that began before it begin again."""
        if self._state.cleaned < self._state.generation:
            self._state = replace(self._state, cleaned=self._state.generation)
            self._nodes.commit(self._state)

    def _move(self) -> None:
        """Write documents whose access rules or classification have changed again, in their class."""
        holds = {each.key: each.holds for each in self._classes.values()}
        rows = self._read(
            f"MATCH (n:{self._store}:Document) WHERE {VISIBLE} RETURN DISTINCT n.source, n.store_class, n.claimed"
        )
        for source_id, key, claimed in rows:
            place = self._place(source_id)
            if place is not None and place.holds(claimed) != holds[key]:
                self._write_again(
                    "n.source = $source AND n.store_class = $key AND n.claimed = $claimed", embed=False,
                    source=source_id, key=key, claimed=claimed,
                )  # fmt: skip

    def _write_again(self, condition: str, *, embed: bool, **values: Any) -> None:
        """Write some documents again; a source without a known place stays in its class.

        Args:
            embed: make their vectors anew; else those that are missing, if there is an embedder.
        """
        holds = {each.key: each.holds for each in self._classes.values()}
        records = self._read(
            f"MATCH (n:{self._store}:Document) WHERE {VISIBLE} AND {condition} RETURN n.row, n.source, n.document_id,"
            " n.version, n.content_hash, n.claimed, n.store_class, n.unembedded ORDER BY n.row",
            **values,
        )
        for row, source_id, document_id, version, content_hash, claimed, key, unembedded in records:
            lists = self._read(f"MATCH (n:{self._store} {{row: $row}}) RETURN {whole_chunks(self._store)}", row=row)
            chunks = [WholeChunk(*chunk) for (stored,) in lists for chunk in stored]
            place, name = self._place(source_id), (source_id, document_id, version)
            self._remove(name)
            moment, vectors = chunks[0].indexed_at if chunks else "", [chunk.vectors for chunk in chunks]
            now = place.holds(claimed) if place else holds[key]
            if now != holds[key]:
                self._moved |= {key, self._class_of(now).key}
            rows = [chunk.row for chunk in chunks]
            kept = None if embed or (unembedded and self._embedder is not None) else vectors
            self._write(WrittenDocument(name, content_hash, claimed, moment, rows, kept), now)

    def _class_of(self, holds: AccessClass) -> StoreClass:
        """Return an access class; a new one gets indexes."""
        if holds not in self._classes:
            key = 1 + max((each.key for each in self._classes.values()), default=0)
            self._lease.server.change_schema(class_indexes(self._store, [key], self._next.dimension, anew=False))
            self._classes[holds] = StoreClass(key, holds, self._commit)
        return self._classes[holds]
