"""Whole documents of a base with their vectors, as they are copied to another store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from context_engine.adapters.sources.local.partitions import (
    StoredCalibration,
    extent_of,
    partition_key,
    partitions,
    read_all,
    replace,
)
from context_engine.adapters.sources.local.schema import Model, model_of, state_to_write
from context_engine.adapters.sources.stores.chunk_rows import ChunkRow, as_written
from context_engine.adapters.sources.stores.vector_form import decoded
from context_engine.core.models import ClassCalibration, WholeDocument

_LIVE: Final = "FROM documents JOIN sources USING (source_key) WHERE source_id = ? AND removed IS NULL"
_DOCUMENT: Final = (
    f"SELECT doc_key, partition_key, content_hash, indexed_at {_LIVE} AND document_id = ? AND version = ?"
)
_CHUNKS: Final = (
    "SELECT chunk_id, content, fields, chunks.digest, vector FROM chunks LEFT JOIN vectors USING (rid)"
    " WHERE doc_key = ? ORDER BY rid"
)


def document_hashes(connection: sqlite3.Connection, source_id: str) -> Mapping[tuple[str, str], str]:
    """Return {(document_id, version): content_hash} of a source, in the order of writing."""
    rows = connection.execute(f"SELECT document_id, version, content_hash {_LIVE} ORDER BY doc_key", (source_id,))
    return {(document_id, version): content_hash for document_id, version, content_hash in rows}


def stored_documents(
    connection: sqlite3.Connection, source_id: str, keys: Sequence[tuple[str, str]]
) -> Iterator[WholeDocument | None]:
    """Yield each document, or None if the source has no such document; see `Copyable`.

    Args:
        connection: a reader's, in a transaction.
    """
    model = model_of(connection)
    classes = {partition.key: partition.holds for partition in partitions(connection)}
    for document_id, version in keys:
        row = connection.execute(_DOCUMENT, (source_id, document_id, version)).fetchone()
        if row is None:
            yield None
            continue
        doc_key, partition, content_hash, indexed_at = row
        rows = connection.execute(_CHUNKS, (doc_key,)).fetchall()
        chunks = [as_written(ChunkRow(*row[:4])) for row in rows]
        vectors = [_vectors(row[4], model) for row in rows]
        name = model.model_id if model is not None and any(vectors) else ""
        yield WholeDocument(document_id, version, content_hash, indexed_at, classes[partition], chunks, vectors, name)


def class_calibrations(connection: sqlite3.Connection, domain: str) -> list[ClassCalibration]:
    """Return the calibrations of a domain."""
    classes = {partition.key: partition.holds for partition in partitions(connection)}
    return [
        ClassCalibration(classes[row.partition], row.calibration)
        for row in read_all(connection)
        if row.domain == domain
    ]


def keep_calibrations(
    connection: sqlite3.Connection,
    root: Path,
    domain: str,
    source_ids: Sequence[str],
    found: Sequence[ClassCalibration],
) -> None:
    """Replace the calibrations of a domain, if any are given; they count as measured on the documents as they are.

    Args:
        connection: the writer's, outside a transaction.
        root: folder of the base.
        source_ids: the domain's sources.
    """
    state = state_to_write(connection, root)
    stored = []
    for access, calibration in found:
        key = partition_key(connection, access, state.generation)
        _, chunks, last = extent_of(connection, source_ids, key)
        stored.append(StoredCalibration(domain, key, calibration, chunks, last))
    former = [row for row in read_all(connection) if row.domain == domain] if found else []
    outdated = {(domain, row.calibration.model_id, row.partition) for row in (*former, *stored)}
    replace(root, state.index_number, outdated, stored)


def _vectors(blob: bytes | None, model: Model | None) -> Sequence[Sequence[float]]:
    return decoded(blob, model.dimension, model.form) if blob and model is not None else ()
