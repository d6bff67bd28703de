"""The smallest change that shows a chunk, with the numbers it follows from."""

from dataclasses import replace
from datetime import date, timedelta

import pytest

from context_engine.adapters.rerankers import CallableReranker
from context_engine.audit.review.case import Case
from context_engine.audit.review.smallest import smallest_changes
from context_engine.core.engine import recompute, with_settings
from context_engine.core.models import And, Chunk, Condition, FilterOp, Score, ScoreKind

RULE = "A proposal above the materiality limit goes to the product committee for approval."


def found(result, source, chunk):
    return smallest_changes(Case.of(result, (source, chunk)))


def told(one):
    return [(change.name, change.was, change.now, change.steps) for change in one.changes]


def test_a_limit_on_relevance_is_lowered_to_what_the_chunk_reaches(ask, chunk_of):
    # 0.1234 < 0.15; 0.12 is the plainest limit that it reaches, 0.15 - 0.1234 = 0.0266 are 2.66 steps of 0.01
    result = ask([(2, [chunk_of("a", 0.8), chunk_of("b", 0.1234)])])
    single = found(result, "t2", "b").single
    assert told(single) == [("min_relevance_score", 0.15, 0.12, 2.66)]
    assert (single.rank, single.left, single.came) == (2, (), ())


def test_beyond_the_cut_the_number_of_chunks_grows_to_the_place(ask, chunk_of):
    result = ask([(2, [chunk_of(name, value) for name, value in zip("abcd", (0.9, 0.8, 0.7, 0.6))])], stage2_top_k=2)
    assert told(found(result, "t2", "c").single) == [("stage2_top_k", 2, 3, 1.0)]
    single = found(result, "t2", "d").single
    assert told(single) == [("stage2_top_k", 2, 4, 2.0)]
    assert (single.rank, single.came) == (4, (("t2", "c"),))


def test_a_limit_that_keeps_others_out_may_be_nearer_than_the_place(ask, chunk_of):
    # final = 0.6 * relevance + 0.4 * boost: b 0.6 * 0.5 + 0.4 * 0.3 = 0.42; the six of tier 1 that stand above it have
    # 0.6 * 0.48 + 0.4 * 0.4 = 0.448 and more, but a relevance of 0.48 alone: a limit of 0.49 leaves b
    better = [chunk_of(f"a{number}", 0.48, f"Rule number {number} of many.") for number in range(6)]
    result = ask([(1, better), (2, [chunk_of("b", 0.5)])], stage2_top_k=2, min_relevance_score=0.46)
    single = found(result, "t2", "b").single
    assert told(single) == [("min_relevance_score", 0.46, 0.49, 2.0)]
    assert (single.rank, single.left) == (1, (("t1", "a0"), ("t1", "a1")))


def test_out_of_scope_the_scope_threshold_comes_down_to_the_best(ask, chunk_of):
    result = ask([(2, [chunk_of("a", 0.4), chunk_of("b", 0.3)])], scope_threshold=0.5)
    assert told(found(result, "t2", "b").single) == [("scope_threshold", 0.5, 0.4, 10.0)]


def test_a_merged_text_is_shown_where_the_one_that_it_was_merged_into_is_away(ask, chunk_of):
    result = ask([(1, [chunk_of("a", 0.9, RULE)]), (2, [chunk_of("b", 0.8, RULE)])])
    single = found(result, "t2", "b").single
    assert told(single) == [("t1/a", "there", "not there", 10.0)]
    assert (single.rank, single.left) == (1, (("t1", "a"),))


def test_a_near_duplicate_is_shown_under_a_higher_threshold(ask, chunk_of):
    # 13 words, 1 of them another: 12 in both, 14 in one or both; 12 / 14 = 0.857142... is above 0.85
    words = "proposal above materiality limit goes to product committee for formal approval by vote"
    result = ask([(1, [chunk_of("a", 0.9, words)]), (2, [chunk_of("b", 0.8, words.replace("formal", "final"))])])
    assert told(found(result, "t2", "b").single) == [("dedup_threshold", 0.85, 0.86, 0.714286)]


