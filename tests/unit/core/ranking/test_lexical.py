"""The engine's own lexical score: the docstring's formula by hand, codes, Chinese, order."""

from itertools import permutations
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import TermStatistics
from context_engine.core.ranking import lexical
from context_engine.core.ranking.candidates import AnalysedText

POOL = [
    "The approval limit is five.",  # approv 1, limit 1, the pair once; 5 tokens
    "A limit and a limit again.",  # limit 2; 6 tokens
    "Approving a recipe.",  # approv 1; 3 tokens
]


def lexical_scores(query, texts, labels=(), statistics=()):
    """The scores of plain texts."""
    analysed = ([AnalysedText(text) for text in some] for some in (texts, labels))
    return lexical.lexical_scores(query, *analysed, statistics)


def base(name="base", chunks=1000, **document_frequency):
    """What a source says of the collection it searched."""
    return TermStatistics(collection=name, chunks=chunks, document_frequency=document_frequency)


def weight(tf, length, mean):
    """tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean)) with k1 = 1.2, b = 0.75."""
    return tf * (1.2 + 1) / (tf + 1.2 * (1 - 0.75 + 0.75 * length / mean))


def test_the_order_of_a_label_changes_no_digit():
    """The sum of five idf is exact, so it is the same on every version of Python, whose `sum` differ."""
    words = ["mandate", "breach", "limit", "desk", "product"]
    others = [" ".join(words[:count]) for count in range(1, 5)]  # each word in another number of labels: five idf
    texts = ["Nothing of it."] * 5
    scores = [
        lexical_scores(" ".join(words), texts, [" ".join(label), *others]).score[0] for label in permutations(words)
    ]
    assert len({*scores}) == 1


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
    # close to one another both count fully, on its own a term counts half
    alone = [0.5 * limit / (approve + limit), 0.5 * approve / (approve + limit)]
    assert found.coverage == pytest.approx([1.0, *(share**0.75 for share in alone)], rel=1e-12)


def test_what_a_text_tells_together_by_hand():
    found = lexical_scores("approval limit", POOL, [""] * 3, [base(approv=10, limit=40)] * 3)
    mean = (5 + 6 + 3) / 3
    approve, limit = log(1 + 1000 / 10), log(1 + 1000 / 40)
    told = [
        approve * weight(1, 5, mean) + limit * weight(1, 5, mean) + 0.5 * limit,  # the pair has the lesser rarity
        limit * weight(2, 6, mean),
        approve * weight(1, 3, mean),
    ]
    assert found.joint == pytest.approx([value / (approve + limit) ** 0.75 for value in told], rel=1e-12)


def test_a_word_of_the_label_alone_tells_half():
    known = [base(approv=10, limit=40)] * 2
    without, labelled = lexical_scores("approval limit", ["A limit.", "A limit."], ["", "Approval"], known).joint
    approve, limit = log(1 + 1000 / 10), log(1 + 1000 / 40)
    assert labelled - without == pytest.approx(0.5 * approve / (approve + limit) ** 0.75, rel=1e-12)


def test_a_word_nobody_has_counts_against_everybody():
    """A term that no text holds counts twice ln(1 + 2); of one that both hold, ln(1 + 2 / 2), half for it is alone."""
    found = lexical_scores("approval zeppelin", ["The approval.", "An approval."])
    assert found.coverage == pytest.approx([(0.5 * log(2) / (log(2) + 2 * log(3))) ** 0.75] * 2)


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
    assert lexical_scores("limit", []) == ([], [], [])
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


# -- coverage ---------------------------------------------------------------------------------------------------------


def share(held, missing):
    """Coverage of information held and missing."""
    return pytest.approx((held / (held + missing)) ** 0.75, rel=1e-12)


def test_a_word_weighs_by_how_rare_it_is_where_was_searched():
    """Among 1000 chunks 500 hold "limit" and 2 hold "zeppelin"; the pool alone would take both for equally rare."""
    limit, zeppelin = log(1 + 1000 / 500), log(1 + 1000 / 2)
    known = base(limit=500, zeppelin=2)
    found = lexical_scores("zeppelin limit", ["A limit.", "A zeppelin."], (), [known, known])
    assert found.coverage == [share(0.5 * limit, 0.5 * limit + zeppelin), share(0.5 * zeppelin, 0.5 * zeppelin + limit)]
    assert found.coverage[0] < 0.15 < found.coverage[1]
    assert lexical_scores("zeppelin limit", ["A limit.", "A zeppelin."]).coverage[0] > 0.15


def test_a_word_that_the_collection_lacks_counts_twice_as_much_as_its_rarest():
    limit, nowhere = log(1 + 1000 / 500), 2 * log(1 + 1000)
    found = lexical_scores("zeppelin limit", ["A limit."], (), [base(limit=500, zeppelin=0)])
    assert found.coverage == [share(0.5 * limit, 0.5 * limit + nowhere)]


