"""The rows of a document: its record, its chunks and the further vectors of long texts; and changes of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.opensearch.conditions import Query, both, found_by
from context_engine.adapters.sources.opensearch.server import Calls
from context_engine.adapters.sources.opensearch.state import rows_of
from context_engine.adapters.sources.stores.chunk_rows import (
    ChunkRow,
    decode,
    defined_terms,
    file_of,
    index_texts,
    written_words,
)
from context_engine.adapters.sources.stores.query_vectors import passages
from context_engine.adapters.sources.stores.question import StoredTerms
from context_engine.adapters.sources.stores.sinks import WrittenDocument
from context_engine.adapters.sources.stores.vector_form import first_numbers
from context_engine.core.protocols import Embedder

STORED: Final = ("chunk_id", "content", "fields", "digest")
_OF_TEXT: Final = frozenset(
    {*STORED, "indexed_at", "section", "body", "head", "title", "defined", "written", "length", "unembedded"}
)


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


class NewRow(NamedTuple):
    """A row to write, and the texts to embed for it, or its vectors."""

    index_name: str
    row_id: str
    fields: Mapping[str, Any]
    texts: Sequence[str] = ()
    vectors: Sequence[Sequence[float]] = ()


def chunk_row(row: Mapping[str, Any]) -> ChunkRow:
    """Return the stored chunk of a row with STORED."""
    proof = bytes.fromhex(row.get("digest", ""))  # none in rows of an earlier analysis
    return ChunkRow(row["chunk_id"], row["content"], row["fields"], proof)


def vectors_of(calls: Calls, index: str, rows: Query) -> dict[int, list[list[float]]]:
    """Return the vectors of each row that has some, of the rows of an index that match a query."""
    vectors: dict[int, list[list[float]]] = {}
    for row in calls.scan([index], both(rows, {"exists": {"field": "vector"}}), ("row", "vector")):
        vectors.setdefault(row["row"], []).append(row["vector"])
    return vectors


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
    file = file_of(chunks)
    record = {
        **common, "kind": "document", "row": first, "content_hash": document.content_hash,
        "indexed_at": document.indexed_at, "claimed": document.claimed,
        **({} if file is None else {"source_file": file}),
    }  # fmt: skip
    out = [NewRow(index_name, f"{commit}-{first}", record)]
    texts = index_texts(chunks)
    whole = all(text.bare for text in texts)
    given = document.vectors or [()] * len(chunks)
    for number, (row, chunk, text, vectors) in enumerate(
        zip(document.rows, chunks, texts, given, strict=True), first + 1
    ):
        stored = dict(zip(STORED, (*row[:3], row.digest.hex()), strict=True))
        fields: dict[str, Any] = {
            **common, "kind": "chunk", "row": number, **stored, "indexed_at": document.indexed_at
        }  # fmt: skip
        new = NewRow(index_name, f"{commit}-{number}", fields)
        searched = whole or not text.bare
        if searched:
            terms = StoredTerms.of(text)
            fields |= {
                **found_by(chunk), "body": terms.body, "head": terms.head, "title": sorted(terms.title),
                "defined": defined_terms(chunk), "written": written_words(chunk), "length": len(terms.body),
                "section": first + 1 + text.first,
            }  # fmt: skip
            if document.vectors is None:
                new = new._replace(texts=passages(chunk))
            elif vectors:
                new = new._replace(vectors=vectors)
            else:
                fields["unembedded"] = True
        out.append(new)
    return out


def _lines(rows: Sequence[NewRow], embedder: Embedder | None) -> Iterator[tuple[str, str]]:
    """Yield each row with its vectors, as the server reads it; a vector of zeros has no direction and is left out.

    Args:
        embedder: None marks the rows, so that a later run embeds them.

    Raises:
        EmbedderError: the model failed.
    """
    for row in chain.from_iterable(map(_expanded, rows if embedder is None else _embedded(rows, embedder))):
        action = {"index": {"_index": rows_of(row.index_name), "_id": row.row_id}}
        yield json.dumps(action), json.dumps(row.fields)


def _embedded(rows: Sequence[NewRow], embedder: Embedder) -> Iterator[NewRow]:
    """Yield the rows, with vectors in the place of texts."""
    texts = [text for row in rows for text in row.texts]
    vectors = iter(embedder.embed_documents(texts) if texts else ())
    for row in rows:
        made = [vector for _, vector in zip(row.texts, vectors, strict=False)]
        yield row._replace(texts=(), vectors=made) if row.texts else row


def _expanded(row: NewRow) -> Iterator[NewRow]:
    """Yield a row with its first vector, of unit length; the further vectors of a long text get rows of their own."""
    fields = {**row.fields, "unembedded": True} if row.texts else row.fields
    first, *further = [first_numbers(vector, len(vector)) for vector in row.vectors] or [[]]
    yield row._replace(fields={**fields, "vector": first} if any(first) else fields)
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
                self._calls.bulk([change({"_index": rows_of(index), "_id": row["_id"]}) for row in some])
