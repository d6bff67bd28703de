"""What a question wants explained, and which statements explain it."""

from __future__ import annotations

from typing import Any

import pytest

from context_engine.answer.defining import AskedTerm
from context_engine.answer.extract import extract
from context_engine.answer.wants import read_question


def term(question: str) -> AskedTerm:
    asked = read_question(question)
    assert asked.want.name == "definition"
    return asked.term


def answers(question: str, *passages: Any) -> list[str]:
    return [sentence.text for sentence in extract(question, passages).sentences]


@pytest.mark.parametrize(
    "question",
    [
        "What is a vault key?",
        "whats a vault key",
        "what does vault key mean",
        "What do we mean by a vault key? is it just any key",
        "What's meant by a vault key?",
        "define vault key",
        "meaning of vault key",
        "vault key meaning",
        "Can you explain what a vault key is?",
        "what counts as a vault key",
        "When does a key count as a vault key?",
        "What does vault key refer to in the handbook?",
        "What is a vault key when you open a branch?",
    ],
)
def test_the_term_is_read_from_many_wordings(question: str) -> None:
    assert term(question).terms == ("vault", "key")


@pytest.mark.parametrize(
    "question", ["What does RTO stand for?", "RTO stands for?", "What does acronym RTO stand for?"]
)
def test_a_long_form_is_asked_for(question: str) -> None:
    assert term(question).short == "RTO" and term(question).is_long_form


def test_an_abbreviation_may_be_explained_or_spelled_out(passage) -> None:
    spelled = passage("The Recovery Time Objective (RTO) of each desk is reviewed in May.", rank=1)
    explained = passage("An RTO is the longest time that a desk may be closed.", rank=2)
    assert answers("What is an RTO?", spelled, explained)[0] == explained.text
    assert answers("What is an RTO?", spelled) == [spelled.text]
    assert answers("What does RTO stand for?", explained, spelled) == [spelled.text]


def test_the_words_before_the_brackets_need_not_begin_with_its_letters(passage) -> None:
    text = "A request is opened in the Vault Change Management (VLTCM) project."
    assert answers("What does VLTCM stand for?", passage(text)) == [text]


def test_a_sentence_that_begins_with_the_term_explains_it_rather_than_one_that_has_it(passage) -> None:
    text = (
        "Use of a look-up key is described elsewhere.\n\nA strong lock resists a look-up key if it is new.\n\n"
        "A look-up key is a paper list of codes."
    )
    assert answers("What is a look-up key?", passage(text))[0] == "A look-up key is a paper list of codes."


def test_the_first_sentence_below_a_heading_that_is_the_term_explains_it(passage) -> None:
    text = "### Night Key\n\nA spare that opens the side door alone. It is lent to guards."
    assert answers("What is a night key?", passage(text, headings=("Terms", "Night Key"))) == [
        "A spare that opens the side door alone."
    ]


def test_a_row_of_a_table_of_terms_explains_its_first_cell(passage) -> None:
    text = "| Abbreviation | Term |\n|---|---|\n| NKR | Night Key Register |\n| DKR | Day Key Register |"
    assert answers("NKR stands for?", passage(text)) == ["Abbreviation: NKR; Term: Night Key Register"]


def test_a_meaning_comes_before_a_property_and_before_a_row_of_figures(passage) -> None:
    table = "| Loss | Amount | Customers |\n|---|---|---|\n| Near miss | none | none |"
    text = f"{table}\n\nA near miss is about luck.\n\nA near miss means a loss that did not happen."
    assert answers("What is a near miss?", passage(text))[0] == "A near miss means a loss that did not happen."


def test_a_term_may_be_named_after_what_it_stands_for(passage) -> None:
    text = "Some branches keep a second one, known as a night key, in the safe."
    assert answers("what is a night key", passage(text)) == [text]


def test_a_sentence_that_only_has_the_term_explains_nothing(passage) -> None:
    text = "Your team should count secrets, such as night keys."
    refusal = extract("What is a night key?", [passage(text)]).refusal
    assert refusal is not None and "a definition about: night, key" in refusal.message


def test_of_a_term_that_is_taken_as_known_anything_may_be_told(passage) -> None:
    text = "The dress code allows jeans on Fridays."
    assert answers("What is the dress code?", passage(text)) == [text]
    assert answers("What is a dress code?", passage(text)) == []


@pytest.mark.parametrize(
    ("question", "want"),
    [
        ("Tell me what the notice period is", "duration"),
        ("Describe how to return a key", "steps"),
        ("Explain why keys are counted", "reason"),
        ("Who approves the key definition?", "role"),
        ("What is required for a night key?", "fact"),
        ("What must be treated as secret?", "fact"),
        ("Which losses qualify as key losses?", "list"),
        ("What is the mean time to repair of a lock?", "fact"),
    ],
)
def test_other_questions_ask_for_no_definition(question: str, want: str) -> None:
    assert read_question(question).want.name == want


@pytest.mark.parametrize(
    "question", ["What are night keys?", "Explain the night key rule", "What is the night key rule?"]
)
def test_these_take_the_term_as_known(question: str) -> None:
    assert term(question).is_known


def test_an_entry_may_say_what_a_thing_can_be_used_for(passage) -> None:
    text = "### Night Key\n\nA spare that opens doors and that can be lent to guards."
    assert answers("What is a night key?", passage(text, headings=("Terms", "Night Key"))) == [
        "A spare that opens doors and that can be lent to guards."
    ]
    rule = "### Night Key\n\nGuards can borrow it."
    assert answers("What is a night key?", passage(rule, headings=("Terms", "Night Key"))) == []
