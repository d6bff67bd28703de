"""Verification of a base: rows unchanged, the index undamaged, every row indexed exactly once."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tantivy
from tantivy import FieldType, Query

from context_engine.adapters.sources.local import index as indexing
from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.embedding import changed_vectors
from context_engine.adapters.sources.local.partitions import adapter_rows, partitions
from context_engine.adapters.sources.local.reader import Pool, Viewer
from context_engine.adapters.sources.local.view import View, changed_rows
from context_engine.adapters.sources.stores.adapter_rows import LEARN
from context_engine.errors import StoreCorrupt, StoreVersionMismatch

_MOST_NAMED: Final = 5
_STEP: Final = 20_000
_MEND: Final = "run 'context-engine kb rebuild', then 'context-engine ingest'"
_FOOTER_MAGIC: Final = 1337
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of `verify`.

    Attributes:
        problems: one sentence each.
        documents, chunks: live rows.
        indexed: chunks in the index, or None if it is unreadable.
    """

    problems: tuple[str, ...]
    documents: int
    chunks: int
    indexed: int | None

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


def verify(root: Path, pool: Pool, viewer: Viewer) -> VerifyReport:
    """Check everything, in memory for a few thousand rows.

    Raises:
        StoreError: the base is missing or cannot be opened.
    """
    problems: list[str] = []
    with pool.snapshot() as connection:
        state = schema.read_state(connection, root)
        try:
            changed = frozenset(changed_rows(connection))
            problems += _database(connection, root, changed)
            problems += _vectors(connection)
            problems += _adapters(connection)
            documents, chunks = _counts(connection)
            parts = partitions(connection)
        except sqlite3.DatabaseError as error:
            return VerifyReport((f"the database is damaged ({error}): {schema.anew(root)}",), 0, 0, None)
    for partition in parts:
        directory = indexing.directory(root, state.index_number, partition.key)
        problems += (broken := list(_broken_files(directory)))
        if broken:
            return VerifyReport(tuple(problems), documents, chunks, None)
    indexed = 0
    try:
        for partition in parts:
            with viewer.view(only=partition.key) as view:
                indexed += view.searcher.num_docs
                problems += _index(view, changed)
    except (StoreCorrupt, StoreVersionMismatch) as error:
        return VerifyReport((*problems, str(error)), documents, chunks, None)
    return VerifyReport(tuple(problems), documents, chunks, indexed)


def _database(connection: sqlite3.Connection, root: Path, changed: frozenset[int]) -> Iterator[str]:
    for (finding,) in connection.execute(f"PRAGMA integrity_check({_MOST_NAMED})"):
        if finding != "ok":
            yield f"the database is damaged ({finding}): {schema.anew(root)}"
    for table, row, _, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(_MOST_NAMED):
        yield f"row {row} of {table} belongs to nothing: {_MEND}"
    yield from _named(f"is not as it was written: {_MEND}", iter(sorted(changed)))
    wrong = connection.execute(
        "SELECT document_id, chunk_count, (SELECT count(*) FROM chunks"
        " WHERE chunks.doc_key = documents.doc_key) AS have FROM documents WHERE chunk_count <> have"
    )
    for document_id, want, have in wrong.fetchmany(_MOST_NAMED):
        yield f"document {document_id!r} has {have} chunks, {want} were written: {_MEND}"


def _vectors(connection: sqlite3.Connection) -> Iterator[str]:
    """Check that the vectors are undamaged, and that all live rows have some if any has."""
    yield from _named("has damaged vectors: run 'context-engine kb rebuild'", iter(sorted(changed_vectors(connection))))
    if schema.model_of(connection) is not None:
        missing = connection.execute(
            "SELECT rid FROM chunks JOIN documents USING (doc_key) WHERE removed IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.rid = chunks.rid)"
        )
        yield from _named("has no vectors: run 'context-engine ingest' with the embedder", (rid for (rid,) in missing))


def _adapters(connection: sqlite3.Connection) -> Iterator[str]:
    for domain, adapter_id in adapter_rows(connection).damaged():
        yield f"the adapter {adapter_id} of {domain} is damaged and is not used: {LEARN}"


