"""The rows of a document: its record, its chunks and the further vectors of long texts; and changes of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.opensearch.conditions import Query, found_by
from context_engine.adapters.sources.opensearch.server import Calls
from context_engine.adapters.sources.stores.chunk_rows import ChunkRow, decode
from context_engine.adapters.sources.stores.index_text import index_texts
from context_engine.adapters.sources.stores.query_vectors import passages
from context_engine.adapters.sources.stores.question import StoredTerms
from context_engine.adapters.sources.stores.vector_form import first_numbers
from context_engine.core.protocols import Embedder

Name = tuple[str, str, str]
"""A document: its source, id and version."""
STORED: Final = ("chunk_id", "content", "fields", "indexed_at")
_OF_TEXT: Final = frozenset({*STORED, "section", "body", "head", "length"})


class HeldDocument(NamedTuple):
    """A document of the last commit, or of the one that is being written.

    Attributes:
        is_new: whether it is not committed yet.
    """

    content_hash: str
    index_name: str
    row: int
    source_file: str | None
    is_new: bool = False


class WrittenDocument(NamedTuple):
    """A document to write.

    Attributes:
        claimed: the classification that it claims, or "".
        indexed_at: when it was ingested, ISO 8601.
    """

    name: Name
    content_hash: str
    claimed: str
    indexed_at: str
    rows: Sequence[ChunkRow]


class NewRow(NamedTuple):
    """A row to write, and the texts to embed for it."""

    index_name: str
    row_id: str
    fields: Mapping[str, Any]
    texts: Sequence[str] = ()


def new_rows(document: WrittenDocument, index_name: str, first: int, commit: int) -> list[NewRow]:
    """Return the rows of a document; bare headings are not searched, unless it holds nothing else.

    Args:
        first: number of its record; its chunks have the numbers after it.
        commit: number of the commit that makes them visible.
    """
    source_id, document_id, version = document.name
    common = {
        "source": source_id, "document_id": document_id, "version": version, "document": first, "part": 0,
        "born": commit,
    }  # fmt: skip
    chunks = [decode((row.chunk_id, row.content, row.fields), document.indexed_at) for row in document.rows]
    file = chunks[0].metadata.get("source_file") if chunks else None
    record = {
        **common, "kind": "document", "row": first, "content_hash": document.content_hash,
        "claimed": document.claimed, **({"source_file": file} if isinstance(file, str) else {}),
    }  # fmt: skip
    out = [NewRow(index_name, f"{commit}-{first}", record)]
    texts = index_texts(chunks)
    whole = all(text.bare for text in texts)
    for number, (row, chunk, text) in enumerate(zip(document.rows, chunks, texts, strict=True), first + 1):
        stored = dict(zip(STORED, (*row[:3], document.indexed_at), strict=True))
        fields: dict[str, Any] = {**common, "kind": "chunk", "row": number, **stored}
        searched = whole or not text.bare
        if searched:
            terms = StoredTerms.of(text)
            words = {"body": terms.body, "head": terms.head, "length": len(terms.body)}
            fields |= {**found_by(chunk), **words, "section": first + 1 + text.first}
        out.append(NewRow(index_name, f"{commit}-{number}", fields, passages(chunk) if searched else ()))
    return out


def _lines(rows: Sequence[NewRow], embedder: Embedder | None) -> Iterator[tuple[str, str]]:
    """Yield each row with its vectors, as the server reads it; a vector of zeros has no direction and is left out.

    Args:
        embedder: None marks the rows, so that a later run embeds them.

    Raises:
        EmbedderError: the model failed.
    """
    for row in rows if embedder is None else _embedded(rows, embedder):
        fields = {**row.fields, "unembedded": True} if row.texts else row.fields
        yield json.dumps({"index": {"_index": row.index_name, "_id": row.row_id}}), json.dumps(fields)


def _embedded(rows: Sequence[NewRow], embedder: Embedder) -> Iterator[NewRow]:
    """Yield the rows with a vector of unit length each; the further vectors of a long text get rows of their own."""
    texts = [text for row in rows for text in row.texts]
    vectors = iter(embedder.embed_documents(texts) if texts else ())
    for row in rows:
        kept = [first_numbers(vector, len(vector)) for _, vector in zip(row.texts, vectors, strict=False)]
        first, *further = kept or [[]]
        yield row._replace(fields={**row.fields, "vector": first} if any(first) else row.fields, texts=())
        shared = {name: value for name, value in row.fields.items() if name not in _OF_TEXT}
        for part, vector in enumerate(further, 1):
            if any(vector):
                fields = {**shared, "kind": "part", "part": part, "vector": vector}
                yield NewRow(row.index_name, f"{row.row_id}.{part}", fields)


class RowWriter:
    """Changes rows on the server.

    Args:
        at_once: rows sent in one call.
    """

    def __init__(self, calls: Calls, at_once: int) -> None:
        self._calls, self._at_once = calls, at_once

    def write(self, rows: Sequence[NewRow], embedder: Embedder | None) -> None:
        """Embed and write some rows.

        Raises:
            EmbedderError: the model failed.
            SourceError: the server failed, or refused a row.
        """
        self._calls.bulk(list(_lines(rows, embedder)))

    def mark(self, indices: Sequence[str], query: Query, commit: int | None) -> None:
        """Let the rows that match a query end with a commit; None: let them stay."""
        field = json.dumps({"doc": {"died": commit}})
        self._change(indices, query, lambda row: (json.dumps({"update": row}), field))

    def delete(self, indices: Sequence[str], query: Query) -> None:
        """Delete the rows that match a query."""
        self._change(indices, query, lambda row: (json.dumps({"delete": row}),))

    def _change(
        self, indices: Sequence[str], query: Query, change: Callable[[Mapping[str, str]], tuple[str, ...]]
    ) -> None:
        for index in indices:
            rows = self._calls.scan([index], query, ())
            while some := list(islice(rows, self._at_once)):
                self._calls.bulk([change({"_index": index, "_id": row["_id"]}) for row in some])
