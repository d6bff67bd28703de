"""Which candidates of many are looked at, and that the answer is the one that a look at all of them gives."""

from typing import Any

import pytest

from context_engine.adapters.rerankers import CallableReranker
from context_engine.core.engine import recompute, stage2, stage_two_bytes
from context_engine.core.models import Chunk, Score, ScoreKind, SearchResult, SourceAnswer, TermStatistics
from context_engine.core.ranking.candidates import AnalysedText

PER_SOURCE, SOURCES = 40, 5
KNOWN = TermStatistics(collection="local:base", chunks=1000, document_frequency={"approv": 300, "rule": 200})


class Counted:
    """A source that says how common its terms are."""

    score_kinds = frozenset({ScoreKind.BM25})

    def __init__(self, chunks: list[Chunk], statistics: TermStatistics | None = KNOWN) -> None:
        self.answer = SourceAnswer(chunks=tuple(chunks), statistics=statistics)

    def search(self, _query: Any) -> SourceAnswer:
        return self.answer

    def close(self) -> None:
        pass


def rule(name: str, score: float, text: str | None = None, scorer: str = "local:base") -> Chunk:
    content = text or f"The approval rule of {name} is that desk {name} asks {name} first."
    return Chunk(content=content, chunk_id=name, scores=(Score(ScoreKind.BM25, score, scorer),))


def scored(place: int, source: int) -> float:
    """40.0, 39.9 … 20.1: the sources take turns, so that each has its share of the best."""
    return 40.0 - 0.1 * (SOURCES * place + source)


