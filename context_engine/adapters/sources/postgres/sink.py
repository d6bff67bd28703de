"""Writing: everything since the last commit is one transaction, so that readers see whole documents."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from psycopg.pq import TransactionStatus

from context_engine.adapters.sources.postgres import bm25
from context_engine.adapters.sources.postgres.adapters import adapter_rows
from context_engine.adapters.sources.postgres.calibrations import keep_copied
from context_engine.adapters.sources.postgres.connection import INGEST, Servers, copy_rows, one_row
from context_engine.adapters.sources.postgres.row_security import guard
from context_engine.adapters.sources.postgres.schema import (
    WORDS_VERSION,
    class_key,
    clean_indexes,
    migrate,
    read_state,
    scrub,
)
from context_engine.adapters.sources.postgres.vectors import DocumentRow, VectorWriter, index_vectors
from context_engine.adapters.sources.postgres.words import WordWriter
from context_engine.adapters.sources.stores.chunk_rows import (
    ChunkRow,
    Place,
    SourcePlace,
    claimed_by,
    decode,
    document_rows,
    file_of,
)
from context_engine.adapters.sources.stores.sinks import CommittingSink
from context_engine.core.models import AccessClass, Chunk, ClassCalibration, WholeDocument
from context_engine.core.protocols import Embedder, SinkReport
from context_engine.errors import InvalidRequest, StoreError, StoreLocked

_ANALYSE_FROM: Final = 1_000
"""Rows written from which the server's statistics are renewed at once."""
_ANALYSE_SHARE: Final = 0.1
"""The same as a share of all rows: in a large store the statistics change slowly, and take seconds to renew."""


