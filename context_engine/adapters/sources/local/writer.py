"""Writing: SQLite first, then the index.

A commit has these steps: the rows and the new generation (SQLite); for each changed partition the numbers of new field
values (SQLite) and its index (tantivy); the removal of replaced rows (SQLite). If the writer is killed between two
steps, the first step's data is safe, and the next writer completes the others before anything else.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from context_engine.adapters.sources.local import schema, whole_documents
from context_engine.adapters.sources.local.embedding import Embedded, EmbeddingWriter
from context_engine.adapters.sources.local.index_sync import IndexSync
from context_engine.adapters.sources.local.partitions import partition_key, touch
from context_engine.adapters.sources.stores.chunk_rows import Place, SourcePlace, claimed_by, encode, id_taken
from context_engine.adapters.sources.stores.sinks import CommittingSink
from context_engine.adapters.sources.stores.vector_form import VectorForm
from context_engine.adapters.sources.writer_lock import WriterLock
from context_engine.core.models import Chunk, ClassCalibration, WholeDocument
from context_engine.core.protocols import Embedder, SinkReport
from context_engine.core.text import content_sha256
from context_engine.errors import StoreError
from context_engine.settings.sqlite_copy import rewritten

_log = logging.getLogger(__name__)


class BaseWriter(CommittingSink):
    """Writes documents to an embedded base, for one thread; a `ReportingSink`, `FileTrackingSink` and `ScrubbingSink`.

    Readers are not blocked. Opening first completes the work of an interrupted writer, and rebuilds an index that is
    missing, damaged or of another analyser version. As a context manager it commits at the end, or rolls back on an
    error.

    Args:
        now: returns the time, aware.
        embedder: embeds new rows and old rows without vectors; None leaves rows without vectors.
        approximate_from, vector_form: see `SearchOptions`.
        rebuild: rebuild the index, and vectors of another model or form.
        embedded: see `EmbeddingWriter`.
        place: where the documents of each source belong; misplaced ones are moved on opening. Documents of a source
            without a known place may be read by everyone.

    Attributes:
        given_up: number of damaged documents found by a rebuild; the next ingestion writes them again.
        moved: number of documents moved to another partition on opening.

    Raises:
        StoreLocked: another writer is active.
        StoreVersionMismatch: the tables are of another version, or the vectors of another model or form.
        StoreError: the base cannot be opened or written.
    """

    def __init__(
        self,
        root: Path,
        *,
        now: Callable[[], datetime],
        embedder: Embedder | None = None,
        approximate_from: int = 200_000,
        vector_form: VectorForm = "float32",
        rebuild: bool = False,
        embedded: Embedded | None = None,
        place: Place | None = None,
    ) -> None:
        self._root, self._now, self._place = root, now, place
        self._changed = False
        with _store_errors(root):
            root.mkdir(parents=True, exist_ok=True)
            self._lock = WriterLock(root)
        try:
            self._connection = schema.connect(root, write=True)
            try:
                with _store_errors(root):
                    self._index = IndexSync(
                        root, self._connection, rebuild=rebuild, place=place, approximate_from=approximate_from
                    )
                    self.given_up, self.moved = self._index.given_up, self._index.moved
                    self._vectors = EmbeddingWriter(
                        self._connection,
                        embedder,
                        root,
                        approximate_from=approximate_from,
                        form=vector_form,
                        anew=rebuild,
                        embedded=embedded,
                    )
                if rebuild:
                    self.commit()
                    self._vectors.shrink()
            except BaseException:
                self._connection.close()
                raise
        except BaseException:
            self._lock.release()
            raise

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        """Write a document, replacing its chunks; return False, writing nothing, if `content_hash` is unchanged.

        Raises:
            InvalidRequest: a chunk cannot be stored, or its id already exists in the source; the document is unchanged.
        """
        with _store_errors(self._root), self._all_or_nothing():
            source_key = self._source_key(source_id)
            row = self._connection.execute(
                "SELECT content_hash FROM documents"
                " WHERE source_key = ? AND document_id = ? AND version = ? AND removed IS NULL",
                (source_key, document_id, version),
            ).fetchone()
            if row is not None and row[0] == content_hash:
                return False
            moment = self._now().isoformat(timespec="seconds")
            self._write(source_id, document_id, version, content_hash, chunks, moment)
        with _store_errors(self._root):
            self._vectors.wait(len(chunks))
        return True

    def accept_vectors(self, model_id: str, dimension: int) -> bool:
        """Prepare for vectors of another store (`CopySink`).

        Raises:
            StoreVersionMismatch: the base's vectors are of another model or dimension.
        """
        with _store_errors(self._root):
            self._begin()
            self._vectors.accept(model_id, dimension)
        return True

    def put_stored(self, source_id: str, document: WholeDocument) -> None:
        """Write or replace a document of another store (`CopySink`)."""
        with _store_errors(self._root), self._all_or_nothing():
            rids = self._write(source_id, *document.key, document.content_hash, document.chunks, document.indexed_at)
            for rid, vectors in zip(rids, document.vectors):
                self._vectors.keep(rid, vectors)

    def finish_copy(self, domain: str, source_ids: Sequence[str], calibrations: Sequence[ClassCalibration]) -> None:
        """Commit, and replace the calibrations of a domain if any are given (`CopySink`)."""
        self.commit()
        with _store_errors(self._root):
            whole_documents.keep_calibrations(self._connection, self._root, domain, source_ids, calibrations)

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        """Remove a document; return whether it existed."""
        with _store_errors(self._root), self._all_or_nothing():
            existed = self._remove(self._source_key(source_id), document_id, version)
            self._changed = self._changed or existed
            return existed

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return {(document_id, version): content_hash} of the source, including uncommitted changes."""
        rows = self._connection.execute(
            "SELECT document_id, version, content_hash FROM documents JOIN sources USING (source_key)"
            " WHERE source_id = ? AND removed IS NULL",
            (source_id,),
        )
        return {(document_id, version): content_hash for document_id, version, content_hash in rows}

    def file_of(self, source_id: str, document_id: str, version: str) -> str | None:
        """Return the path of a document's file, or None if its chunks do not state it."""
        row = self._connection.execute(
            "SELECT CASE WHEN json_valid(fields) THEN json_extract(fields, '$.metadata.source_file') END"
            " FROM chunks JOIN documents USING (doc_key) JOIN sources USING (source_key)"
            " WHERE source_id = ? AND document_id = ? AND version = ? AND removed IS NULL LIMIT 1",
            (source_id, document_id, version),
        ).fetchone()
        return None if row is None or row[0] is None else str(row[0])

    def commit(self) -> None:
        """Make everything written so far durable and searchable.

        Raises:
            StoreError: the disk failed. Rows committed by SQLite are kept, and indexed by the next commit or writer. If
                SQLite dropped them instead, every call raises until `rollback`.
        """
        with _store_errors(self._root):
            if self._changed:
                self._begin()
            self._embed()
            state = self._index.state
            if self._changed:
                state = state._replace(generation=state.generation + 1)
                self._vectors.part(touch(self._connection, state.generation, self._vectors.partitions))
                schema.write_state(self._connection, state)
                self._index.prepare()
                self._connection.execute("COMMIT")
                self._vectors.committed()
            self.rollback()
            self._index.follow(state)

    def scrub(self) -> str:
        """Commit, rebuild the indexes and rewrite the file, so that no copy of a deleted document is left.

        Raises:
            StoreError: the base cannot be written, or another process still reads it: the documents are deleted, but
                copies may be left.
        """
        self.commit()
        with _store_errors(self._root):
            self._index.rebuild()
            if not rewritten(self._connection):
                raise StoreError(
                    f"the documents are deleted, but another process still reads {self._root}, so its file may hold "
                    "copies: run the same command again"
                )
        return ""

    def _embed(self) -> None:
        """Embed all rows without vectors, which also counts as a change."""
        if self._vectors.missing():
            self._begin()
            self._vectors.flush()
            self._changed = True

    def rollback(self) -> None:
        """Drop everything written since the last commit."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._vectors.rolled_back()
        self._changed = False

    def close(self) -> None:
        """Release the base without committing; may be called twice."""
        try:
            self.rollback()
            self._index.close()
            self._connection.execute("PRAGMA busy_timeout = 0")  # while a reader is active, leave it to the next writer
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.ProgrammingError:
            return
        except sqlite3.Error as error:
            _log.debug("no checkpoint of %s: %s", self._root, error)
        finally:
            schema.close_shared(self._root, self._connection)
            self._lock.release()

    def report(self, written: int) -> SinkReport:
        """Return the report of a run, which names the folder only."""
        return SinkReport(str(self._root))

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        self._begin()
        self._connection.execute("SAVEPOINT document")
        try:
            yield
            self._connection.execute("RELEASE document")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO document")
                self._connection.execute("RELEASE document")
            raise

    def _begin(self) -> None:
        """Begin a transaction if none is open. On a full disk SQLite ends it: writing must not continue then."""
        if self._connection.in_transaction:
            return
        if self._changed:
            raise StoreError(
                f"everything written to {self._root} since the last commit is lost, because the disk failed: free "
                "space, roll back, and write it again"
            )
        self._connection.execute("BEGIN IMMEDIATE")

    def _source_key(self, source_id: str) -> int:
        self._connection.execute("INSERT OR IGNORE INTO sources(source_id) VALUES (?)", (source_id,))
        row = self._connection.execute("SELECT source_key FROM sources WHERE source_id = ?", (source_id,)).fetchone()
        return int(row[0])

    def _write(
        self,
        source_id: str,
        document_id: str,
        version: str,
        content_hash: str,
        chunks: Sequence[Chunk],
        moment: str,
    ) -> list[int]:
        """Write or replace a document; return the row of each chunk."""
        source_key = self._source_key(source_id)
        self._remove(source_key, document_id, version)
        known = self._place(source_id) if self._place is not None else None
        place = known or SourcePlace()
        self._changed = True
        claimed, generation = claimed_by(chunks), self._index.state.generation
        doc_key = self._connection.execute(
            "INSERT INTO documents(source_key, document_id, version, content_hash, chunk_count, indexed_at, generation,"
            " partition_key, claimed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (source_key, document_id, version, content_hash, len(chunks), moment, generation + 1,
             partition_key(self._connection, place.holds(claimed), generation), claimed or ""),
        ).lastrowid  # fmt: skip
        rids = list[int]()
        for number, chunk in enumerate(chunks):
            row = encode(chunk, document_id, version)
            if taken := self._taken(source_key, row.chunk_id):
                if chunk.chunk_id:
                    raise id_taken(document_id, row.chunk_id, taken)
                own = content_sha256("\0".join((document_id, version, str(number), chunk.content)))
                row = encode(chunk._replace(chunk_id=own), document_id, version)
            made = self._connection.execute(
                "INSERT INTO chunks(doc_key, chunk_id, content, fields, digest) VALUES (?, ?, ?, ?, ?)",
                (doc_key, *row),
            )
            rids.append(int(made.lastrowid or 0))
        return rids

    def _taken(self, source_key: int, chunk_id: str) -> tuple[str, str] | None:
        """Return the (document_id, version) with a chunk of this id in this source, or None."""
        row: tuple[str, str] | None = self._connection.execute(
            "SELECT document_id, version FROM chunks JOIN documents USING (doc_key)"
            " WHERE chunk_id = ? AND source_key = ? AND removed IS NULL",
            (chunk_id, source_key),
        ).fetchone()
        return row

    def _remove(self, source_key: int, document_id: str, version: str) -> bool:
        """Mark a committed document as removed; delete one that was never committed."""
        generation = self._index.state.generation + 1
        key = (source_key, document_id, version)
        where = "WHERE source_key = ? AND document_id = ? AND version = ? AND removed IS NULL"
        fresh = self._connection.execute(f"DELETE FROM documents {where} AND generation = ?", (*key, generation))
        old = self._connection.execute(f"UPDATE documents SET removed = ? {where}", (generation, *key))
        return bool(fresh.rowcount or old.rowcount)


@contextmanager
def _store_errors(root: Path) -> Iterator[None]:
    """Turn errors of the disk and of both libraries into a `StoreError` that names the base."""
    try:
        yield
    except (sqlite3.Error, OSError, ValueError) as error:
        if isinstance(error, sqlite3.DatabaseError) and schema.is_damage(error):
            raise schema.unusable(root, error) from error
        parts = (f"cannot write to {root}", str(error), schema.mend_of(error))
        raise StoreError(": ".join(filter(None, parts))) from error
