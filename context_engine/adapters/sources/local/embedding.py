"""The writer's side of vectors: rows are embedded before the commit that makes them searchable."""

from __future__ import annotations

import logging
import re
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from context_engine.adapters.sources.local.derived import forget_cells, part
from context_engine.adapters.sources.local.records import decode
from context_engine.adapters.sources.local.schema import model_of
from context_engine.core.models import Chunk
from context_engine.core.protocols import Embedder
from context_engine.errors import StoreVersionMismatch

__all__ = ["EmbeddingWriter", "changed_vectors", "encoded", "passages"]

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 256
_WINDOW: Final = 350
_OVERLAP: Final = 50
_UNIT: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\s\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_MISSING: Final = """
SELECT rid, indexed_at, chunk_id, content, fields, partition_key FROM chunks JOIN documents USING (doc_key)
WHERE rid > ? AND removed IS NULL AND NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.rid = chunks.rid)
ORDER BY rid LIMIT ?
"""
_PARTITION_OF: Final = "SELECT partition_key FROM chunks JOIN documents USING (doc_key) WHERE rid = ?"


class EmbeddingWriter:
    """Gives every row its vectors, inside the writer's transaction. Without an embedder it does nothing.

    Args:
        connection: the writer's.
        embedder: the model; None: rows stay without vectors until there is one.
        root: folder of the base, for messages.
        approximate_from: vectors from which they are parted into cells.
        anew: embed anew what another model made, or what is damaged; else another model is an error.

    Attributes:
        partitions: keys of those of which rows were embedded since the last commit.

    Raises:
        StoreVersionMismatch: the base's vectors are of another model.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        embedder: Embedder | None,
        root: Path,
        *,
        approximate_from: int,
        anew: bool,
    ) -> None:
        self._connection, self._embedder, self._approximate_from = connection, embedder, approximate_from
        self._waiting = 0
        self._done = self._kept = 0
        self.partitions: set[int] = set()
        self._renew = anew and embedder is not None
        model = model_of(connection)
        if embedder is not None and not anew and model is not None and model.model_id != embedder.model_id:
            raise other_model(root, model.model_id, embedder.model_id)

    def missing(self) -> bool:
        """Return whether there are rows without vectors that an embedder is here for."""
        if self._embedder is None:
            return False
        return self._renew or self._connection.execute(_MISSING, (self._done, 1)).fetchone() is not None

    def wait(self, rows: int) -> None:
        """Count rows that were written; embed all that wait once they are many."""
        self._waiting += rows
        if self._waiting >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Embed every row that has no vectors yet.

        Raises:
            EmbedderError: the model failed; the rows wait for the next call.
        """
        if self._embedder is None:
            return
        if self._renew:
            self._forget(self._embedder)
        while True:
            rows = self._connection.execute(_MISSING, (self._done, _AT_ONCE)).fetchall()
            if not rows:
                break
            _log.info("embedding rows %d to %d", rows[0][0], rows[-1][0])
            chunks = [decode((row[2], row[3], row[4]), row[1]) for row in rows]
            self._write([row[0] for row in rows], [passages(chunk) for chunk in chunks], self._embedder)
            self._done = rows[-1][0]
            self.partitions.update(row[5] for row in rows)
        self._waiting = 0

    def _forget(self, embedder: Embedder) -> None:
        """Forget vectors of another model, and those that are not as they were written."""
        model = model_of(self._connection)
        if model is not None and model.model_id != embedder.model_id:
            for table in ("cells", "centroids", "vectors", "embedding"):
                self._connection.execute(f"DELETE FROM {table}")
        changed = [(rid,) for rid in changed_vectors(self._connection)]
        for key in {key for rid in changed for (key,) in self._connection.execute(_PARTITION_OF, rid)}:
            forget_cells(self._connection, key)
        self._connection.executemany("DELETE FROM vectors WHERE rid = ?", changed)

    def part(self, partitions: Iterable[int]) -> None:
        """Keep what a search of very many vectors needs, of partitions that have changed and have that many."""
        if self._embedder is not None:
            part(self._connection, self._approximate_from, partitions)

    def committed(self) -> None:
        """What was embedded is durable."""
        self._kept, self._renew = self._done, False
        self.partitions.clear()

    def rolled_back(self) -> None:
        """What was embedded since the last commit is gone."""
        self._done, self._waiting = self._kept, 0
        self.partitions.clear()

    def _write(self, rids: Sequence[int], texts: Sequence[Sequence[str]], embedder: Embedder) -> None:
        vectors = iter(embedder.embed_documents([text for some in texts for text in some]))
        dimension = 0
        for rid, some in zip(rids, texts):
            own = [next(vectors) for _ in some]
            dimension = len(own[0])
            blob = b"".join(map(encoded, own))
            row = (rid, blob, sha256(blob).digest())
            self._connection.execute("INSERT INTO vectors(rid, vector, digest) VALUES (?, ?, ?)", row)
        self._connection.execute(
            "INSERT OR IGNORE INTO embedding(one, model_id, dimension) VALUES (1, ?, ?)", (embedder.model_id, dimension)
        )


def other_model(root: Path, held: str, given: str) -> StoreVersionMismatch:
    """Return the error for a base whose vectors another model made."""
    return StoreVersionMismatch(
        f"the vectors in {root} were made by {held!r}, the configured embedder is {given!r}: run 'context-engine kb "
        "rebuild' to embed everything again, or configure the previous embedder"
    )


def passages(chunk: Chunk) -> list[str]:
    """Return what is embedded of a chunk: its text, a long one in windows that overlap.

    Models read no more than 512 tokens and ignore the rest; the best window speaks for the chunk.
    """
    units = [one.span() for one in _UNIT.finditer(chunk.content)]
    if len(units) <= _WINDOW:
        return [chunk.content]
    step = _WINDOW - _OVERLAP
    windows = (units[start : start + _WINDOW] for start in range(0, len(units) - _OVERLAP, step))
    return [chunk.content[window[0][0] : window[-1][1]] for window in windows]


def encoded(vector: Sequence[float]) -> bytes:
    """Return a vector as little-endian 32-bit floats."""
    return array("f", vector).tobytes()


def changed_vectors(connection: sqlite3.Connection) -> Iterator[int]:
    """Yield the `rid` of every row whose vectors are not as they were written."""
    model = model_of(connection)
    size = 4 * model.dimension if model else 0
    for rid, blob, kept in connection.execute("SELECT rid, vector, digest FROM vectors"):
        if not blob or not size or len(blob) % size or sha256(blob).digest() != kept:
            yield rid
