"""Search by text: as the embedded base does it, and by BM25 in the server where its extension is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.postgres import connection
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.core.models import AccessRule, AccessScope, Chunk, ExaminationRequest, SourceQuery, UnknownWord
from context_engine.errors import SourceUnavailable
from context_engine.testing import FakeEmbedder
from tests.postgresql_server import PostgresqlServer, programs_with
from tests.postgresql_store import Store

pytestmark = pytest.mark.slow
DOCUMENTS = {
    "notice": [
        Chunk(content="Large exposures are reported every quarter.", title="Notice 637", section="1"),
        Chunk(content="A collateral haircut applies to each exposure.", title="Notice 637", section="2"),
    ],
    "policy": [
        Chunk(
            content="Collateral means an asset pledged against an exposure.",
            title="Policy",
            metadata={"defines": ["collateral"]},
        ),
        Chunk(content="The committee approves collateral above the limit.", title="Limits of collateral"),
    ],
    "letters": [
        Chunk(content="Notice of leave is given in writing, and notice of return too.", title="Leave"),
        Chunk(content="The approved collateral is reviewed by the committee every year.", title="Review"),
    ],
}


def fill(sink: Any) -> None:
    for name, chunks in DOCUMENTS.items():
        numbered = [chunk._replace(chunk_id=f"{name}-{place}") for place, chunk in enumerate(chunks)]
        sink.put("notes", name, "", "1", numbered)


def asked(source: Any, text: str, **fields: Any) -> Any:
    return source.search(SourceQuery(text=text, domain="NPA", top_k=10, **fields))


def ids(chunks: Any) -> list[str]:
    return [chunk.chunk_id for chunk in chunks]


@pytest.mark.parametrize(
    ("question", "settings"),
    [
        ("collateral", {"title_boost": 0.5}),
        ("what is collateral", {"definition_boost": 0.5}),
        ("collateral haircut exposure", {"neighbour_weight": 0.3}),
        ("Notice 637", {}),
        ("quarterly notice 637", {"merge_method": "rrf"}),
    ],
)
def test_a_question_has_the_order_of_the_embedded_base(
    vector_store: Any, tmp_path: Path, question: str, settings: dict[str, Any]
) -> None:
    settings = {"section_weight": 0.0, **settings}
    embedder = FakeEmbedder(64)
    with LocalBase.open(
        tmp_path, create=True, embedder=embedder, options=SearchOptions.model_validate(settings)
    ) as base:
        with base.writer() as writer:
            fill(writer)
        expected = ids(base.search(question, source_id="notes", top_k=10))
    store = Store(vector_store.dsn, embedder, **settings)
    with store.sink() as writer:
        fill(writer)
    assert ids(asked(store.source(), question).chunks)[:3] == expected[:3]


def test_a_misspelt_word_gets_the_nearest_of_its_source(store: Any) -> None:
    with store.sink(store.spec(), store.spec("other")) as sink:
        fill(sink)
        sink.put("other", "d", "", "1", [Chunk(content="Colateral is a misspelling.")])
    found = asked(store.source(), "Which colaterals has the committee aproved?").unknown_words
    assert found == (UnknownWord("colaterals", "collateral"), UnknownWord("aproved", "approved"))


def test_a_word_of_a_removed_text_is_not_suggested(store: Any) -> None:
    with store.sink() as sink:
        fill(sink)
        sink.put("notes", "old", "", "1", [Chunk(content="The haircuts are revised.")])
    assert asked(store.source(), "haircutss").unknown_words == (UnknownWord("haircutss", "haircuts"),)
    with store.sink() as sink:
        sink.delete("notes", "old", "")
    assert asked(store.source(), "haircutss").unknown_words == (UnknownWord("haircutss", "haircut"),)


def test_a_hidden_text_suggests_no_word(store: Any) -> None:
    specs = [store.spec(), store.spec("board", access=AccessRule(roles=("board",)))]
    with store.sink(*specs, rules_of=lambda name: "board" if name == "board" else "") as sink:
        fill(sink)
        sink.put("board", "d", "", "1", [Chunk(content="The merger is secret.")])
    source = store.source()
    assert asked(source, "mergre", access=AccessScope()).unknown_words == (UnknownWord("mergre", ""),)


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
