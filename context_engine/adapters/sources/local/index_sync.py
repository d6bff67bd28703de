"""The writer's side of the index: it follows the rows, catches up after a crash, and is built anew where it must be."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

import tantivy
from tantivy import Query

from context_engine.adapters.sources.local import index as indexing
from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.attributes import Dictionary
from context_engine.adapters.sources.local.damage import give_up
from context_engine.adapters.sources.local.records import decode
from context_engine.adapters.sources.local.schema import BaseState

__all__ = ["IndexSync"]

_log = logging.getLogger(__name__)
_HEAP_BYTES: Final = 100_000_000
_PENDING: Final = """
SELECT rid, documents.doc_key, source_key, indexed_at, chunk_id, content, fields
FROM documents CROSS JOIN chunks ON chunks.doc_key = documents.doc_key WHERE generation > ? AND removed IS NULL
AND rid NOT IN (SELECT value FROM json_each(?)) ORDER BY documents.doc_key, rid
"""


class IndexSync:
    """Keeps the index at the rows' generation. Only the holder of the writer's lock has one.

    Args:
        root: folder of the base; a base is made there if there is none.
        connection: the writer's, outside a transaction.
        rebuild: build the index anew in any case.

    Attributes:
        state: of the base, as last brought up to.
        given_up: damaged documents that a rebuild has found and that wait for an ingestion.
    """

    def __init__(self, root: Path, connection: sqlite3.Connection, *, rebuild: bool) -> None:
        self._root, self._connection = root, connection
        self._dictionary = Dictionary(connection)
        self._writer: tantivy.IndexWriter | None = None
        self.given_up = 0
        self.state, self._held = self._opened(rebuild)
        self.follow(self.state)
        self._clear_old(self.state.index_number)

    def follow(self, state: BaseState) -> None:
        """Bring the index up to a state whose rows are committed; after an error the next call tries again."""
        self.state = state
        if self._held < state.generation:
            writer = self._open_writer()
            try:
                self._stage(writer, state)
                writer.commit()
            except BaseException:
                self._dictionary.forget()
                self.close()
                raise
            self._held = state.generation
        self._connection.execute("DELETE FROM documents WHERE removed <= ?", (self._held,))

    def close(self) -> None:
        """Wait until the index has tidied up, and let it go."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            try:
                writer.wait_merging_threads()
            except ValueError as error:
                _log.warning("the index of %s was not closed in order: %s", self._root, error)

    def _opened(self, rebuild: bool) -> tuple[BaseState, int]:
        if not schema.exists(self._root):
            state = self._created()
        else:
            schema.upgrade(self._connection)
            state = schema.read_state(self._connection, self._root)
            held = None if rebuild or state.analyser != indexing.INDEX_VERSION else self._readable(state)
            if held is not None:
                return state, held
            state = self._rebuilt(state)
        return state, state.generation

    def _readable(self, state: BaseState) -> int | None:
        """Return the generation the index holds, None where it has to be rebuilt."""
        path = indexing.directory(self._root, state.index_number)
        try:
            mark = indexing.read_mark(indexing.opened(path).searcher())
        except (ValueError, OSError) as error:
            _log.warning("the index %s cannot be read and is rebuilt: %s", path, error)
            return None
        if mark is None or mark.base_id != state.base_id or mark.generation > state.generation:
            _log.warning("the index %s is not of this base and is rebuilt", path)
            return None
        return mark.generation

    def _created(self) -> BaseState:
        state = BaseState(uuid.uuid4().hex, 0, 1, indexing.INDEX_VERSION)
        self._clear_old(None)
        self._build(state, ())
        with schema.transaction(self._connection):
            schema.create(self._connection, state)
        return state

    def _rebuilt(self, old: BaseState) -> BaseState:
        """Build the index anew beside the old one, then point to it; readers use the old one until then.

        Rows that are not as they were written are left out.
        """
        self._clear_old(old.index_number)
        state = old._replace(index_number=old.index_number + 1, analyser=indexing.INDEX_VERSION)
        with schema.transaction(self._connection):
            self._connection.execute("DELETE FROM attributes")
            changed, self.given_up = give_up(self._connection)
            self._build(state, self._pending(-1, without=changed))
            schema.write_state(self._connection, state)
        return state

    def _build(self, state: BaseState, documents: Iterable[tantivy.Document]) -> None:
        writer = indexing.create(indexing.directory(self._root, state.index_number)).writer(_HEAP_BYTES, 1)
        for document in documents:
            writer.add_document(document)
        writer.add_document(indexing.mark(state.base_id, state.generation))
        writer.commit()
        writer.wait_merging_threads()

    def _stage(self, writer: tantivy.IndexWriter, state: BaseState) -> None:
        """Hand the index what has changed since it was last committed."""
        gone = self._connection.execute("SELECT doc_key FROM documents WHERE removed > ?", (self._held,))
        for (doc_key,) in gone.fetchall():
            writer.delete_documents_by_query(Query.term_query(indexing.SCHEMA, "doc", doc_key))
        with schema.transaction(self._connection):
            for document in self._pending(self._held):
                writer.add_document(document)
        writer.delete_documents_by_query(indexing.mark_query())
        writer.add_document(indexing.mark(state.base_id, state.generation))

    def _pending(self, held: int, without: Iterable[int] = ()) -> Iterator[tantivy.Document]:
        rows = self._connection.execute(_PENDING, (held, json.dumps(sorted(without))))
        for (doc_key, source_key), group in groupby(rows, key=itemgetter(1, 2)):
            document = []
            for rid, _, _, indexed_at, *row in group:
                chunk = decode((row[0], row[1], row[2]), indexed_at)
                document.append(indexing.IndexRow(rid, chunk, self._dictionary.numbers(chunk)))
            yield from indexing.documents(doc_key, source_key, document)

    def _open_writer(self) -> tantivy.IndexWriter:
        """Open the writer, and clear away what a commit cut short has left: the next gives its files the same names."""
        if self._writer is None:
            path = indexing.directory(self._root, self.state.index_number)
            writer = indexing.opened(path).writer(_HEAP_BYTES, 1)
            writer.garbage_collect_files()
            self._writer = writer
        return self._writer

    def _clear_old(self, current: int | None) -> None:
        """Delete index directories that no state points to."""
        keep = None if current is None else indexing.directory(self._root, current)
        for path in self._root.glob("index-*"):
            if path != keep:
                shutil.rmtree(path, ignore_errors=True)
