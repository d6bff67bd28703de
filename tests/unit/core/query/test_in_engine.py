"""What the engine does with a prepared query: what sources are asked, what the result says, what a replay gives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_engine import recompute
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.engine import Engine
from context_engine.core.engine.recompute import stage_two_bytes
from context_engine.core.models import (
    Chunk,
    Decision,
    Expansion,
    NoticeCode,
    Refinement,
    Score,
    ScoreKind,
    SearchRequest,
    SearchResult,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
    Status,
)
from context_engine.errors import RefinerError, SourceUnavailable

GLOSSARY = {"NPA": ("New Product Approval",)}
TWO_PARTS = "Who approves a new product and when must Compliance be told?"
FIRST, SECOND = "Who approves a new product", "when must Compliance be told"


class Asked:
    """A source that keeps what it was asked, and answers each text as told."""

    score_kinds = frozenset({ScoreKind.BM25})

    def __init__(self, source_id: str, answers: dict[str, list[Chunk] | Exception] | None = None) -> None:
        self.source_id, self.queries = source_id, list[SourceQuery]()
        self._answers = answers or {}

    def search(self, query: SourceQuery) -> SourceAnswer:
        self.queries.append(query)
        answer = self._answers.get(query.text, [])
        if isinstance(answer, Exception):
            raise answer
        return SourceAnswer(chunks=answer)

    def close(self) -> None:
        pass


class Ticks:
    """A clock that goes on only where it is told to."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> datetime:
        return datetime(2026, 3, 2, 10, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


class Refiner:
    """Gives what it is made with, or raises it."""

    name = "made"

    def __init__(self, given: Any) -> None:
        self.given, self.asked = given, list[tuple[str, str]]()

    def refine(self, query: str, language: str) -> Refinement:
        self.asked.append((query, language))
        if isinstance(self.given, Exception):
            raise self.given
        answer: Refinement = self.given
        return answer


Make = Callable[..., Engine]


def search(engine: Engine, query: str, **settings: Any) -> SearchResult:
    return engine.search(SearchRequest(query=query, domain="NPA", overrides=settings))


def bm25(chunk_id: str, score: float) -> Chunk:
    text = f"Rule {chunk_id} on who approves a new product and when Compliance is told."
    return Chunk(content=text, chunk_id=chunk_id, scores=(Score(ScoreKind.BM25, score, "s"),))


def test_sources_are_asked_for_the_cleaned_text_with_its_expansions(make_engine: Make) -> None:
    source = Asked("t2")
    result = search(make_engine([(2, source)], domain_fields={"glossary": GLOSSARY}), " NPA\u2011001 of  the NPA ")
    [query] = source.queries
    assert query.text == "NPA-001 of the NPA"
    assert query.expansions == (Expansion("NPA", "New Product Approval", 1.0, "glossary"),)
    assert result.query == " NPA\u2011001 of  the NPA "
    assert result.prepared is not None
    assert (result.prepared.text, result.prepared.codes) == ("NPA-001 of the NPA", ("NPA-001",))
    assert result.to_dict()["searched"]["expansions"] == [
        {"term": "NPA", "text": "New Product Approval", "weight": 1.0, "by": "glossary"}
    ]


def test_expansion_can_be_switched_off(make_engine: Make) -> None:
    source = Asked("t2")
    engine = make_engine([(2, source)], domain_fields={"glossary": GLOSSARY})
    search(engine, "NPA", query_expansion=False)
    assert source.queries[0].expansions == ()


def test_one_question_is_one_call_unless_parts_are_asked_for(make_engine: Make) -> None:
    source = Asked("t2")
    engine = make_engine([(2, source)])
    search(engine, TWO_PARTS)
    assert [query.text for query in source.queries] == [TWO_PARTS]
    search(engine, TWO_PARTS, multi_query=True)
    assert sorted(query.text for query in source.queries[1:]) == sorted([TWO_PARTS, FIRST, SECOND])


class TestParts:
    def engine(self, make_engine: Make, answers: dict[str, list[Chunk] | Exception]) -> Engine:
        return make_engine([(2, Asked("t2", answers))])

    def test_the_answers_to_the_parts_are_one_pool_by_rank(self, make_engine: Make) -> None:
        engine = self.engine(
            make_engine,
            {
                TWO_PARTS: [bm25("a", 9.0), bm25("b", 8.0)],
                FIRST: [bm25("b", 7.0), bm25("c", 6.0)],
                SECOND: [bm25("c", 5.0)],
            },
        )
        result = search(engine, TWO_PARTS, multi_query=True, dedup_method="off")
        [raw] = result.raw
        given = {chunk.chunk_id: {str(score.kind): score.value for score in chunk.scores} for chunk in raw.chunks}
        assert given == {
            "a": {"bm25": 9.0, "rrf": pytest.approx(2 / (10 + 1))},
            "b": {"bm25": 8.0, "rrf": pytest.approx(2 / (10 + 2) + 1 / (10 + 1))},
            "c": {"rrf": pytest.approx(1 / (10 + 2) + 1 / (10 + 1))},
        }
        assert [chunk.chunk_id for chunk in raw.chunks] == ["b", "a", "c"]
        assert len(result.fates) == 3

    def test_a_source_that_ranks_by_rrf_itself_is_ranked_by_that_of_the_parts(self, make_engine: Make) -> None:
        """Its own RRF is of the whole question alone, and "c" has none."""
        own = [
            Chunk(content=f"The {name} rule.", chunk_id=name, scores=(Score(ScoreKind.RRF, score, "base"),))
            for name, score in (("a", 0.03), ("b", 0.02), ("c", 0.01))
        ]
        engine = self.engine(make_engine, {TWO_PARTS: own[:2], FIRST: own[2:], SECOND: own[2:]})
        result = search(engine, TWO_PARTS, multi_query=True, min_relevance_score=0.0, scope_threshold=0.0)
        values = {"a": 2 / (10 + 1), "b": 2 / (10 + 2), "c": 2 / (10 + 1)}
        low = values["b"] - 0.5 * values["a"]
        assert {chunk.chunk_id: chunk.relevance for chunk in result.chunks} == pytest.approx(
            {"a": 1.0, "c": 1.0, "b": low / (0.5 * values["a"])}
        )

    def test_what_is_beyond_top_k_counts_as_cut(self, make_engine: Make) -> None:
        answers = {TWO_PARTS: [bm25("a", 9.0), bm25("b", 8.0)], FIRST: [bm25("c", 7.0)], SECOND: [bm25("d", 6.0)]}
        result = search(self.engine(make_engine, answers), TWO_PARTS, multi_query=True, stage1_top_k=2)
        assert (result.sources[0].chunks, result.sources[0].cut) == (2, 2)
        assert [chunk.chunk_id for chunk in result.raw[0].chunks] == ["a", "b"]

    def test_two_texts_of_one_id_are_both_kept(self, make_engine: Make) -> None:
        twice = [bm25("a", 9.0), bm25("a", 8.0)._replace(content="Compliance must be told before the launch.")]
        answers = {TWO_PARTS: twice, FIRST: [bm25("b", 7.0)], SECOND: twice[1:]}
        result = search(self.engine(make_engine, answers), TWO_PARTS, multi_query=True, dedup_method="off")
        assert {chunk.content for chunk in result.raw[0].chunks} >= {chunk.content for chunk in twice}
        assert len(result.fates) == result.stages[0].entered == 3
        assert [(one.code, one.detail) for one in result.notices] == [
            (NoticeCode.CHUNK_ID_REUSED, {"chunk_id": "a", "texts": 2})
        ]

    def test_a_part_that_fails_is_noted(self, make_engine: Make) -> None:
        answers = {TWO_PARTS: [bm25("a", 9.0)], FIRST: SourceUnavailable("down"), SECOND: [bm25("b", 5.0)]}
        result = search(self.engine(make_engine, answers), TWO_PARTS, multi_query=True)
        assert result.status is Status.COMPLETE
        (notice,) = result.notices
        assert (notice.code, notice.subject) == (NoticeCode.SUB_QUERIES_UNANSWERED, "t2")
        assert notice.detail == {"unanswered": 1, "parts": 2}
        assert len(result.fates) == 2

    def test_where_all_parts_fail_the_whole_answer_stands(self, make_engine: Make) -> None:
        down = SourceUnavailable("down")
        answers = {TWO_PARTS: [bm25("a", 9.0)], FIRST: down, SECOND: down}
        result = search(self.engine(make_engine, answers), TWO_PARTS, multi_query=True)
        assert [score.kind for score in result.raw[0].chunks[0].scores] == [ScoreKind.BM25]
        assert result.decision is Decision.ANSWERED

    def test_where_the_whole_question_fails_the_source_failed(self, make_engine: Make) -> None:
        answers = {TWO_PARTS: SourceUnavailable("down"), FIRST: [bm25("a", 9.0)], SECOND: [bm25("b", 9.0)]}
        other = Asked("t1", {TWO_PARTS: [bm25("z", 1.0)]})
        result = search(make_engine([(1, other), (2, Asked("t2", answers))]), TWO_PARTS, multi_query=True)
        assert [source.state for source in result.sources] == ["ok", "failed"]
        assert result.status is Status.DEGRADED


@pytest.mark.parametrize("settings", [{}, {"multi_query": True}, {"query_expansion": False}, {"exact_first": False}])
def test_a_replay_gives_the_same_bytes(make_engine: Make, settings: dict[str, Any]) -> None:
    answers: dict[str, list[Chunk] | Exception] = {
        text: [bm25(f"{place}", 9.0 - place) for place in range(3)] for text in (TWO_PARTS, FIRST)
    }
    engine = make_engine([(2, Asked("t2", answers))], domain_fields={"glossary": {"product": ("NPA",)}})
    result = search(engine, TWO_PARTS, **settings)
    assert result.prepared is not None
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


class TestRefiner:
    def test_its_wording_is_searched_beside_the_question(self, make_engine: Make) -> None:
        source, refiner = Asked("t2"), Refiner(Refinement("Who signs a product?", ("sign-off",)))
        result = search(make_engine([(2, source)], refiner=refiner), "product sign who")
        assert refiner.asked == [("product sign who", "en")]
        assert sorted(query.text for query in source.queries) == ["Who signs a product?", "product sign who"]
        assert source.queries[0].expansions == (Expansion("", "sign-off", 0.2, "refiner"),)
        assert result.prepared is not None
        assert (result.prepared.refiner, result.prepared.concepts) == ("made", ("sign-off",))

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            (RefinerError("made: no"), "made: no"),
            (ValueError("secret"), "made failed with ValueError"),
            ("text", "made gave no wording that can be used"),
        ],
    )
    def test_a_failure_leaves_the_question_and_degrades_nothing(
        self, make_engine: Make, given: Any, problem: str
    ) -> None:
        source = Asked("t2", {"product sign": [bm25("a", 1.0)]})
        result = search(make_engine([(2, source)], refiner=Refiner(given)), "product sign")
        assert [query.text for query in source.queries] == ["product sign"]
        (notice,) = result.notices
        assert notice.code is NoticeCode.QUERY_NOT_REFINED
        assert notice.detail == {"refiner": "made", "problem": problem}
        assert (result.status, result.decision) == (Status.COMPLETE, Decision.ANSWERED)
        assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)

    def test_one_that_is_late_is_not_waited_for_nor_asked_again(self, make_engine: Make) -> None:
        gate = threading.Event()

        class Late(Refiner):
            def refine(self, query: str, language: str) -> Refinement:
                gate.wait(10)
                return Refinement("late")

        engine = make_engine([(2, Asked("t2"))], refiner=Late(None))
        try:
            first = search(engine, "product", query_refiner_timeout_s=0.05)
            second = search(engine, "product", query_refiner_timeout_s=0.05)
        finally:
            gate.set()
        assert first.notices[0].detail["problem"] == "made gave nothing within 0.05 s"
        assert second.notices[0].detail["problem"] == "made is still busy with an overdue call"

    def test_its_time_is_time_of_the_search_and_the_sources_get_what_is_left(self, make_engine: Make) -> None:
        clock, source = Ticks(), Asked("t2")

        class Takes(Refiner):
            def refine(self, query: str, language: str) -> Refinement:
                clock.seconds += 3.0
                return Refinement(query)

        engine = make_engine([(2, source)], refiner=Takes(None), clock=clock)
        search(engine, "product", deadline_s=8.0, query_refiner_timeout_s=4.0)
        search(engine, "product", deadline_s=8.0, query_refiner_timeout_s=4.0, source_timeout_s=2.0)
        assert [query.timeout_s for query in source.queries] == [8.0 - 3.0, 2.0]

    def test_it_has_at_most_half_of_the_search(self, make_engine: Make) -> None:
        gate = threading.Event()

        class Late(Refiner):
            def refine(self, query: str, language: str) -> Refinement:
                gate.wait(10)
                return Refinement("late")

        sources = [(2, Asked("t2", {"product": [bm25("a", 1.0)]}))]
        engine = make_engine(sources, refiner=Late(None), clock=Ticks())
        try:
            result = search(engine, "product", deadline_s=0.4, query_refiner_timeout_s=30.0)
        finally:
            gate.set()
        assert result.notices[0].detail["problem"] == "made gave nothing within 0.2 s"
        assert [source.state for source in result.sources] == ["ok"]

    def test_it_can_be_switched_off(self, make_engine: Make) -> None:
        refiner = Refiner(Refinement("other"))
        result = search(make_engine([(2, Asked("t2"))], refiner=refiner), "product", query_refinement=False)
        assert (refiner.asked, result.prepared.refiner if result.prepared else "") == ([], None)