def test_expired_content_is_demoted_in_place_of_refused(ask, chunk_of, now):
    old = chunk_of("a", 0.9, fetched_at=now - timedelta(days=2))
    result = ask([(2, [old])], expired="refuse")
    assert told(found(result, "t2", "a").single) == [("expired", "refuse", "demote", 10.0)]


def test_one_condition_of_the_filter_is_taken_away(ask, chunk_of):
    tier, document = Condition("tier", FilterOp.LTE, 1), Condition("document_id", FilterOp.EQ, "D")
    result = ask([(2, [chunk_of("a", 0.9, document_id="D")])], filters=And((tier, document)))
    search = found(result, "t2", "a")
    (change,) = search.single.changes
    # the tier of the source is as small a change, and stands before the request
    assert (change.name, change.was, change.now, change.steps) == ("t2.tier", 2, 1, 10.0)
    result = ask([(4, [chunk_of("a", 0.9, document_id="D")])], filters=And((tier, document)))
    (change,) = found(result, "t4", "a").single.changes
    assert (change.name, change.steps) == ("filters", 10.0)
    assert change.now == {"and": [{"field": "document_id", "op": "eq", "value": "D"}]}
    assert found(result, "t4", "a").single.asks_otherwise


@pytest.mark.parametrize(
    ("dates", "day", "steps"),
    [
        ({"effective_from": date(2026, 3, 9)}, "2026-03-09", 7.0),
        ({"effective_to": date(2026, 3, 1)}, "2026-02-28", 2.0),
        ({"superseded_by": "2"}, "2026-03-01", 1.0),
    ],
    ids=["not yet", "no longer", "superseded"],
)
def test_the_day_is_the_nearest_on_which_it_was_in_force(ask, chunk_of, dates, day, steps):
    result = ask([(2, [chunk_of("a", 0.9, **dates)])])  # on 2026-03-02
    assert told(found(result, "t2", "a").single) == [("as_of", "2026-03-02", day, steps)]


def test_of_a_past_day_asked_about_today_is_not_taken_for_past(ask, chunk_of):
    chunk = chunk_of("a", 0.9, superseded_by="2", effective_from=date(2026, 2, 1))
    result = ask([(2, [chunk])], as_of=date(2026, 1, 30))
    assert told(found(result, "t2", "a").single) == [("as_of", "2026-01-30", "2026-02-01", 2.0)]


def test_a_threshold_of_a_kind_of_score_is_lowered_to_the_score(ask):
    chunks = [
        Chunk(content=f"The approval rule {name}.", chunk_id=name, scores=(Score(ScoreKind.COSINE, value, "e5"),))
        for name, value in (("a", 0.9), ("b", 0.6))
    ]
    result = ask([(2, chunks)], similarity_threshold=0.65)
    assert told(found(result, "t2", "b").single) == [("similarity_threshold", 0.65, 0.6, 5.0)]


def test_a_document_that_has_its_share_may_have_one_more(ask, chunk_of):
    chunks = [chunk_of(name, value, document_id="D") for name, value in (("a", 0.9), ("b", 0.8))]
    result = ask([(2, chunks)], max_per_document=1)
    assert told(found(result, "t2", "b").single) == [("max_per_document", 1, 2, 1.0)]


def test_what_the_reranker_never_saw_stands_by_stage_one_and_says_so(ask, chunk_of):
    reranker = CallableReranker(lambda _query, texts: [0.9 for _ in texts])
    result = ask([(2, [chunk_of("a", 0.8), chunk_of("b", 0.1)])], engine={"reranker": reranker})
    single = found(result, "t2", "b").single
    assert told(single) == [("min_relevance_score", 0.15, 0.1, 5.0)]
    assert single.unscored
    assert not found(ask([(2, [chunk_of("a", 0.8), chunk_of("b", 0.1)])]), "t2", "b").single.unscored


