"""A text is cut into words once: what is asked of the analysis is what the functions of text say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.ranking.candidates import AnalysedText
from context_engine.core.text import normalize, read, terms, tokens, words

TEXTS = [
    "The approval limit of NPA-001 under 4.2.1(b) is 5 %.",
    "Document No.: MHB-SOP-7\nVersion: 3.1\n\n4.2 Records shall be kept “for seven years” in the bank’s archive.",
    "新产品审批流程如下。",
    "Notice 637\u00b9 \u2013 the non\u2011binding part",
    "",
]


@given(st.sampled_from(TEXTS) | st.text(max_size=60))
def test_a_reading_says_what_words_tokens_and_terms_say(text: str) -> None:
    assert read(text) == (len(words(text)), tuple(dict.fromkeys(tokens(text))), tuple(terms(text)))


@pytest.mark.parametrize("text", TEXTS)
def test_each_part_is_made_once(text: str) -> None:
    one = AnalysedText(text)
    assert one.reading is one.reading
    assert one.body is one.body
    assert one.identity is one.identity


def test_the_body_leaves_header_and_label_out_and_the_terms_do_not() -> None:
    one = AnalysedText(TEXTS[1])
    assert one.body.text == "Records shall be kept “for seven years” in the bank’s archive."
    assert one.body.tokens == tuple(dict.fromkeys(tokens(one.body.text)))
    assert "mhb-sop-7" in one.reading.terms
    assert "mhb-sop-7" not in one.body.tokens


def test_a_text_without_header_and_label_is_its_own_body() -> None:
    one = AnalysedText(TEXTS[0])
    assert one.body.text is one.text
    assert one.body.tokens is one.reading.tokens


def test_a_body_carries_numbers_negations_and_acts_each_once():
    body = AnalysedText("The desk must not exceed 5 % nor 7 %: it must reject what exceeds 5 %.").body
    assert body.carried == ("%", "5", "7", "must", "nor", "not", "reject")


def test_the_header_of_a_title_page_is_kept_for_comparison() -> None:
    page = "Document No.: MHB-SOP-7\nVersion: 3.1\n\nNew products"
    assert AnalysedText(page).body.head == "document no.: mhb-sop-7 version: 3.1"
    assert AnalysedText(TEXTS[0]).body.head == ""


@given(st.text(max_size=40), st.text(max_size=40))
def test_texts_that_read_the_same_have_one_identity(first: str, second: str) -> None:
    same = AnalysedText(first).identity == AnalysedText(second).identity
    assert same == (normalize(first) == normalize(second))
    assert AnalysedText(f"  {first}\n").identity == AnalysedText(first).identity


@pytest.mark.parametrize("text", ["", " \n\t", "\u3000"])
def test_a_text_without_characters_has_no_identity(text: str) -> None:
    assert AnalysedText(text).identity == ""
