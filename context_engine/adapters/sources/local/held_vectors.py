"""The vectors of some sources with the chunks that they are of, for who learns from them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

import numpy as np

from context_engine.adapters.sources.local.adapter_store import Origin
from context_engine.adapters.sources.local.records import decode
from context_engine.adapters.sources.local.vector_parts import Array
from context_engine.adapters.sources.local.view import View
from context_engine.core.models import Chunk, HeldVectors

_BATCH: Final = 900


def held_vectors(view: View, source_ids: Sequence[str]) -> HeldVectors:
    """Return what a view holds of some sources; a chunk without vectors is left out.

    Args:
        source_ids: the sources; of one that the base does not hold there is nothing.
    """
    known = dict(view.connection.execute("SELECT source_key, source_id FROM sources"))
    wanted = [key for key, name in known.items() if name in set(source_ids)]
    names: list[str] = []
    chunks: list[Chunk] = []
    lengths: list[Array] = [np.empty(0, np.int64)]
    parts: list[Array] = []
    for matrix in view.vectors.each() if view.vectors is not None else ():
        mine = np.isin(matrix.sources, wanted)
        names += [known[key] for key in matrix.sources[mine].tolist()]
        chunks += _chunks(view.connection, matrix.rids[mine].tolist())
        lengths.append(matrix.lengths[mine])
        parts.append(matrix.in_rows().as_floats(np.repeat(mine, matrix.lengths)))
    dimension = 0 if view.vectors is None else view.vectors.dimension
    return HeldVectors(
        names,
        chunks,
        np.concatenate(lengths),
        np.concatenate(parts) if parts else np.empty((0, dimension), np.float32),
        Origin(view.state.index_number, _holding(view, wanted)),
    )


def _holding(view: View, source_keys: Sequence[int]) -> tuple[int, ...]:
    """Return the partitions of a view that hold documents of some sources."""
    marks = ", ".join("?" * len(source_keys))
    rows = view.connection.execute(
        f"SELECT DISTINCT partition_key FROM documents WHERE source_key IN ({marks})", source_keys
    )
    return tuple(sorted({key for (key,) in rows} & set(view.partitions)))


def _chunks(connection: sqlite3.Connection, rids: Sequence[int]) -> list[Chunk]:
    """Return the chunk of each row, in their order."""
    found: dict[int, Chunk] = {}
    for start in range(0, len(rids), _BATCH):
        some = rids[start : start + _BATCH]
        rows = connection.execute(
            "SELECT rid, indexed_at, chunk_id, content, fields FROM chunks JOIN documents USING (doc_key)"
            f" WHERE rid IN ({', '.join('?' * len(some))})",
            some,
        )
        found |= {rid: decode((chunk_id, content, fields), at) for rid, at, chunk_id, content, fields in rows}
    return [found[rid] for rid in rids]
