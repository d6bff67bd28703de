"""Chunks of one source by their ids, without a question: what stands in the rows now, for who may read it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final

from context_engine.adapters.sources.local.partitions import readable
from context_engine.adapters.sources.local.records import decode
from context_engine.core.models import AccessScope, Chunk

_MOST_PARAMETERS: Final = 900
_SELECT: Final = (
    "SELECT rid, partition_key, indexed_at, chunk_id, content, fields FROM chunks JOIN documents USING (doc_key)"
    " JOIN sources USING (source_key) WHERE source_id = ? AND removed IS NULL AND {column} IN ({marks})"
)


def fetched(
    connection: sqlite3.Connection,
    source_id: str,
    *,
    chunk_ids: Sequence[str] = (),
    document_ids: Sequence[str] = (),
    access: AccessScope | None = None,
) -> list[Chunk]:
    """Return the chunks of some ids and of some documents, each once, in the order they were written.

    What was replaced or deleted is not there, and neither is what stands in a partition that may not be read.

    Args:
        connection: a reader's, in a transaction.
        source_id: the source.
        chunk_ids, document_ids: what is wanted; of a document all its versions.
        access: which classes of chunks may be read; None: all.
    """
    keys = {one.key for one in readable(connection, access)}
    found: dict[int, Chunk] = {}
    for column, values in (("chunk_id", chunk_ids), ("document_id", document_ids)):
        for rid, partition_key, indexed_at, chunk_id, content, fields in _rows(connection, source_id, column, values):
            if partition_key in keys and rid not in found:
                found[rid] = decode((chunk_id, content, fields), indexed_at)
    return [found[rid] for rid in sorted(found)]


def _rows(
    connection: sqlite3.Connection, source_id: str, column: str, values: Sequence[str]
) -> Iterator[tuple[int, int, str, str, str, str]]:
    for some in _batches([value for value in dict.fromkeys(values) if _can_be_stored(value)]):
        statement = _SELECT.format(column=column, marks=",".join("?" * len(some)))
        yield from connection.execute(statement, (source_id, *some))


def _batches(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + _MOST_PARAMETERS] for start in range(0, len(values), _MOST_PARAMETERS))


def _can_be_stored(value: str) -> bool:
    """Lone surrogates are no text that SQLite takes, so nothing was ever stored under them."""
    return not any("\ud800" <= char <= "\udfff" for char in value)
