"""One analyser for the index, the lexical score and dedup: what is a token, what is a term."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.text import (
    STOP_WORDS,
    bigrams,
    content_sha256,
    normalize,
    stems,
    term_weights,
    terms,
    tokens,
    words,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MAS Notice 637(4)(b)?: [", ["mas", "notice", "637(4)(b)"]),
        ("see 4.2.1(b), NPA-001.", ["see", "4.2.1(b)", "npa-001"]),
        ("limit(s) and/or high-risk", ["limit", "s", "and", "or", "high", "risk"]),
        ("USD 1,000,000.50 on 2026-01-15", ["usd", "1,000,000.50", "on", "2026-01-15"]),
        ("5 % or 5%", ["5", "%", "or", "5", "%"]),
        ("don't can’t won't do n't", ["do", "not", "can", "not", "will", "not", "do", "not"]),
        ("the bank's rule", ["the", "bank", "rule"]),
        (
            "I'd say we’ve what they're after; I'm sure it'll do",
            ["i", "would", "say", "we", "have", "what", "they", "are", "after", "i", "am", "sure", "it", "will", "do"],
        ),
        ("Annex D, item M, d'accord", ["annex", "d", "item", "m", "d", "accord"]),
        ("BCBS 239's and 4.2.1(b)’s scope", ["bcbs", "239", "and", "4.2.1(b)", "scope"]),
        ("_NPA-001_ and __4.2__, a _ b, npa_1", ["npa-001", "and", "4.2", "a", "b", "npa_1"]),
        (
            "ap\u00adproval of NPA-\u200b001 \u200eand\u200f \u06469\ufeff",
            ["approval", "of", "npa-001", "and", "\u06469"],
        ),
        ("新产品 approval", ["新", "产", "品", "approval"]),
        ("2024年-2025年", ["2024", "年", "2025", "年"]),
        ("第3-5条、NPA-001の", ["第", "3-5", "条", "npa-001", "の"]),
        ("人々 二〇二五", ["人", "々", "二", "〇", "二", "五"]),
        ("Ｎｅｔ ﬁnancing", ["net", "financing"]),
        ("NPA\u2011001 NPA\u2010001 NPA\u2012001 NPA\u2013001 NPA-001", ["npa-001"] * 5),
        ("2019\u20102021 high\u2011risk", ["2019-2021", "high", "risk"]),
        ("limits 5\u20137 % for Q1\u2013Q4", ["limits", "5", "7", "%", "for", "q1", "q4"]),
        ("Notice 637¹ of 2020²³, 5 m²", ["notice", "637", "of", "2020", "5", "m2"]),
        ("", []),
    ],
)
def test_tokens(text, expected):
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Approvals of the approving committee", ["approv", "approv", "committe"]),
        ("637(4)(b)", ["637(4)(b)", "637(4)", "637"]),
        ("NPA-SOP-001", ["npa-sop-001", "npa", "sop", "001"]),
        ("shall not", ["shall", "not"]),
        ("新产品审批", ["新产", "产品", "品审", "审批"]),
        ("限 额", ["限", "额"]),
        ("人々の方針", ["人々", "々の", "の方", "方針"]),
        ("what is the", []),
    ],
)
def test_terms(text, expected):
    assert terms(text) == expected


def test_a_clause_is_called_without_its_last_twelve_items():
    """Without that bound a hostile text of 100,000 characters has terms of a gigabyte."""
    assert terms("4" + "(a)" * 3) == ["4(a)(a)(a)", "4(a)(a)", "4(a)", "4"]
    assert terms("4" + "(a)" * 40) == ["4" + "(a)" * items for items in range(40, 27, -1)]


def test_negations_and_modals_are_no_stop_words():
    assert not {"not", "no", "must", "may", "shall", "never", "without"} & STOP_WORDS


def test_a_word_that_asks_counts_less_than_one_that_names():
    assert term_weights("Please explain the limits") == {"pleas": 0.2, "explain": 0.2, "limit": 1.0}
    assert term_weights("I'd like to possibly change limits") == {
        "like": 0.2,
        "possibl": 0.2,
        "chang": 1.0,
        "limit": 1.0,
    }
    assert term_weights("is a breach likely")["like"] == 1.0, "of the same stem, and asks nothing"
    assert term_weights("likely to be liked, I'd like to think")["like"] == 1.0, "one of them names"


def test_words_that_ask_count_fully_where_nothing_is_named():
    assert term_weights("please explain") == {"pleas": 1.0, "explain": 1.0}
    assert term_weights("what is it") == {}


def test_a_piece_of_a_code_counts_less_than_the_whole():
    assert term_weights("DCE-WEB-001 limits") == {"dce-web-001": 1.0, "dce": 0.2, "web": 0.2, "001": 0.2, "limit": 1.0}
    assert term_weights("web page DCE-WEB-001")["web"] == 1.0
    assert term_weights("637(4)(b)") == {"637(4)(b)": 1.0, "637(4)": 1.0, "637": 1.0}


def test_a_code_that_is_written_twice_with_a_space_weighs_as_one_that_is_written_once():
    assert term_weights("NPA 001 or NPA 001") == term_weights("NPA 001")
    assert term_weights("FIPS 140 beside FIPS 140-2")["140-2"] == 1.0


@given(
    st.lists(
        st.sampled_from(
            ["SP 800", "SP 800-63", "SP800", "sp 800", "5 m", "USD 5 million", "637(4)(b)", "4.2.1", "limit"]
        )
    )
)
def test_every_term_of_a_question_has_a_weight_whatever_is_repeated(pieces):
    weights = term_weights(" ".join(pieces))
    assert set(weights) <= set(terms(" ".join(pieces)))
    assert set(weights.values()) <= {0.2, 1.0}
    assert bool(weights) == bool(pieces)


def test_bigrams_are_neighbours():
    assert bigrams(["product", "approv", "criteria"]) == ["product_approv", "approv_criteria"]
    assert bigrams(["one"]) == []


def test_normalised_text_reads_the_same_and_its_hash_is_of_the_characters():
    assert normalize("  The\u00a0LIMIT\nis ") == "the limit is"
    assert content_sha256("a") != content_sha256("A")


@given(st.text(max_size=80))
def test_a_text_is_the_sum_of_its_words(text):
    assert tokens(text) == [token for word in words(text) for token in tokens(word)]
    assert all(token and not token.isspace() for token in tokens(text))


@given(st.text(max_size=80))
def test_analysis_is_the_same_each_time_and_blind_to_case(text):
    assert terms(text) == terms(text)
    assert tokens(text.casefold()) == tokens(text) or not text.isascii()


@given(st.lists(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12)))
def test_stems_are_one_for_one(given_words):
    found = stems(given_words)
    assert len(found) == len(given_words)
    assert found == [stems([word])[0] for word in given_words]
