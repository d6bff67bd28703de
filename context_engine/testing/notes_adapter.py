"""An example adapter: notes in a SQLite table, with search, examination, listing, fetching and writing.

Published under `notes` in the entry-point group `context_engine.sources`, it serves every manifest with
`adapter: notes`. The guide "Write an adapter" goes through it step by step.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from context_engine.adapters.sources.adapter import SinkOptions, SourceContext, source_adapter
from context_engine.core.models import (
    Chunk,
    Examination,
    ExaminationRequest,
    FetchRequest,
    Score,
    ScoreKind,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
    chunk_from_dict,
    notices_about,
)
from context_engine.errors import SourceUnavailable

_TABLE = (
    "CREATE TABLE IF NOT EXISTS notes"
    "(source TEXT, document TEXT, version TEXT, hash TEXT, chunks TEXT, PRIMARY KEY (source, document, version))"
)


class NotesSource:
    """The notes of one source, scored by the words they share with the question."""

    score_kinds = frozenset({ScoreKind.LEXICAL})

    def __init__(self, source_id: str, path: Path) -> None:
        self.source_id, self._path = source_id, path

    def search(self, query: SourceQuery) -> SourceAnswer:
        """Return the notes that share a word with the question."""
        words = set(query.text.casefold().split())
        matches: list[Chunk] = []
        for chunk in self.list_chunks():
            if shared := len(words & set(chunk.content.casefold().split())):
                matches.append(chunk._replace(scores=(Score(ScoreKind.LEXICAL, float(shared)),)))
        matches.sort(key=lambda chunk: (-chunk.scores[0].value, chunk.chunk_id))
        return SourceAnswer(chunks=matches[: query.top_k], cut=max(len(matches) - query.top_k, 0))

    def close(self) -> None:
        """Do nothing: nothing stays open between calls."""

    def examine(self, request: ExaminationRequest) -> Examination:
        """Count the documents and run the sample query."""
        documents = sum(1 for _ in self._rows())
        empty = () if documents else notices_about(self.source_id, "it holds no notes: ingest some with --to notes")
        records = None
        if request.query is not None:
            records = len(self.search(SourceQuery(text=request.query, domain=request.domain, top_k=5)).chunks)
        return Examination(kind="SQLite table", documents=documents, records=records, warnings=empty)

    def list_chunks(self) -> Iterator[Chunk]:
        """Yield every note, one document at a time."""
        for (chunks,) in self._rows():
            yield from (chunk_from_dict(fields) for fields in json.loads(chunks))

    def fetch(self, request: FetchRequest) -> list[Chunk]:
        """Return the notes of some ids and of some documents."""
        chunk_ids, documents = frozenset(request.chunk_ids), frozenset(request.document_ids)
        return [chunk for chunk in self.list_chunks() if chunk.chunk_id in chunk_ids or chunk.document_id in documents]

    def _rows(self) -> Iterator[tuple[str]]:
        if not self._path.exists():
            raise SourceUnavailable(f"{self._path} does not exist: ingest notes first", source_id=self.source_id)
        with closing(sqlite3.connect(self._path)) as connection:
            yield from connection.execute("SELECT chunks FROM notes WHERE source = ?", (self.source_id,))


class NotesSink:
    """Writes notes; a run's notes all appear at `commit`, and none before."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(_TABLE)

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        """Write a document, unless it is there with this hash."""
        if self.documents(source_id).get((document_id, version)) == content_hash:
            return False
        text = json.dumps([chunk.to_dict() for chunk in chunks], default=str)
        row = (source_id, document_id, version, content_hash, text)
        self._connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?, ?)", row)
        return True

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        """Remove a document."""
        key = (source_id, document_id, version)
        deleted = self._connection.execute("DELETE FROM notes WHERE source = ? AND document = ? AND version = ?", key)
        return deleted.rowcount > 0

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return the hash of each document, by id and version."""
        rows = self._connection.execute("SELECT document, version, hash FROM notes WHERE source = ?", (source_id,))
        return {(document, version): content_hash for document, version, content_hash in rows}

    def commit(self) -> None:
        """Commit the transaction."""
        self._connection.commit()


@contextmanager
def open_notes_sink(specs: Sequence[SourceSpec], context: SourceContext, options: SinkOptions) -> Iterator[NotesSink]:
    """Open one sink for all sources of a run; a dry run makes no file."""
    path = _path(context)
    if not options.dry_run:
        path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path if path.exists() or not options.dry_run else ":memory:")) as connection:
        yield NotesSink(connection)


@source_adapter(open_sink=open_notes_sink)
def open_notes(spec: SourceSpec, context: SourceContext) -> NotesSource:
    """Open one source; the entry point names this function."""
    return NotesSource(spec.id, _path(context))


def _path(context: SourceContext) -> Path:
    return context.data_dir() / "notes.sqlite3"