def pool(spec_of: Any, **changed: Any) -> list[tuple[Any, Counted]]:
    """Five sources, of tiers 1 to 5, with forty candidates each; `changed` by the name of a chunk."""
    return [
        (
            spec_of(source + 1, f"s{source}"),
            Counted(
                [
                    changed.get(name, rule(name, scored(place, source)))
                    for place in range(PER_SOURCE)
                    for name in [f"s{source}x{place}"]
                ]
            ),
        )
        for source in range(SOURCES)
    ]


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many candidates each run of stage 2 looks at; 0 for all."""
    seen: list[int] = []
    real = stage2.shortlist

    def counting(*given: Any) -> list[int] | None:
        best = real(*given)
        seen.append(len(best or ()))
        return best

    monkeypatch.setattr(stage2, "shortlist", counting)
    return seen


def whole(monkeypatch: pytest.MonkeyPatch, search: Any) -> SearchResult:
    """Return the result of a search that looks at all candidates."""
    with monkeypatch.context() as patched:
        patched.setattr(stage2, "shortlist", lambda *_: None)
        result: SearchResult = search()
    return result


def answer(result: SearchResult) -> list[dict[str, Any]]:
    return [chunk.to_dict() for chunk in result.chunks]


def test_the_best_by_relevance_and_by_final_score_are_looked_at(ask, spec_of, looked_at, monkeypatch):
    # The best forty by relevance are the first eight of each source. Relevance goes from 1 to 0 in 199 steps of .005;
    # of the final score, .6 * relevance + .4 * boost, tier 1 has .16 by its boost and tier 5 nothing: 53 such steps.
    result = ask(pool(spec_of))
    (count,) = looked_at
    assert 40 < count < 80
    assert answer(result) == answer(whole(monkeypatch, lambda: ask(pool(spec_of))))
    assert len(result.fates) == PER_SOURCE * SOURCES, "none is lost"
    assert [(one.name, one.entered, one.left) for one in result.stages] == [
        *((name, 200, 200) for name in ("recall", "filter", "as_of", "expiry", "measure", "dedup", "threshold")),
        *((name, 200, 200) for name in ("scope", "relevance", "rerank")),
        ("select", 200, 8),
    ]


def test_the_others_are_ranked_by_what_is_known_of_them(ask, spec_of, looked_at):
    result = ask(pool(spec_of))
    places = [one.value for one in result.fates if one.reason == "beyond_top_k"]
    assert sorted(places) == list(range(9, 201))
    last = next(one for one in result.fates if one.value == 200)
    assert (last.source_id, last.chunk_id, last.limit) == ("s4", "s4x39", 8), "the lowest score, of the lowest tier"


def test_their_texts_are_not_read(ask, spec_of, looked_at, monkeypatch):
    read: list[str] = []
    real = AnalysedText.reading.fget

    def noting(text: AnalysedText) -> Any:
        read.append(text.text)
        return real(text)

    monkeypatch.setattr(AnalysedText, "reading", property(noting))
    ask(pool(spec_of))
    texts = {text for text in read if text.startswith("The approval")}
    assert len(texts) == looked_at[0]


def test_an_equal_text_is_merged_wherever_it_stands(ask, spec_of, looked_at, monkeypatch):
    text = "The approval rule of the house."
    changed = {"s0x0": rule("s0x0", 40.0, text), "s4x39": rule("s4x39", 20.1, text)}
    result = ask(pool(spec_of, **changed))
    merged = next(one for one in result.fates if one.chunk_id == "s4x39")
    assert (merged.reason, merged.into) == ("equal_text", ("s0", "s0x0"))
    assert answer(result) == answer(whole(monkeypatch, lambda: ask(pool(spec_of, **changed))))


def test_where_the_best_fall_away_all_are_looked_at(ask, spec_of, looked_at, monkeypatch):
    # The first 16 of each source hold no word of the question: the absolute signal of 80 texts is 0.
    changed = {
        f"s{source}x{place}": rule(
            f"s{source}x{place}", scored(place, source), f"Nothing of it here, {source} {place}."
        )
        for source in range(SOURCES)
        for place in range(16)
    }
    result = ask(pool(spec_of, **changed))
    assert 40 < looked_at[0] < 80
    assert len(result.chunks) == 8
    assert not {chunk.chunk_id for chunk in result.chunks} & changed.keys()
    assert answer(result) == answer(whole(monkeypatch, lambda: ask(pool(spec_of, **changed))))
    assert sum(one.reason == "below_min_relevance" for one in result.fates) == 80, "and all are accounted for"


def test_what_is_out_of_scope_is_decided_by_all(ask, spec_of, looked_at, monkeypatch):
    search = lambda: ask(pool(spec_of), query="quarterly weather")  # noqa: E731
    result = search()
    assert (result.decision.value, result.chunks) == ("out_of_scope", ())
    assert {one.reason for one in result.fates} == {"out_of_scope"}
    assert result.fates == whole(monkeypatch, search).fates


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("approval rule", {"mmr_lambda": 0.5}),
        ("approval rule", {"similarity_threshold": 0.1, "similarity_kind": "bm25"}),
        ("approval rule", {"require_tiers": (1,)}),
        ("approval rule", {"require_sources": ("s0",)}),
        ('approval "desk s0x1 asks"', {}),
        ("approval rule of section 4.2.1(b)", {}),
        ("approval rule NPA-001", {}),
    ],
)
def test_all_are_looked_at_where_their_texts_are_needed(ask, spec_of, looked_at, query, options):
    ask(pool(spec_of), query=query, **options)
    assert looked_at == [0]


def test_exact_names_need_no_text_where_they_do_not_come_first(ask, spec_of, looked_at):
    ask(pool(spec_of), query="approval rule NPA-001", exact_first=False)
    assert looked_at[0] > 0


def test_all_are_looked_at_where_a_source_does_not_count_its_terms(ask, spec_of, looked_at):
    sources = pool(spec_of)
    sources[2] = (sources[2][0], Counted(list(sources[2][1].answer.chunks), None))
    ask(sources)
    assert looked_at == [0]


@pytest.mark.parametrize(
    "scores",
    [
        (Score(ScoreKind.BM25, 30.0, "local:another"),),
        (Score(ScoreKind.RELEVANCE, 0.5),),
        (Score(ScoreKind.BM25, 30.0, "local:base"), Score(ScoreKind.RERANK, 4.0, "model")),
        (),
    ],
    ids=["another scorer", "declared", "a logit", "no score"],
)
def test_all_are_looked_at_where_one_cannot_be_compared(ask, spec_of, looked_at, scores):
    other = rule("s3x20", 30.0)._replace(scores=scores)
    ask(pool(spec_of, s3x20=other))
    assert looked_at == [0]


def test_few_candidates_are_all_looked_at(ask, spec_of, looked_at):
    ask(pool(spec_of)[:2])  # 80 are twice forty
    assert looked_at == [0]
    ask(pool(spec_of), stage2_top_k=25)  # four for each place: 200 are twice a hundred
    assert looked_at == [0, 0]


def test_a_reranker_reads_all_and_one_without_an_opinion_none(ask, spec_of, looked_at):
    given: list[int] = []

    def opinion(_query: str, texts: Any) -> list[float]:
        given.append(len(texts))
        return [0.5] * len(texts)

    ask(pool(spec_of), engine={"reranker": CallableReranker(opinion)})
    assert (given, looked_at) == ([200], [])
    without = ask(pool(spec_of), engine={"reranker": CallableReranker(lambda _query, _texts: None)})
    assert without.fates == ask(pool(spec_of)).fates


@pytest.mark.parametrize("query", ["approval rule", "quarterly weather", "approval rule NPA-001"])
def test_it_is_computed_again_to_the_byte(ask, spec_of, query):
    result = ask(pool(spec_of), query=query)
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)