def test_where_a_reranker_cost_the_place_less_of_it_is_enough(ask, chunk_of):
    # blended w * stage 1 + (1 - w) * reranker: b w * 0.8 + (1 - w) * 0.5, a w * 0.7 + (1 - w) * 0.7;
    # b passes a where 0.1 w > 0.2 (1 - w), w > 2/3: at 0.67, 17 steps from 0.5. A place more is one step
    reranker = CallableReranker(lambda _query, texts: [0.7 if "Rule a" in text else 0.5 for text in texts])
    result = ask([(2, [chunk_of("a", 0.7), chunk_of("b", 0.8)])], engine={"reranker": reranker}, stage2_top_k=1)
    case = Case.of(result, ("t2", "b"))
    assert told(smallest_changes(case).single) == [("stage2_top_k", 1, 2, 1.0)]
    shown = [w for w in range(101) if case.shown_in(recompute(with_settings(case.result, rerank_weight=w / 100)))]
    assert shown == list(range(67, 101))


def test_two_changes_together_where_no_single_one_suffices(ask, chunk_of):
    # b is below 0.15, and with 0.10 it stands second of one
    result = ask([(2, [chunk_of("a", 0.8), chunk_of("b", 0.1)])], stage2_top_k=1)
    search = found(result, "t2", "b")
    assert search.single is None
    assert told(search.pair) == [("min_relevance_score", 0.15, 0.1, 5.0), ("stage2_top_k", 1, 2, 1.0)]
    assert (search.pair.rank, search.pair.steps) == (2, 6.0)
    assert dict(search.tried)["min_relevance_score"] == 2


def test_a_document_limit_and_a_cut_take_two_changes(ask, chunk_of):
    chunks = [chunk_of(name, value, document_id="D") for name, value in (("a", 0.9), ("b", 0.8))]
    result = ask([(2, [*chunks, chunk_of("c", 0.85)])], max_per_document=1, stage2_top_k=2)
    search = found(result, "t2", "b")
    assert search.single is None
    assert told(search.pair) == [("max_per_document", 1, 2, 1.0), ("stage2_top_k", 2, 3, 1.0)]


def test_what_was_never_in_force_nothing_shows_and_what_was_tried_is_said(ask, chunk_of):
    chunk = chunk_of("a", 0.9, effective_from=date(2026, 2, 1), effective_to=date(2026, 1, 1))
    search = found(ask([(2, [chunk])]), "t2", "a")
    assert (search.single, search.pair) == (None, None)
    # nearest days of the spans before January, from then on, from February on, and before today
    assert dict(search.tried) == {"as_of": 3, "t2.tier": 4, "t2.trust_class": 1}


def test_a_change_with_which_the_search_is_refused_shows_nothing(ask, chunk_of):
    case = Case.of(ask([(2, [chunk_of("a", 0.1)])]), ("t2", "a"))
    refused = with_settings(case.result, strict_thresholds=True, similarity_threshold=0.1)
    assert case.again(refused) is None


def test_a_text_away_leaves_its_name_to_another_and_the_chunk_is_known_all_the_same(ask, chunk_of):
    # the source gave the id "x" to two texts: one of them keeps it, the other is named by its text as well
    same, other = RULE, "Of this rule another committee decides."
    pool = [(2, [chunk_of("x", 0.9, same), chunk_of("x", 0.3, other), chunk_of("y", 0.5, other)])]
    result = ask(pool, min_relevance_score=0.6)
    merged = next(fate for fate in result.fates if fate.outcome == "merged")
    case = Case.of(result, (merged.source_id, merged.chunk_id))
    search = smallest_changes(case)
    one = search.single or search.pair
    after = case.result
    for change in one.changes:
        after = recompute(change.applied(after))
    assert case.shown_in(after).chunk.content == case.candidate.chunk.content


def test_of_settings_that_give_a_result_its_own_stay_as_they_are(ask, chunk_of):
    result = ask([(2, [chunk_of("a", 0.1)])])
    before = replace(result)
    found(result, "t2", "a")
    assert result == before
