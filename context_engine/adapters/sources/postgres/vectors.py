"""Vectors in the server (pgvector): written before the commit that makes their rows searchable."""

from __future__ import annotations

import logging
import struct
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from psycopg import sql

from context_engine.adapters.sources.postgres.connection import INGEST, Session, one_row
from context_engine.adapters.sources.postgres.schema import add_partition, read_state
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.query_vectors import passages
from context_engine.adapters.sources.stores.served_store import other_model
from context_engine.adapters.sources.stores.vector_form import other_vectors
from context_engine.core.protocols import Embedder
from context_engine.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

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
_COPY: Final = "COPY vectors (class_key, rid, doc_key, source_key, part, embedding) FROM STDIN (FORMAT BINARY)"
_MISSING: Final = (
    "SELECT rid FROM words WHERE rid > %s AND NOT EXISTS (SELECT 1 FROM vectors"
    " WHERE vectors.class_key = words.class_key AND vectors.rid = words.rid) ORDER BY rid"
)
_UNINDEXED: Final = (
    "SELECT class_key FROM classes WHERE texts >= %s AND to_regclass('vectors_' || class_key) IS NOT NULL"
    " AND to_regclass('vectors_' || class_key || '_hnsw') IS NULL ORDER BY class_key"
)
_TEXTS: Final = (
    "SELECT class_key, rid, doc_key, chunks.source_key, indexed_at, chunk_id, content, fields FROM chunks"
    " JOIN documents USING (doc_key) WHERE rid = ANY(%s) ORDER BY rid"
)


class DocumentRow(NamedTuple):
    """The keys of a document: of its access class, itself and its source."""

    class_key: int
    doc_key: int
    source_key: int


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
        self._kind, self._partitions, self._embedded = "", set[int](), 0
        state = read_state(session)
        self._made = state.model_id is not None
        if embedder is None or state.model_id is None or (state.model_id == embedder.model_id and not anew):
            return
        if not anew:
            raise other_model(state.model_id, embedder.model_id, INGEST)
        session.execute(
            "DROP TABLE IF EXISTS vectors; UPDATE state SET model_id = NULL, dimension = NULL, vector_type = NULL"
        )
        self._made = False

    def embed(self) -> set[int]:
        """Embed every searchable row without vectors, and return the keys of their access classes.

        The first call looks at all rows, a later one at those written since, whose numbers are higher.

        Raises:
            EmbedderError: the model failed.
        """
        keys = set[int]()
        if self._embedder is None:
            return keys
        if not self._made:
            self._make(self._embedder.model_id, len(self._embedder.embed_documents(["dimension"])[0]))
        missing = [rid for (rid,) in self._session.execute(_MISSING, (self._embedded,))]
        for start in range(0, len(missing), _AT_ONCE):
            _log.info("embedding %d of %d rows", start, len(missing))
            keys |= self._write(
                self._session.execute(_TEXTS, (missing[start : start + _AT_ONCE],)).fetchall(), self._embedder
            )
        self._embedded = max(missing, default=self._embedded)
        return keys

    def accept(self, model_id: str, dimension: int) -> bool:
        """Prepare for vectors that were made elsewhere; return whether the server can hold vectors.

        Raises:
            StoreVersionMismatch: the store's vectors are of another model or dimension.
        """
        state = read_state(self._session)
        if state.model_id is not None and (state.model_id, state.dimension) != (model_id, dimension):
            raise other_vectors((state.model_id, state.dimension), (model_id, dimension))
        if not has_vectors(self._session):
            return False
        if not self._made:
            self._make(model_id, dimension)
        return True

    def keep(self, document: DocumentRow, rows: Sequence[tuple[int, Sequence[Sequence[float]]]]) -> None:
        """Store the accepted vectors of the rows of a document."""
        if any(vectors for _, vectors in rows):
            self._add_partition(document.class_key)
            self._copy((document, rid, part, vector) for rid, vectors in rows for part, vector in enumerate(vectors))

    def _add_partition(self, key: int) -> None:
        if key not in self._partitions:
            add_partition(self._session, "vectors", key)
            self._partitions.add(key)

    def _copy(self, vectors: Iterable[tuple[DocumentRow, int, int, Sequence[float]]]) -> None:
        """Write vectors, each with its document, the row of its chunk, and its number among the chunk's."""
        self._kind = self._kind or one_row(self._session, "SELECT vector_type FROM state")[0]
        with self._session.cursor() as cursor, cursor.copy(_COPY) as copy:
            copy.set_types(["int4", "int8", "int8", "int4", "int4", "bytea"])
            for (key, doc_key, source_key), rid, part, vector in vectors:
                copy.write_row((key, rid, doc_key, source_key, part, for_server(vector, self._kind)))

    def remove(self, doc_key: int) -> None:
        """Remove the vectors of a document."""
        if self._made:
            self._session.execute("DELETE FROM vectors WHERE doc_key = %s", (doc_key,))

    def move(self, doc_keys: Sequence[int], to: int) -> None:
        """Move the vectors of documents to the partition of another class."""
        if self._made:
            add_partition(self._session, "vectors", to)
            self._session.execute("UPDATE vectors SET class_key = %s WHERE doc_key = ANY(%s)", (to, list(doc_keys)))

    def analyse(self) -> None:
        """Renew the server's statistics about vectors."""
        if self._made:
            self._session.execute("ANALYZE vectors")

    def _make(self, model_id: str, dimension: int) -> None:
        """Create the table for vectors of a model."""
        kind = vector_type(self._session)
        make_vectors(self._session, kind, dimension)
        self._session.execute(
            "UPDATE state SET model_id = %s, dimension = %s, vector_type = %s", (model_id, dimension, kind)
        )
        self._made = True

    def _write(self, rows: Sequence[Any], embedder: Embedder) -> set[int]:
        texts = [passages(decode(tuple(row[5:]), row[4])) for row in rows]
        vectors = iter(embedder.embed_documents([text for some in texts for text in some]))
        keys = {int(row[0]) for row in rows}
        for key in keys:
            add_partition(self._session, "vectors", key)
        self._copy(
            (DocumentRow(row[0], row[2], row[3]), row[1], part, next(vectors))
            for row, some in zip(rows, texts, strict=True)
            for part in range(len(some))
        )
        return keys


