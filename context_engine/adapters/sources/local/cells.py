"""The writer's side of approximate search: vectors are divided into cells, stored with them in the database.

A search then reads the nearest cells only. Cells are written in the transaction that writes the vectors; filters and
deletions apply to them as to all rows.
"""

from __future__ import annotations

import logging
import sqlite3
from math import isqrt
from typing import Final

import numpy as np

from context_engine.adapters.sources.local.partitions import forget_cells
from context_engine.adapters.sources.local.schema import Model, model_of
from context_engine.adapters.sources.local.vector_parts import Array, VectorParts

_log = logging.getLogger(__name__)
_GROWN: Final = 4
_PER_ROOT: Final = 4
"""Cells = 4 * sqrt(rows): small cells, a tenth of which holds most neighbours."""
_SAMPLE_PER_CELL: Final = 32
_ROUNDS: Final = 8
_AT_ONCE: Final = 4096
_OF_PARTITION: Final = "CROSS JOIN chunks USING (rid) CROSS JOIN documents USING (doc_key) WHERE partition_key = ?"
"""CROSS JOIN keeps the order of the tables, so rows come by `rid`."""


def partition(connection: sqlite3.Connection, key: int, least: int) -> None:
    """Assign every row of a partition of `least` rows or more to its cells; inside the caller's transaction.

    The centroids are computed from the partition's vectors only, so that nothing leaks from other partitions, and again
    once the partition has grown by the factor _GROWN.
    """
    model = model_of(connection)
    (count,) = connection.execute(
        "SELECT coalesce(sum(chunk_count), 0) FROM documents WHERE partition_key = ?", (key,)
    ).fetchone()
    if model is None or count < least:
        return
    row = connection.execute("SELECT trained_on, matrix FROM centroids WHERE partition_key = ?", (key,)).fetchone()
    if row is None or count >= _GROWN * row[0]:
        cells = _PER_ROOT * isqrt(count)
        centroids = trained(_sample(connection, model, key, cells * _SAMPLE_PER_CELL), cells)
        forget_cells(connection, key)
        connection.execute("INSERT INTO centroids VALUES (?, ?, ?)", (key, count, centroids.tobytes()))
        _log.info("%d vectors divided into %d cells", count, len(centroids))
    else:
        centroids = np.frombuffer(row[1], np.float32).reshape(-1, model.dimension)
    _assign_missing(connection, model, key, centroids)


def trained(sample: Array, cells: int) -> Array:
    """Return centroids by spherical k-means; deterministic.

    Args:
        sample: float32 (vectors, dimension), unit length.
        cells: maximum number.

    Returns:
        float32 (cells, dimension), unit length.
    """
    centroids = sample[np.linspace(0, len(sample) - 1, min(cells, len(sample)), dtype=np.int64)].copy()
    for _ in range(_ROUNDS):
        nearest = assigned(sample, centroids)
        order = np.argsort(nearest, kind="stable")
        used, first = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(sample[order], first, axis=0)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        centroids[used] = np.where(lengths > 0.0, sums / np.maximum(lengths, 1e-12), centroids[used])
    return centroids


def assigned(vectors: Array, centroids: Array) -> Array:
    """Return the nearest centroid of each vector, int32."""
    out = np.empty(len(vectors), np.int32)
    for start in range(0, len(vectors), _AT_ONCE):
        block = vectors[start : start + _AT_ONCE]
        out[start : start + len(block)] = np.argmax(block @ centroids.T, axis=1)
    return out


def _assign_missing(connection: sqlite3.Connection, model: Model, key: int, centroids: Array) -> None:
    """Assign cells to rows without any; rows are embedded in order, so these follow the last row with cells."""
    row = connection.execute(f"SELECT rid FROM cells {_OF_PARTITION} ORDER BY rid DESC LIMIT 1", (key,)).fetchone()
    last = row[0] if row else 0
    while True:
        rows = connection.execute(
            f"SELECT rid, vector FROM vectors {_OF_PARTITION} AND rid > ? ORDER BY rid LIMIT ?", (key, last, _AT_ONCE)
        ).fetchall()
        if not rows:
            return
        cells = assigned(_vectors(b"".join(blob for _, blob in rows), model), centroids)
        ends = np.cumsum([len(blob) // model.size for _, blob in rows])
        parts = zip((rid for rid, _ in rows), np.split(cells, ends[:-1]))
        connection.executemany(
            "INSERT INTO cells(rid, cells) VALUES (?, ?)", ((rid, some.tobytes()) for rid, some in parts)
        )
        last = rows[-1][0]


def _sample(connection: sqlite3.Connection, model: Model, key: int, size: int) -> Array:
    """Return the first vector of about `size` evenly spread rows of a partition."""
    rows = "SELECT rid FROM chunks JOIN documents USING (doc_key) WHERE partition_key = ? ORDER BY rid"
    rids = [rid for (rid,) in connection.execute(rows, (key,))]
    wanted = rids[:: max(1, len(rids) // size)]
    stored = (connection.execute("SELECT vector FROM vectors WHERE rid = ?", (rid,)).fetchone() for rid in wanted)
    return _vectors(b"".join(row[0][: model.size] for row in stored if row), model)


def _vectors(blob: bytes, model: Model) -> Array:
    return VectorParts.read(blob, model).as_floats()