class TestEmbeddedBase:
    TEXTS = (
        ("npa1", "NPA-001 was a pilot of structured notes."),
        ("npa2", "NPA-002 is a proposal. The number 001 stands for its first version, and NPA for the process."),
        ("mas637", "MAS Notice 637 sets the capital requirements."),
        ("mas626", "MAS Notice 626 sets the requirements on money laundering; 637 banks notice it."),
        ("b", "Under 4.2.1(b) the desk head signs."),
        ("c", "Under 4.2.1(c) the desk head signs, see 4.2.1 and (b)."),
        ("long", "Criteria of the New Product Approval are set by the committee."),
        ("other", "New offices need the approval of a product owner."),
    )

    @pytest.fixture
    def source(self, tmp_path: Path) -> Iterator[LocalSource]:
        base = LocalBase.open(tmp_path / "base", create=True)
        with base.writer() as writer:
            for name, text in self.TEXTS:
                writer.put("t2", name, "", "1", [Chunk(content=text, chunk_id=name, document_id=name)])
        source = LocalSource(base, "t2")
        yield source
        source.close()

    @pytest.mark.parametrize(
        ("query", "best"),
        [
            ("NPA-001", "npa1"),
            ("NPA\u2011001", "npa1"),
            ("what was ＮＰＡ－００１", "npa1"),
            ("MAS Notice 637", "mas637"),
            ("what does mas notice 637 require?", "mas637"),
            ("4.2.1(b)", "b"),
            ("who signs under section 4.2.1(b)?", "b"),
        ],
    )
    def test_a_code_is_met_exactly_and_first(
        self, make_engine: Make, source: LocalSource, query: str, best: str
    ) -> None:
        result = search(make_engine([(SourceSpec(id="t2", type="bank_sop"), source)]), query)
        assert result.chunks[0].chunk_id == best

    def test_a_text_under_another_name_is_found(self, make_engine: Make, source: LocalSource) -> None:
        spec = SourceSpec(id="t2", type="bank_sop")
        plain = make_engine([(spec, source)])
        known = make_engine([(spec, source)], domain_fields={"glossary": GLOSSARY})
        assert "long" not in {fate.chunk_id for fate in search(plain, "what is the NPA").fates}
        assert "long" in {fate.chunk_id for fate in search(known, "what is the NPA").fates}

    def test_an_acronym_that_is_a_stop_word_is_searched_for_by_its_other_name(
        self, make_engine: Make, source: LocalSource
    ) -> None:
        fields = {"glossary": {"IT": ("desk head",)}}
        result = search(make_engine([(2, source)], domain_fields=fields), "IT")
        assert {fate.chunk_id for fate in result.fates} == {"b", "c"}


