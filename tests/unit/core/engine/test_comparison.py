"""An answer beside its baseline: who entered, left and moved, and the step that did it."""

from dataclasses import replace

import pytest

from context_engine.adapters.rerankers import CallableReranker
from context_engine.core.engine import recompute
from context_engine.core.engine.comparison import ComparisonStep, compare
from context_engine.core.models import Condition, FilterOp
from context_engine.core.ranking.dedup import deduplicate
from context_engine.errors import InvalidRequest

RULE = "A proposal above the materiality limit goes to the product committee for approval."


def places(comparison):
    return {one.key[1]: (one.turn, one.before, one.after, one.cause) for one in comparison.changes}


def test_authority_lifts_a_tier_above_a_page_that_is_a_little_more_relevant(ask, chunk_of):
    # .6 * .85 + .4 * .4 = .67 against .6 * .9 + .4 * 0 = .54
    found = compare(ask([(1, [chunk_of("record", 0.85)]), (5, [chunk_of("page", 0.9)])]))
    assert places(found) == {
        "record": ("moved", 2, 1, ComparisonStep.AUTHORITY),
        "page": ("moved", 1, 2, ComparisonStep.AUTHORITY),
    }
    record, page = found.changes
    assert (record.because, page.because) == ((page.key,), (record.key,))
    assert [chunk.chunk_id for chunk in found.baseline.chunks] == ["page", "record"]


def test_a_copy_is_in_the_baseline_and_merged_in_the_answer(ask, chunk_of):
    pool = [(2, [chunk_of("kept", 0.8, RULE), chunk_of("copy", 0.7, RULE), chunk_of("next", 0.6)])]
    found = compare(ask(pool, stage2_top_k=2))
    assert places(found) == {
        "kept": ("same", 1, 1, None),
        "next": ("entered", 3, 2, ComparisonStep.DEDUP),
        "copy": ("left", 2, None, ComparisonStep.DEDUP),
    }
    _, entered, left = found.changes
    assert left.because == (("t2", "kept"),)
    assert entered.because == (("t2", "copy"),)


def test_what_is_below_the_threshold_left_with_its_number(ask, chunk_of):
    found = compare(ask([(2, [chunk_of("a", 0.8), chunk_of("b", 0.3)])], min_relevance_score=0.5))
    assert places(found)["b"] == ("left", 2, None, ComparisonStep.FILTER)
    fate = found.changes[-1].fate
    assert (fate.stage, fate.reason, fate.value, fate.limit) == ("relevance", "below_min_relevance", 0.3, 0.5)


def test_a_question_out_of_scope_has_a_baseline_all_the_same(ask, chunk_of):
    found = compare(ask([(2, [chunk_of("a", 0.2)])], scope_threshold=0.9, min_relevance_score=0.5))
    assert [chunk.chunk_id for chunk in found.baseline.chunks] == ["a"]
    assert found.enhanced.chunks == ()
    assert found.changes[0].fate.stage == "scope"


def test_the_reranker_has_no_part_in_the_baseline(ask, chunk_of):
    reranker = CallableReranker(lambda _query, texts: [1.0 if "second" in text else 0.0 for text in texts])
    pool = [(2, [chunk_of("first", 0.8), chunk_of("second", 0.7)])]
    found = compare(ask(pool, engine={"reranker": reranker}))
    # .5 * .8 + .5 * 0 = .4 against .5 * .7 + .5 * 1 = .85
    assert places(found) == {
        "second": ("moved", 2, 1, ComparisonStep.RERANK),
        "first": ("moved", 1, 2, ComparisonStep.RERANK),
    }
    assert found.baseline.rerank_scores == {}


def test_a_reranker_that_failed_changed_nothing(ask, chunk_of):
    def fail(_query, _texts):
        raise ValueError("broken")

    found = compare(ask([(2, [chunk_of("a", 0.8)])], engine={"reranker": CallableReranker(fail)}))
    assert (str(found.enhanced.status), str(found.baseline.status)) == ("degraded", "complete")
    assert found.of("same") == found.changes


def test_an_exact_match_comes_first_by_its_own_step(ask, chunk_of):
    pool = [(2, [chunk_of("plain", 0.9, "A rule on approvals."), chunk_of("named", 0.5, "See NPA-SOP-001 for rules.")])]
    found = compare(ask(pool, query="rules of NPA-SOP-001"))
    assert places(found)["named"] == ("moved", 2, 1, ComparisonStep.EXACT_MATCH)


def test_limits_of_one_document_are_the_last_step(ask, chunk_of):
    chunks = [chunk_of(name, score, document_id="one") for name, score in (("a", 0.9), ("b", 0.8))]
    found = compare(ask([(2, [*chunks, chunk_of("c", 0.7)])], max_per_document=1))
    assert places(found) == {
        "a": ("same", 1, 1, None),
        "c": ("moved", 3, 2, ComparisonStep.LIMITS),
        "b": ("left", 2, None, ComparisonStep.LIMITS),
    }


def test_what_was_asked_for_holds_in_both(ask, chunk_of):
    pool = [(1, [chunk_of("a", 0.9)]), (5, [chunk_of("web", 0.95)])]
    found = compare(ask(pool, filters=Condition("tier", FilterOp.LTE, 3)))
    assert [chunk.chunk_id for chunk in found.baseline.chunks] == ["a"]


def test_the_way_of_a_chunk_goes_on_where_it_left_off(ask, chunk_of):
    pool = [
        (1, [chunk_of("record", 0.7)]),
        (5, [chunk_of("x", 0.9, RULE), chunk_of("y", 0.85, RULE), chunk_of("z", 0.8)]),
    ]
    found = compare(ask(pool))
    (record,) = [one for one in found.changes if one.key[1] == "record"]
    # the copy above it goes, then .6 * .7 + .4 * .4 = .58 passes .6 * .9 = .54
    assert record.steps == ((ComparisonStep.DEDUP, 4, 3), (ComparisonStep.AUTHORITY, 3, 1))
    assert record.cause is ComparisonStep.AUTHORITY


def test_a_result_without_its_request_is_refused(ask, chunk_of):
    with pytest.raises(InvalidRequest):
        compare(replace(ask([(2, [chunk_of("a", 0.9)])]), request=None))


def test_a_recomputed_result_compares_alike(ask, chunk_of):
    result = ask([(1, [chunk_of("a", 0.85)]), (5, [chunk_of("b", 0.9)])])
    assert compare(recompute(result)).changes == compare(result).changes


def test_near_duplicates_are_looked_for_once_with_and_once_without(ask, chunk_of, monkeypatch):
    calls = []

    def counted(texts, **options):
        calls.append(options["method"])
        return deduplicate(texts, **options)

    reranker = CallableReranker(lambda _query, texts: [0.5] * len(texts))
    result = ask(
        [(1, [chunk_of("a", 0.7)]), (5, [chunk_of("b", 0.9), chunk_of("c", 0.1)])], engine={"reranker": reranker}
    )
    monkeypatch.setattr("context_engine.core.engine.comparison.deduplicate", counted)
    compare(result)
    assert calls == ["exact", "near"]
