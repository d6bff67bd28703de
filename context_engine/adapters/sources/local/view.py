"""A snapshot of a base, chunks as rows and rows as chunks, and the detection of damaged rows.

A row is never changed, but it may be removed, so a chunk is cached for one state of the database only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import tantivy

from context_engine.adapters.sources.local.partitions import readable
from context_engine.adapters.sources.local.schema import BaseState
from context_engine.adapters.sources.stores.chunk_rows import decode, digest
from context_engine.core.engine.admission import valid_chunk
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Notice,
    Score,
    UnknownWord,
)

if TYPE_CHECKING:
    from context_engine.adapters.sources.local.matrix import Matrices


def changed_rows(connection: sqlite3.Connection) -> Iterator[int]:
    """Yield the `rid` of every chunk with a wrong digest; bytes are hashed, so that even invalid text is readable."""
    rows = connection.execute(
        "SELECT rid, CAST(chunk_id AS BLOB), CAST(content AS BLOB), CAST(fields AS BLOB), digest FROM chunks"
    )
    return (rid for rid, chunk_id, content, fields, kept in rows if digest(chunk_id, content, fields) != kept)


def give_up(connection: sqlite3.Connection) -> tuple[frozenset[int], int]:
    """Clear the content hash of damaged documents, so that the next ingestion writes them again.

    A document is damaged if a row has changed, or if the number of rows differs; rows without a document are deleted.
    The caller holds the transaction.

    Returns:
        The changed rows, and the number of documents to be ingested again.
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
    """Return the chunks with some ids and of some documents, in all versions, each once, in the order of writing.

    Replaced, deleted and unreadable chunks are omitted.

    Args:
        access: of the caller; None admits everything.
    """
    keys = {part.key for part in readable(connection, access)}
    chunks: dict[int, Chunk] = {}
    for column, values in (("chunk_id", chunk_ids), ("document_id", document_ids)):
        for rid, partition_key, indexed_at, chunk_id, content, fields in _rows(connection, source_id, column, values):
            if partition_key in keys and rid not in chunks:
                chunks[rid] = decode((chunk_id, content, fields), indexed_at)
    return [chunks[rid] for rid in sorted(chunks)]


def _rows(
    connection: sqlite3.Connection, source_id: str, column: str, values: Sequence[str]
) -> Iterator[tuple[int, int, str, str, str, str]]:
    for some in _batches([value for value in dict.fromkeys(values) if _can_be_stored(value)]):
        statement = _SELECT.format(column=column, marks=",".join("?" * len(some)))
        yield from connection.execute(statement, (source_id, *some))


def _batches(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + _MOST_PARAMETERS] for start in range(0, len(values), _MOST_PARAMETERS))


def _can_be_stored(value: str) -> bool:
    """Return False for lone surrogates, which SQLite cannot store."""
    return not any("\ud800" <= char <= "\udfff" for char in value)


_MOST_KEPT: Final = 10_000
"""Cached chunks; 1.7 kB each for texts of 530 characters."""
_LONG: Final = 4_000
"""Characters from which a chunk is not cached; few are as long."""
_MOST_PARAMETERS: Final = 900
KeptChunks = dict[int, "RowChunk"]
T = TypeVar("T")
NearWords = dict[str, list[tuple[int, str]]]
"""(edits, word) of the words near to an unknown word."""
FoundWords = dict[tuple[Hashable, str], tuple[UnknownWord, ...]]
HeldFields = dict[int | None, tuple[str, ...]]


class RowChunk:
    """A validated chunk without scores.

    Args:
        decoded: as stored.

    Attributes:
        notices: the validation's changes.
    """

    __slots__ = ("_nested", "chunk", "notices")

    def __init__(self, decoded: Chunk) -> None:
        notices: list[Notice] = []
        self.chunk = valid_chunk(decoded, notices)
        self.notices = tuple(notices)
        mappings = (self.chunk.metadata, self.chunk.extra)
        self._nested = any(isinstance(value, Mapping | list) for mapping in mappings for value in mapping.values())

    def scored(self, scores: tuple[Score, ...]) -> Chunk:
        """Return the chunk with scores and copies of its mappings, so that changes do not affect other searches."""
        content, chunk_id, source_id, _, *others, metadata, extra = self.chunk
        copy = deepcopy if self._nested else dict
        own = copy(metadata) if metadata else metadata, copy(extra) if extra else extra
        return Chunk._make((content, chunk_id, source_id, scores, *others, *own))


