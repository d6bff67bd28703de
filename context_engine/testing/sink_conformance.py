"""Conformance tests for every sink. Subclass `SinkContract` in your test file and run pytest.

class TestMySink(SinkContract):
    def open_sink(self):
        return open_my_sink(...)

    def make_source(self):
        return MySource(...)
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import date
from typing import ClassVar

from context_engine.core.models import Chunk, SourceQuery
from context_engine.core.protocols import FileTrackingSink, Sink, Source


class SinkContract:
    """Tests of a sink; every test starts in its own empty place.

    Attributes:
        source_id: the source to write.
        domain: the domain to search.
    """

    source_id: ClassVar[str] = "notes"
    domain: ClassVar[str] = "NPA"

    def open_sink(self) -> AbstractContextManager[Sink]:
        """Return the sink of the test's place; a test may open it again after closing it."""
        raise TypeError(f"{type(self).__name__} must define open_sink()")

    def make_source(self) -> Source:
        """Return a source that searches the documents written by the sink."""
        raise TypeError(f"{type(self).__name__} must define make_source()")

    def written(self, *texts: str) -> list[Chunk]:
        """Return chunks with ids, a tier and a date, as from `ingest`."""
        return [
            Chunk(
                content=text,
                chunk_id=f"{self.source_id}/{text.split()[0]}/{number}",
                document_id=text.split()[0],
                title="Limits",
                position=number,
                authority_tier=4,
                effective_from=date(2025, 6, 30),
                metadata={"source_file": f"notes/{text.split()[0]}.md"},
            )
            for number, text in enumerate(texts)
        ]

    def put(self, sink: Sink, document: str, content_hash: str, *texts: str, version: str = "") -> bool:
        """Write a document whose texts begin with its id."""
        chunks = self.written(*(f"{document} {text}" for text in texts))
        return sink.put(self.source_id, document, version, content_hash, chunks)

    def test_is_a_sink(self) -> None:
        with self.open_sink() as sink:
            assert isinstance(sink, Sink)
            assert dict(sink.documents(self.source_id)) == {}

    def test_writes_new_documents_and_leaves_unchanged_ones(self) -> None:
        with self.open_sink() as sink:
            assert self.put(sink, "A1", "hash-1", "approval limit of five million") is True
            sink.commit()
            assert self.put(sink, "A1", "hash-1", "approval limit of five million") is False
            assert dict(sink.documents(self.source_id)) == {("A1", ""): "hash-1"}

    def test_replaces_changed_documents(self) -> None:
        with self.open_sink() as sink:
            self.put(sink, "A1", "hash-1", "approval limit of five million", "approval by the committee")
            sink.commit()
            assert self.put(sink, "A1", "hash-2", "approval limit of nine million") is True
            sink.commit()
            assert dict(sink.documents(self.source_id)) == {("A1", ""): "hash-2"}
        assert [chunk.content for chunk in self.found("approval limit")] == ["A1 approval limit of nine million"]

    def test_versions_are_kept_apart(self) -> None:
        with self.open_sink() as sink:
            self.put(sink, "A1", "hash-1", "approval limit of five million", version="1.0")
            sink.commit()
            self.put(sink, "B2", "hash-2", "approval limit of nine million", version="2.0")
            sink.commit()
            assert set(sink.documents(self.source_id)) == {("A1", "1.0"), ("B2", "2.0")}
            assert sink.delete(self.source_id, "A1", "2.0") is False, "that version was never there"
            assert sink.delete(self.source_id, "A1", "1.0") is True
            sink.commit()
            assert set(sink.documents(self.source_id)) == {("B2", "2.0")}

    def test_deleted_documents_are_not_found(self) -> None:
        with self.open_sink() as sink:
            self.put(sink, "A1", "hash-1", "approval limit of five million")
            self.put(sink, "B2", "hash-2", "approval limit of nine million")
            sink.commit()
            assert sink.delete(self.source_id, "A1", "") is True
            sink.commit()
            assert sink.delete(self.source_id, "A1", "") is False
        assert [chunk.content for chunk in self.found("approval limit")] == ["B2 approval limit of nine million"]

    def test_committed_documents_are_known_after_reopening(self) -> None:
        with self.open_sink() as sink:
            self.put(sink, "A1", "hash-1", "approval limit of five million")
            sink.commit()
        with self.open_sink() as sink:
            assert dict(sink.documents(self.source_id)) == {("A1", ""): "hash-1"}
            assert self.put(sink, "A1", "hash-1", "approval limit of five million") is False

    def test_committed_chunks_are_found_with_their_fields(self) -> None:
        with self.open_sink() as sink:
            self.put(sink, "A1", "hash-1", "approval limit of five million")
            sink.commit()
        (chunk,) = self.found("approval limit")
        assert chunk.content == "A1 approval limit of five million"
        assert (chunk.document_id, chunk.title) == ("A1", "Limits")
        assert (chunk.authority_tier, chunk.effective_from) == (4, date(2025, 6, 30)), "a document's claims are kept"

    def test_gives_the_file_of_a_document_if_it_tracks_files(self) -> None:
        with self.open_sink() as sink:
            self.put(sink, "A1", "hash-1", "approval limit of five million", "approval by the committee")
            sink.commit()
        with self.open_sink() as sink:
            if isinstance(sink, FileTrackingSink):
                assert sink.file_of(self.source_id, "A1", "") == "notes/A1.md"
                assert sink.file_of(self.source_id, "A1", "2.0") is None, "that version was never there"

    def found(self, text: str) -> list[Chunk]:
        """Return the results of a search by chunk id."""
        source = self.make_source()
        try:
            answer = source.search(SourceQuery(text=text, domain=self.domain, top_k=10))
            return sorted(answer.chunks, key=lambda chunk: chunk.chunk_id)
        finally:
            source.close()