GERMAN, ENGLISH = "Wer genehmigt NPA-001 bis 30 Tage?", "Who approves NPA-001 within 30 days?"


class TestTranslation:
    def test_both_wordings_are_searched_and_each_chunk_keeps_its_best_score(self, make_engine: Make) -> None:
        """The German question finds c with a score of 2, the English one with 6."""
        answers: dict[str, list[Chunk] | Exception] = {
            GERMAN: [bm25("c", 2.0)],
            ENGLISH: [bm25("a", 9.0)._replace(content=ENGLISH), bm25("c", 6.0)],
        }
        source, refiner = Asked("t2", answers), Refiner(Refinement("", (), (ENGLISH,)))
        result = search(make_engine([(2, source)], refiner=refiner), GERMAN, min_relevance_score=0.0)
        assert sorted(query.text for query in source.queries) == sorted([GERMAN, ENGLISH])
        assert {chunk.chunk_id: chunk.chunk.score(ScoreKind.BM25) for chunk in result.chunks} == {"a": 9.0, "c": 6.0}
        assert result.chunks[0].chunk_id == "a" and result.chunks[0].absolute > 0.9
        assert result.prepared is not None and result.prepared.translations == (ENGLISH,)
        assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)

    @pytest.mark.parametrize(
        ("translation", "lost"),
        [
            ("Who approves NPA-002 within 30 days?", ["NPA-001"]),
            ("Who approves NPA-001 within 60 days?", ["30"]),
            ("Who approves it?", ["NPA-001", "30"]),
        ],
    )
    def test_a_translation_that_lost_a_name_or_number_is_not_searched(
        self, make_engine: Make, translation: str, lost: list[str]
    ) -> None:
        source, refiner = Asked("t2", {GERMAN: [bm25("c", 2.0)]}), Refiner(Refinement("", (), (translation,)))
        result = search(make_engine([(2, source)], refiner=refiner), GERMAN)
        assert [query.text for query in source.queries] == [GERMAN]
        (notice,) = [notice for notice in result.notices if notice.code is NoticeCode.REFINEMENT_UNUSED]
        assert notice.detail == {"refiner": "made", "lost": lost}

    def test_a_translation_that_fails_leaves_the_plain_search_and_a_notice(self, make_engine: Make) -> None:
        source = Asked("t2", {GERMAN: [bm25("c", 2.0)], ENGLISH: SourceUnavailable("down")})
        refiner = Refiner(Refinement("", (), (ENGLISH,)))
        result = search(
            make_engine([(2, source)], refiner=refiner), GERMAN, scope_threshold=0.0, min_relevance_score=0.0
        )
        assert [chunk.chunk_id for chunk in result.chunks] == ["c"]
        assert NoticeCode.SUB_QUERIES_UNANSWERED in {notice.code for notice in result.notices}
        assert result.status is Status.COMPLETE
