"""Relevance: declared, or measured by one scorer over all candidates, and the absolute signal beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from math import exp, inf, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import Chunk, RawAnswer, Score, ScoreKind, TermStatistics
from context_engine.core.ranking import lexical
from context_engine.core.ranking.candidates import AnalysedText, pool
from context_engine.core.ranking.relevance import (
    below_reranked,
    best_of,
    blended,
    measure,
    normalise_pool,
    relevance_by_scores,
    unit_scores,
    with_cosine,
)
from context_engine.errors import RerankerError

QUERY = "approval limit"

TEXTS = ["The approval limit is five.", "A limit and a limit again.", "Approving a recipe.", "Canteen hours."]


def lexical_scores(query, texts):
    """The scores of plain texts."""
    return lexical.lexical_scores(query, [AnalysedText(text) for text in texts])


@pytest.fixture
def candidates(spec_of):
    """Candidates of [(source id, text, scores)], in that order by id."""

    def make(*given):
        answers = {}
        for number, (source, text, *scores) in enumerate(given):
            chunk = Chunk(content=text, chunk_id=f"{number:02d}", scores=tuple(scores))
            answers.setdefault(source, []).append(chunk)
        pairs = [
            (spec_of(2, source), RawAnswer(source_id=source, chunks=tuple(chunks), retrieved_at=datetime.now(UTC)))
            for source, chunks in answers.items()
        ]
        return sorted(pool(pairs)[0], key=lambda candidate: candidate.key[1])

    return make


def both(coverage, cosine):
    """Coverage and cosine as one signal: their geometric mean, shifted by 1/4."""
    return pytest.approx(sqrt((coverage + 0.25) * (cosine + 0.25)) - 0.25)


def cosine(value, scorer=None):
    return Score(ScoreKind.COSINE, value, scorer)


# -- normalising ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([10.0, 9.0], [1.0, (9 - 5) / (10 - 5)]),  # lo = min(9, 0.5 * 10) = 5
        ([10.0, 4.0], [1.0, 0.0]),  # lo = min(4, 5) = 4
        ([10.0, 6.0, 2.0], [1.0, (6 - 2) / (10 - 2), 0.0]),  # lo = 2
        ([0.0328, 0.0320], [1.0, (0.0320 - 0.0164) / (0.0328 - 0.0164)]),
        ([0.8], [1.0]),
        ([3.0, 3.0, 3.0], [1.0, 1.0, 1.0]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([-0.5, -0.1], [0.0, 0.0]),  # nothing is relevant
        ([0.5, -0.5], [1.0, 0.0]),  # lo = -0.5
        ([], []),
    ],
)
def test_normalising_by_hand(scores, expected):
    assert normalise_pool(scores) == pytest.approx(expected, abs=1e-12)


# -- declared ---------------------------------------------------------------------------------------------------------


def test_declared_relevance_is_taken_at_its_word_in_both(candidates):
    given = candidates(
        ("a", TEXTS[3], Score(ScoreKind.RELEVANCE, 0.83), cosine(0.1)), ("b", TEXTS[0], Score(ScoreKind.RELEVANCE, 0.0))
    )
    assert measure(QUERY, given) == ([0.83, 0.0], [0.83, 0.0], "declared", [], [], [inf, inf])


def test_beside_declared_ones_the_others_are_measured_among_themselves(candidates):
    given = candidates(
        ("a", TEXTS[0], Score(ScoreKind.RELEVANCE, 0.2)),
        ("b", TEXTS[1], cosine(0.8)),
        ("b", TEXTS[2], cosine(0.6)),
    )
    measured = measure(QUERY, given)
    assert measured.relevance == [0.2, 1.0, pytest.approx((0.6 - 0.4) / (0.8 - 0.4))]
    coverage = lexical_scores(QUERY, TEXTS[1:3]).coverage
    assert measured.absolute == [0.2, both(coverage[0], 0.8), both(coverage[1], 0.6)]
    assert measured.by == "cosine"


# -- the common measure -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [ScoreKind.WEIGHTED, ScoreKind.RRF, ScoreKind.BM25, ScoreKind.FULLTEXT, ScoreKind.LEXICAL]
)
def test_one_scorer_over_several_sources_is_the_common_measure(candidates, kind):
    given = candidates(("a", TEXTS[2], Score(kind, 0.9, "one")), ("b", TEXTS[0], Score(kind, 0.6, "one")))
    measured = measure(QUERY, given)
    assert measured.by == str(kind)
    assert measured.relevance == [1.0, pytest.approx((0.6 - 0.45) / (0.9 - 0.45))]


def test_the_cosine_of_one_model_over_several_sources_counts_half_and_the_lexical_score_the_other(candidates):
    lexical = lexical_scores(QUERY, [TEXTS[1], TEXTS[0]]).score
    given = candidates(("a", TEXTS[1], cosine(0.9, "e5")), ("b", TEXTS[0], cosine(0.6, "e5")))
    first = (lexical[0] / max(lexical) + 0.9) / 2
    second = (1.0 + 0.6) / 2
    assert lexical[1] == max(lexical)
    high, low = max(first, second), min(first, second, max(first, second) / 2)
    measured = measure(QUERY, given)
    assert measured.by == "cosine"
    assert measured.relevance == pytest.approx([(first - low) / (high - low), (second - low) / (high - low)])


@pytest.mark.parametrize("scorers", [(None, None), ("e5", "bge"), ("e5", None), ("e5", "e5+3f9a1c0b7e42")])
def test_scores_of_two_scorers_are_never_compared(candidates, scorers):
    given = candidates(("a", TEXTS[2], cosine(0.9, scorers[0])), ("b", TEXTS[0], cosine(0.5, scorers[1])))
    measured = measure(QUERY, given)
    assert measured.by == "lexical"
    assert measured.relevance == normalise_pool(lexical_scores(QUERY, [TEXTS[2], TEXTS[0]]).score)


def test_one_answer_needs_no_name_for_its_scorer(candidates):
    given = candidates(("a", TEXTS[2], cosine(0.9)), ("a", TEXTS[0], cosine(0.6)))
    assert measure(QUERY, given).by == "cosine"


def test_one_answer_that_speaks_for_several_sources_is_still_one_answer(spec_of):
    spec = spec_of(5, trust_document_metadata=True)
    chunks = tuple(
        Chunk(content=text, chunk_id=text[:5], source_id=f"s{number}", scores=(cosine(0.9 - number / 10),))
        for number, text in enumerate(TEXTS)
    )
    answer = RawAnswer(source_id=spec.id, chunks=chunks, retrieved_at=datetime.now(UTC))
    found, _ = pool([(spec, answer)])
    assert len({candidate.key[0] for candidate in found}) == 4
    assert measure(QUERY, found).by == "cosine"


def test_a_measure_that_one_candidate_lacks_is_no_measure(candidates):
    given = candidates(("a", TEXTS[0], cosine(0.9, "e5")), ("a", TEXTS[2], Score(ScoreKind.BM25, 8.0)))
    assert measure(QUERY, given).by == "lexical"


def test_the_most_telling_shared_kind_measures(candidates):
    both = (cosine(0.5, "e5"), Score(ScoreKind.BM25, 9.0, "index"))
    assert measure(QUERY, candidates(("a", TEXTS[0], *both), ("b", TEXTS[1], *both))).by == "cosine"
    model = Score(ScoreKind.RERANK, 0.4, "cross")
    assert measure(QUERY, candidates(("a", TEXTS[0], *both, model), ("b", TEXTS[1], *both, model))).by == "rerank"


@pytest.mark.parametrize("value", [0.0, 1e9, -5.0])
def test_a_score_of_unknown_meaning_ranks_nothing(candidates, value):
    """It may be a distance: the lower the better, for all we know."""
    without = measure(QUERY, candidates(*(("a", text) for text in TEXTS)))
    scored = [("a", text, Score(ScoreKind.UNKNOWN, value * number)) for number, text in enumerate(TEXTS)]
    assert measure(QUERY, candidates(*scored)) == without
    assert without.by == "lexical"


# -- the absolute signal ----------------------------------------------------------------------------------------------


def test_the_absolute_signal_is_coverage_or_a_bounded_score_where_that_is_higher(candidates):
    given = candidates(
        ("a", TEXTS[0], Score(ScoreKind.RERANK, 0.3)),
        ("c", TEXTS[2], Score(ScoreKind.WEIGHTED, 0.95)),
        ("d", TEXTS[3], Score(ScoreKind.RERANK, 0.2)),
    )
    assert measure(QUERY, given).absolute == [1.0, 0.95, 0.2]


def test_with_a_cosine_the_absolute_signal_is_the_geometric_mean_of_both(candidates):
    """So neither other words for the same thing nor the same words about another thing count nothing."""
    given = candidates(
        ("a", TEXTS[0], cosine(0.3)),
        ("b", TEXTS[3], cosine(0.7)),
        ("c", TEXTS[0], cosine(0.4), Score(ScoreKind.WEIGHTED, 0.99)),
        ("d", TEXTS[0], cosine(0.4), Score(ScoreKind.RERANK, 0.8)),
    )
    assert measure(QUERY, given).absolute == [both(1.0, 0.3), both(0.0, 0.7), both(1.0, 0.4), 0.8]


@pytest.mark.parametrize(
    "kind", [ScoreKind.BM25, ScoreKind.FULLTEXT, ScoreKind.RRF, ScoreKind.LEXICAL, ScoreKind.UNKNOWN]
)
def test_a_kind_without_a_fixed_range_says_nothing_absolute(candidates, kind):
    given = candidates(("a", TEXTS[3], Score(kind, 99.0)), ("a", TEXTS[0], Score(kind, 1.0)))
    assert measure(QUERY, given).absolute == [0.0, 1.0]


def test_a_pool_of_one_keeps_its_absolute_signal(candidates):
    assert measure(QUERY, candidates(("a", TEXTS[3], cosine(0.42)))).relevance == [both(0.0, 0.42)]
    # "limit", held by the one text, counts ln 2 and half for it is alone; "approv", held by none, twice ln 2
    limited = (0.5 * log(2) / (log(2) + 2 * log(2))) ** 0.75
    assert measure(QUERY, candidates(("a", TEXTS[1]))).relevance == [pytest.approx(limited)]
    assert measure(QUERY, candidates(("a", TEXTS[3]))).relevance == [0.0]
    assert measure(QUERY, []).relevance == []


def test_negative_cosines_are_not_relevant(candidates):
    measured = measure("zeppelin", candidates(("a", TEXTS[0], cosine(-0.1)), ("a", TEXTS[1], cosine(-0.9))))
    assert (measured.relevance, measured.absolute) == ([0.0, 0.0], [0.0, 0.0])
    mixed = measure("zeppelin", candidates(("a", TEXTS[0], cosine(0.5)), ("a", TEXTS[1], cosine(-0.5))))
    assert (mixed.relevance, mixed.absolute) == ([1.0, 0.0], [both(0.0, 0.5), 0.0])


def test_an_exact_code_keeps_half_its_coverage_whatever_the_cosine(candidates):
    """The vector of a bare code is close to nothing."""
    assert measure("NPA-001", candidates(("a", "Form NPA-001 applies.", cosine(0.0)))).absolute == [0.5]


def test_coverage_and_cosine_raise_the_signal_and_never_leave_its_range():
    steps = [step / 10 for step in range(-10, 11)]
    for coverage in steps[10:]:
        for lower, higher in pairwise(steps):
            assert 0.0 <= with_cosine(coverage, lower) <= with_cosine(coverage, higher) <= 1.0
    for closeness in steps:
        for lower, higher in pairwise(steps[10:]):
            assert with_cosine(lower, closeness) <= with_cosine(higher, closeness)
    assert (with_cosine(0.0, -1.0), with_cosine(1.0, 1.0)) == (0.0, 1.0)


def test_the_statistics_of_a_source_weigh_the_words_of_its_candidates(candidates):
    """ "approv" is in 1 of 1000 chunks, "limit" in 900: the text with "limit" alone says next to nothing."""
    known = TermStatistics(collection="base", chunks=1000, document_frequency={"approv": 1, "limit": 900})
    given = candidates(("a", TEXTS[1]), ("b", TEXTS[3]))
    limit, approve = log(1 + 1000 / 900), log(1 + 1000 / 1)
    expected = (0.5 * limit / (limit + approve)) ** 0.75
    assert measure(QUERY, given, {"a": known, "b": known}).absolute == [pytest.approx(expected), 0.0]
    assert measure(QUERY, given).absolute[0] > 2 * expected


def logistic(value):
    return 1 / (1 + exp(-value))


def test_rerank_scores_outside_0_to_1_are_logits_all_of_them(candidates):
    """0.9 among logits is a logit too: read as a probability it would overtake 1.2."""
    values = [4.0, 1.2, 0.9, -6.0]
    given = candidates(*(("a", text, Score(ScoreKind.RERANK, value)) for text, value in zip(TEXTS, values)))
    measured = measure("zeppelin", given)
    assert measured.absolute == pytest.approx([logistic(value) for value in values])
    assert measured.relevance == sorted(measured.relevance, reverse=True)
    assert measured.relevance[2] == pytest.approx((logistic(0.9) - logistic(-6.0)) / (logistic(4.0) - logistic(-6.0)))


def test_logits_of_one_model_do_not_change_the_probabilities_of_another(candidates):
    given = candidates(
        ("a", TEXTS[0], Score(ScoreKind.RERANK, 0.9, "probabilities")),
        ("b", TEXTS[1], Score(ScoreKind.RERANK, 7.0, "logits")),
    )
    assert measure("zeppelin", given).absolute == [0.9, pytest.approx(logistic(7.0))]


def test_extreme_logits_stay_numbers(candidates):
    given = candidates(
        ("a", TEXTS[0], Score(ScoreKind.RERANK, 1e308)), ("a", TEXTS[1], Score(ScoreKind.RERANK, -1e308))
    )
    assert measure("zeppelin", given).absolute == pytest.approx([1.0, 0.0])


def test_a_cosine_a_rounding_error_above_one_is_one(candidates):
    given = candidates(("a", TEXTS[0], cosine(1.0000001)), ("a", TEXTS[1], cosine(-1.0000001)))
    assert measure("zeppelin", given).absolute == [both(0.0, 1.0), 0.0]


def test_a_fused_score_measures_before_its_cosine(candidates):
    """A hybrid base gives both: .9 and .5 fused are 1 and 0; by cosine the second would lead."""
    fused = [Score(ScoreKind.WEIGHTED, value, "base") for value in (0.9, 0.45)]
    given = candidates(("a", TEXTS[0], fused[0], cosine(0.3, "m")), ("a", TEXTS[1], fused[1], cosine(0.6, "m")))
    measured = measure(QUERY, given)
    assert (measured.by, measured.relevance) == ("weighted", [1.0, 0.0])


UNIT = st.floats(0.0, 1.0)


def test_the_best_by_relevance_then_tier_then_row() -> None:
    relevance, tiers = [0.5, 0.9, 0.5, 0.1, 0.5], [3, 5, 2, 1, 2]
    assert best_of([4, 3, 2, 1, 0], relevance, tiers, None) == [0, 1, 2, 3, 4]
    assert best_of([0, 1, 2, 3, 4], relevance, tiers, 2) == [1, 2]
    assert best_of([0, 1, 2, 3, 4], relevance, tiers, 3) == [1, 2, 4]
    assert best_of([0, 3], relevance, tiers, 9) == [0, 3]


def test_the_blend() -> None:
    assert blended(0.8, 0.2, 0.25) == 0.25 * 0.8 + 0.75 * 0.2


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([0.8, 0.6], [0.9, 0.3], [0.6 * 0.3 / 0.6, 0.2 * 0.3 / 0.6]),  # they fall by half, as the lowest did
        ([0.8, 0.6], [0.9, 0.7], [0.6, 0.2]),  # the reranked rose: nothing else does
        ([0.8, 0.6], [0.9, 0.0], [0.0, 0.0]),
        ([0.0, 0.0], [0.5, 0.5], [0.5, 0.2]),  # never above the lowest of them
    ],
)
def test_the_rest_stays_below(before: list[float], after: list[float], expected: list[float]) -> None:
    assert below_reranked([0.6, 0.2], before, after) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.tuples(UNIT, UNIT), min_size=1, max_size=6), st.lists(UNIT, max_size=6), st.floats(0.0, 1.0))
def test_none_of_the_rest_rises_or_comes_above_the_reranked(
    reranked: list[tuple[float, float]], rest: list[float], weight: float
) -> None:
    before = [one for one, _ in reranked]
    after = [blended(one, score, weight) for one, score in reranked]
    rest = sorted((min(value, *before, 1.0) for value in rest), reverse=True)
    found = below_reranked(rest, before, after)
    assert all(value <= min(after) for value in found)
    assert all(value <= was for value, was in zip(found, rest, strict=True))
    assert found == sorted(found, reverse=True)


def test_none_of_none_was_reranked() -> None:
    """Without a lowest reranked one nothing limits the others."""
    assert below_reranked([0.6, 0.2], [], []) == [0.6, 0.2]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.5, 1.0], [0.0, 0.5, 1.0]),
        ([0.5, 1.5], [logistic(0.5), logistic(1.5)]),
        ([0.5, -0.1], [logistic(0.5), logistic(-0.1)]),
        ([800.0, -800.0], [1.0, pytest.approx(0.0)]),
        ([], []),
    ],
)
def test_scores_of_a_reranker_are_kept_in_0_to_1_and_logits_otherwise(values, expected):
    assert unit_scores("model", values) == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_score_of_a_reranker_that_is_no_number_is_refused(value):
    with pytest.raises(RerankerError, match="model gave a score that is not finite"):
        unit_scores("model", [0.5, value])


@pytest.mark.parametrize(("values", "logits"), [([0.0, 1.0], False), ([0.5, 1.5], True), ([0.5, -0.5], True)])
def test_rerank_scores_of_0_and_1_are_no_logits(candidates, values, logits):
    given = candidates(*(("a", TEXTS[3], Score(ScoreKind.RERANK, value)) for value in values))
    expected = [logistic(value) for value in values] if logits else values
    assert measure("zeppelin", given).absolute == pytest.approx(expected)


BM25 = [Score(ScoreKind.BM25, value, "index") for value in (8.0, 6.0)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("a", BM25[0]), ("b", BM25[1])], [1.0, (6 - 4) / (8 - 4)]),
        ([("a", cosine(0.8)), ("a", cosine(0.6))], [1.0, pytest.approx((0.6 - 0.4) / (0.8 - 0.4))]),
        ([("a", cosine(0.8, "e5")), ("b", cosine(0.6, "e5"))], None),  # the words count half
        ([("a", BM25[0]), ("b",)], None),  # no common score: the words measure
        ([("a", Score(ScoreKind.RERANK, 0.8)), ("a", Score(ScoreKind.RERANK, 0.6))], None),
        ([("a", BM25[0], Score(ScoreKind.RELEVANCE, 0.5)), ("b", BM25[1])], None),
        ([], None),
    ],
    ids=["one index", "one source", "cosines of two sources", "none in common", "reranked", "declared", "nothing"],
)
def test_relevance_by_scores_is_that_of_measure_where_no_text_is_needed(candidates, rows, expected):
    given = candidates(*((source, text, *scores) for text, (source, *scores) in zip(TEXTS, rows)))
    assert relevance_by_scores(given) == expected
    if expected is not None:
        assert measure(QUERY, given).relevance == expected


def test_relevance_known_from_a_larger_pool_replaces_that_of_this_one(candidates):
    given = candidates(("a", TEXTS[0], BM25[0]), ("a", TEXTS[1], BM25[1]))
    assert measure(QUERY, given, known=[0.4, 0.3]).relevance == [0.4, 0.3]
    assert measure(QUERY, given, known=[0.4, 0.3]).absolute == measure(QUERY, given).absolute


def test_cosines_count_alone_where_no_text_holds_a_word_of_the_question(candidates):
    """Lexical 0 and 0: (0 + .8) / 2 and (0 + .6) / 2, so (.3 - .2) / (.4 - .2) for the second."""
    given = candidates(("a", TEXTS[2], cosine(0.8, "e5")), ("b", TEXTS[3], cosine(0.6, "e5")))
    assert measure("zeppelin", given).relevance == [1.0, pytest.approx((0.3 - 0.2) / (0.4 - 0.2))]