def test_one_word_that_the_collection_lacks_does_not_refuse_a_text_that_holds_the_rest():
    """A misspelling or a proper name among words of the right text."""
    known = base(chunks=13_000, outsourc=300, critic=500, function=900, approv=1500, board=800, hargreav=0)
    text = ["The board approves the outsourcing of critical functions."]
    query = "Does Hargreaves or the board approve outsourcing of critical functions?"
    assert lexical_scores(query, text, (), [known]).coverage[0] > 0.5


def test_words_close_to_one_another_count_fully_scattered_ones_half():
    known = base(approv=10, limit=10)
    query, filler = "approval limit", "lorem ipsum dolor sit amet"
    texts = ["approval limit", "approval lorem ipsum dolor sit limit", f"approval {filler} limit"]
    assert lexical_scores(query, texts, (), [known] * 3).coverage == pytest.approx([1.0, 1.0, 0.5**0.75])


def test_the_nearest_occurrence_decides_how_close_a_word_is():
    known = base(approv=10, limit=10)
    far = "approval approval lorem ipsum dolor sit amet consectetur limit"
    near = f"{far} lorem approval"
    assert lexical_scores("approval limit", [far, near], (), [known] * 2).coverage == pytest.approx([0.5**0.75, 1.0])


def test_a_word_of_the_heading_counts_fully():
    """The text holds "limit" alone: close to nothing, so half; the heading holds "approval"."""
    known = base(approv=10, limit=10)
    found = lexical_scores("approval limit", ["A limit."] * 2, ["Canteen", "Approval"], [known] * 2).coverage
    assert found == pytest.approx([(0.5 / 2) ** 0.75, (1.5 / 2) ** 0.75])


def test_the_only_word_of_a_question_counts_fully():
    assert lexical_scores("limit", ["A limit."], (), [base(limit=3)]).coverage == [1.0]


def test_a_word_is_counted_over_all_collections_and_each_collection_once():
    """Five sources of one base with 1000 chunks and one other base with 500: 1500 chunks, not 5500."""
    one, other = base("one", 1000, limit=100, fee=50), base("two", 500, limit=20, fee=0)
    texts = ["limit"] * 5 + ["fee"]
    limit, fee = log(1 + 1500 / (100 + 20)), log(1 + 1500 / (50 + 1))  # the second base's own text holds "fee"
    same = [base("one", 1000, limit=100, fee=50) for _ in range(4)]
    found = lexical_scores("limit fee", texts, (), [one, *same, other]).coverage
    assert found == [share(0.5 * limit, 0.5 * limit + fee)] * 5 + [share(0.5 * fee, 0.5 * fee + limit)]


def test_texts_of_no_known_collection_are_counted_as_one_more():
    """1000 chunks of the base and two texts beside them, one of which holds "fee"."""
    limit, fee = log(1 + 1002 / 100), log(1 + 1002 / 51)
    texts = ["limit", "fee", "nothing"]
    found = lexical_scores("limit fee", texts, (), [base(limit=100, fee=50), None, None]).coverage
    assert found == [share(0.5 * limit, 0.5 * limit + fee), share(0.5 * fee, 0.5 * fee + limit), 0.0]


def test_a_word_that_was_not_counted_is_counted_in_the_candidates():
    limit, fee = log(1 + 1000 / 100), log(1 + 1000 / 1)
    found = lexical_scores("limit fee", ["limit", "fee"], (), [base(limit=100)] * 2).coverage
    assert found == [share(0.5 * limit, 0.5 * limit + fee), share(0.5 * fee, 0.5 * fee + limit)]


def test_an_empty_collection_says_nothing():
    assert lexical_scores("limit fee", ["limit", "fee"], (), [base(chunks=0)] * 2) == lexical_scores(
        "limit fee", ["limit", "fee"]
    )


NAMED = st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon", "other", "filler"])


@given(
    query=st.lists(NAMED, min_size=1, max_size=6),
    texts=st.lists(st.lists(NAMED, max_size=20), min_size=1, max_size=5),
    frequency=st.dictionaries(NAMED, st.integers(0, 50)),
)
def test_coverage_is_a_share_whatever_the_order(query, texts, frequency):
    known = base(chunks=50, **frequency)
    plain = [" ".join(text) for text in texts]
    expected = lexical_scores(" ".join(query), plain, (), [known] * len(plain)).coverage
    assert all(0.0 <= one <= 1.0 for one in expected)
    turned = lexical_scores(" ".join(query), plain[::-1], (), [known] * len(plain)).coverage
    assert turned[::-1] == expected


@given(
    query=st.lists(NAMED, min_size=1, max_size=6, unique=True),
    text=st.lists(NAMED, min_size=1, max_size=20),
    more=NAMED,
)
def test_a_text_with_a_further_word_of_the_question_is_never_worse(query, text, more):
    """At equal closeness: what it holds stays where it is."""
    known = base(chunks=50, **dict.fromkeys(("alpha", "beta", "gamma", "delta"), 7))
    less, also = " ".join(text), " ".join([*text, more])
    first, second = (lexical_scores(" ".join(query), [one], (), [known]).coverage[0] for one in (less, also))
    assert second >= first - 1e-12
