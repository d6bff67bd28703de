"""The check of a sentence: of whom it says something, that it is whole, and which row of a table it rests on."""

import pytest

from context_engine.answer.check import check
from context_engine.answer.values import Evidence, Verdict
from tests.unit.answer.test_check_parts import checked, codes

SOURCES = (
    "| Group | Golden source | Owner |\n|---|---|---|\n"
    "| Prices | price system | Finance |\n| Status and time | clear map | Clearing |\n"
    "| Trades | trade system | Support |\n"
)


def test_a_restriction_that_repeats_a_word_of_the_predicate_is_not_left_out() -> None:
    text = "A home fund that is registered as a guest fund under these rules must be a public fund."
    assert codes(checked("A home fund must be a public fund.", text)) == {"subject"}
    assert checked(text.replace("must", "shall"), text).verdict is Verdict.SUPPORTED


def test_what_stands_between_two_modals_restricts_the_subject() -> None:
    text = "A broker that is permitted to carry on the service of custody may apply for a second licence."
    assert codes(checked("A broker may apply for a second licence.", text)) == {"altered"}
    assert checked(text, text).verdict is Verdict.SUPPORTED


@pytest.mark.parametrize(
    "sentence",
    [
        "The chair, and a short delay may be approved by the chair of at most 3 days.",
        "The chair, and the chair may approve a short delay of at most 3 days.",
        "The same, and the chair may approve a short delay of at most 3 days.",
    ],
)
def test_a_subject_put_before_a_sentence_is_no_subject_of_the_passage(sentence: str) -> None:
    text = "The chair may approve a short delay of at most 3 days."
    assert checked(sentence, text).verdict is not Verdict.SUPPORTED
    assert checked("However, a short delay of at most 3 days may be approved by the chair.", text).labels == ("[1]",)


def test_what_is_done_to_one_kind_is_not_done_to_all() -> None:
    text = "The Authority shall appoint an independent valuer to carry out a review."
    assert "subject" in codes(checked("Valuers shall be appointed by the Authority to carry out a review.", text))
    several = "The Skilled Person must be paid by the Licensed Person or Body and be approved by the Authority."
    assert "subject" in codes(checked("Persons must be approved by the Authority.", several))
    assert checked("The Skilled Person must be approved by the Authority.", several).verdict is Verdict.SUPPORTED


def test_a_modal_stands_behind_no_preposition_and_no_be() -> None:
    text = "The terms on which trades can be done may be agreed with the agent, which must keep them."
    assert "incomplete" in codes(checked("The terms on may be agreed with the agent, which must keep them.", text))
    choice = "The choice of data should be subject to review by the desk, which should tell the Board."
    assert codes(checked("The choice of data should be, which should tell the Board.", choice)) == {"incomplete"}


def test_a_member_of_staff_is_staff() -> None:
    text = "Every member of staff shall report a loss to the register on the day of discovery."
    assert checked("All staff must report a loss to the register on the day of discovery.", text).labels == ("[1]",)


def test_a_row_does_not_say_what_other_rows_say() -> None:
    assert checked("For trades, golden source is trade system and owner is support.", SOURCES).findings == ()
    assert "row" in codes(checked("For status and time, golden source is trade system.", SOURCES))


def test_a_column_that_is_named_comes_with_what_stands_in_it() -> None:
    text = "| Class | Test | Approval |\n|---|---|---|\n| Urgent | ends a severe event | incident lead |\n"
    assert codes(checked("For urgent, test is any class.", text)) == {"column"}
    assert checked("For urgent, the approval is by the incident lead.", text).verdict is Verdict.SUPPORTED


def test_numbers_with_other_units_are_not_exchanged_between_columns() -> None:
    text = "| Product | Longest tenor | Share of notional |\n|---|---|---|\n| Options | 10 years | 10 % |\n"
    assert checked("For options, longest tenor is 10 years and share of notional is 10 %.", text).findings == ()
    swapped = "For options, longest tenor is 10 % and share of notional is 10 years."
    assert codes(checked(swapped, text)) == {"column"}


def test_a_row_with_the_same_word_in_several_columns() -> None:
    text = "| Desk | Buys bonds | Sells bonds | Desk can lend bonds |\n|---|---|---|---|\n| Open | Yes | Yes | Yes |\n"
    assert checked("For open, buys bonds is yes and sells bonds is yes.", text).verdict is Verdict.SUPPORTED


def test_a_name_of_a_row_may_have_an_agent() -> None:
    text = "| Threat | Meaning | Cure |\n|---|---|---|\n| Denial by the Client | order denied later | signed order |\n"
    assert checked("For denial by the Client, the meaning is order denied later.", text).verdict is Verdict.SUPPORTED


def test_it_stands_for_one_of_a_kind():
    text = "The first report shall say what was lost and where. It must not wait for a cause."
    assert checked("The first report must not wait for a cause.", text).verdict is Verdict.SUPPORTED
    assert codes(checked("Reports must not wait for a cause.", text)) == {"subject"}


@pytest.mark.parametrize(
    "sentence",
    [
        "Desk policies may authenticate the client of the bank.",  # a noun of the passage
        "Desk policies may come from the user and steps of authentication for the client of the bank.",
    ],
)
def test_a_noun_of_the_passage_is_no_act(sentence):
    text = "Desk policies may be used to set the steps of authentication for the client of the bank."
    assert checked(sentence, text).verdict is not Verdict.SUPPORTED