class PostgresSink(CommittingSink):
    """Writes documents, for one thread; a `ReportingSink`, `FileTrackingSink`, `ScrubbingSink` and `CopySink`.

    Opening creates or migrates the tables, moves the documents whose access rules have changed, and analyses all texts
    again if they were analysed by another version. Leaving it without an error builds the indexes that are missing:
    rows written into an index one by one take longer than an index of all of them.

    Args:
        servers: of the store.
        now: returns the time, aware.
        embedder: embeds new rows and old rows without vectors; None leaves rows without vectors.
        place: where the documents of each source belong.
        repair: write every document again, and make vectors of another model anew.
        search_role: a role that may search the tables, within the classes that it names (`row_security`).

    Raises:
        ConfigError: there is no such role, or it would see everything.
        StoreLocked: another writer is at work.
        StoreVersionMismatch: the tables are of a later version, or the vectors of another model.
        SourceError: the server failed.
    """

    def __init__(
        self,
        servers: Servers,
        *,
        now: Callable[[], datetime],
        embedder: Embedder | None,
        place: Place,
        repair: bool = False,
        search_role: str | None = None,
    ) -> None:
        self._servers, self._now, self._place, self._repair = servers, now, place, repair
        self._source_keys: dict[str, int] = {}
        self._search_role = search_role
        self._hashes: dict[str, dict[tuple[str, str], str]] = {}
        self._written, self._touched = 0, set[int]()
        with self._servers.failures():
            self._session = servers.session(write=True)
            try:
                self._open(embedder)
            except BaseException:
                self._session.close()
                raise

    def _open(self, embedder: Embedder | None) -> None:
        schema = self._servers.address.schema
        (free,) = one_row(self._session, "SELECT pg_try_advisory_lock(%s)", (_lock_number(schema),))
        if not free:
            raise StoreLocked(f"schema {schema!r} is being written to by another process: wait until it has finished")
        self._begin()
        migrate(self._session, schema)
        self._words = WordWriter(self._session)
        self._vectors = VectorWriter(self._session, embedder, anew=self._repair)
        if read_state(self._session).words_version != WORDS_VERSION:
            self._analyse_again()
        self._move()
        self.commit()

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        """Write a document, replacing its chunks; return False, writing nothing, if `content_hash` is unchanged.

        Raises:
            InvalidRequest: a chunk cannot be stored, or its id already exists in the source; the document is unchanged.
            SourceError: the server failed: everything since the last commit is lost.
        """
        known = self._known(source_id)
        if known.get((document_id, version)) == content_hash:
            return False
        with self._servers.failures():
            moment = self._now().isoformat(timespec="seconds")
            self._write(source_id, (document_id, version), content_hash, chunks, moment)
        known[document_id, version] = content_hash
        return True

    def put_stored(self, source_id: str, document: WholeDocument) -> None:
        """Write or replace a document of another store (`CopySink`); headings that are not searched get no vectors."""
        with self._servers.failures():
            row, rids, searched = self._write(
                source_id, document.key, document.content_hash, document.chunks, document.indexed_at
            )
            vectors = zip(rids, document.vectors)
            self._vectors.keep(row, [(rid, some) for rid, some in vectors if rid in searched])
        self._known(source_id)[document.key] = document.content_hash

    def accept_vectors(self, model_id: str, dimension: int) -> bool:
        """Prepare for vectors of another store; return whether the server has pgvector (`CopySink`)."""
        with self._servers.failures():
            self._begin()
            return self._vectors.accept(model_id, dimension)

    def finish_copy(self, domain: str, source_ids: Sequence[str], calibrations: Sequence[ClassCalibration]) -> None:
        """Commit, build the indexes of large classes, and replace the calibrations if any are given (`CopySink`)."""
        with self._servers.failures():
            self._begin()
            keep_copied(self._session, domain, source_ids, calibrations)
            self.commit()
            self._finish()

    def _write(
        self, source_id: str, document: tuple[str, str], content_hash: str, chunks: Sequence[Chunk], moment: str
    ) -> tuple[DocumentRow, list[int], set[int]]:
        """Write or replace a document; return its row, the row of each chunk, and those that are searched."""
        self._begin()
        source_key = self._source_key(source_id)
        rows = self._rows(source_key, *document, chunks)
        if document in self._known(source_id):
            self._remove(source_key, *document)
        claimed = claimed_by(chunks)
        key = class_key(self._session, (self._place(source_id) or SourcePlace()).holds(claimed))
        self._touched.add(key)
        (doc_key,) = one_row(
            self._session,
            "INSERT INTO documents (source_key, class_key, document_id, version, content_hash, claimed, indexed_at,"
            " source_file) VALUES (%s, %s, %s, %s, %s, %s, %s, %s) RETURNING doc_key",
            (source_key, key, *document, content_hash, claimed or "", moment, file_of(chunks)),
        )
        rids = self._copy_chunks(doc_key, source_key, rows)
        kept = [decode((row.chunk_id, row.content, row.fields), moment) for row in rows]
        document_row = DocumentRow(key, doc_key, source_key)
        return document_row, rids, self._words.write(document_row, rids, kept)

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        """Remove a document; return whether it existed."""
        if self._known(source_id).pop((document_id, version), None) is None:
            return False
        with self._servers.failures():
            self._begin()
            self._remove(self._source_key(source_id), document_id, version)
        return True

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return {(document_id, version): content_hash} of the source, including uncommitted changes."""
        return dict(self._known(source_id))

    def file_of(self, source_id: str, document_id: str, version: str) -> str | None:
        """Return the path of a document's file, or None if its chunks do not state it."""
        with self._servers.failures():
            row = self._session.execute(
                "SELECT source_file FROM documents JOIN sources USING (source_key)"
                " WHERE source_id = %s AND document_id = %s AND version = %s",
                (source_id, document_id, version),
            ).fetchone()
        return None if row is None or row[0] is None else str(row[0])

    def commit(self) -> None:
        """Make everything written so far durable and searchable.

        Raises:
            EmbedderError: the model failed; nothing is committed.
            SourceError: the server failed: everything since the last commit is lost.
        """
        with self._servers.failures():
            self._begin()
            self._touched |= self._vectors.embed()
            self._words.write_counts()
            self._session.execute(
                "UPDATE classes SET generation = generation + 1 WHERE class_key = ANY(%s)", (list(self._touched),)
            )
            self._session.execute("UPDATE state SET generation = generation + 1")
            clean_indexes(self._session)
            if self._search_role is not None:
                guard(self._session, self._search_role)
            self._session.execute("COMMIT")
            self._touched.clear()
            if self._written >= max(_ANALYSE_FROM, _ANALYSE_SHARE * self._texts()):
                self._analyse()

    def _texts(self) -> int:
        """Return how many texts the store has."""
        return int(one_row(self._session, "SELECT coalesce(sum(texts), 0) FROM classes")[0])

    def _analyse(self) -> None:
        """Renew the server's statistics."""
        self._session.execute("SET statement_timeout = 0; ANALYZE words; ANALYZE chunks; ANALYZE terms")
        self._vectors.analyse()
        self._written = 0

    def _finish(self) -> None:
        """Renew the server's statistics, and build the missing indexes of vectors and of BM25."""
        with self._servers.failures():
            if self._written >= _ANALYSE_FROM:
                self._analyse()
            self._session.execute("SET statement_timeout = 0")
            index_vectors(self._session)
            bm25.rebuild(self._session)

    def scrub(self) -> str:
        """Commit, and remove the terms and field values that no chunk has any more.

        Raises:
            EmbedderError, SourceError: as `commit`.
        """
        self.commit()
        with self._servers.failures():
            scrub(self._session)
            self._words = WordWriter(self._session)
        schema = self._servers.address.schema
        return (
            f"freed pages of schema {schema!r} may hold copies until they are reused ('VACUUM FULL' rewrites them at "
            "once), WAL archives, replicas and backups until they are recycled"
        )

    def close(self) -> None:
        """Release the store without committing; may be called twice."""
        self._session.close()

    def report(self, written: int) -> SinkReport:
        """Return the report of a run."""
        return SinkReport(f"schema {self._servers.address.schema!r} of connection {self._servers.address.connection!r}")

    def _begin(self) -> None:
        status = self._session.info.transaction_status
        if self._session.closed or status == TransactionStatus.INERROR:
            raise StoreError(
                f"everything written since the last commit is lost, because the server failed: run '{INGEST}' again"
            )
        if status == TransactionStatus.IDLE:
            self._session.execute("BEGIN")

    def _known(self, source_id: str) -> dict[tuple[str, str], str]:
        if source_id not in self._hashes:
            with self._servers.failures():
                rows = self._session.execute(
                    "SELECT document_id, version, content_hash FROM documents JOIN sources USING (source_key)"
                    " WHERE source_id = %s",
                    (source_id,),
                )
                self._hashes[source_id] = {
                    (document, version): "" if self._repair else content for document, version, content in rows
                }
        return self._hashes[source_id]

    def _source_key(self, source_id: str) -> int:
        if source_id not in self._source_keys:
            self._session.execute(
                "INSERT INTO sources (source_id) SELECT %(id)s WHERE NOT EXISTS"
                " (SELECT 1 FROM sources WHERE source_id = %(id)s)",
                {"id": source_id},
            )
            row = one_row(self._session, "SELECT source_key FROM sources WHERE source_id = %s", (source_id,))
            self._source_keys[source_id] = int(row[0])
        return self._source_keys[source_id]

    def _rows(self, source_key: int, document_id: str, version: str, chunks: Sequence[Chunk]) -> list[ChunkRow]:
        """Return the rows of a document, each with an id that no other document of the source has."""
        rows = document_rows(
            chunks, document_id, version, lambda chunk_ids: self._taken(source_key, document_id, version, chunk_ids)
        )
        for row in rows:
            if "\0" in row.content + row.chunk_id + document_id:
                raise InvalidRequest(f"document {document_id!r}: chunk {row.chunk_id!r} has a NUL character: remove it")
        return rows

    def _taken(
        self, source_key: int, document_id: str, version: str, chunk_ids: list[str]
    ) -> dict[str, tuple[str, str]]:
        """Return {chunk id: (document_id, version)} of the ids that another document of the source has."""
        rows = self._session.execute(
            "SELECT chunk_id, document_id, version FROM chunks JOIN documents USING (doc_key, source_key)"
            " WHERE source_key = %s AND chunk_id = ANY(%s) AND (document_id, version) <> (%s, %s)",
            (source_key, chunk_ids, document_id, version),
        )
        return {chunk_id: (document, its_version) for chunk_id, document, its_version in rows}

    def _remove(self, source_key: int, document_id: str, version: str) -> None:
        row = self._session.execute(
            "DELETE FROM documents WHERE source_key = %s AND document_id = %s AND version = %s"
            " RETURNING doc_key, class_key",
            (source_key, document_id, version),
        ).fetchone()
        if row is not None:
            self._touched.add(row[1])
            self._words.remove(row[0])
            self._vectors.remove(row[0])

    def _copy_chunks(self, doc_key: int, source_key: int, rows: Sequence[ChunkRow]) -> list[int]:
        numbers: Any = self._session.execute(
            "SELECT nextval(pg_get_serial_sequence('chunks', 'rid')) FROM generate_series(1, %s)", (len(rows),)
        )
        rids = [int(number) for (number,) in numbers]
        columns = "rid, doc_key, source_key, chunk_id, content, fields, digest"
        values = ((rid, doc_key, source_key, *row) for rid, row in zip(rids, rows, strict=True))
        copy_rows(self._session, "chunks", columns, values)
        self._written += len(rids)
        return rids

    def _move(self) -> None:
        """Move documents whose access rules or classification have changed to the partition of their class."""
        rows = self._session.execute(
            "SELECT DISTINCT source_id, source_key, class_key, claimed, rules, classification FROM documents"
            " JOIN sources USING (source_key) JOIN classes USING (class_key)"
        ).fetchall()
        for source_id, source_key, key, claimed, rules, classification in rows:
            place = self._place(source_id)
            if place is None:
                continue
            wanted = place.holds(claimed)
            if wanted != AccessClass.of(rules, classification):
                self._move_some(source_key, key, claimed, class_key(self._session, wanted))

    def _move_some(self, source_key: int, key: int, claimed: str, to: int) -> None:
        some = "SELECT doc_key FROM documents WHERE source_key = %s AND class_key = %s AND claimed = %s"
        doc_keys = [row[0] for row in self._session.execute(some, (source_key, key, claimed))]
        self._words.move(doc_keys, key, to)
        self._touched |= {key, to}
        self._vectors.move(doc_keys, to)
        self._forget_learnt({key, to})
        self._session.execute("UPDATE documents SET class_key = %s WHERE doc_key = ANY(%s)", (to, doc_keys))

    def _forget_learnt(self, keys: set[int]) -> None:
        """Delete what was learnt from classes that documents have left or entered."""
        self._session.execute("DELETE FROM calibrations WHERE class_key = ANY(%s)", (list(keys),))
        for domain, scorer in adapter_rows(self._session).forget_learnt_from(keys):
            self._session.execute("DELETE FROM calibrations WHERE domain = %s AND scorer_id = %s", (domain, scorer))
        self._session.execute("UPDATE state SET moves = moves + 1")

    def _analyse_again(self) -> None:
        """Make `words` and `terms` anew from the chunks."""
        self._session.execute("TRUNCATE words; TRUNCATE terms; UPDATE classes SET texts = 0, words = 0")
        documents = self._session.execute(
            "SELECT doc_key, class_key, source_key, indexed_at FROM documents ORDER BY doc_key"
        ).fetchall()
        for doc_key, key, source_key, indexed_at in documents:
            rows = self._session.execute(
                "SELECT rid, chunk_id, content, fields FROM chunks WHERE doc_key = %s ORDER BY rid", (doc_key,)
            ).fetchall()
            chunks = [decode(row[1:], indexed_at) for row in rows]
            self._touched.add(key)
            self._words.write(DocumentRow(key, doc_key, source_key), [row[0] for row in rows], chunks)
        self._session.execute("UPDATE state SET words_version = %s", (WORDS_VERSION,))


def _lock_number(schema: str) -> int:
    digest = hashlib.sha256(f"context-engine store\n{schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
