"""Embedding of rows, before the commit that makes them searchable, and of questions, within their time limit."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from context_engine.adapters.sources.local.partitions import forget_cells
from context_engine.adapters.sources.local.schema import Model, model_of
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.query_vectors import passages
from context_engine.adapters.sources.stores.vector_form import (
    VectorForm,
    encoded,
    numbers_kept,
    other_vectors,
    reformed,
)
from context_engine.core.protocols import Embedder
from context_engine.errors import StoreVersionMismatch

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 256

Embedded = Callable[[int, int], None]
_WITHOUT: Final = """FROM chunks JOIN documents USING (doc_key)
WHERE rid > ? AND removed IS NULL AND NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.rid = chunks.rid)
"""
_MISSING: Final = f"SELECT rid, indexed_at, chunk_id, content, fields, partition_key {_WITHOUT} ORDER BY rid LIMIT ?"
_COUNT: Final = f"SELECT count(*) {_WITHOUT}"

_AFTER: Final = "SELECT rid, vector FROM vectors WHERE rid > ? ORDER BY rid LIMIT ?"
_NAME: Final = "INSERT OR IGNORE INTO embedding(one, model_id, dimension, form) VALUES (1, ?, ?, ?)"
_PARTITION_OF: Final = "SELECT partition_key FROM chunks JOIN documents USING (doc_key) WHERE rid = ?"


class EmbeddingWriter:
    """Embeds every row, inside the writer's transaction. Without an embedder it does nothing.

    Args:
        embedder: None leaves rows without vectors.
        root: folder of the base, for messages.
        approximate_from: number of vectors from which a partition is divided into cells.
        form: how vectors are stored.
        anew: renew vectors of another model or form and damaged ones; otherwise another model or form is an error.
        embedded: receives the rows embedded so far in a run, and those to embed.

    Attributes:
        partitions: keys of the partitions with rows embedded since the last commit.

    Raises:
        StoreVersionMismatch: the base's vectors are of another model or form.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        embedder: Embedder | None,
        root: Path,
        *,
        approximate_from: int,
        form: VectorForm,
        anew: bool,
        embedded: Embedded | None = None,
    ) -> None:
        self._connection, self._embedder, self._approximate_from = connection, embedder, approximate_from
        self._form: VectorForm = form
        self._embedded = embedded
        self._waiting = 0
        self._done = self._kept = 0
        self._copying = False
        self.partitions: set[int] = set()
        self._renew, self._reformed = anew and embedder is not None, False
        model = model_of(connection)
        if embedder is not None and not anew and model is not None:
            if model.model_id != embedder.model_id:
                raise other_model(root, model.model_id, embedder.model_id)
            if model.form != form:
                raise other_form(root, model.form, form)

    def missing(self) -> bool:
        """Return whether an embedder is configured and some rows lack vectors."""
        if self._embedder is None:
            return False
        return self._renew or self._connection.execute(_MISSING, (self._done, 1)).fetchone() is not None

    def wait(self, rows: int) -> None:
        """Count written rows; embed the waiting ones once they fill a batch."""
        self._waiting += rows
        if self._waiting >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Embed every row without vectors.

        Raises:
            EmbedderError: the model failed; the rows wait for the next call.
        """
        if self._embedder is None:
            return
        if self._renew:
            self._put_in_order(self._embedder)
        count, total = 0, 0 if self._embedded is None else self._connection.execute(_COUNT, (self._done,)).fetchone()[0]
        while True:
            rows = self._connection.execute(_MISSING, (self._done, _AT_ONCE)).fetchall()
            if not rows:
                break
            _log.info("embedding rows %d to %d", rows[0][0], rows[-1][0])
            chunks = [decode((row[2], row[3], row[4]), row[1]) for row in rows]
            self._write([row[0] for row in rows], [passages(chunk) for chunk in chunks], self._embedder)
            self._done = rows[-1][0]
            self.partitions.update(row[5] for row in rows)
            count += len(rows)
            if self._embedded is not None:
                self._embedded(count, total)
        self._waiting = 0

    def accept(self, model_id: str, dimension: int) -> None:
        """Prepare for vectors that were made elsewhere.

        Raises:
            StoreVersionMismatch: the base's vectors are of another model or dimension.
        """
        stored = model_of(self._connection)
        if stored is not None:
            if stored[:2] != (model_id, dimension):
                raise other_vectors(stored[:2], (model_id, dimension))
            self._form = stored.form
        self._copying = True
        self._connection.execute(_NAME, (model_id, dimension, self._form))

    def keep(self, rid: int, vectors: Sequence[Sequence[float]]) -> None:
        """Store the accepted vectors of a row, if it has any."""
        if vectors:
            self._insert(rid, vectors)

    def _insert(self, rid: int, vectors: Sequence[Sequence[float]]) -> None:
        blob = b"".join(encoded(vector, self._form) for vector in vectors)
        row = (rid, blob, sha256(blob).digest())
        self._connection.execute("INSERT INTO vectors(rid, vector, digest) VALUES (?, ?, ?)", row)

    def _put_in_order(self, embedder: Embedder) -> None:
        """Delete damaged vectors, and convert the others to the configured model and form."""
        changed = [(rid,) for rid in changed_vectors(self._connection)]
        for key in {key for rid in changed for (key,) in self._connection.execute(_PARTITION_OF, rid)}:
            forget_cells(self._connection, key)
        self._connection.executemany("DELETE FROM vectors WHERE rid = ?", changed)
        stored = model_of(self._connection)
        if stored is None or (stored.model_id, stored.form) == (embedder.model_id, self._form):
            return
        for table in ("cells", "centroids"):
            self._connection.execute(f"DELETE FROM {table}")
        count = numbers_kept(stored.model_id, embedder.model_id, stored.dimension) if stored.form == "float32" else None
        if count is None:
            for table in ("vectors", "embedding"):
                self._connection.execute(f"DELETE FROM {table}")
        else:
            self._reform(stored, Model(embedder.model_id, count, self._form))

    def _reform(self, stored: Model, wanted: Model) -> None:
        """Convert stored vectors to another form or fewer dimensions, without embedding anything."""
        last = 0
        while rows := self._connection.execute(_AFTER, (last, _AT_ONCE)).fetchall():
            blobs = [reformed(blob, stored.dimension, wanted.dimension, wanted.form) for _, blob in rows]
            renewed = ((blob, sha256(blob).digest(), rid) for blob, (rid, _) in zip(blobs, rows))
            self._connection.executemany("UPDATE vectors SET vector = ?, digest = ? WHERE rid = ?", renewed)
            last = rows[-1][0]
        self._connection.execute("UPDATE embedding SET model_id = ?, dimension = ?, form = ?", wanted)
        self._reformed = True
        self.partitions.update(key for (key,) in self._connection.execute("SELECT partition_key FROM partitions"))

    def part(self, partitions: Iterable[int]) -> None:
        """Update the cells of large partitions that have changed."""
        if self._embedder is not None or self._copying:
            part(self._connection, self._approximate_from, partitions)

    def committed(self) -> None:
        """Record that the embedded rows are committed."""
        self._kept, self._renew = self._done, False
        self.partitions.clear()

    def shrink(self) -> None:
        """Shrink the file after vectors were made smaller; without room for the copy it stays."""
        if self._reformed:
            self._reformed = False
            with suppress(sqlite3.OperationalError):
                self._connection.execute("VACUUM")

    def rolled_back(self) -> None:
        """Record that rows embedded since the last commit were rolled back."""
        self._done, self._waiting = self._kept, 0
        self.partitions.clear()

    def _write(self, rids: Sequence[int], texts: Sequence[Sequence[str]], embedder: Embedder) -> None:
        vectors = iter(embedder.embed_documents([text for some in texts for text in some]))
        dimension = 0
        for rid, some in zip(rids, texts):
            own = [next(vectors) for _ in some]
            dimension = len(own[0])
            self._insert(rid, own)
        self._connection.execute(_NAME, (embedder.model_id, dimension, self._form))


def other_model(root: Path, stored: str, configured: str) -> StoreVersionMismatch:
    """Return the error for a base whose vectors another model made."""
    return StoreVersionMismatch(
        f"the vectors in {root} were made by {stored!r}, the configured embedder is {configured!r}: run "
        "'context-engine kb rebuild' to make them again, or configure the previous embedder and vector_dimensions"
    )


def other_form(root: Path, stored: VectorForm, configured: VectorForm) -> StoreVersionMismatch:
    """Return the error for a base whose vectors have another form than the settings."""
    return StoreVersionMismatch(
        f"the vectors in {root} are kept as {stored}, vector_form is {configured}: run 'context-engine kb rebuild' "
        f"to keep them so, or set vector_form to {stored}"
    )


def part(connection: sqlite3.Connection, least: int, partitions: Iterable[int]) -> None:
    """Divide the vectors of each partition of `least` rows or more into cells, inside the caller's transaction.

    Without numpy nothing is done; searches are then exact.
    """
    if model_of(connection) is None:
        return
    try:
        from context_engine.adapters.sources.local.cells import partition
    except ImportError:
        return
    for key in partitions:
        partition(connection, key, least)


def changed_vectors(connection: sqlite3.Connection) -> Iterator[int]:
    """Yield the `rid` of every row with damaged vectors."""
    model = model_of(connection)
    size = model.size if model else 0
    for rid, blob, kept in connection.execute("SELECT rid, vector, digest FROM vectors"):
        if not blob or not size or len(blob) % size or sha256(blob).digest() != kept:
            yield rid
