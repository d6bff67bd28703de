"""The shipped conformance suite against every sink that is shipped, and against sinks that break it."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.adapter import SinkOptions, SourceContext
from context_engine.adapters.sources.dify import open_dify
from context_engine.core.engine import SystemClock
from context_engine.core.models import SourceSpec
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, SinkContract, SourceContract
from context_engine.testing.notes_adapter import NotesSink, NotesSource, open_notes
from context_engine.wiring.embedded_base import open_local


class AdapterContract(SinkContract):
    """A sink as an adapter opens it, in a folder of the test's own."""

    adapter: Any
    spec: SourceSpec

    @pytest.fixture(autouse=True)
    def fresh_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    @property
    def context(self) -> SourceContext:
        return SourceContext(
            domain="NPA",
            data_dir=lambda: self.folder,
            connection=self.connection,
            clock=SystemClock(),
            shared=lambda _key, make: make(),
        )

    def connection(self, name: str) -> Connection:
        raise AssertionError(name)

    def open_sink(self):
        return self.adapter.open_sink([self.spec], self.context, SinkOptions())

    def make_source(self):
        return self.adapter(self.spec, self.context)


class TestLocal(AdapterContract):
    adapter = open_local
    spec = SourceSpec(id="notes", type="bank_sop")


class TestNotes(AdapterContract):
    adapter = open_notes
    spec = SourceSpec(id="notes", type="bank_sop", adapter="notes")


class TestDify(AdapterContract):
    adapter = open_dify

    @pytest.fixture(autouse=True)
    def running(self):
        with FakeDify([FakeDataset("notes")]) as self.dify:
            ids = (self.dify.dataset_id("notes"),)
            settings = {"cache_ttl_s": 0}
            self.spec = SourceSpec(
                id="notes", type="bank_sop", adapter="dify", connection="dify", dataset_ids=ids, settings=settings
            )
            yield

    def connection(self, name: str) -> Connection:
        return Connection(base_url=self.dify.base_url, api_key=self.dify.api_key)


class TestNotesSource(SourceContract):
    """The worked example, written to before it is asked."""

    question = "approval limit"

    @pytest.fixture(autouse=True)
    def filled(self, tmp_path: Path) -> None:
        notes = TestNotes()
        notes.folder = self.folder = tmp_path
        with notes.open_sink() as sink:
            for level in range(5):
                notes.put(sink, f"L{level}", "hash", f"the approval limit of level {level}")
            sink.commit()

    def make_source(self):
        return NotesSource("notes", self.folder / "notes.sqlite3")


class Forgetful(NotesSink):
    """Does not look at the hash."""

    def documents(self, source_id):
        return {}


class Hoarder(NotesSink):
    """Deletes nothing."""

    def delete(self, source_id, document_id, version):
        return (document_id, version) in self.documents(source_id)


class Careless(NotesSink):
    """Keeps the text alone."""

    def put(self, source_id, document_id, version, content_hash, chunks):
        bare = [chunk._replace(authority_tier=None, effective_from=None) for chunk in chunks]
        return super().put(source_id, document_id, version, content_hash, bare)


@pytest.mark.parametrize(
    ("sink", "check"),
    [
        (Forgetful, "test_writes_new_documents_and_leaves_unchanged_ones"),
        (Hoarder, "test_deleted_documents_are_not_found"),
        (Careless, "test_committed_chunks_are_found_with_their_fields"),
    ],
)
def test_a_sink_that_breaks_the_contract_is_caught(sink: type[NotesSink], check: str, tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    class Breaking(SinkContract):
        @contextmanager
        def open_sink(self):
            with closing(sqlite3.connect(tmp_path / "notes.sqlite3")) as connection:
                yield sink(connection)

        make_source = staticmethod(partial(NotesSource, "notes", tmp_path / "notes.sqlite3"))

    with pytest.raises(AssertionError):
        getattr(Breaking(), check)()
