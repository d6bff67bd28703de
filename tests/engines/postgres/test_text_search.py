"""Search by text: as the embedded base does it, and by BM25 in the server where its extension is."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import psycopg
import pytest

from context_engine.adapters.sources.postgres import bm25, connection, search
from context_engine.adapters.sources.postgres.attributes import holding_all
from context_engine.adapters.sources.postgres.search import _BEST, _SOME
from context_engine.core.models import AccessRule, Chunk, Condition, ExaminationRequest, SourceQuery
from context_engine.errors import SourceUnavailable
from tests.engines.parity import TextParity, asked, fill, ids
from tests.postgresql_server import PostgresqlServer, programs_with
from tests.postgresql_store import Store

pytestmark = pytest.mark.slow


class TestText(TextParity):
    def reopened(self, store: Any, **settings: Any) -> Any:
        return Store(store.dsn, store.embedder, **settings)


def test_rows_are_found_by_bm25_with_the_scores_of_the_package(ranking_server: Any, store: Any) -> None:
    """Also those found by a heading alone, and those written after the index was built first."""
    ranking = Store(ranking_server.dsn("postgres"))
    for each in (ranking, store):
        with each.sink() as sink:
            sink.put("notes", "first", "", "1", [Chunk(content="The first text is about the collateral.")])
        with each.sink() as sink:
            fill(sink)
    for question in ("collateral of the committee", "leave", "limits", "notice 637", "absent"):
        by_rank, by_term = (asked(each.source(), question).chunks for each in (ranking, store))
        assert [(chunk.chunk_id, chunk.scores[0].value) for chunk in by_rank] == [
            (chunk.chunk_id, chunk.scores[0].value) for chunk in by_term
        ]
    methods = [each.source().examine(ExaminationRequest(domain="NPA")).search_method for each in (ranking, store)]
    assert methods == ["BM25 (pg_textsearch)", "tsvector"]


def test_rows_under_a_filter_are_found_by_their_terms(ranking_store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 189 rows that a filter kept the index for BM25 gave 88, in four times the time."""
    with ranking_store.sink() as sink:
        fill(sink)
        sink.put("notes", "rare", "", "1", [Chunk(content="A limit of collateral.", metadata={"desk": 7})])
    asked_for: list[list[int]] = []

    def best_rows(session: Any, terms: Any, keys: list[int], *rest: Any) -> list[int]:
        asked_for.append(list(keys))
        return bm25.best_rows(session, terms, keys, *rest)

    monkeypatch.setattr(search, "best_rows", best_rows)
    query = SourceQuery(text="collateral", domain="NPA", top_k=5)
    source = ranking_store.source()
    assert len(source.search(query).chunks) > 1 and asked_for == [[1]]
    filtered = source.search(replace(query, filters=Condition("desk", "eq", 7)))
    assert [chunk.content for chunk in filtered.chunks] == ["A limit of collateral."]
    assert asked_for == [[1], []]


def test_each_class_has_an_index_of_its_own(ranking_store: Any) -> None:
    specs = [ranking_store.spec(), ranking_store.spec("board", access=AccessRule(roles=("board",)))]
    with ranking_store.sink(*specs, rules_of=lambda name: "board" if name == "board" else "") as sink:
        fill(sink)
        sink.put("board", "d", "", "1", [Chunk(content="The collateral of the merger is secret.")])
    with ranking_store.source().store._servers.reading(5.0) as session:
        rows = session.execute(
            "SELECT tablename, count(*) FROM pg_indexes WHERE schemaname = current_schema()"
            " AND indexdef LIKE '%USING bm25%' GROUP BY tablename ORDER BY tablename"
        ).fetchall()
    assert rows == [("words_1", 1), ("words_2", 1)]


def test_a_changed_class_is_searched_without_its_index_until_that_is_built_anew(ranking_store: Any) -> None:
    with ranking_store.sink() as sink:
        fill(sink)
    with ranking_store.source().store._servers.session(write=True) as session:
        session.execute("UPDATE classes SET ranked = ranked - 1")
    source = ranking_store.source()
    assert source.examine(ExaminationRequest(domain="NPA")).search_method == "tsvector"
    assert ids(asked(source, "haircut").chunks) == ["notice-1"]


def test_a_long_transaction_of_another_session_delays_the_index_only(
    ranking_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ranking_store.sink() as sink:
        sink.put("notes", "first", "", "1", [Chunk(content="The first text.")])
    monkeypatch.setattr(connection, "_WRITES", "SET lock_timeout = '100ms';")
    source = ranking_store.source()
    with psycopg.connect(ranking_store.dsn) as backup:
        backup.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        backup.execute(f"SELECT count(*) FROM {ranking_store.schema}.words")
        with ranking_store.sink() as sink:
            fill(sink)
        assert ids(asked(source, "haircut").chunks) == ["notice-1"]
        assert source.examine(ExaminationRequest(domain="NPA")).search_method == "tsvector"
    with ranking_store.sink():
        pass
    assert source.examine(ExaminationRequest(domain="NPA")).search_method == "BM25 (pg_textsearch)"


@pytest.mark.wording
def test_a_server_without_the_library_is_named() -> None:
    found = programs_with("pg_textsearch")
    if found is None:
        pytest.skip("no PostgreSQL with pg_textsearch here")
    with PostgresqlServer(folder=found, libraries="pg_textsearch") as server:
        server.execute("CREATE EXTENSION pg_textsearch")
        store = Store(server.dsn("postgres"))
        with store.sink() as sink:
            fill(sink)
        server.stop()
        server._libraries = ""
        server.start()
        with pytest.raises(SourceUnavailable, match="add pg_textsearch to shared_preload_libraries"):
            asked(store.source(), "collateral")


def test_whether_a_code_is_there_is_read_from_the_index(store: Any) -> None:
    """Reading the rows one by one until the first has it took a second of 100,000.

    A server reads so if it expects many: here so many words are frequent that it takes each for one of them.
    """
    words = Random(1)
    texts = [f"R-{number} " + " ".join(f"word{words.randrange(1500)}" for _ in range(200)) for number in range(1000)]
    with store.sink() as sink:
        sink.put("notes", "d", "", "1", [Chunk(content=text) for text in texts])
    with store.source().store._servers.reading(5.0) as session:
        session.execute("SET LOCAL cpu_tuple_cost = 0.1")  # as if there were ten times as many rows
        plan = session.execute(f"EXPLAIN (ANALYZE) {_SOME}", ([1], holding_all(["r999"]))).fetchall()
    assert "Bitmap Index Scan" in str(plan)
    assert "Rows Removed by Filter" not in str(plan)


def test_words_are_read_from_the_index_while_a_writer_has_not_committed(store: Any) -> None:
    """A server that counts the pages of waiting entries reads every row: eight times as slowly with 4,000 chunks."""
    texts = [f"Desk {number} has limit R-{number}." for number in range(2000)]
    many = " ".join(f"word{number}" for number in range(500))
    query = _BEST.format(classes="'{1}'", each="1", condition="true")
    with store.sink() as sink:
        sink.put("notes", "d", "", "1", [Chunk(content=text) for text in texts])
        sink.commit()
        sink.put("notes", "e", "", "1", [Chunk(content=f"{number} {many}") for number in range(50)])
        with store.source().store._servers.reading(5.0) as session:
            values = {"lexemes": ["'r7'", "'desk'"], "scores": [1, 1], "pool": 10}
            plan = str(session.execute(f"EXPLAIN {query}".encode(), values).fetchall())
    assert "words_1_terms_idx" in plan and "Seq Scan" not in plan
