"""Pairs that a base makes itself: what asks, what answers, and that order and chance have no say."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import Chunk
from context_engine.learning.pairs import KINDS, OwnPair, own_pairs

APPROVAL = (
    "The committee approves every new product of the trading desk. A product without an owner is sent back to its "
    "sponsor at once."
)
LIMIT = "Counterparty limits are reviewed each quarter by credit risk. Breaches are told to the head of markets."


def questions(pairs: list[OwnPair], kind: str) -> set[tuple[str, tuple[int, ...]]]:
    return {(one.question, one.answers) for one in pairs if one.kind == kind}


def test_sentences_and_windows_of_words_ask_for_the_passage_they_stand_in():
    found = own_pairs([Chunk(APPROVAL), Chunk(LIMIT)])

    assert questions(found, "sentence") == {
        ("The committee approves every new product of the trading desk.", (0,)),
        ("A product without an owner is sent back to its sponsor at once.", (0,)),
        ("Counterparty limits are reviewed each quarter by credit risk.", (1,)),
        ("Breaches are told to the head of markets.", (1,)),
    }
    assert ("The committee approves every new product of the trading desk. A product", (0,)) in questions(
        found, "window"
    )
    assert {len(one.question.split()) for one in found if one.kind == "window"} == {12}


def test_a_long_sentence_is_cut_to_the_length_of_a_question():
    (one,) = questions(own_pairs([Chunk(" ".join(f"word{number}" for number in range(60)))]), "sentence")

    assert one[0].split() == [f"word{number}" for number in range(24)]


def test_the_innermost_heading_stands_before_a_sentence():
    found = own_pairs([Chunk(LIMIT, heading_path=("4 Risk", "4.2 Limits")), Chunk(APPROVAL)])

    assert questions(found, "heading") == {
        ("4.2 Limits: Counterparty limits are reviewed each quarter by credit risk.", (0,)),
        ("4.2 Limits: Breaches are told to the head of markets.", (0,)),
    }


def test_a_term_asks_for_the_passage_that_defines_it_but_not_for_a_whole_glossary():
    long = [f"Term {number}" for number in range(21)]
    chunks = [
        Chunk(LIMIT, metadata={"defines": ["Counterparty Limit", "CL"]}),
        Chunk(APPROVAL, metadata={"defines": long}),
    ]

    assert questions(own_pairs(chunks), "definition") == {("Counterparty Limit", (0,)), ("CL", (0,))}


def test_what_says_the_whole_of_its_passage_asks_nothing():
    assert own_pairs([Chunk("Records are kept by operations for seven years.")]) == []
    assert own_pairs([Chunk("It is so. It was. They are.")]) == [], "nor what has no search terms"


def test_a_sentence_of_three_passages_asks_for_all_and_one_of_four_for_none():
    shared = "Records of all trades are kept by operations."
    own = [f"{shared} Desk number{place} trades bonds with banks." for place in range(4)]

    three = own_pairs([Chunk(text) for text in own[:3]])
    four = own_pairs([Chunk(text) for text in own])

    assert (shared, (0, 1, 2)) in questions(three, "sentence")
    assert shared not in {one.question for one in four}


def test_bare_headings_ask_nothing_and_answer_nothing():
    heads = [Chunk(APPROVAL, metadata={"heading_only": True}), Chunk(LIMIT)]

    assert {one.answers for one in own_pairs(heads)} == {(1,)}


def test_equal_texts_give_equal_pairs_in_any_order():
    texts = [f"{APPROVAL} Desk number{place} is told by mail. {LIMIT}" for place in range(30)]
    asked = {(one.kind, one.question, texts[one.answers[0]]) for one in own_pairs([Chunk(text) for text in texts])}
    random.Random(4).shuffle(texts)

    again = {(one.kind, one.question, texts[one.answers[0]]) for one in own_pairs([Chunk(text) for text in texts])}
    assert asked == again
    assert len(asked) > 30


words = st.text(alphabet="abcdefg ", min_size=1, max_size=200).filter(str.strip)


@given(st.lists(words, min_size=1, max_size=12), st.integers(0, 20))
def test_no_more_are_made_than_wanted_and_each_asks_for_what_it_stands_in(texts: list[str], most: int):
    found = own_pairs([Chunk(text, heading_path=("Head",)) for text in texts], most=most)

    assert len(found) <= most
    assert len({(one.kind, one.question) for one in found}) == len(found)
    for one in found:
        assert one.kind in KINDS
        assert 1 <= len(one.answers) <= 3
        said = one.question.removeprefix("Head: ").split()
        assert all(" ".join(said) in " ".join(texts[place].split()) for place in one.answers)


def test_a_kind_that_has_few_leaves_its_share_to_the_others_and_first_sentences_come_first():
    chunks = [Chunk(f"{APPROVAL} Desk number{place} trades bonds with large banks.") for place in range(40)]
    chunks[0] = chunks[0]._replace(heading_path=("4.2 Limits",))

    found = own_pairs(chunks, most=60)

    assert len(found) == 60
    assert sum(one.kind == "heading" for one in found) <= 4
    sentences = [one.answers for one in found if one.kind == "sentence"]
    assert len(sentences) == len(set(sentences)), "one of each passage before a second of any"
