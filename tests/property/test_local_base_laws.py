"""Whatever is put, replaced, deleted, committed or rolled back, the base holds what a dict would."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.local.writer import BaseWriter
from context_engine.core.models import Chunk

SOURCES = st.sampled_from(["sop", "web"])
DOCUMENTS = st.sampled_from(["d1", "d2", "d3"])
VERSIONS = st.sampled_from(["", "2"])
TEXTS = st.lists(st.sampled_from(["limit", "buffer", "haircut"]), max_size=3)

Contents = dict[tuple[str, str, str], list[str]]


class BaseAgainstDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.base = LocalBase.open(Path(self.folder.name), create=True)
        self.writer: BaseWriter = self.base.writer()
        self.committed: Contents = {}
        self.pending: Contents = {}
        self.generation = 0
        self.changed = False

    @rule(source=SOURCES, document=DOCUMENTS, version=VERSIONS, texts=TEXTS)
    def put(self, source: str, document: str, version: str, texts: list[str]) -> None:
        key = (source, document, version)
        chunks = [
            Chunk(content=f"{text} rule", chunk_id=f"{document}@{version}#{place}") for place, text in enumerate(texts)
        ]
        wrote = self.writer.put(source, document, version, "|".join(texts), chunks)
        assert wrote is (self.pending.get(key) != texts)
        self.pending[key] = texts
        self.changed = self.changed or wrote

    @rule(source=SOURCES, document=DOCUMENTS, version=VERSIONS)
    def delete(self, source: str, document: str, version: str) -> None:
        there = self.pending.pop((source, document, version), None) is not None
        assert self.writer.delete(source, document, version) is there
        self.changed = self.changed or there

    @rule()
    def commit(self) -> None:
        self.writer.commit()
        self.committed = dict(self.pending)
        self.generation += self.changed
        self.changed = False

    @rule()
    def rollback(self) -> None:
        self.writer.rollback()
        self.pending, self.changed = dict(self.committed), False

    @rule(rebuild=st.booleans())
    def come_again(self, rebuild: bool) -> None:
        self.writer.close()
        self.pending, self.changed = dict(self.committed), False
        if rebuild:
            self.base.rebuild()
        self.writer = self.base.writer()

    @invariant()
    def the_base_holds_the_dict(self) -> None:
        for source in ("sop", "web"):
            expected = {
                (f"{document}@{version}#{place}", f"{text} rule")
                for (its, document, version), texts in self.committed.items()
                for place, text in enumerate(texts)
                if its == source
            }
            found = self.base.search("rule", source_id=source, top_k=100)
            assert {(chunk.chunk_id, chunk.content) for chunk in found} == expected
            assert len(found) == len(expected)

    def teardown(self) -> None:
        report, stats = self.base.verify(), self.base.stats()
        assert report.ok, report.problems
        assert stats.documents == len(self.committed) and stats.generation == self.generation
        self.writer.close()
        self.base.close()
        self.folder.cleanup()


BaseAgainstDict.TestCase.settings = settings(max_examples=12, stateful_step_count=15)
TestBaseAgainstDict = BaseAgainstDict.TestCase
