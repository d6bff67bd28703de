"""A base with an embedder: vectors live and die with the rows, and are merged with the text."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from math import log
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase, LocalSource, SearchOptions
from context_engine.adapters.sources.stores.query_vectors import passages
from context_engine.core.models import Chunk, Condition, Not, ScoreKind, SourceQuery
from context_engine.errors import ConfigError, EmbedderError, StoreCorrupt, StoreVersionMismatch
from context_engine.testing.fakes import FakeEmbedder


class Counting(FakeEmbedder):
    """Counts the texts it embeds; fails while `broken`."""

    def __init__(self, dimension: int = 64) -> None:
        super().__init__(dimension)
        self.texts = 0
        self.broken = False

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if self.broken:
            raise EmbedderError("the model is away")
        self.texts += len(texts)
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> Sequence[float]:
        if self.broken:
            raise EmbedderError("the model is away")
        return super().embed_query(text)


@pytest.fixture
def embedder() -> Counting:
    return Counting()


@pytest.fixture
def hybrid(folder: Path, embedder: Counting) -> Iterator[LocalBase]:
    with LocalBase.open(folder, create=True, embedder=embedder) as base:
        yield base


Put = Callable[..., None]


@pytest.fixture
def put(hybrid: LocalBase) -> Put:
    """Writes {chunk_id: text or Chunk}, each as a document of its own, in one commit."""

    def write(chunks: dict[str, str | Chunk], source_id: str = "sop") -> None:
        with hybrid.writer() as writer:
            for name, given in chunks.items():
                chunk = given if isinstance(given, Chunk) else Chunk(content=given)
                writer.put(source_id, f"doc-{name}", "", chunk.content, [chunk._replace(chunk_id=name)])

    return write


def ids(base: LocalBase, text: str, **scope: object) -> list[str]:
    return [chunk.chunk_id for chunk in base.search(text, source_id="sop", top_k=10, **scope)]  # type: ignore[arg-type]


class TestScores:
    def test_each_candidate_has_both_true_scores_and_the_merged_one(self, hybrid: LocalBase, put: Put) -> None:
        put({"a": "limit of the desk", "b": "haircut table", "c": "desk opening hours"})
        found = {chunk.chunk_id: chunk for chunk in hybrid.search("desk limit", source_id="sop", top_k=3)}
        assert next(iter(found)) == "a"
        a = found["a"]
        text, cosine = a.score(ScoreKind.BM25), a.score(ScoreKind.COSINE)
        assert text is not None and cosine is not None
        assert cosine == pytest.approx(1.0)  # both texts are the terms desk and limit
        kept = LocalBase(hybrid.path).search("desk limit", source_id="sop", top_k=1)[0]
        assert kept.score(ScoreKind.BM25) == pytest.approx(text)
        assert found["b"].score(ScoreKind.BM25) == 0.0

    def test_the_weighted_score_is_its_arithmetic(self, hybrid: LocalBase, put: Put) -> None:
        hybrid.options = SearchOptions(section_weight=0.0, sibling_weight=0.0, keyword_weight=0.3, vector_weight=0.7)
        put({"a": "limit of the desk", "b": "desk opening hours"})
        a, b = hybrid.search("desk limit", source_id="sop", top_k=2)
        best = a.score(ScoreKind.BM25)
        assert best is not None
        for chunk in (a, b):
            text, cosine, whole = (chunk.score(kind) for kind in (ScoreKind.BM25, ScoreKind.COSINE, ScoreKind.WEIGHTED))
            assert text is not None and cosine is not None
            assert whole == pytest.approx(0.3 * text / best + 0.7 * cosine)

    def test_scores_of_sources_of_one_base_are_comparable(self, hybrid: LocalBase, put: Put) -> None:
        put({"a": "limit of the desk"}, source_id="sop")
        put({"b": "desk opening hours"}, source_id="web")
        (a,) = hybrid.search("desk limit", source_id="sop", top_k=1)
        (b,) = hybrid.search("desk limit", source_id="web", top_k=1)
        scorers = [{score.kind: score.scorer for score in chunk.scores} for chunk in (a, b)]
        assert scorers[0] == scorers[1]
        weighted = a.score(ScoreKind.WEIGHTED), b.score(ScoreKind.WEIGHTED)
        assert weighted[0] is not None and weighted[1] is not None and weighted[0] > weighted[1]

    def test_ranks_of_sources_are_not(self, hybrid: LocalBase, put: Put) -> None:
        hybrid.options = SearchOptions(merge_method="rrf")
        put({"a": "limit of the desk"}, source_id="sop")
        put({"b": "desk opening hours"}, source_id="web")
        (a,) = hybrid.search("desk limit", source_id="sop", top_k=1)
        (b,) = hybrid.search("desk limit", source_id="web", top_k=1)
        assert a.score(ScoreKind.RRF) == b.score(ScoreKind.RRF) == 1 / 61 + 1 / 61
        assert a.scores[0].scorer != b.scores[0].scorer

    def test_what_only_the_vector_finds(self, hybrid: LocalBase, put: Put) -> None:
        """By stop words alone nothing can be found in the text."""
        put({"a": "limit of the desk"})
        assert ids(hybrid, "what is it") == ["a"]
        assert LocalBase(hybrid.path).search("what is it", source_id="sop", top_k=1) == []

    def test_a_code_is_matched_exactly_and_ranks_first(self, hybrid: LocalBase, put: Put) -> None:
        put({f"n{number}": f"MAS Notice {number} on the same subject" for number in range(630, 645)})
        put({"cites": "See MAS Notice and other MAS Notice, MAS Notice"})
        hybrid.options = SearchOptions(keyword_weight=0.05, vector_weight=0.95)
        assert ids(hybrid, "MAS Notice 637")[0] == "n637"

    @pytest.mark.parametrize("code", ["4.2.1(b)", "NPA-001", "section 4.2"])
    def test_clauses_and_section_numbers_rank_first(self, hybrid: LocalBase, put: Put, code: str) -> None:
        near = {"4.2.1(b)": "4.2.1(c)", "NPA-001": "NPA-010", "section 4.2": "section 4.3"}[code]
        put({"near": f"{near} approval approval of a product", "it": f"{code} approval"})
        assert ids(hybrid, code)[0] == "it"

    def test_a_weighted_score_is_halved_towards_1_with_the_codes_and_towards_0_without(
        self, hybrid: LocalBase, put: Put
    ) -> None:
        hybrid.options = SearchOptions(section_weight=0.0, sibling_weight=0.0)
        put({"near": "IFRS 16 and IFRS, IFRS, on leases", "it": "Impairment under IFRS 9 of the desk"})
        it, near = hybrid.search("IFRS 9", source_id="sop", top_k=2)
        assert (it.chunk_id, near.chunk_id) == ("it", "near")
        assert it.score(ScoreKind.WEIGHTED) == pytest.approx((by_hand(it, best=it) + 1.0) / 2.0)
        assert near.score(ScoreKind.WEIGHTED) == pytest.approx(by_hand(near, best=it) / 2.0)

    def test_the_codes_add_to_a_score_of_ranks_and_take_nothing_from_others(self, hybrid: LocalBase, put: Put) -> None:
        """In both rankings the one is first, the other second."""
        hybrid.options = SearchOptions(merge_method="rrf")
        put({"near": "IFRS 16 and IFRS, IFRS, on leases", "it": "Impairment under IFRS 9 of the desk"})
        found = hybrid.search("IFRS 9", source_id="sop", top_k=2)
        scores = {one.chunk_id: one.score(ScoreKind.RRF) for one in found}
        assert scores == {"it": pytest.approx(2 / 61 + 2 / 61), "near": 2 / 62}

    def test_codes_that_nothing_in_the_base_holds_change_no_score(self, hybrid: LocalBase, put: Put) -> None:
        hybrid.options = SearchOptions(section_weight=0.0, sibling_weight=0.0)
        put({"near": "IFRS 16 and IFRS, IFRS, on leases", "other": "Impairment under IFRS 9 of the desk"})
        found = hybrid.search("IFRS 17", source_id="sop", top_k=2)
        best = max(found, key=lambda one: one.score(ScoreKind.BM25) or 0.0)
        held = log(1.2) / (log(1.2) + log(6.0))  # both texts hold IFRS, none holds 17
        assert [one.score(ScoreKind.WEIGHTED) for one in found] == [
            pytest.approx(by_hand(one, best=best, trust=held**4)) for one in found
        ]

    def test_a_code_that_another_source_holds_lowers_the_scores_of_both(self, hybrid: LocalBase, put: Put) -> None:
        """They stay comparable over the sources of one base."""
        hybrid.options = SearchOptions(section_weight=0.0, sibling_weight=0.0)
        put({"near": "IFRS 16 and IFRS, IFRS, on leases"}, source_id="web")
        put({"it": "Impairment under IFRS 9 of the desk"})
        (it,) = hybrid.search("IFRS 9", source_id="sop", top_k=1)
        (near,) = hybrid.search("IFRS 9", source_id="web", top_k=1)
        assert near.score(ScoreKind.WEIGHTED) == pytest.approx(by_hand(near, best=it) / 2.0)


def by_hand(chunk: Chunk, *, best: Chunk, trust: float = 1.0) -> float:
    """The weighted score of weights .5 and .5 from the two true scores."""
    text, highest, cosine = chunk.score(ScoreKind.BM25), best.score(ScoreKind.BM25), chunk.score(ScoreKind.COSINE)
    assert text is not None and highest is not None and cosine is not None
    return 0.5 * trust * text / highest + 0.5 * max(cosine, 0.0)


class TestScope:
    def test_filters_hold_for_vectors(self, hybrid: LocalBase, put: Put) -> None:
        put({f"c{n}": Chunk(content=f"limit {n}", metadata={"desk": n % 3}) for n in range(30)})
        assert set(ids(hybrid, "limit", filters=Condition("desk", "eq", 1))) <= {f"c{n}" for n in range(1, 30, 3)}
        assert len(ids(hybrid, "what is it", filters=Condition("desk", "eq", 2))) == 10

    def test_a_filter_that_the_index_cannot_answer(self, hybrid: LocalBase, put: Put) -> None:
        put({f"c{n}": f"limit {n}" for n in range(150)})
        assert ids(hybrid, "limit", filters=Condition("chunk_id", "eq", "c77")) == ["c77"]
        assert len(ids(hybrid, "limit", filters=Not(Condition("chunk_id", "eq", "c77")))) == 10

    def test_the_day_holds_for_vectors(self, hybrid: LocalBase, put: Put) -> None:
        put(
            {
                "old": Chunk(content="limit", effective_to=date(2025, 1, 1)),
                "now": Chunk(content="limit", effective_from=date(2025, 1, 1)),
                "always": Chunk(content="limit"),
            }
        )
        assert set(ids(hybrid, "what is it", as_of=date(2025, 6, 1))) == {"now", "always"}
        assert set(ids(hybrid, "what is it", as_of=date(2024, 6, 1))) == {"old", "always"}

    def test_other_sources_stay_out(self, hybrid: LocalBase, put: Put) -> None:
        put({"mine": "haircut"}, source_id="sop")
        put({f"web{n}": "limit of the desk" for n in range(20)}, source_id="web")
        assert ids(hybrid, "limit of the desk") == ["mine"]


class TestWriting:
    def test_replaced_and_deleted_documents_take_their_vectors_along(self, hybrid: LocalBase, put: Put) -> None:
        put({"a": "limit", "b": "haircut"})
        put({"a": "buffer"})
        with hybrid.writer() as writer:
            writer.delete("sop", "doc-b", "")
        (only,) = hybrid.search("limit", source_id="sop", top_k=5)
        assert (only.content, only.score(ScoreKind.COSINE)) == ("buffer", 0.0)
        stats = hybrid.stats()
        assert (stats.chunks, stats.embedded, stats.model_id, stats.dimension) == (1, 1, "fake-64", 64)
        assert hybrid.verify().ok

    def test_what_was_not_committed_has_no_vectors(self, hybrid: LocalBase, put: Put) -> None:
        put({"a": "limit"})
        writer = hybrid.writer()
        writer.put("sop", "d", "", "h", [Chunk(content=f"text {n}", chunk_id=f"t{n}") for n in range(300)])
        writer.rollback()
        writer.put("sop", "e", "", "h", [Chunk(content="buffer", chunk_id="e")])
        writer.commit()
        writer.close()
        assert hybrid.stats().embedded == hybrid.stats().chunks == 2 and hybrid.verify().ok

    def test_unchanged_documents_are_not_embedded_again(self, hybrid: LocalBase, put: Put, embedder: Counting) -> None:
        put({"a": "limit", "b": "haircut"})
        put({"a": "limit", "b": "haircut"})
        assert embedder.texts == 2

    def test_a_model_that_fails_loses_nothing(self, hybrid: LocalBase, put: Put, embedder: Counting) -> None:
        put({"a": "limit"})
        embedder.broken = True
        with pytest.raises(EmbedderError, match="away"):
            put({"b": "haircut"})
        embedder.broken = False
        assert ids(hybrid, "what is it") == ["a"]
        put({"b": "haircut"})
        assert set(ids(hybrid, "what is it")) == {"a", "b"}

    def test_a_base_of_text_is_embedded_by_the_next_ingestion(self, folder: Path, embedder: Counting) -> None:
        with LocalBase.open(folder, create=True) as plain, plain.writer() as writer:
            writer.put("sop", "d", "", "h", [Chunk(content="limit", chunk_id="a")])
        with LocalBase.open(folder, embedder=embedder) as base:
            source = LocalSource(base, "sop")
            answer = source.search(SourceQuery(text="limit", domain="NPA", top_k=1))
            assert "no_vectors" in {notice.code for notice in answer.notices}
            assert answer.chunks[0].score(ScoreKind.BM25) is not None
            with base.writer() as writer:
                assert writer.put("sop", "d", "", "h", []) is False
            answer = source.search(SourceQuery(text="limit", domain="NPA", top_k=1))
            assert answer.notes == () and answer.chunks[0].score(ScoreKind.COSINE) == pytest.approx(1.0)

    def test_long_texts_are_embedded_in_windows(self, hybrid: LocalBase, put: Put, embedder: Counting) -> None:
        text = " ".join(f"word{n}" for n in range(700)) + " haircut buffer"
        windows = passages(Chunk(content=text))
        assert len(windows) == 3 and windows[0].startswith("word0 ") and windows[-1].endswith("haircut buffer")
        assert all(window in text for window in windows)
        put({"long": text, "short": "something else"})
        assert embedder.texts == 4
        assert ids(hybrid, "buffer haircut")[0] == "long"

    def test_windows_of_text_without_spaces(self) -> None:
        windows = passages(Chunk(content="規則" * 300))
        assert [len(window) for window in windows] == [350, 300]


class TestAnotherModel:
    def test_searching_and_writing_are_refused_until_a_rebuild(self, hybrid: LocalBase, put: Put, folder: Path) -> None:
        put({"a": "limit", "b": "haircut"})
        other = Counting(32)
        with LocalBase.open(folder, embedder=other) as base:
            with pytest.raises(StoreVersionMismatch, match=r"'fake-64'.*'fake-32'.*kb rebuild"):
                base.search("limit", source_id="sop", top_k=1)
            with pytest.raises(StoreVersionMismatch, match="kb rebuild"):
                base.writer()
            assert base.rebuild() == 0
            assert other.texts == 2
            assert (base.stats().model_id, base.stats().dimension, base.stats().embedded) == ("fake-32", 32, 2)
            assert ids(base, "limit")[0] == "a" and base.verify().ok

    def test_a_rebuild_without_an_embedder_keeps_the_vectors(self, hybrid: LocalBase, put: Put, folder: Path) -> None:
        put({"a": "limit"})
        with LocalBase.open(folder) as plain:
            plain.rebuild()
            assert plain.stats().embedded == 1
        assert hybrid.search("limit", source_id="sop", top_k=1)[0].score(ScoreKind.COSINE) == pytest.approx(1.0)


class TestDamage:
    @pytest.fixture
    def alter(self, hybrid: LocalBase, put: Put, folder: Path) -> Callable[[str], None]:
        put({f"c{n}": f"limit {n}" for n in range(6)})

        def run(statement: str) -> None:
            hybrid.close()
            with sqlite3.connect(folder / "base.sqlite3") as connection:
                connection.execute(statement)

        return run

    def test_changed_vectors_are_found_and_embedded_anew(
        self, hybrid: LocalBase, alter: Callable[[str], None], embedder: Counting
    ) -> None:
        alter("UPDATE vectors SET vector = zeroblob(length(vector)) WHERE rid = 2")
        assert "chunk row 2 has damaged vectors: run 'context-engine kb rebuild'" in hybrid.verify().problems
        before = embedder.texts
        hybrid.rebuild()
        assert hybrid.verify().ok and embedder.texts == before + 1
        assert hybrid.search("limit 1", source_id="sop", top_k=1)[0].score(ScoreKind.COSINE) == pytest.approx(1.0)

    @pytest.mark.parametrize("blob", ["x'0102030405'", "zeroblob(length(vector) + 4)", "'text'"])
    def test_vectors_of_another_length_are_named_with_their_row(
        self, hybrid: LocalBase, alter: Callable[[str], None], blob: str
    ) -> None:
        alter(f"UPDATE vectors SET vector = {blob} WHERE rid = 2")
        with pytest.raises(
            StoreCorrupt, match=r"^chunk row 2 in .* has damaged vectors: run 'context-engine kb rebuild'$"
        ):
            hybrid.search("limit 1", source_id="sop", top_k=1)
        said = "\n".join(hybrid.verify().problems)
        assert "chunk row 2 has damaged vectors: run 'context-engine kb rebuild'" in said and "reshape" not in said
        hybrid.rebuild()
        assert hybrid.verify().ok

    def test_lost_vectors_are_found_and_come_back(self, hybrid: LocalBase, alter: Callable[[str], None]) -> None:
        alter("DELETE FROM vectors WHERE rid = 3")
        assert "chunk row 3 has no vectors" in hybrid.verify().problems[0]
        with hybrid.writer():
            pass
        assert hybrid.verify().ok


def test_the_engine_is_told_when_the_model_is_away(hybrid: LocalBase, put: Put, embedder: Counting) -> None:
    put({"a": "limit of the desk"})
    embedder.broken = True
    answer = LocalSource(hybrid, "sop").search(SourceQuery(text="limit", domain="NPA", top_k=1))
    assert [chunk.chunk_id for chunk in answer.chunks] == ["a"]
    assert [score.kind for score in answer.chunks[0].scores] == [ScoreKind.BM25]
    (failure,) = answer.failures
    assert "no search by vectors: the model is away" in str(failure) and failure.source_id == "sop"


def test_the_kinds_of_score_a_source_says_it_gives(hybrid: LocalBase, folder: Path) -> None:
    assert LocalSource(hybrid, "sop").score_kinds == {ScoreKind.BM25, ScoreKind.COSINE, ScoreKind.WEIGHTED}
    assert LocalSource(LocalBase(folder), "sop").score_kinds == {ScoreKind.BM25}


def test_very_many_vectors_are_parted_and_found_alike(folder: Path, embedder: Counting) -> None:
    """Few is many enough here: cells from 60 rows on, and all rows are found through them."""
    near = SearchOptions(approximate_from=60, probe=0.3)
    with LocalBase.open(folder, create=True, embedder=embedder, options=near) as base:
        for start in (0, 50, 100):
            with base.writer() as writer:
                for n in range(start, start + 50):
                    writer.put("sop", f"d{n}", "", "h", [Chunk(content=f"limit of desk{n % 10} and book{n}")])
        assert base.stats().cells == 40, "parted at 100 rows: four times the root of that"
        with base.writer() as writer:
            writer.delete("sop", "d7", "")
        cells = [chunk.content for chunk in base.search("book42", source_id="sop", top_k=1)]
        exact = LocalBase(folder, embedder=embedder, options=SearchOptions(approximate_from=10_000, probe=0.3))
        assert cells == [chunk.content for chunk in exact.search("book42", source_id="sop", top_k=1)]
        found = base.search("limit", source_id="sop", top_k=1000)
        assert len(found) == 149 and base.verify().ok
        exact.close()


def test_without_numpy_an_embedder_is_refused(
    folder: Path, embedder: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "numpy", None)
    for name in ("matrix", "loading", "cells"):
        monkeypatch.delitem(sys.modules, f"context_engine.adapters.sources.local.{name}", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'dify-context-engine\[vectors\]'"):
        LocalBase(folder, embedder=embedder)
    with LocalBase.open(folder, create=True) as base:
        assert base.search("limit", source_id="sop", top_k=1) == []
