"""What a sentence changes that repeats a statement nearly word for word."""

import pytest

from context_engine.answer.altering import altered
from context_engine.answer.check import check
from context_engine.answer.reading import read
from context_engine.answer.values import Evidence, SentenceFinding, Verdict

TEXT = "The staff of a Natural Person shall report a loss of the desk to the Risk Board at least weekly, with a cause."


def changes(sentence: str, statement: str = TEXT, lead: str = "") -> list[str]:
    return [finding.detail for finding in altered(read(sentence), read(lead), read(statement))]


def test_the_same_words_change_nothing() -> None:
    assert changes(TEXT) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shall", "must"),  # one duty
        ("at least weekly", "no less than weekly"),  # one bound
        ("report", "communicate"),  # a plain word in another one
        (", with a cause", ""),  # the end is left out
    ],
)
def test_a_paraphrase_changes_nothing(old: str, new: str) -> None:
    assert changes(TEXT.replace(old, new)) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("at least weekly", "weekly", ['the sentence leaves out "at least"']),
        ("a Natural Person", "a Person", ['the sentence leaves out "natur"']),
        ("shall", "shall not", ['"not" does not stand at this place of the passage']),
        ("a loss", "some loss", ['"some" does not stand at this place of the passage']),
    ],
)
def test_what_a_rule_depends_on_is_neither_put_in_nor_left_out(old: str, new: str, said: list[str]) -> None:
    assert changes(TEXT.replace(old, new)) == said


def test_a_name_in_place_of_another_is_a_change_even_if_a_heading_has_it() -> None:
    assert changes(TEXT.replace("Risk Board", "Audit Board")) == [
        '"audit" does not stand at this place of the passage',
        'the sentence leaves out "risk"',
    ]


def test_the_beginning_of_a_name_is_not_left_out() -> None:
    text = "The Authorised Person should keep a full list of the risks of its Counterparties."
    assert changes("The Person should keep a full list of the risks of its Counterparties.", text) == [
        'the sentence leaves out "authoris"'
    ]


def test_a_part_that_has_moved_is_no_change() -> None:
    moved = "At least weekly, the staff of a Natural Person shall report a loss of the desk to the Risk Board."
    assert changes(moved) == []


def test_a_part_that_is_left_out_is_none_of_its_rules() -> None:
    # seven tokens stand between: more than the sentence could have shortened
    text = "The desk shall keep records of trades and, if a client asks for it, must send all files to the Risk Board."
    assert changes("The desk shall keep records of trades and send all files to the Risk Board.", text) == []


def test_a_sentence_in_other_words_is_not_judged_here() -> None:
    assert changes("Losses go to the Audit Board each week.") == []


def test_the_lead_in_counts_where_the_sentence_repeats_it() -> None:
    lead, item = "A bank of the group shall not:", "lend money of clients to a director"
    assert changes("A bank of the group shall not lend money of clients to a director.", item, lead) == []
    assert changes("A bank of the group shall lend money of clients to a director.", item, lead) == [
        'the sentence leaves out "not"'
    ]


def test_another_statement_may_say_what_the_first_one_does_not() -> None:
    evidence = {
        f"[{place}]": Evidence(f"[{place}]", "sops", str(place), text, (), place, None, None, None)
        for place, text in enumerate((TEXT.replace("a Natural Person", "a Legal or Natural Person"), TEXT), start=1)
    }
    claim = TEXT.replace("shall", "must")
    assert check(claim, ["[1]"], evidence).findings == (SentenceFinding("altered", 'the sentence leaves out "legal"'),)
    assert check(claim, ["[1]", "[2]"], evidence).labels == ("[2]",)


def test_names_that_stand_in_each_others_place() -> None:
    text = "The note of a Branch on the daily trades of a desk must be sent in writing within 5 days to the Agency."
    swapped = "The note of an Agency on the daily trades of a desk must be sent in writing within 5 days to the Branch."
    assert changes(swapped, text) == ["two names stand in each other's place"]


def test_the_first_of_two_predicates_may_be_left_out_whole() -> None:
    text = "A host clearance is valid for 18 months and names the product, the segment and the channel."
    evidence = {"[1]": Evidence("[1]", "sops", "1", text, (), 1, None, None, None)}
    whole = check(text.replace("is valid for 18 months and ", ""), ["[1]"], evidence)
    assert whole.verdict is Verdict.SUPPORTED
    cut = check(text.replace(" for 18 months", ""), ["[1]"], evidence)  # its value alone is left out
    assert cut.findings == (SentenceFinding("altered", 'the sentence leaves out "18"'),)


def test_a_relative_clause_does_not_become_the_predicate() -> None:
    text = "A clerk who is or may be the subject of an inquiry of the desk may enter into talks with us."
    evidence = {"[1]": Evidence("[1]", "sops", "1", text, (), 1, None, None, None)}
    lost = check(text.replace("who is or ", ""), ["[1]"], evidence)
    assert [finding.code for finding in lost.findings] == ["altered"]
    assert check(text, ["[1]"], evidence).verdict is Verdict.SUPPORTED


def test_such_a_clerk_is_not_every_clerk() -> None:
    text = "Any such clerk may ask the desk for a copy of each part of a report of the year."
    evidence = {"[1]": Evidence("[1]", "sops", "1", text, (), 1, None, None, None)}
    many = check(text.replace("Any such clerk", "Clerks"), ["[1]"], evidence)
    assert [finding.code for finding in many.findings] == ["altered"]
    assert check(text.replace("Any such clerk", "Such clerks"), ["[1]"], evidence).verdict is Verdict.SUPPORTED


def test_two_modals_do_not_change_places() -> None:
    text = (
        "A clerk may choose not to use the mark in papers of a fund, but they may do so, should they wish, in a letter."
    )
    evidence = {"[1]": Evidence("[1]", "sops", "1", text, (), 1, None, None, None)}
    swapped = check(text.replace("may do so, should", "should do so, may"), ["[1]"], evidence)
    assert [finding.code for finding in swapped.findings] == ["modal"]
    assert check(text, ["[1]"], evidence).verdict is Verdict.SUPPORTED
