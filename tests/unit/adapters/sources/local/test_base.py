"""Searching the embedded base: codes, ranking, notes, snapshots, threads."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NoReturn

import pytest

from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.local.index import INDEX_VERSION
from context_engine.adapters.sources.local.reader import Pool
from context_engine.adapters.sources.local.schema import connect, unusable
from context_engine.adapters.sources.local.stats import SourceStats
from context_engine.adapters.sources.stores.chunk_rows import canonical
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import Chunk, Classification, FetchedAtBasis, ScoreKind, SourceType, TrustClass
from context_engine.errors import StoreCorrupt, StoreError, StoreVersionMismatch

Fill = Callable[..., None]
Find = Callable[..., list[str]]

CLAUSES = {
    "a": "Capital under MAS Notice 637(4)(b) must be held at all times.",
    "b": "Capital under MAS Notice 637(4)(c) must be held at all times.",
    "c": "Notice of meetings is given in writing.",
    "d": "Clause 4.2.1(b) sets the limit for NPA-001.",
    "e": "Clause 4.2.1(c) sets the limit for NPA-002.",
}


class TestCodes:
    def test_a_clause_number_with_syntax_around_it_is_found(self, fill: Fill, find: Find) -> None:
        fill(CLAUSES)
        assert find("MAS Notice 637(4)(b)?: [")[0] == "a"
        assert find("637(4)(c)")[0] == "b"

    @pytest.mark.parametrize(
        ("query", "best"), [("4.2.1(b)", "d"), ("4.2.1(c)", "e"), ("NPA-001", "d"), ("npa-002", "e")]
    )
    def test_codes_match_exactly(self, fill: Fill, find: Find, query: str, best: str) -> None:
        fill(CLAUSES)
        assert find(query)[0] == best

    def test_a_code_is_met_whatever_hyphen_the_document_has(self, fill: Fill, find: Find) -> None:
        fill({"typeset": "Approval NPA\u2011001 was given.", "dashed": "NPA\u2013001 again.", "other": "NPA 001"})
        assert set(find("NPA-001")[:2]) == {"typeset", "dashed"}

    def test_part_of_a_code_finds_all_of_its_clauses(self, fill: Fill, find: Find) -> None:
        fill(CLAUSES)
        assert set(find("637")) == {"a", "b"}

    def test_ids_in_metadata_section_and_document_are_found(self, base: LocalBase, find: Find) -> None:
        with base.writer() as writer:
            chunks = [
                Chunk(content="Nothing to see.", chunk_id="m", metadata={"notice": {"ids": ["FCAA-626"]}}),
                Chunk(content="Nothing here either.", chunk_id="s", section="7.3.1(a)"),
            ]
            writer.put("sop", "TPL-014", "", "h", chunks)
            writer.put("sop", "SOP-2", "", "h", [Chunk(content="FCAA clause words clause", chunk_id="x")])
        assert find("FCAA-626")[0] == "m"
        assert find("clause 7.3.1(a)")[0] == "s"
        assert set(find("TPL-014")) == {"m", "s"}

    @pytest.mark.parametrize(
        "query", ['"a AND (b', "body:x^2", "*", "a~2", "\\", "'; DROP TABLE chunks", "NEAR/3", "𝔘𝔫𝔦"]
    )
    def test_nothing_in_a_query_is_syntax(self, base: LocalBase, fill: Fill, query: str) -> None:
        fill(CLAUSES)
        assert isinstance(base.search(query, source_id="sop", top_k=5), list)


class TestRanking:
    def test_stems_meet(self, fill: Fill, find: Find) -> None:
        fill({"x": "Criteria for approving products.", "y": "Holidays in March."})
        assert find("product approvals") == ["x"]

    def test_neighbouring_words_count_more_than_scattered_ones(self, fill: Fill, find: Find) -> None:
        fill(
            {
                "far": "Risk is one thing and appetite another thing.",
                "near": "One thing another thing is the risk appetite.",
            }
        )
        assert find("risk appetite") == ["near", "far"]

    def test_a_bare_heading_ranks_below_its_section(self, fill: Fill, find: Find) -> None:
        path = ("Product approval",)
        fill(
            {
                "heading": Chunk(content="Product approval", heading_path=path),
                "text": Chunk(content="The desk asks for product approval before it trades.", heading_path=path),
            }
        )
        assert find("product approval") == ["text", "heading"]

    def test_scores_of_two_sources_are_comparable(self, base: LocalBase, fill: Fill) -> None:
        fill({"one": "Liquidity buffer for the desk."}, source_id="s1")
        fill({"two": "Liquidity buffer for the desk."}, source_id="s2")
        (one,) = base.search("liquidity buffer", source_id="s1", top_k=5)
        (two,) = base.search("liquidity buffer", source_id="s2", top_k=5)
        assert one.scores == two.scores
        assert one.scores[0].kind is ScoreKind.BM25
        assert one.scores[0].scorer == f"local:{base.stats().base_id}"

    def test_equal_scores_come_in_the_order_written(self, fill: Fill, find: Find) -> None:
        fill(dict.fromkeys("dbca", "The same words."))
        assert find("same words") == list("dbca")

    def test_top_k_cuts(self, fill: Fill, find: Find) -> None:
        fill({str(n): f"limit {'word ' * n}" for n in range(9)})
        assert len(find("limit", top_k=4)) == 4
        assert find("limit", top_k=4) == find("limit", top_k=1000)[:4]


class TestChunks:
    def test_everything_comes_back(self, base: LocalBase) -> None:
        written = Chunk(
            content="The limit is 5 %.\n\nRound up.",
            chunk_id="c1",
            document_id="SOP-1",
            document_version="3.2",
            dataset_id="d",
            title="Limits",
            section="4.2",
            heading_path=("Limits", "Large"),
            doc_type="sop_document",
            position=3,
            span=(10, 40),
            source_type=SourceType.BANK_SOP,
            authority_tier=2,
            trust_class=TrustClass.TRUSTED,
            classification=Classification.RESTRICTED,
            fetched_at=datetime(2025, 1, 1, tzinfo=UTC),
            fetched_at_basis=FetchedAtBasis.ORIGIN,
            ttl_seconds=60,
            effective_from=date(2025, 1, 1),
            effective_to=date(2027, 1, 1),
            superseded_by="SOP-2",
            metadata={"year": 1960, "tags": ["a"], "deep": {"x": None}, "ok": True, "ratio": 0.5},
            extra={"own": 1},
        )
        with base.writer() as writer:
            writer.put("sop", "SOP-1", "3.2", "h", [written])
        (found,) = base.search("limit", source_id="sop", top_k=1)
        assert found._replace(scores=()) == written
        assert base.get("sop", "c1") == written

    def test_the_document_is_named_where_the_chunk_is_silent(self, base: LocalBase) -> None:
        with base.writer() as writer:
            writer.put("sop", "SOP-1", "3.2", "h", [Chunk(content="text", chunk_id="c")])
            writer.put("sop", "SOP-2", "", "h", [Chunk(content="text", chunk_id="d")])
        first, second = base.get("sop", "c"), base.get("sop", "d")
        assert first is not None and (first.document_id, first.document_version) == ("SOP-1", "3.2")
        assert second is not None and (second.document_id, second.document_version) == ("SOP-2", None)

    @pytest.mark.parametrize(
        ("metadata", "moment", "basis"),
        [
            ({"fetched_at": "2024-05-01T00:00:00+00:00"}, datetime(2024, 5, 1, tzinfo=UTC), FetchedAtBasis.ORIGIN),
            ({"fetched_at": "2024-05-01"}, datetime(2024, 5, 1, tzinfo=UTC), FetchedAtBasis.ORIGIN),
            ({"fetched_at": "lately"}, datetime(2026, 3, 2, 10, tzinfo=UTC), FetchedAtBasis.INDEXED),
            ({}, datetime(2026, 3, 2, 10, tzinfo=UTC), FetchedAtBasis.INDEXED),
        ],
    )
    def test_fetched_at_says_what_it_is(
        self, fill: Fill, base: LocalBase, metadata: dict[str, str], moment: datetime, basis: FetchedAtBasis
    ) -> None:
        fill({"c": Chunk(content="text", metadata=metadata)})
        chunk = base.get("sop", "c")
        assert chunk is not None and (chunk.fetched_at, chunk.fetched_at_basis) == (moment, basis)

    def test_get_knows_its_source(self, fill: Fill, base: LocalBase) -> None:
        fill({"c": "text"})
        assert base.get("other", "c") is None and base.get("sop", "d") is None


class TestNotes:
    def codes(self, base: LocalBase, text: str, source_id: str = "sop") -> list[str]:
        return [notice.code for notice in base.answer(text, top_k=5, scope=Scope(source_id=source_id)).notices]

    def test_a_query_without_terms_finds_nothing_and_says_so(self, fill: Fill, base: LocalBase, find: Find) -> None:
        fill(CLAUSES)
        for text in ("the of and", "?!", "…—"):
            assert find(text) == []
            assert self.codes(base, text) == ["no_search_terms"]

    def test_a_long_query_is_shortened(self, fill: Fill, base: LocalBase) -> None:
        fill(CLAUSES)
        assert self.codes(base, "capital " + " ".join(f"w{n}" for n in range(300))) == ["query_shortened"]
        assert self.codes(base, "capital " * 300) == []

    def test_an_unknown_source_is_told_from_an_empty_answer(self, fill: Fill, base: LocalBase) -> None:
        fill(CLAUSES)
        assert self.codes(base, "capital", "other") == ["source_unknown"]
        assert self.codes(base, "zebra") == []


class TestOpening:
    def test_no_base(self, folder: Path) -> None:
        with pytest.raises(StoreError, match="context-engine ingest"):
            LocalBase.open(folder)
        with pytest.raises(StoreError, match="context-engine ingest"):
            LocalBase(folder).search("x", source_id="s", top_k=1)
        with pytest.raises(StoreError, match="context-engine ingest"):
            LocalBase(folder).rebuild()
        assert not LocalBase(folder).exists() and not folder.exists()

    def test_a_base_made_later_is_found(self, folder: Path) -> None:
        early = LocalBase(folder)
        with LocalBase.open(folder, create=True) as base, base.writer() as writer:
            writer.put("sop", "d", "", "h", [Chunk(content="text", chunk_id="c")])
        assert [chunk.chunk_id for chunk in early.search("text", source_id="sop", top_k=1)] == ["c"]
        early.close()

    def test_closing_twice_and_using_again(self, fill: Fill, base: LocalBase, find: Find) -> None:
        fill({"c": "text"})
        base.close()
        base.close()
        assert find("text") == ["c"]

    def test_creating_twice_keeps_what_is_there(self, fill: Fill, folder: Path, find: Find) -> None:
        fill({"c": "text"})
        LocalBase.open(folder, create=True).close()
        assert find("text") == ["c"]

    def test_not_a_database(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "base.sqlite3").write_bytes(b"no database at all " * 100)
        with pytest.raises(StoreCorrupt, match="damaged"):
            LocalBase.open(folder)

    def test_another_analyser(self, fill: Fill, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fill({"c": "text"})
        monkeypatch.setattr("context_engine.adapters.sources.local.index.INDEX_VERSION", "99")
        with LocalBase.open(folder) as base:
            with pytest.raises(StoreVersionMismatch, match="context-engine kb rebuild"):
                base.search("text", source_id="sop", top_k=1)
            assert base.stats().index_generation is None
            base.rebuild()
            assert len(base.search("text", source_id="sop", top_k=1)) == 1
            assert base.stats().analyser_version == "99"

    def test_what_an_older_analyser_indexed_is_refused_until_it_is_rebuilt(
        self, fill: Fill, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as older:
            older.setattr("context_engine.adapters.sources.local.index.INDEX_VERSION", "1.2")
            fill({"c": "NPA\u2011001 text"})
        with LocalBase.open(folder) as base:
            with pytest.raises(StoreVersionMismatch, match=r"1\.2.*context-engine kb rebuild"):
                base.search("NPA-001", source_id="sop", top_k=1)
            base.rebuild()
            assert [chunk.chunk_id for chunk in base.search("NPA-001", source_id="sop", top_k=1)] == ["c"]

    def test_another_schema(self, fill: Fill, folder: Path) -> None:
        fill({"c": "text"})
        with sqlite3.connect(folder / "base.sqlite3") as connection:
            connection.execute("PRAGMA user_version = 7")
        with pytest.raises(StoreVersionMismatch, match="version 7"):
            LocalBase.open(folder)
        with pytest.raises(StoreVersionMismatch, match="version 7"):
            LocalBase(folder).writer()

    def test_a_damaged_row(self, fill: Fill, base: LocalBase, folder: Path, find: Find) -> None:
        fill({"c": "text"})
        with sqlite3.connect(folder / "base.sqlite3") as connection:
            connection.execute("UPDATE chunks SET fields = '{'")
        with pytest.raises(StoreCorrupt, match="context-engine kb verify"):
            find("text")
        assert not base.verify().ok

    def test_a_lost_index(self, fill: Fill, base: LocalBase, folder: Path, find: Find) -> None:
        fill({"c": "text"})
        base.close()
        shutil.rmtree(folder / "index-1")
        with pytest.raises(StoreCorrupt, match="context-engine kb rebuild"):
            find("text")
        base.rebuild()
        assert find("text") == ["c"]


class TestStats:
    def test_counts(self, fill: Fill, base: LocalBase, folder: Path) -> None:
        fill({"a": "text", "b": "text"}, source_id="s1")
        fill({"c": "text"}, source_id="s2")
        stats = base.stats()
        assert stats.sources == {"s1": SourceStats(2, 2), "s2": SourceStats(1, 1)}
        assert (stats.documents, stats.chunks) == (3, 3)
        assert (stats.generation, stats.index_generation, stats.lag) == (2, 2, 0)
        assert (stats.schema_version, stats.analyser_version) == (5, INDEX_VERSION)
        assert stats.bytes == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        assert (stats.model_id, stats.dimension, stats.vector_form, stats.embedded, stats.cells) == (
            None,
            0,
            None,
            0,
            0,
        )


class TestReadingWhileWriting:
    def test_uncommitted_is_unseen(self, fill: Fill, base: LocalBase, find: Find) -> None:
        fill({"a": "old text"})
        with base.writer() as writer:
            writer.put("sop", "doc-b", "", "h", [Chunk(content="new text", chunk_id="b")])
            writer.delete("sop", "doc-a", "")
            assert find("text") == ["a"]
            writer.commit()
            assert find("text") == ["b"]

    def test_a_lagging_index_answers_from_its_own_moment(
        self, fill: Fill, base: LocalBase, find: Find, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill({"a": "old text", "b": "other text"})
        with monkeypatch.context() as patch:
            patch.setattr("context_engine.adapters.sources.local.index_sync.PartitionIndex.stage", _broken_disk)
            with pytest.raises(StoreError, match="disk full"), base.writer() as writer:
                writer.put("sop", "doc-a", "", "h2", [Chunk(content="new words", chunk_id="a")])
                writer.delete("sop", "doc-b", "")
        answer = base.answer("text", top_k=5, scope=Scope(source_id="sop"))
        assert {chunk.content for chunk in answer.chunks} == {"old text", "other text"}
        assert [notice.code for notice in answer.notices] == ["index_lag"]
        assert base.stats().lag == 1
        assert not base.verify().ok
        base.writer().close()
        assert find("text") == [] and find("words") == ["a"]
        assert base.stats().lag == 0 and base.verify().ok

    def test_hits_whose_rows_are_gone_are_replaced(self, fill: Fill, base: LocalBase, folder: Path, find: Find) -> None:
        fill({str(n): f"limit {'word ' * n}" for n in range(20)})
        best = find("limit", top_k=5)
        with sqlite3.connect(folder / "base.sqlite3") as connection:
            connection.executemany("DELETE FROM chunks WHERE chunk_id = ?", [(name,) for name in best])
        assert find("limit", top_k=5) == find("limit", top_k=20)[:5]
        assert len(find("limit", top_k=20)) == 15

    def test_many_threads(self, fill: Fill, base: LocalBase) -> None:
        fill({str(n): f"limit number {n}" for n in range(50)})

        def ask(n: int) -> str:
            return base.search(f"number {n}", source_id="sop", top_k=1)[0].chunk_id

        with ThreadPoolExecutor(8) as pool:
            asked = pool.map(ask, list(range(50)) * 4)
            with base.writer() as writer:
                for n in range(5):
                    writer.put("sop", f"more-{n}", "", "h", [Chunk(content="something else", chunk_id=f"m{n}")])
                    writer.commit()
            assert list(asked) == [str(n) for n in range(50)] * 4


def _broken_disk(*_: object) -> None:
    raise OSError("disk full")


class TestChunksOfASource:
    def test_every_chunk_of_a_source_and_of_it_alone(self, base: LocalBase) -> None:
        with base.writer() as writer:
            writer.put("sop", "A", "", "h", [Chunk(content="one", chunk_id="a1"), Chunk(content="two", chunk_id="a2")])
            writer.put("sop", "B", "", "h", [Chunk(content="three", chunk_id="b1", metadata={"defines": ["NPA"]})])
            writer.put("web", "C", "", "h", [Chunk(content="four", chunk_id="c1")])
        held = {chunk.chunk_id: chunk for chunk in base.chunks("sop")}
        assert {name: chunk.content for name, chunk in held.items()} == {"a1": "one", "a2": "two", "b1": "three"}
        assert held["b1"].metadata == {"defines": ["NPA"]}
        assert held["b1"] == base.get("sop", "b1")
        assert list(base.chunks("unknown")) == []

    def test_what_was_replaced_is_not_among_them(self, base: LocalBase) -> None:
        with base.writer() as writer:
            writer.put("sop", "A", "", "h1", [Chunk(content="old", chunk_id="old")])
        with base.writer() as writer:
            writer.put("sop", "A", "", "h2", [Chunk(content="new", chunk_id="new")])
        assert [chunk.chunk_id for chunk in base.chunks("sop")] == ["new"]

    def test_where_there_is_no_base_that_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="there is no knowledge base"):
            list(LocalBase(tmp_path / "none").chunks("sop"))


def test_equal_values_are_one_json_text_and_dates_are_iso() -> None:
    day = date(2026, 3, 2)
    text = '{"a":"2026-03-02","b":[1,"ü"]}'
    assert canonical({"b": [1, "ü"], "a": day}) == canonical({"a": day, "b": [1, "ü"]}) == text
    for value in (float("nan"), {"a": object()}):
        with pytest.raises((TypeError, ValueError)):
            canonical(value)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (sqlite3.SQLITE_BUSY, "try again"),
        (sqlite3.SQLITE_FULL, "make room"),
        (sqlite3.SQLITE_READONLY, "kb repartition"),
        (sqlite3.SQLITE_READONLY_DBMOVED, "kb repartition"),  # 1032 = 4 * 256 + 8: the lowest byte is the plain code
        (sqlite3.SQLITE_IOERR_READ, "check the disk"),
        (sqlite3.SQLITE_CANTOPEN, "correct its permissions"),
        (sqlite3.SQLITE_CORRUPT, "is damaged"),
        (sqlite3.SQLITE_CORRUPT_VTAB, "is damaged"),
        (sqlite3.SQLITE_NOTADB, "is damaged"),
        (None, "correct its permissions"),
    ],
)
def test_each_error_of_the_database_says_what_to_do(code: int | None, advice: str, tmp_path: Path) -> None:
    error = sqlite3.OperationalError("no good")
    if code is not None:
        error.sqlite_errorcode = code
    assert advice in str(unusable(tmp_path, error))


def test_sixteen_connections_are_kept_open_between_searches(base: LocalBase, folder: Path) -> None:
    pool = Pool(folder)
    for count, kept in ((15, 15), (17, 16)):
        with ExitStack() as lent:
            for _ in range(count):
                lent.enter_context(pool.snapshot())
            assert pool._idle == []
        assert len(pool._idle) == kept
    pool.close()
    assert pool._idle == []


@pytest.mark.slow
def test_a_base_that_may_not_be_entered_is_named_and_not_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LocalBase.open(folder, create=True).close()

    def refused(*_: object, **__: object) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", refused)  # root may enter every folder
    with pytest.raises(StoreError, match=r"cannot be reached \(Permission denied\): let the user who runs this enter"):
        LocalBase(folder).exists()
    with pytest.raises(StoreError, match=r"cannot be reached \(Permission denied\)"):
        LocalBase.open(folder)


def test_a_base_without_an_embedder_needs_no_numpy(folder: Path) -> None:
    """Everything is written, found and counted where it cannot be imported."""
    program = """
import sys
sys.modules["numpy"] = None
from pathlib import Path
from context_engine.adapters.sources.local import LocalBase
from context_engine.core.models import Chunk
with LocalBase.open(Path(sys.argv[1]), create=True) as base:
    with base.writer() as writer:
        writer.put("sop", "doc", "", "1", [Chunk(content="The limit of the desk.", chunk_id="a")])
    print([chunk.chunk_id for chunk in base.search("limit", source_id="sop", top_k=3)], base.stats().chunks)
"""
    run = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("['a'] 1\n", "")


@pytest.mark.parametrize(("write", "synchronous", "foreign_keys"), [(True, 2, 1), (False, 2, 0)])
def test_connections_wait_ten_seconds_and_those_of_writers_lose_no_commit(
    base: LocalBase, fill: Fill, folder: Path, write: bool, synchronous: int, foreign_keys: int
) -> None:
    fill({"a": "x"})
    with closing(connect(folder, write=write)) as connection:
        values = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("busy_timeout", "journal_mode", "synchronous", "foreign_keys")
        ]
        assert values == [10_000, "wal", synchronous, foreign_keys]
        if not write:
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                connection.execute("DELETE FROM chunks")
