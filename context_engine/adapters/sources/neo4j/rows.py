"""The nodes of a document: itself, its chunks and the further vectors of long texts; written, and read as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.neo4j.conditions import GraphView
from context_engine.adapters.sources.neo4j.server import GraphServer
from context_engine.adapters.sources.neo4j.state import VISIBLE
from context_engine.adapters.sources.stores.chunk_rows import (
    ChunkRow,
    as_written,
    decode,
    defined_terms,
    digest,
    file_of,
    index_texts,
    written_words,
)
from context_engine.adapters.sources.stores.pushdown import attributes_of
from context_engine.adapters.sources.stores.query_vectors import passages
from context_engine.adapters.sources.stores.question import StoredTerms
from context_engine.adapters.sources.stores.sinks import WrittenDocument
from context_engine.adapters.sources.stores.trainable_store import READ_S
from context_engine.adapters.sources.stores.vector_form import first_numbers
from context_engine.core.models import Chunk, WholeDocument
from context_engine.core.protocols import Embedder
from context_engine.core.query.features import citations, cited_sections
from context_engine.errors import SourceNotFound

Key = tuple[str, str]

_PROJECT: Final = "project_id"
"""The field of metadata that names the project of a document."""
_OF_VECTORS: Final = ("store_class", "source", "row", "born", "attributes", "from_day", "to_day")
"""What a node with a further vector has of its chunk."""


class NodeDocument(NamedTuple):
    """A document of the last commit, or of the one that is being written.

    Attributes:
        first, last: numbers of its first and last node.
        is_new: whether it is not committed yet.
    """

    content_hash: str
    first: int
    last: int
    source_file: str | None
    is_new: bool = False


class WholeChunk(NamedTuple):
    """A chunk as its nodes hold it.

    Attributes:
        proof: its digest; None in nodes of an earlier version.
        first, further: its vectors; None and nothing without any.
    """

    chunk_id: str
    content: str
    fields: str
    proof: str | None
    indexed_at: str
    first: Sequence[float] | None
    further: Sequence[Sequence[float]]

    @property
    def row(self) -> ChunkRow:
        """The stored chunk."""
        own = (self.chunk_id, self.content, self.fields)
        return ChunkRow(*own, bytes.fromhex(self.proof) if self.proof else digest(*(text.encode() for text in own)))

    @property
    def vectors(self) -> list[Sequence[float]]:
        """Its vectors."""
        return [] if self.first is None else [self.first, *self.further]


def whole_chunks(store: str) -> str:
    """Return the chunks of a document `n` in Cypher, each as the fields of a `WholeChunk`."""
    further = f"COLLECT {{ MATCH (p:Passage:{store} {{row: c.row}}) RETURN p.embedding ORDER BY p.part }}"
    return (
        "COLLECT { MATCH (c:Chunk)-[:BELONGS_TO]->(n) RETURN [c.chunk_id, c.content, c.fields, c.digest, c.indexed_at,"
        f" c.embedding, {further}] ORDER BY c.row }}"
    )


class NewDocument(NamedTuple):
    """The nodes of a document to write.

    Attributes:
        key: of its access class.
        record: the fields of its own node.
        chunks: those of its chunks.
        texts: the texts to embed for each chunk; none for one that is not searched.
        vectors: of each chunk, if they were made elsewhere; None: they are to be made.
        cites: pairs of numbers: a chunk, and one of the clause of the same document that it cites.
        fields: number, name and value of each value that filters see.
    """

    key: int
    record: dict[str, Any]
    chunks: list[dict[str, Any]]
    texts: list[list[str]]
    cites: list[tuple[int, int]]
    fields: Mapping[int, tuple[str, str]]
    vectors: Sequence[Sequence[Sequence[float]]] | None = None


def new_document(document: WrittenDocument, *, key: int, first: int, commit: int) -> NewDocument:
    """Return the nodes of a document; bare headings are not searched, unless it holds nothing else.

    Args:
        key: of its access class.
        first: number of its own node; its chunks have the numbers after it.
        commit: number of the commit that makes them visible.
    """
    (source_id, document_id, version), content_hash, claimed, moment, rows, vectors = document
    common = {"store_class": key, "source": source_id, "born": commit}
    chunks = [decode((row.chunk_id, row.content, row.fields), moment) for row in rows]
    texts = index_texts(chunks)
    whole = all(text.bare for text in texts)
    fields: dict[int, tuple[str, str]] = {}
    nodes, passed = [], []
    for number, (row, chunk, text) in enumerate(zip(rows, chunks, texts, strict=True), first + 1):
        node = {
            **common, "row": number, "document": first, "document_id": document_id, "section_number": chunk.section,
            "chunk_id": row.chunk_id, "content": row.content, "fields": row.fields, "indexed_at": moment,
            "digest": row.digest.hex(),
        }  # fmt: skip
        searched = whole or not text.bare
        if searched:
            pairs = {_number(*pair): pair for pair in attributes_of(chunk)}
            fields |= pairs
            node |= {
                "attributes": sorted(pairs),
                "numbers": " ".join(map(str, sorted(pairs))),
                "section": first + 1 + text.first,
                **_words(chunk, StoredTerms.of(text)),
            }
        nodes.append(node)
        passed.append(passages(chunk) if searched else [])
    names = sorted({name for name, value in fields.values() if not value and name})
    record = {
        **common, "row": first, "last": first + len(rows), "document_id": document_id, "version": version,
        "content_hash": content_hash, "indexed_at": moment, "claimed": claimed,
        "title": chunks[0].title if chunks else None, "source_file": file_of(chunks), "project": _project(chunks),
        "fields": names,
    }  # fmt: skip
    given = None if vectors is None else vectors or [()] * len(rows)
    return NewDocument(key, record, nodes, passed, list(_cites(chunks, first + 1)), fields, given)


def _words(chunk: Chunk, stored: StoredTerms) -> dict[str, Any]:
    return {
        "words": " ".join(stored.body),
        "title_words": " ".join(sorted(stored.title)),
        "head_words": " ".join(term for term in stored.head if term not in stored.title),
        "defined": " ".join(defined_terms(chunk)),
        "written": " ".join(written_words(chunk)),
        "from_day": chunk.effective_from.toordinal() if chunk.effective_from else None,
        "to_day": chunk.effective_to.toordinal() if chunk.effective_to else None,
    }


def _number(name: str, value: str) -> int:
    """Return the number of a value of a field; equal values have the same number in every store."""
    return int.from_bytes(hashlib.sha256(f"{name}\0{value}".encode()).digest()[:8]) >> 1


def _project(chunks: Sequence[Chunk]) -> str | None:
    project = chunks[0].metadata.get(_PROJECT) if chunks else None
    return project if isinstance(project, str) and project else None


def _cites(chunks: Sequence[Chunk], first: int) -> Iterator[tuple[int, int]]:
    sections = [chunk.section for chunk in chunks]
    for place, chunk in enumerate(chunks):
        own = [cited.clause for cited in citations(chunk.content) if not cited.document and cited.clause]
        ends = {end for clause in own for end in cited_sections(sections, clause) if end != place}
        yield from ((first + place, first + end) for end in sorted(ends))


def embed(documents: Sequence[NewDocument], embedder: Embedder | None) -> list[dict[str, Any]]:
    """Add vectors of unit length to the nodes of documents, and return the nodes of the further vectors of long texts.

    A vector of zeros has no direction and is left out. A document with a chunk that has got no vector is marked, so
    that a later run embeds it.

    Args:
        embedder: None: makes none.

    Raises:
        EmbedderError: the model failed.
    """
    missing = [document for document in documents if document.vectors is None and embedder is not None]
    texts = [text for document in missing for of_chunk in document.texts for text in of_chunk]
    made = iter(embedder.embed_documents(texts) if embedder is not None and texts else ())
    further: list[dict[str, Any]] = []
    for document in documents:
        given = document.vectors
        if given is None:
            given = [[vector for _, vector in zip(of_chunk, made, strict=False)] for of_chunk in document.texts]
        for node, of_chunk, vectors in zip(document.chunks, document.texts, given, strict=True):
            kept = [first_numbers(vector, len(vector)) for vector in vectors if of_chunk]
            if kept and any(kept[0]):
                node["embedding"] = kept[0]
            shared = {name: node.get(name) for name in _OF_VECTORS}
            parts = enumerate(kept[1:], 1)
            further += [{**shared, "part": part, "embedding": vector} for part, vector in parts if any(vector)]
        document.record["unembedded"] = any(
            of_chunk and not vectors for of_chunk, vectors in zip(document.texts, given, strict=True)
        )
    return further


def document_hashes(view: GraphView, source_id: str) -> dict[Key, str]:
    """Return {(document_id, version): content_hash} of a source, in the order of writing."""
    rows = view.rows(
        f"MATCH (n:{view.store}:Document {{source: $source}}) WHERE {VISIBLE}"
        " RETURN n.document_id, n.version, n.content_hash ORDER BY n.row",
        source=source_id,
    )
    return {(document_id, version): content_hash for document_id, version, content_hash in rows}


def hashes_of(server: GraphServer, store: str, source_id: str) -> dict[Key, str]:
    """Return `document_hashes`; nothing if there is no store yet."""
    with server.reading(READ_S) as transaction:
        try:
            return document_hashes(GraphView.read(transaction, store), source_id)
        except SourceNotFound:
            return {}


def stored_documents(view: GraphView, source_id: str, keys: Sequence[Key]) -> list[WholeDocument | None]:
    """Return each document of a source, None for one that it has not got; see `Copyable`.

    Raises:
        StoreCorrupt: a chunk is not as it was written.
    """
    holds = {each.key: each.holds for each in view.classes}
    rows = view.rows(
        f"UNWIND $wanted AS key MATCH (n:{view.store}:Document {{document_id: key[0], version: key[1]}})"
        f" WHERE n.source = $source AND {VISIBLE} RETURN key, n.content_hash, n.indexed_at, n.store_class,"
        f" {whole_chunks(view.store)}",
        wanted=[list(key) for key in keys],
        source=source_id,
    )
    documents = {}
    for (document_id, version), content_hash, indexed_at, class_key, stored in rows:
        chunks = [WholeChunk(*chunk) for chunk in stored]
        vectors = [chunk.vectors for chunk in chunks]
        model = str(view.state.model_id) if any(vectors) else ""
        written = [as_written(chunk.row) for chunk in chunks]
        documents[document_id, version] = WholeDocument(
            document_id, version, content_hash, indexed_at, holds[class_key], written, vectors, model
        )
    return [documents.get(key) for key in keys]
