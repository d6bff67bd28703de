"""The vectors of each partition, read into memory and cached until its next generation."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from context_engine.adapters.sources.local.embedding import other_model
from context_engine.adapters.sources.local.matrix import Cells, Matrices, Matrix
from context_engine.adapters.sources.local.partitions import Partition
from context_engine.adapters.sources.local.schema import BaseState, Model, model_of
from context_engine.adapters.sources.local.vector_parts import Array, VectorParts
from context_engine.core.concurrency.forking import forget_in_child
from context_engine.errors import StoreCorrupt

_LIVE: Final = """
SELECT rid, source_key FROM documents JOIN chunks USING (doc_key) JOIN vectors USING (rid)
WHERE partition_key = ? AND generation <= ? AND (removed IS NULL OR removed > ?) ORDER BY rid
"""
_BATCH: Final = 4096


class _MatrixKey(NamedTuple):
    base_id: str
    index_number: int
    model: Model


class _KeptMatrix(NamedTuple):
    generation: int
    matrix: Matrix


class VectorCache:
    """Caches one matrix for each partition in use, of its latest generation. Thread-safe.

    All views share the matrices, so another caller takes no memory.

    Args:
        model_id: of the configured embedder.
    """

    def __init__(self, model_id: str) -> None:
        self.model_id = model_id
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Empty the cache in a forked child, where another thread may have left it half changed."""
        self._lock = threading.Lock()
        self._key: _MatrixKey | None = None
        self._kept: dict[int, _KeptMatrix] = {}

    def matrices(
        self,
        connection: sqlite3.Connection,
        state: BaseState,
        partitions: Sequence[Partition],
        behind: Mapping[int, int],
        root: Path,
    ) -> Matrices | None:
        """Return the vectors of the indexed rows of some partitions, or None if they have no vectors.

        Args:
            connection: a reader's, in a transaction.
            behind: the indexed generation of each partition whose index lags.

        Raises:
            StoreVersionMismatch: they are of another model.
            StoreCorrupt: the length of a row's vectors has changed.
        """
        model = model_of(connection)
        if model is None:
            return None
        if model.model_id != self.model_id:
            raise other_model(root, model.model_id, self.model_id)
        key = _MatrixKey(state.base_id, state.index_number, model)
        with self._lock:
            if self._key != key:
                self._key, self._kept = key, {}
            matrices = [
                self._matrix(connection, model, partition.key, behind.get(partition.key, partition.generation), root)
                for partition in partitions
            ]
        return Matrices([matrix for matrix in matrices if len(matrix)]) if any(map(len, matrices)) else None

    def close(self) -> None:
        """Release the memory; the next call reads again."""
        with self._lock:
            self._key, self._kept = None, {}

    def _matrix(
        self, connection: sqlite3.Connection, model: Model, partition: int, generation: int, root: Path
    ) -> Matrix:
        kept = self._kept.get(partition)
        if kept is None or kept.generation != generation:
            former = kept.matrix if kept is not None and kept.generation < generation else None
            loaded = _loaded(connection, model, partition, generation, former, root)
            kept = self._kept[partition] = _KeptMatrix(generation, loaded)
        return kept.matrix


def _loaded(
    connection: sqlite3.Connection, model: Model, partition: int, generation: int, former: Matrix | None, root: Path
) -> Matrix:
    """Read the vectors that the former matrix lacks; copy the others from it."""
    rows = connection.execute(_LIVE, (partition, generation, generation))
    live = np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, 2)
    rids, sources = live[:, 0].copy(), live[:, 1].copy()
    if former is None or not len(former.rids) or not _only_newer(former, rids):
        lengths, parts = _read(connection, model, rids, root)
    else:
        lengths, parts = _read(connection, model, rids[rids > former.rids[-1]], root)
        stays = np.isin(former.rids, rids, assume_unique=True)
        lengths = np.concatenate((former.lengths[stays], lengths))
        parts = VectorParts.joined([former.in_rows().take(np.repeat(stays, former.lengths)), parts])
    return Matrix(model.model_id, rids, sources, lengths, parts, _cells(connection, model, partition, rids, lengths))


def _only_newer(former: Matrix, rids: Array) -> bool:
    """Return whether every row that the former matrix lacks comes after its last."""
    return bool(np.isin(rids[rids <= former.rids[-1]], former.rids, assume_unique=True).all())


def _read(connection: sqlite3.Connection, model: Model, rids: Array, root: Path) -> tuple[Array, VectorParts]:
    """Return the number of vectors of each row, and the vectors."""
    lengths = np.zeros(len(rids), np.int64)
    parts = [VectorParts.read(b"", model)]
    for start in range(0, len(rids), _BATCH):
        batch = rids[start : start + _BATCH]
        some = list(_blobs(connection, "SELECT rid, vector FROM vectors", batch))
        for rid, blob in zip(batch, some, strict=True):
            if not isinstance(blob, bytes) or len(blob) % model.size:
                raise StoreCorrupt(f"chunk row {rid} in {root} has damaged vectors: run 'context-engine kb rebuild'")
        lengths[start : start + len(some)] = [len(blob) // model.size for blob in some]
        parts.append(VectorParts.read(b"".join(some), model))
    return lengths, VectorParts.joined(parts)


def _cells(connection: sqlite3.Connection, model: Model, partition: int, rids: Array, lengths: Array) -> Cells | None:
    """Return the cells of a partition, or None if any of its vectors has no cell."""
    row = connection.execute("SELECT matrix FROM centroids WHERE partition_key = ?", (partition,)).fetchone()
    if row is None:
        return None
    batches = (rids[start : start + _BATCH] for start in range(0, len(rids), _BATCH))
    of_part = np.frombuffer(
        b"".join(blob for batch in batches for blob in _blobs(connection, "SELECT rid, cells FROM cells", batch)),
        np.int32,
    )
    if len(of_part) != int(lengths.sum()):
        return None
    return Cells(np.frombuffer(row[0], np.float32).reshape(-1, model.dimension), of_part)


def _blobs(connection: sqlite3.Connection, select: str, rids: Array) -> Iterator[bytes]:
    """Yield the second column for ascending row ids."""
    wanted = set(rids.tolist())
    rows = connection.execute(f"{select} WHERE rid BETWEEN ? AND ? ORDER BY rid", (int(rids[0]), int(rids[-1])))
    return (blob for rid, blob in rows if rid in wanted)
