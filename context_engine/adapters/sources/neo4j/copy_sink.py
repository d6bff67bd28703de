"""Copies between stores: whole documents as they are read here, and the sink that takes those of another store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from context_engine.adapters.sources.neo4j.class_texts import NodeTexts
from context_engine.adapters.sources.neo4j.conditions import GraphView
from context_engine.adapters.sources.neo4j.rows import WholeChunk, whole_chunks
from context_engine.adapters.sources.neo4j.server import GraphServer
from context_engine.adapters.sources.neo4j.sink import Neo4jSink
from context_engine.adapters.sources.neo4j.state import VISIBLE, class_indexes, lock_state, write_learnt
from context_engine.adapters.sources.stores.chunk_rows import as_written
from context_engine.adapters.sources.stores.trainable_store import READ_S
from context_engine.adapters.sources.stores.vector_form import other_vectors
from context_engine.core.models import ClassCalibration, WholeDocument
from context_engine.errors import SourceNotFound

Key = tuple[str, str]


def document_hashes(view: GraphView, source_id: str) -> dict[Key, str]:
    """Return {(document_id, version): content_hash} of a source, in the order of writing."""
    rows = view.rows(
        f"MATCH (n:{view.store}:Document {{source: $source}}) WHERE {VISIBLE}"
        " RETURN n.document_id, n.version, n.content_hash ORDER BY n.row",
        source=source_id,
    )
    return {(document_id, version): content_hash for document_id, version, content_hash in rows}


def hashes_of(server: GraphServer, store: str, source_id: str) -> dict[Key, str]:
    """Return `document_hashes`; nothing if there is no store yet."""
    with server.reading(READ_S) as transaction:
        try:
            return document_hashes(GraphView.read(transaction, store), source_id)
        except SourceNotFound:
            return {}


def stored_documents(view: GraphView, source_id: str, keys: Sequence[Key]) -> list[WholeDocument | None]:
    """Return each document of a source, None for one that it has not got; see `Copyable`.

    Raises:
        StoreCorrupt: a chunk is not as it was written.
    """
    holds = {each.key: each.holds for each in view.classes}
    rows = view.rows(
        f"UNWIND $wanted AS key MATCH (n:{view.store}:Document {{document_id: key[0], version: key[1]}})"
        f" WHERE n.source = $source AND {VISIBLE} RETURN key, n.content_hash, n.indexed_at, n.store_class,"
        f" {whole_chunks(view.store)}",
        wanted=[list(key) for key in keys],
        source=source_id,
    )
    documents = {}
    for (document_id, version), content_hash, indexed_at, class_key, stored in rows:
        chunks = [WholeChunk(*chunk) for chunk in stored]
        vectors = [chunk.vectors for chunk in chunks]
        model = str(view.state.model_id) if any(vectors) else ""
        written = [as_written(chunk.row) for chunk in chunks]
        documents[document_id, version] = WholeDocument(
            document_id, version, content_hash, indexed_at, holds[class_key], written, vectors, model
        )
    return [documents.get(key) for key in keys]


class Neo4jCopySink(Neo4jSink):
    """A sink of a store that is also a `CopySink`."""

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