def _counts(connection: sqlite3.Connection) -> tuple[int, int]:
    documents, chunks = connection.execute(
        "SELECT count(*), coalesce(sum(chunk_count), 0) FROM documents WHERE removed IS NULL"
    ).fetchone()
    return documents, chunks


def _index(view: View, changed: frozenset[int]) -> Iterator[str]:
    """Check that the index of a view's only partition holds its rows, each once."""
    if view.held != view.state.generation:
        yield (
            f"the index holds commit {view.held} of {view.state.generation}: a writer is active or was interrupted; "
            "the next writer catches up ('context-engine kb rebuild' does so at once)"
        )
    low, seen = 0, 0
    (highest,) = view.connection.execute("SELECT coalesce(max(rid), 0) FROM chunks").fetchone()
    while low <= highest:
        rows = _rows(view, low)
        inside = _inside(view.searcher, low)
        seen += len(inside)
        lost = sorted(rows - changed - set(inside))
        yield from _named("is not in the index: run 'context-engine kb rebuild'", iter(lost))
        twice = sorted({rid for rid in inside if inside.count(rid) > 1}) if len(inside) != len(set(inside)) else []
        yield from _named("is in the index more than once: run 'context-engine kb rebuild'", iter(twice))
        yield from _named(
            "is in the index but deleted: run 'context-engine kb rebuild'", iter(sorted(set(inside) - rows))
        )
        low += _STEP
    indexed = view.searcher.num_docs
    if seen != indexed:
        yield f"the index holds {indexed} chunks, {seen} of them have a row number: run 'context-engine kb rebuild'"


def _rows(view: View, low: int) -> set[int]:
    """Return the rows from `low` that the index's generation should hold."""
    rows = view.connection.execute(
        "SELECT rid FROM chunks JOIN documents USING (doc_key) WHERE rid >= ? AND rid < ?"
        " AND generation <= ? AND (removed IS NULL OR removed > ?) AND partition_key = ?",
        (low, low + _STEP, view.held, view.held, *view.partitions),
    )
    return {rid for (rid,) in rows}


def _inside(searcher: tantivy.Searcher, low: int) -> list[int]:
    query = Query.range_query(
        indexing.SCHEMA, "rid", FieldType.Unsigned, lower_bound=low, upper_bound=low + _STEP, include_upper=False
    )
    hits = searcher.search(query, limit=2 * _STEP, count=False).hits
    return [int(rid or 0) for rid in searcher.fast_field_values("rid", [address for _, address in hits])]


def _named(finding: str, rids: Iterator[int]) -> Iterator[str]:
    """Yield a sentence for each of the first few rows, then a count."""
    more = 0
    for number, rid in enumerate(rids):
        if number < _MOST_NAMED:
            yield f"chunk row {rid} {finding}"
        else:
            more += 1
    if more:
        yield f"{more} more chunk rows like it"


def _broken_files(directory: Path) -> Iterator[str]:
    """Compare each file of the index with the checksum that tantivy wrote at its end.

    Half-written files of a killed writer belong to no segment; the next commit deletes them.
    """
    segments = _segments(directory)
    for path in sorted(directory.glob("*.*")):
        try:
            if path.name.partition(".")[0] in segments and _broken(path):
                yield f"the index file {path.name} is damaged: run 'context-engine kb rebuild'"
        except FileNotFoundError:
            continue


def _segments(directory: Path) -> frozenset[str]:
    """Return the names of the segments; none if the list is unreadable, which opening the index reports."""
    try:
        return indexing.segments(indexing.read_meta(directory))
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


def _broken(path: Path) -> bool:
    """Whether a file is damaged; it ends with a JSON footer (CRC-32 of the rest), its length and a magic number."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size < 8:
            return True
        file.seek(size - 8)
        length, magic = (int.from_bytes(file.read(4), "little") for _ in range(2))
        if magic != _FOOTER_MAGIC or length > size - 8:
            return True
        file.seek(size - 8 - length)
        try:
            expected = json.loads(file.read(length))["crc"]
        except (ValueError, KeyError, TypeError):
            return True
        file.seek(0)
        left, crc = size - 8 - length, 0
        while left:
            block = file.read(min(left, _BLOCK))
            if not block:  # the file was truncated meanwhile
                return True
            crc, left = zlib.crc32(block, crc), left - len(block)
    return bool(crc != expected)