def make_vectors(session: Session, kind: str, dimension: int) -> None:
    """Make the table for vectors of one type and length."""
    session.execute(_TABLE.format(type=f"{kind}({dimension})").encode())


def index_vectors(session: Session) -> None:
    """Give each large class an index for approximate search, unless it has one; nothing if there are no vectors."""
    (kind,) = one_row(session, "SELECT vector_type FROM state")
    if kind is None:
        return
    create = sql.SQL("CREATE INDEX {} ON {} USING hnsw (embedding {})")
    for (key,) in session.execute(_UNINDEXED, (APPROXIMATE_FROM,)).fetchall():
        table = f"vectors_{key}"
        names = (f"{table}_hnsw", table, f"{kind}_cosine_ops")
        session.execute(create.format(*map(sql.Identifier, names)))


def vector_type(session: Session) -> str:
    """Return the type of stored vectors, creating the extension if that is allowed.

    Raises:
        ConfigError: the server has no pgvector, or its user may not create it in the database.
    """
    if has_vectors(session):
        session.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    version = session.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    if version is None:
        raise ConfigError(
            "an embedder is configured, but the PostgreSQL server has no extension 'vector': install pgvector, or "
            "remove the embedder"
        )
    return "halfvec" if version_of(version[0]) >= _HALF_FROM else "vector"


def has_vectors(session: Session) -> bool:
    """Return whether the server has pgvector, perhaps not yet created in the database."""
    return bool(one_row(session, "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'")[0])


def version_of(text: str) -> tuple[int, ...]:
    """Return the numbers of a version."""
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def as_vector(numbers: Sequence[float]) -> str:
    """Return a vector as the server reads it."""
    return "[" + ",".join([f"{number:.7g}" for number in numbers]) + "]"


_SENT: Final = {"halfvec": ("halfvec_send", ">f2"), "vector": ("vector_send", ">f4")}
"""The function that gives a vector's bytes, and the form of its numbers; four bytes stand before them."""


def sent(kind: str) -> sql.Composed:
    """Return the expression for the bytes of a stored vector, of one type."""
    return sql.SQL("{}(embedding)").format(sql.Identifier(_SENT[kind][0]))


def received(data: Sequence[bytes], kind: str, dimension: int) -> Array:
    """Return vectors from the bytes of each, float32 (vectors, dimension)."""
    import numpy as np  # only here: a search without an adapter needs none

    numbers = np.dtype(_SENT[kind][1])
    rows = np.frombuffer(b"".join(data), np.uint8).reshape(-1, 4 + numbers.itemsize * dimension)
    vectors: Array = np.ascontiguousarray(rows[:, 4:]).view(numbers).astype(np.float32)
    return vectors


_HEAD: Final = struct.Struct(">HH")
"""The header of a vector in binary form: the count of its numbers, and two unused bytes."""
_FORMATS: Final = {"halfvec": "e", "vector": "f"}


def for_server(vector: Sequence[float], kind: str) -> bytes:
    """Return a vector as the server receives it in binary."""
    return _HEAD.pack(len(vector), 0) + struct.pack(f">{len(vector)}{_FORMATS[kind]}", *vector)


def from_server(data: bytes, kind: str) -> array[float]:
    """Return a vector that the server sent in binary, as 32-bit floats."""
    count, _ = _HEAD.unpack_from(data)
    return array("f", struct.unpack_from(f">{count}{_FORMATS[kind]}", data, _HEAD.size))
