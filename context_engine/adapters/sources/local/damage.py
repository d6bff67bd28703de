"""Rows that are not as they were written: finding them, and giving their documents up to the next ingestion."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from context_engine.adapters.sources.local.records import digest


def changed_rows(connection: sqlite3.Connection) -> Iterator[int]:
    """Yield the `rid` of every chunk whose digest is not its row's; bytes are compared, so any text can be read."""
    rows = connection.execute(
        "SELECT rid, CAST(chunk_id AS BLOB), CAST(content AS BLOB), CAST(fields AS BLOB), digest FROM chunks"
    )
    return (rid for rid, chunk_id, content, fields, kept in rows if digest(chunk_id, content, fields) != kept)


def give_up(connection: sqlite3.Connection) -> tuple[frozenset[int], int]:
    """Forget the content hash of damaged documents, so that the next ingestion writes them anew.

    Damaged is a document with a changed row, or with another number of rows than was written; rows of no document are
    deleted. The caller holds the transaction.

    Returns:
        The changed rows, and the number of documents that stand to be ingested again.
    """
    connection.execute("DELETE FROM chunks WHERE doc_key NOT IN (SELECT doc_key FROM documents)")
    changed = frozenset(changed_rows(connection))
    forget = "UPDATE documents SET content_hash = '' WHERE removed IS NULL AND content_hash <> '' AND "
    for rid in changed:
        connection.execute(f"{forget} doc_key = (SELECT doc_key FROM chunks WHERE rid = ?)", (rid,))
    connection.execute(
        f"{forget} chunk_count <> (SELECT count(*) FROM chunks WHERE chunks.doc_key = documents.doc_key)"
    )
    (count,) = connection.execute(
        "SELECT count(*) FROM documents WHERE removed IS NULL AND content_hash = ''"
    ).fetchone()
    return changed, int(count)
