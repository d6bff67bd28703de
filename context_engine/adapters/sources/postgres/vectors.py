"""Vectors in the server (pgvector): written before the commit that makes their rows searchable."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from psycopg import sql

from context_engine.adapters.sources.postgres.connection import INGEST, Session, copy_rows, one_row
from context_engine.adapters.sources.postgres.schema import add_partition, read_state
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.query_vectors import passages
from context_engine.core.protocols import Embedder
from context_engine.errors import ConfigError, StoreVersionMismatch

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 256
_HALF_FROM: Final = (0, 7)
"""The version of pgvector from which a number takes two bytes; the order of neighbours is the same."""
APPROXIMATE_FROM: Final = 20_000
"""Vectors of a class from which it gets an index, and rows of a search from which the index is used."""
_TABLE: Final = """
CREATE TABLE vectors (
    class_key integer NOT NULL, rid bigint NOT NULL, part integer NOT NULL, doc_key bigint NOT NULL,
    source_key integer NOT NULL, embedding {type} NOT NULL, PRIMARY KEY (class_key, rid, part)
) PARTITION BY LIST (class_key);
CREATE INDEX ON vectors (doc_key);
"""
_MISSING: Final = (
    "SELECT rid FROM words WHERE NOT EXISTS (SELECT 1 FROM vectors"
    " WHERE vectors.class_key = words.class_key AND vectors.rid = words.rid) ORDER BY rid"
)
_TEXTS: Final = (
    "SELECT class_key, rid, doc_key, chunks.source_key, indexed_at, chunk_id, content, fields FROM chunks"
    " JOIN documents USING (doc_key) WHERE rid = ANY(%s) ORDER BY rid"
)


class VectorWriter:
    """Embeds every searchable row, in the writer's transaction. Without an embedder it only removes and moves.

    Args:
        embedder: None leaves rows without vectors.
        anew: remove all vectors, so that they are made again; otherwise another model is an error.

    Raises:
        ConfigError: the server has no pgvector.
        StoreVersionMismatch: the store's vectors are of another model.
    """

    def __init__(self, session: Session, embedder: Embedder | None, *, anew: bool) -> None:
        self._session, self._embedder = session, embedder
        state = read_state(session)
        self._made = state.model_id is not None
        if embedder is None or state.model_id is None or (state.model_id == embedder.model_id and not anew):
            return
        if not anew:
            raise other_model(state.model_id, embedder.model_id)
        session.execute(
            "DROP TABLE IF EXISTS vectors; UPDATE state SET model_id = NULL, dimension = NULL, vector_type = NULL"
        )
        self._made = False

    def embed(self) -> set[int]:
        """Embed every searchable row without vectors, and return the keys of their access classes.

        Raises:
            EmbedderError: the model failed.
        """
        keys = set[int]()
        if self._embedder is None:
            return keys
        if not self._made:
            self._make(self._embedder)
        missing = [rid for (rid,) in self._session.execute(_MISSING)]
        for start in range(0, len(missing), _AT_ONCE):
            _log.info("embedding %d of %d rows", start, len(missing))
            keys |= self._write(
                self._session.execute(_TEXTS, (missing[start : start + _AT_ONCE],)).fetchall(), self._embedder
            )
        return keys

    def remove(self, doc_key: int) -> None:
        """Remove the vectors of a document."""
        if self._made:
            self._session.execute("DELETE FROM vectors WHERE doc_key = %s", (doc_key,))

    def move(self, doc_keys: Sequence[int], to: int) -> None:
        """Move the vectors of documents to the partition of another class."""
        if self._made:
            add_partition(self._session, "vectors", to)
            self._session.execute("UPDATE vectors SET class_key = %s WHERE doc_key = ANY(%s)", (to, list(doc_keys)))

    def index(self) -> None:
        """Give each large class an index for approximate search, unless it has one; outside a transaction."""
        if not self._made:
            return
        self._session.execute("ANALYZE vectors; SET statement_timeout = 0")
        (kind,) = one_row(self._session, "SELECT vector_type FROM state")
        create = sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} USING hnsw (embedding {})")
        operators = sql.Identifier(f"{kind}_cosine_ops")
        for key in [held.key for held in read_state(self._session).classes if held.texts >= APPROXIMATE_FROM]:
            table = f"vectors_{key}"
            self._session.execute(create.format(sql.Identifier(f"{table}_hnsw"), sql.Identifier(table), operators))

    def _make(self, embedder: Embedder) -> None:
        """Create the table for vectors of the embedder's length."""
        dimension = len(embedder.embed_documents(["dimension"])[0])
        kind = vector_type(self._session)
        self._session.execute(_TABLE.format(type=f"{kind}({dimension})").encode())
        self._session.execute(
            "UPDATE state SET model_id = %s, dimension = %s, vector_type = %s", (embedder.model_id, dimension, kind)
        )
        self._made = True

    def _write(self, rows: Sequence[Any], embedder: Embedder) -> set[int]:
        texts = [passages(decode(tuple(row[5:]), row[4])) for row in rows]
        vectors = iter(embedder.embed_documents([text for some in texts for text in some]))
        keys = {int(row[0]) for row in rows}
        for key in keys:
            add_partition(self._session, "vectors", key)
        parts = (
            (*row[:4], part, as_vector(next(vectors)))
            for row, some in zip(rows, texts, strict=True)
            for part in range(len(some))
        )
        copy_rows(self._session, "vectors", "class_key, rid, doc_key, source_key, part, embedding", parts)
        return keys


def other_model(stored: str | None, configured: str) -> StoreVersionMismatch:
    """Return the error for a store whose vectors another model made."""
    return StoreVersionMismatch(
        f"its vectors were made by {stored!r}, the configured embedder is {configured!r}: configure the former, or "
        f"embed everything again with '{INGEST} --repair'"
    )


def vector_type(session: Session) -> str:
    """Return the type of stored vectors, creating the extension if that is allowed.

    Raises:
        ConfigError: the server has no pgvector, or its user may not create it in the database.
    """
    (offered,) = one_row(session, "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'")
    if offered:
        session.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    version = session.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    if version is None:
        raise ConfigError(
            "an embedder is configured, but the PostgreSQL server has no extension 'vector': install pgvector, or "
            "remove the embedder"
        )
    return "halfvec" if version_of(version[0]) >= _HALF_FROM else "vector"


def version_of(text: str) -> tuple[int, ...]:
    """Return the numbers of a version."""
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def as_vector(numbers: Sequence[float]) -> str:
    """Return a vector as the server reads it."""
    return "[" + ",".join([f"{number:.7g}" for number in numbers]) + "]"
