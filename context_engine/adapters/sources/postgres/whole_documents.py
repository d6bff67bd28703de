"""Whole documents of a store with their vectors, as they are copied to another store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from context_engine.adapters.sources.postgres.connection import Servers, Session, one_row
from context_engine.adapters.sources.postgres.schema import read_state
from context_engine.adapters.sources.postgres.vectors import from_server
from context_engine.adapters.sources.stores.chunk_rows import ChunkRow, as_written
from context_engine.core.models import AccessClass, WholeDocument

_LIST_S: Final = 600.0
_AT_ONCE: Final = 500
"""Rows that are read at once."""
_HASHES: Final = (
    "SELECT document_id, version, content_hash FROM documents JOIN sources USING (source_key) WHERE source_id = %s"
    " ORDER BY doc_key"
)
_DOCUMENTS: Final = """
SELECT place, content_hash, indexed_at, rules, classification, chunk_id, content, fields, digest, {vectors}
FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS wanted (document_id, version, place)
JOIN documents USING (document_id, version) JOIN sources USING (source_key) JOIN classes USING (class_key)
LEFT JOIN chunks ON chunks.doc_key = documents.doc_key WHERE source_id = %s ORDER BY place, chunks.rid
"""
_VECTORS: Final = (
    "ARRAY(SELECT {kind}_send(embedding) FROM vectors WHERE vectors.class_key = documents.class_key"
    " AND vectors.rid = chunks.rid ORDER BY part)"
)


def document_hashes(session: Session, source_id: str) -> Mapping[tuple[str, str], str]:
    """Return {(document_id, version): content_hash} of a source, in the order of writing."""
    rows = session.execute(_HASHES, (source_id,))
    return {(document_id, version): content_hash for document_id, version, content_hash in rows}


def hashes_of(servers: Servers, source_id: str) -> Mapping[tuple[str, str], str]:
    """Return `document_hashes`; nothing if there are no tables yet."""
    with servers.reading(_LIST_S) as session:
        (made,) = one_row(session, "SELECT to_regclass('documents') IS NOT NULL")
        return document_hashes(session, source_id) if made else {}


def stored_documents(
    session: Session, source_id: str, keys: Sequence[tuple[str, str]]
) -> Iterator[WholeDocument | None]:
    """Yield each document, or None if the source has no such document; see `Copyable`.

    Args:
        session: in a transaction.
    """
    model = read_state(session).model_id or ""
    (kind,) = one_row(session, "SELECT vector_type FROM state")
    vectors = _VECTORS.format(kind=kind) if model else "'{}'::bytea[]"
    with session.cursor(name="copied") as cursor:
        cursor.itersize = _AT_ONCE
        names = [list(part) for part in zip(*keys, strict=True)] or [[], []]
        cursor.execute(_DOCUMENTS.format(vectors=vectors).encode(), (*names, source_id), binary=True)
        groups = groupby(cursor, key=itemgetter(0))
        place, rows = next(groups, (0, iter(())))
        for number, key in enumerate(keys, 1):
            if place == number:
                yield _document(key, list(rows), model, kind)
                place, rows = next(groups, (0, iter(())))
            else:
                yield None


def _document(key: tuple[str, str], rows: Sequence[Any], model: str, kind: str) -> WholeDocument:
    _, content_hash, indexed_at, rules, classification, *_ = rows[0]
    access = AccessClass.of(rules, classification)
    chunk_rows = [row[5:] for row in rows if row[5] is not None]
    chunks = [as_written(ChunkRow(*row[:4])) for row in chunk_rows]
    vectors = [[from_server(part, kind) for part in row[4]] for row in chunk_rows]
    return WholeDocument(*key, content_hash, indexed_at, access, chunks, vectors, model if any(vectors) else "")