class View(NamedTuple):
    """A snapshot of what a caller may read of a base: a read transaction and a searcher.

    Attributes:
        searcher: over the partitions of the view, as one index.
        behind: the indexed generation of each partition whose index lags.
        vectors: of the searcher's rows; None without an embedder or vectors.
        partitions: their keys, ascending.
        resolved: cached queries of conditions; shared by all views of the searcher.
        near: cached near words of unknown words; shared like `resolved`.
        words: cached unknown words by `SearchScope.name` (`unknown_words`); shared likewise.
        fields: cached names of the fields of a source's chunks, by its key; shared likewise.
        chunks: cached chunks; shared by all views of an unchanged database with up-to-date indexes.
        known: values computed once per view (`once`).
    """

    connection: sqlite3.Connection
    state: BaseState
    searcher: tantivy.Searcher
    behind: Mapping[int, int]
    resolved: dict[str, tantivy.Query]
    vectors: Matrices | None
    partitions: tuple[int, ...]
    near: NearWords
    words: FoundWords
    fields: HeldFields
    chunks: KeptChunks
    known: dict[Hashable, Any]

    @property
    def held(self) -> int:
        """The lowest indexed generation of its partitions."""
        return min(self.behind.values(), default=self.state.generation)

    def once(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return a value that is the same for every source; `find` computes it at the first call."""
        if key not in self.known:
            self.known[key] = find()
        value: T = self.known[key]
        return value

    def holds(self, partition_key: int, generation: int, removed: int | None) -> bool:
        """Return whether a document of these values lives in the indexed generation of its partition."""
        indexed = self.behind.get(partition_key, self.state.generation)
        return generation <= indexed and (removed is None or removed > indexed)


def chunks_of_rows(view: View, rids: Iterable[int]) -> dict[int, RowChunk]:
    """Return the chunks of the rows that are in the view's generation."""
    chunks: dict[int, RowChunk] = {}
    unread: list[int] = []
    for rid in dict.fromkeys(rids):
        if (kept := view.chunks.get(rid)) is not None:
            chunks[rid] = kept
        else:
            unread.append(rid)
    for start in range(0, len(unread), _MOST_PARAMETERS):
        chunks |= _read(view, unread[start : start + _MOST_PARAMETERS])
    return chunks


def _read(view: View, rids: list[int]) -> dict[int, RowChunk]:
    rows = view.connection.execute(
        "SELECT rid, partition_key, generation, removed, indexed_at, chunk_id, content, fields FROM chunks"
        f" JOIN documents USING (doc_key) WHERE rid IN ({','.join('?' * len(rids))})",
        rids,
    )
    chunks = {
        rid: RowChunk(decode((row[0], row[1], row[2]), indexed_at))
        for rid, partition_key, generation, removed, indexed_at, *row in rows
        if view.holds(partition_key, generation, removed) and not (removed and _came_again(view, rid))
    }
    if len(view.chunks) + len(chunks) > _MOST_KEPT:
        view.chunks.clear()
    view.chunks.update((rid, row_chunk) for rid, row_chunk in chunks.items() if len(row_chunk.chunk.content) < _LONG)
    return chunks


def _came_again(view: View, rid: int) -> bool:
    """Return whether a row's document was moved to a partition whose index is ahead, and is found there."""
    row = view.connection.execute(
        "SELECT now.partition_key, now.generation FROM chunks JOIN documents AS former USING (doc_key)"
        " JOIN documents AS now ON now.source_key = former.source_key AND now.document_id = former.document_id"
        " AND now.version = former.version AND now.removed IS NULL WHERE rid = ?",
        (rid,),
    ).fetchone()
    if row is None:
        return False
    partition_key, generation = row
    return partition_key in view.partitions and view.holds(partition_key, generation, None)
