"""The vectors of one generation, read from the rows into memory and kept until the next generation."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from context_engine.adapters.sources.local.embedding import other_model
from context_engine.adapters.sources.local.matrix import Array, Cells, Matrix
from context_engine.adapters.sources.local.schema import BaseState, Model, model_of
from context_engine.core.concurrency.forking import forget_in_child

__all__ = ["VectorCache"]

_LIVE: Final = """
SELECT rid, source_key FROM vectors JOIN chunks USING (rid) JOIN documents USING (doc_key)
WHERE generation <= ? AND (removed IS NULL OR removed > ?) AND partition_key IN (SELECT value FROM json_each(?))
ORDER BY rid
"""
_BATCH: Final = 4096


class _Key(NamedTuple):
    base_id: str
    index_number: int
    model: Model
    partitions: tuple[int, ...]


class VectorCache:
    """Holds the matrix of the latest generation asked for. Safe for several threads.

    Args:
        model_id: of the configured embedder.
    """

    def __init__(self, model_id: str) -> None:
        self.model_id = model_id
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Hold nothing: at a fork another thread may just have been changing it."""
        self._lock = threading.Lock()
        self._key: _Key | None = None
        self._held = -1
        self._matrix: Matrix | None = None

    def matrix(
        self, connection: sqlite3.Connection, state: BaseState, held: int, partitions: tuple[int, ...], root: Path
    ) -> Matrix | None:
        """Return the vectors of the rows that the indexes of some partitions hold, None where the base has none.

        Raises:
            StoreVersionMismatch: they are of another model.
        """
        model = model_of(connection)
        if model is None:
            return None
        if model.model_id != self.model_id:
            raise other_model(root, model.model_id, self.model_id)
        key = _Key(state.base_id, state.index_number, model, partitions)
        with self._lock:
            if (self._key, self._held) != (key, held):
                former = self._matrix if self._key == key and self._held < held else None
                self._matrix = _loaded(connection, key, held, former)
                self._key, self._held = key, held
            return self._matrix

    def close(self) -> None:
        """Let the memory go; the next call reads again."""
        with self._lock:
            self._key, self._matrix = None, None


def _loaded(connection: sqlite3.Connection, key: _Key, held: int, former: Matrix | None) -> Matrix:
    """Read what the former matrix does not have; the rest is taken from it."""
    model, rows = key.model, connection.execute(_LIVE, (held, held, json.dumps(key.partitions)))
    live = np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, 2)
    rids, sources = live[:, 0].copy(), live[:, 1].copy()
    if former is None or not len(former.rids) or not _only_newer(former, rids):
        lengths, parts = _read(connection, model, rids)
    else:
        lengths, parts = _read(connection, model, rids[rids > former.rids[-1]])
        stays = np.isin(former.rids, rids, assume_unique=True)
        lengths = np.concatenate((former.lengths[stays], lengths))
        parts = np.concatenate((former.in_rows()[np.repeat(stays, former.lengths)], parts))
    return Matrix(model.model_id, rids, sources, lengths, parts, _cells(connection, model, rids, lengths))


def _only_newer(former: Matrix, rids: Array) -> bool:
    """Return whether every row that the former matrix lacks comes after its last."""
    return bool(np.isin(rids[rids <= former.rids[-1]], former.rids, assume_unique=True).all())


def _read(connection: sqlite3.Connection, model: Model, rids: Array) -> tuple[Array, Array]:
    """Return how many vectors each of some rows has, and the vectors."""
    lengths = np.zeros(len(rids), np.int64)
    size = 4 * model.dimension
    blobs: list[Array] = []
    for start in range(0, len(rids), _BATCH):
        batch = rids[start : start + _BATCH]
        some = list(_blobs(connection, "SELECT rid, vector FROM vectors", batch))
        lengths[start : start + len(some)] = [len(blob) // size for blob in some]
        blobs.append(np.frombuffer(b"".join(some), np.float32).reshape(-1, model.dimension))
    empty = np.empty((0, model.dimension), np.float32)
    return lengths, np.concatenate(blobs) if blobs else empty


def _cells(connection: sqlite3.Connection, model: Model, rids: Array, lengths: Array) -> Cells | None:
    """Return the partition, None where there is none or not of every row."""
    found = connection.execute("SELECT matrix FROM centroids").fetchone()
    if found is None:
        return None
    batches = (rids[start : start + _BATCH] for start in range(0, len(rids), _BATCH))
    of_part = np.frombuffer(
        b"".join(blob for batch in batches for blob in _blobs(connection, "SELECT rid, cells FROM cells", batch)),
        np.int32,
    )
    if len(of_part) != int(lengths.sum()):
        return None
    return Cells(np.frombuffer(found[0], np.float32).reshape(-1, model.dimension), of_part)


def _blobs(connection: sqlite3.Connection, select: str, rids: Array) -> Iterator[bytes]:
    """Yield the second column for each of some ascending rows."""
    wanted = set(rids.tolist())
    rows = connection.execute(f"{select} WHERE rid BETWEEN ? AND ? ORDER BY rid", (int(rids[0]), int(rids[-1])))
    return (blob for rid, blob in rows if rid in wanted)
