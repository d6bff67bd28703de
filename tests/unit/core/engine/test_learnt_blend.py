"""A learnt blend in a search: where it enters, what it is bound to, and what is kept of it."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from context_engine.adapters.rerankers import CallableReranker
from context_engine.apps.cli.search.explanation import print_explanation
from context_engine.audit.record.parts import load_result, save_result
from context_engine.audit.review.case import Case
from context_engine.audit.review.smallest import smallest_changes
from context_engine.core.engine import blend_terms, recompute, recorded_pool, stage_two_bytes
from context_engine.core.engine.reranking import reranker_id
from context_engine.core.models import Chunk, NoticeCode, Score, ScoreKind, Settings

TEXTS = {
    "a": "The approval rule of the committee.",
    "b": "An approval is given by two persons under this rule.",
    "c": "Rule on travel expenses.",
}
SCORES = {"a": (0.9, 0.2), "b": (0.8, 0.6), "c": (0.5, 0.7)}


def chunk(name: str, scorer: str = "mini", document: str | None = None) -> Chunk:
    weighted, cosine = SCORES[name]
    scores = (Score(ScoreKind.WEIGHTED, weighted, "base"), Score(ScoreKind.COSINE, cosine, scorer))
    return Chunk(content=TEXTS[name], chunk_id=name, document_id=document, scores=scores)


def learnt(**given: Any) -> dict[str, Any]:
    """By cosine alone: mean .5, deviation .1, so that .2, .6 and .7 add -3, 1 and 2."""
    terms = {"cosine": {"weight": 1.0, "mean": 0.5, "deviation": 0.1}}
    return {"measured_by": "weighted", "cosine": "mini", "terms": terms, **given}


WITH_MODEL = learnt(
    reranker="noop",
    terms={
        "cosine": {"weight": 1.0, "mean": 0.5, "deviation": 0.1},
        "reranker": {"weight": 2.0, "mean": 0.5, "deviation": 0.5},
    },
)
BY_LENGTH = CallableReranker(lambda _query, texts: [min(len(text) / 100, 1.0) for text in texts])
OPEN = {"min_relevance_score": 0.0, "scope_threshold": 0.0}


def codes(result: Any) -> list[str]:
    return [notice.code for notice in result.notices]


def test_the_blend_is_the_relevance_that_enters_the_formula(ask: Any) -> None:
    result = ask([(2, [chunk(name) for name in "abc"])], learnt_blend=learnt(), **OPEN)
    # scores -3, 1, 2: 1 - (2 - s) / max(5, 6)
    relevance = {"c": 1.0, "b": 1.0 - 1.0 / 6.0, "a": 1.0 - 5.0 / 6.0}
    assert [one.chunk_id for one in result.chunks] == ["c", "b", "a"]
    for one in result.chunks:
        assert one.relevance == pytest.approx(relevance[one.chunk_id])
        assert one.final == pytest.approx(0.6 * relevance[one.chunk_id] + 0.4 * 0.3)
    plain = ask([(2, [chunk(name) for name in "abc"])], **OPEN)
    assert [one.chunk_id for one in plain.chunks] == ["a", "b", "c"]
    assert {one.chunk_id: one.absolute for one in result.chunks} == {one.chunk_id: one.absolute for one in plain.chunks}


@pytest.mark.parametrize("blend", [learnt(), WITH_MODEL, learnt(measured_by="bm25"), None], ids=str)
@pytest.mark.parametrize("reranker", [None, BY_LENGTH], ids=["plain", "reranked"])
@pytest.mark.parametrize("settings", [{}, {"rerank_top_n": 2}, {"dedup_method": "off", "stage2_top_k": 1}], ids=str)
def test_it_is_computed_again_and_recorded_to_the_same_bytes(
    ask: Any, blend: Any, reranker: Any, settings: dict[str, Any]
) -> None:
    given = [(1, [chunk("a"), chunk("b")]), (3, [chunk("c"), chunk("a")])]
    result = ask(given, engine={"reranker": reranker}, learnt_blend=blend, **OPEN, **settings)
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)
    assert stage_two_bytes(recompute(load_result(save_result(result, code_version="1")))) == stage_two_bytes(result)


def test_what_each_term_adds_is_told_from_the_result_alone(ask: Any) -> None:
    result = ask(
        [(2, [chunk(name) for name in "abc"])], engine={"reranker": BY_LENGTH}, learnt_blend=WITH_MODEL, **OPEN
    )
    added = blend_terms(result)
    model = {name: 2.0 * (len(text) / 100 - 0.5) / 0.5 for name, text in TEXTS.items()}
    assert {key[1]: terms for key, terms in added.items()} == {
        name: {"cosine": pytest.approx((SCORES[name][1] - 0.5) / 0.1), "reranker": pytest.approx(model[name])}
        for name in "abc"
    }
    assert blend_terms(ask([(2, [chunk("a"), chunk("b")])], **OPEN)) == {}


def test_with_other_scorers_the_order_is_that_without_it_and_a_notice_says_so(ask: Any) -> None:
    given = [(2, [chunk(name, "mini+0123456789ab") for name in "abc"])]
    result, plain = ask(given, learnt_blend=learnt(), **OPEN), ask(given, **OPEN)
    assert [one.final for one in result.chunks] == [one.final for one in plain.chunks]
    [notice] = result.notices
    assert notice.code is NoticeCode.LEARNT_BLEND_NOT_USED
    assert "mini+0123456789ab" in notice.detail["problem"]
    assert blend_terms(result) == {}


@pytest.mark.parametrize(
    ("blend", "reranker"),
    [(learnt(), BY_LENGTH), (WITH_MODEL, None), (WITH_MODEL, CallableReranker(lambda _query, _texts: None))],
    ids=["one more", "one less", "no opinion"],
)
def test_it_is_bound_to_the_reranker_too(ask: Any, blend: Any, reranker: Any) -> None:
    given = [(2, [chunk(name) for name in "abc"])]
    result = ask(given, engine={"reranker": reranker}, learnt_blend=blend, **OPEN)
    plain = ask(given, engine={"reranker": reranker}, **OPEN)
    assert [one.final for one in result.chunks] == [one.final for one in plain.chunks]
    assert NoticeCode.LEARNT_BLEND_NOT_USED in codes(result)


def test_declared_relevance_is_taken_at_its_word(ask: Any, chunk_of: Any) -> None:
    given = [(2, [chunk_of("a", 0.9), chunk_of("b", 0.4, "Another approval rule.")])]
    result = ask(given, learnt_blend=learnt(measured_by="declared"))
    assert [one.relevance for one in result.chunks] == [0.9, 0.4]


def test_a_single_candidate_keeps_its_relevance(ask: Any) -> None:
    result, plain = (ask([(2, [chunk("c")])], learnt_blend=one, **OPEN) for one in (learnt(), None))
    assert [one.relevance for one in result.chunks] == [one.relevance for one in plain.chunks]
    assert blend_terms(result) == {}


def test_with_rerank_top_n_the_others_stay_below(ask: Any) -> None:
    given = [(2, [chunk(name) for name in "abc"])]
    result = ask(given, engine={"reranker": BY_LENGTH}, learnt_blend=WITH_MODEL, rerank_top_n=2, **OPEN)
    assert [one.chunk_id for one in result.chunks] == ["b", "a", "c"]
    pool = recorded_pool(result)
    assert [key[1] for key in pool.keys] == ["a", "b"]
    assert pool.reranked == [min(len(TEXTS[name]) / 100, 1.0) for name in "ab"]


def test_the_explanation_tells_the_terms_of_those_that_are_blended(ask: Any) -> None:
    given = [(2, [chunk(name) for name in "abc"])]
    result = ask(given, engine={"reranker": BY_LENGTH}, learnt_blend=WITH_MODEL, rerank_top_n=2, **OPEN)
    console = Console(file=StringIO(), width=200)
    print_explanation(console, result)
    told = console.file.getvalue().partition("Learnt blend")[2].partition("\n\n")[0]  # type: ignore[attr-defined]
    assert told.count("cosine") == 2 and "b" in told


def test_the_pool_holds_what_the_search_knows(ask: Any) -> None:
    result = ask([(2, [chunk("a", document="SOP-1"), chunk("b", document="SOP-1"), chunk("c")])], **OPEN)
    pool = recorded_pool(result)
    assert [key[1] for key in pool.keys] == ["a", "b", "c"]
    assert pool.measured_by == "weighted"
    assert pool.relevance == [pytest.approx((value - 0.45) / 0.45) for value in (0.9, 0.8, 0.5)]
    assert pool.documents == [("t2", "SOP-1"), ("t2", "SOP-1"), None]
    assert pool.words == [6, 10, 4]
    assert pool.cosine_scorers == {"mini"}
    assert max(pool.text) == 1.0
    assert pool.coverage == [one.absolute for one in _by_id(_without_cosine(result))]


def _without_cosine(result: Any) -> Any:
    """The same search where the absolute signal is coverage alone: with a BM25 score."""
    raw = [
        replace(
            answer,
            chunks=tuple(
                one._replace(scores=(Score(ScoreKind.BM25, one.score(ScoreKind.WEIGHTED) or 0.0, "base"),))
                for one in answer.chunks
            ),
        )
        for answer in result.raw
    ]
    return recompute(replace(result, raw=tuple(raw)))


def _by_id(result: Any) -> list[Any]:
    return sorted(result.chunks, key=lambda one: one.chunk_id)


def test_audit_why_tells_that_the_blend_keeps_a_chunk_out(ask: Any) -> None:
    result = ask([(2, [chunk(name) for name in "abc"])], learnt_blend=learnt(), stage2_top_k=1, mmr_lambda=1.0, **OPEN)
    case = Case.of(result, ("t2", "a"))
    without = next(one for one in _changes(case) if one.name == "learnt_blend")
    assert [one.chunk_id for one in recompute(without.applied(result)).chunks] == ["a"]
    [change] = smallest_changes(case).single.changes
    assert change.name == "stage2_top_k"
    assert change.now == 3


def _changes(case: Case) -> Any:
    from context_engine.audit.review.settings_changes import settings_changes

    return settings_changes(case)


def test_what_names_a_reranker() -> None:
    assert reranker_id(Settings()) == "noop"
    assert reranker_id(Settings(reranker="max_sim")) == "max_sim"
    deep = {"deep": {"reranker": "cross_encoder", "options": {"model": "large"}}}
    assert reranker_id(Settings(reranker="max_sim", rerankers=deep, rerank_by="deep")) == "cross_encoder large"