def test_a_passive_of_other_words_is_no_act_of_the_subject():
    text = "A desk shall write down the tests by which each plan is marked as a new product, and keep them."
    assert codes(checked("A desk shall be marked as a new product.", text)) == {"roles"}
    assert checked("A desk shall write down the tests by which each plan is marked.", text).verdict is Verdict.SUPPORTED


def test_an_act_may_be_said_as_a_noun_with_a_verb_that_says_nothing():
    text = "The desk must assess the limits of each client of the bank."
    assert checked("The desk must make an assessment of the limits of each client of the bank.", text).labels == (
        "[1]",
    )


def test_a_name_around_the_clause_is_written_as_there():
    evidence = Evidence(
        "[1]", "sops", "1", "Rule 3, Preventing Loss and Fraud.", ("Guide to Regulation",), 1, None, None, None
    )
    assert codes(check("Rule 3, Preventing Regulator.", ["[1]"], {"[1]": evidence})) >= {"name"}


def test_a_name_of_the_heading_does_not_stand_in_the_place_of_another_word():
    text = "Sponsor means the head of the unit that submits the proposal."
    evidence = {"[1]": Evidence("[1]", "sops", "1", text, ("Approval of New Loans",), 1, None, None, None)}
    assert "name" in codes(check(text.replace("proposal", "New Loans"), ["[1]"], evidence))
    assert check(text, ["[1]"], evidence).verdict is Verdict.SUPPORTED


def test_words_of_the_subject_are_no_predicate():
    text = "Certain listed firms, desks or offices may be named in this report to explain a procedure."
    assert checked(text, text).verdict is Verdict.SUPPORTED
    assert (
        checked("Certain listed firms, desks or offices may be the same firms.", text).verdict is not Verdict.SUPPORTED
    )


def test_a_subject_put_before_two_acts_is_no_subject():
    text = "A licensed firm must have and keep, at all times, capital of the types that the notice names."
    assert codes(checked(f"The types, and a{text[1:]}", text)) == {"subject"}
    assert checked(text.replace("must", "shall"), text).verdict is Verdict.SUPPORTED


def test_two_names_do_not_change_prepositions():
    text = "The desk makes a trade in or from the Harbour Market; in relation to a Home Fund or Guest Fund."
    swapped = "The desk makes a trade in or from the Home Fund; in relation to a Harbour Market or Guest Fund."
    assert codes(checked(swapped, text)) == {"roles"}
    assert checked(text, text).verdict is Verdict.SUPPORTED


def test_one_is_not_it():
    text = "Therefore, it must be clear to clients how a card is used."
    assert checked("Generally, one must be clear to clients how a card is used.", text).verdict is not Verdict.SUPPORTED


def test_a_verb_of_the_passage_is_no_noun_behind_another_verb():
    text = "Any trade above EUR 50 million shall be approved by the Head of Control before it is booked."
    false = "Any trade above EUR 50 million shall ask for approval before it is booked."
    assert "roles" in codes(checked(false, text))


def test_a_word_that_names_nothing_is_not_the_subject_of_the_passage():
    text = "This copy of the file is often sent by the network but may go by post as well."
    assert codes(checked("Further, there may go by post as well.", text)) == {"subject"}


def test_a_sentence_has_a_subject_and_its_conditions_have_words():
    text = "Tests look at gains. They should also consider the effect of a loss on cash at the desk."
    assert codes(checked("However, should also consider the effect of a loss on cash at the desk.", text)) == {
        "incomplete"
    }
    shares = "Limits for shares, subject to review of the desk, are:\n- for shares, the number is as set by the desk."
    assert "incomplete" in codes(checked("Subject to (a), the number is as set by the desk.", shares))


def test_two_modals_of_one_sentence_keep_their_acts():
    text = "The desk must inform the Board and may inform the Authority of a loss."
    assert codes(checked("The desk may inform the Board and must inform the Authority of a loss.", text)) == {"modal"}
    assert checked(text, text).verdict is Verdict.SUPPORTED


def test_a_subject_put_before_a_row_is_none_of_the_row():
    text = "| Event | Told to the Authority |\n|---|---|\n| Severe | 24 hours |\n"
    told = "A Severe event must be told to the Authority within 24 hours."
    assert checked(told, text).verdict is Verdict.SUPPORTED
    assert "subject" in codes(checked(f"The Authority, and a{told[1:]}", text))


PAIRS = "Rate limits must be set by the treasurer, size limits by the Vault Board and seals by the guard."


@pytest.mark.parametrize(
    "sentence",
    [
        "The treasurer must set rate limits.",
        "The Vault Board must set size limits.",
        "Seals must be set by the guard.",
    ],
)
def test_a_part_that_leaves_out_its_verb_has_that_of_the_part_before(sentence: str) -> None:
    assert checked(sentence, PAIRS).verdict is Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("Rate limits must be set by the Vault Board.", PAIRS),
        ("The guard must set size limits.", PAIRS),
        ("Seals must be set by the treasurer.", PAIRS),
        ("Desks must send keys to the guard.", "Desks must send keys to the vault and seals to the guard."),
        ("Keys must be sent by desks.", "Desks must send notes to the vault and keys to the guard."),
        ("Couriers must tell the name of the van.", "Couriers must tell the name of the guard and colour of the van."),
        ("Keys may be lent for 5 days.", "Keys may be lent for 3 days and seals for 5 days."),
    ],
)
def test_the_ends_of_pairs_are_not_exchanged(sentence: str, text: str) -> None:
    assert checked(sentence, text).verdict is not Verdict.SUPPORTED
