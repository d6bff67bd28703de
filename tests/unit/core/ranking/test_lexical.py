"""The engine's own lexical score: the docstring's formula by hand, codes, Chinese, order."""

from itertools import permutations
from math import log

import pytest

from context_engine.core.ranking import lexical
from context_engine.core.ranking.analysed import AnalysedText

POOL = [
    "The approval limit is five.",  # approv 1, limit 1, the pair once; 5 tokens
    "A limit and a limit again.",  # limit 2; 6 tokens
    "Approving a recipe.",  # approv 1; 3 tokens
]


def lexical_scores(query, texts, labels=()):
    """The scores of plain texts."""
    return lexical.lexical_scores(query, *([AnalysedText(text) for text in some] for some in (texts, labels)))


def weight(tf, length, mean):
    """tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean)) with k1 = 1.2, b = 0.75."""
    return tf * (1.2 + 1) / (tf + 1.2 * (1 - 0.75 + 0.75 * length / mean))


def test_the_formula_by_hand():
    found = lexical_scores("approval limit", POOL)
    mean = (5 + 6 + 3) / 3
    approve = log(1 + 3 / 2)  # two of three texts hold it
    limit = log(1 + 3 / 2)
    pair = log(1 + 3 / 1)  # only the first text has "approval limit"
    assert found.score == pytest.approx(
        [
            approve * weight(1, 5, mean) + limit * weight(1, 5, mean) + 0.5 * pair * weight(1, 5, mean),
            limit * weight(2, 6, mean),
            approve * weight(1, 3, mean),
        ],
        rel=1e-12,
    )
    assert found.coverage == pytest.approx([1.0, limit / (approve + limit), approve / (approve + limit)], rel=1e-12)


def test_a_word_nobody_has_counts_against_everybody():
    """idf of a term no text holds: ln(1 + 2 / 1); of one that both hold: ln(1 + 2 / 2)."""
    found = lexical_scores("approval zeppelin", ["The approval.", "An approval."])
    assert found.coverage == pytest.approx([log(2) / (log(2) + log(3))] * 2)


def test_a_term_that_every_candidate_holds_still_scores():
    assert all(score > 0 for score in lexical_scores("approval", ["approval of it", "approval of that"]).score)


def test_repeating_a_word_saturates():
    """tf of 100 among equal lengths stays below (k1 + 1) times the idf."""
    once, often = "approval " + "filler " * 99, "approval " * 100
    scores = lexical_scores("approval", [once, often]).score
    assert scores[0] < scores[1] < log(1 + 2 / 2) * 2.2


def test_a_query_says_a_word_once():
    texts = ["The limit is here.", "A recipe."]
    assert lexical_scores("limit limit limit", texts) == lexical_scores("limit", texts)


@pytest.mark.parametrize("query", ["", "   ", "the of and is", "?!", "…"])
def test_a_query_without_terms_scores_nothing(query):
    found = lexical_scores(query, POOL)
    assert (found.score, found.coverage) == ([0.0] * 3, [0.0] * 3)


def test_an_empty_pool():
    assert lexical_scores("limit", []) == ([], [])
    assert lexical_scores("limit", ["", " "]).coverage == [0.0, 0.0]


def test_stems_meet_but_parts_of_words_do_not():
    found = lexical_scores("approving limits", ["approved limit", "disapprovallimitations"])
    assert found.coverage == [1.0, 0.0]


def test_not_and_must_are_terms():
    """Negations and modals change what a rule says, so they are no stop words."""
    first, second = lexical_scores("must not be sold", ["It must not be sold.", "It may be sold."]).coverage
    assert first == 1.0 > second


@pytest.mark.parametrize(
    ("query", "holds", "other"),
    [
        ("NPA-001", "Form NPA-001 applies.", "Form NPA-002 applies."),
        ("clause 4.2.1(b)", "See clause 4.2.1(b) there.", "See clause 4.2.1(c) there."),
        ("MAS Notice 637(4)(b)?: [", "MAS Notice 637(4)(b) says so.", "MAS Notice 639(4)(b) says so."),
        ("section 4.2", "Under section 4.2 it is.", "Under section 4.20 it is."),
        ("5 %", "A limit of 5 % holds.", "A limit of 15 % holds."),
        ("USD 500,000", "Above USD 500,000 it is.", "Above USD 500 it is."),
    ],
)
def test_codes_and_clauses_match_exactly(query, holds, other):
    found = lexical_scores(query, [holds, other])
    assert found.coverage[0] == 1.0 > found.coverage[1]
    assert found.score[0] > found.score[1]


def test_a_code_is_found_by_its_head():
    assert lexical_scores("4.2.1", ["Clause 4.2.1(b) says so.", "Clause 4.2.2 says so."]).coverage == [1.0, 0.0]


def test_chinese_is_read_in_pairs():
    found = lexical_scores("新产品审批", ["新产品审批流程如下。", "产品新闻。", "The approval of a new product."])
    assert found.coverage[0] == 1.0
    assert 0.0 < found.coverage[1] < 1.0
    assert found.coverage[2] == 0.0


def test_a_text_of_two_scripts_is_found_by_both():
    text = ["NPA 新产品审批 criteria"]
    assert lexical_scores("criteria", text).coverage == [1.0]
    assert lexical_scores("审批", text).coverage == [1.0]


def test_each_text_keeps_its_score_whatever_the_order():
    query = "approval limit recipe"
    expected = dict(zip(POOL, zip(*lexical_scores(query, POOL))))
    for order in permutations(POOL):
        assert dict(zip(order, zip(*lexical_scores(query, order)))) == expected


def test_the_same_word_in_stop_words_does_not_break_a_pair():
    """ "limit of approval" holds the pair limit_approval, as the query does once its stop words are gone."""
    adjacent, apart = "limit of approval here today", "limit today here five approval"
    scores = lexical_scores("limit for the approval", [adjacent, apart]).score
    assert scores[0] > scores[1]


def test_coverage_never_leaves_its_range():
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
    texts = [" ".join(words[:number]) for number in range(len(words) + 1)]
    coverage = lexical_scores(" ".join(words), texts).coverage
    assert (coverage[0], coverage[-1]) == (0.0, 1.0)
    assert coverage == sorted(coverage)


def test_a_label_counts_a_code_fully_and_a_word_by_a_fifth():
    """One of two labels holds each term, so idf over the labels is ln(1 + 2 / 1); the texts hold neither."""
    texts, labels = ["A rule.", "A rule."], ["Notice 637", "Procedure"]
    assert lexical_scores("notice 637", texts, labels).score == pytest.approx([1.0 * log(3) + 0.2 * log(3), 0.0])


@pytest.mark.parametrize(
    ("query", "word"), [("die", "dying"), ("lies", "lying"), ("sky", "skies"), ("skiing", "skis"), ("plan b", "b")]
)
def test_words_with_a_stem_of_their_own_are_found_by_another_form(query, word):
    assert lexical_scores(query, [f"They are {word}.", "Nothing."]).coverage[0] > 0.0
