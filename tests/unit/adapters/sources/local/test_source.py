"""A source of the embedded base keeps the contract, and tells its failures apart."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.local.writer import BaseWriter
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace, places
from context_engine.core.models import (
    Chunk,
    Classification,
    ExaminationRequest,
    NoticeCode,
    ScoreKind,
    SourceQuery,
    SourceSpec,
    SourceType,
)
from context_engine.core.policy.filters import parse_filter
from context_engine.errors import SourceNotFound, SourceUnavailable, StoreError
from context_engine.testing import AccessContract, SourceContract
from context_engine.testing.access_conformance import RulesOf
from tests.unit.adapters.sources.local.conftest import INDEXED_AT


class TestContract(SourceContract, AccessContract):
    question = "approval limit"
    test_unreadable_documents_change_no_answer = None  # in tests/contract/test_access_contract.py, it takes its time

    @pytest.fixture(autouse=True)
    def filled(self, fill: Callable[..., None], base: LocalBase) -> None:
        fill({f"c{n}": f"The approval limit of level {n}." for n in range(5)}, metadata={"jurisdiction": "SG"})
        self.base = base

    def make_source(self) -> LocalSource:
        return LocalSource(self.base, "sop")

    def open_sink(self, specs: Sequence[SourceSpec], rules_of: RulesOf) -> BaseWriter:
        return LocalBase(self.base.path, now=lambda: INDEXED_AT, place=places(specs, rules_of)).writer()

    def open_source(self, spec: SourceSpec, rules_of: RulesOf) -> LocalSource:
        place = SourcePlace(rules_of(spec.id), spec.classification)
        return LocalSource(self.base.path, spec.id, spec=spec, place=place)


def test_a_caller_is_not_told_where_the_base_lies_and_an_operator_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = LocalSource(tmp_path / "base", "sop")
    query = SourceQuery(text="limit", domain="NPA", top_k=9)
    with pytest.raises(SourceNotFound, match=r"there is no knowledge base in …/base: create one"):
        source.search(query)
    assert str(tmp_path) in caplog.text
    with pytest.raises(SourceNotFound, match=re.escape(str(tmp_path / "base"))):
        source.examine(ExaminationRequest(domain="NPA", query="limit"))


def test_an_examination_counts_the_documents(fill: Callable[..., None], base: LocalBase) -> None:
    fill({"c": "limit", "d": "limit"})
    source = LocalSource(base, "sop")
    asked = source.examine(ExaminationRequest(domain="NPA", query="limit"))
    assert (asked.documents, asked.records, asked.search_method) == (2, 2, "words")
    assert source.examine(ExaminationRequest(domain="NPA")).documents == 2
    assert source.examine(ExaminationRequest(domain="NPA", quick=True)).documents is None
    assert LocalSource(base, "other").examine(ExaminationRequest(domain="NPA")).documents == 0


def test_an_examination_tells_of_an_index_that_is_behind(base: LocalBase, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object) -> None:
        raise ValueError("No space left on device (os error 28)")

    monkeypatch.setattr("context_engine.adapters.sources.local.index_sync.PartitionIndex.stage", full)
    with pytest.raises(StoreError), base.writer() as writer:
        writer.put("sop", "a", "", "h", [Chunk(content="limit", chunk_id="a")])
    asked = LocalSource(base, "sop").examine(ExaminationRequest(domain="NPA", query="limit"))
    assert (asked.documents, asked.records) == (1, 0)
    assert [warning.code for warning in asked.warnings] == [NoticeCode.INDEX_LAG]


def test_a_source_that_holds_nothing_does_not_say_where(fill: Callable[..., None], base: LocalBase) -> None:
    fill({"c": "limit"})
    with pytest.raises(SourceNotFound) as told:
        LocalSource(base, "other").search(SourceQuery(text="limit", domain="NPA", top_k=9))
    assert "nothing was ingested for it into …/" in str(told.value) and str(base.path.parent) not in str(told.value)


def ask(source: LocalSource, written: str | None = None, as_of: date | None = None) -> list[str]:
    query = SourceQuery(text="limit", domain="NPA", top_k=9, filters=parse_filter(written), as_of=as_of)
    return sorted(chunk.chunk_id for chunk in source.search(query).chunks)


SPEC = SourceSpec(id="sop", type=SourceType.BANK_SOP, classification=Classification.INTERNAL)


class TestFilters:
    @pytest.fixture
    def source(self, fill: Callable[..., None], base: LocalBase) -> LocalSource:
        fill(
            {
                "plain": "limit",
                "modest": Chunk(content="limit", authority_tier=5),
                "secret": Chunk(content="limit", classification=Classification.RESTRICTED),
                "boastful": Chunk(content="limit", authority_tier=1, effective_from=date(2030, 1, 1)),
            }
        )
        return LocalSource(base, "sop", spec=SPEC)

    @pytest.mark.parametrize(
        ("written", "there"),
        [
            (None, ["boastful", "modest", "plain", "secret"]),
            ("tier = 2", ["boastful", "plain", "secret"]),
            ("tier < 2", []),
            ("source_type = general_web", ["modest"]),
            ("classification = restricted", ["secret"]),
            ("classification = internal; tier <= 2", ["boastful", "plain"]),
            ("domain = NPA; source = sop; chunk_id != plain; tier = 2", ["boastful", "secret"]),
            ("domain = ORM", []),
        ],
    )
    def test_after_the_manifest_s_ceiling(self, source: LocalSource, written: str | None, there: list[str]) -> None:
        assert ask(source, written) == there

    def test_the_day_is_pushed_down(self, source: LocalSource) -> None:
        assert ask(source, as_of=date(2029, 12, 31)) == ["modest", "plain", "secret"]


class TestErrors:
    def test_no_base(self, folder: Path) -> None:
        with pytest.raises(SourceNotFound, match=r"source 'sop': .*context-engine ingest"):
            ask(LocalSource(folder, "sop"))

    def test_nothing_ingested_for_it(self, fill: Callable[..., None], base: LocalBase) -> None:
        fill({"c": "limit"})
        with pytest.raises(SourceNotFound, match=r"source 'web': .*context-engine ingest"):
            ask(LocalSource(base, "web"))

    def test_emptied_is_no_error(self, fill: Callable[..., None], base: LocalBase) -> None:
        fill({"c": "limit"})
        with base.writer() as writer:
            writer.delete("sop", "doc-c", "")
        assert ask(LocalSource(base, "sop")) == []

    def test_damage(self, fill: Callable[..., None], base: LocalBase, folder: Path) -> None:
        fill({"c": "limit"})
        base.close()
        shutil.rmtree(folder / "index-1" / "1")
        with pytest.raises(SourceUnavailable, match=r"source 'sop': .*context-engine kb rebuild"):
            ask(LocalSource(base, "sop"))

    def test_what_lies_there_is_no_database(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "base.sqlite3").write_bytes(b"no database at all " * 100)
        with pytest.raises(SourceUnavailable, match=r"source 'sop': .*damaged"):
            ask(LocalSource(folder, "sop"))

    def test_closing_one_source_does_not_hurt_another(self, fill: Callable[..., None], base: LocalBase) -> None:
        fill({"c": "limit"})
        one, two = LocalSource(base, "sop"), LocalSource(base, "sop")
        one.close()
        assert ask(two) == ["c"]
        assert one.score_kinds == {ScoreKind.BM25}
