"""Misspelt words: how far two words are apart, what may be misspelt, what may be meant."""

from __future__ import annotations

import pytest

from context_engine.core.query.spelling import confident, edits, near_words, reworded, words_to_check


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("product", "product", 0),
        ("product", "prodct", 1),  # left out
        ("product", "prodduct", 1),  # put in
        ("product", "protuct", 1),  # replaced
        ("product", "prodcut", 1),  # swapped
        ("product", "prdouctt", 2),
        ("product", "podcut", 2),
        ("product", "pordcutt", None),  # three
        ("", "a", 1),
        ("ab", "ba", 1),
        ("abc", "cba", 2),
        ("ca", "abc", None),  # a swapped pair is not touched again
        ("escalation", "mitigation", None),
    ],
)
def test_slips_that_part_two_words(first: str, second: str, expected: int | None) -> None:
    assert edits(first, second, 2) == expected
    assert edits(second, first, 2) == expected


def test_no_more_slips_than_are_allowed_count() -> None:
    assert edits("abc", "cba", 1) is None
    assert edits("abc", "acb", 1) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("minimun password lenght", ("minimun", "password", "lenght")),
        ("Minimun password lenght?", ("Minimun", "password", "lenght")),
        ("What Is The Minimun Password Lenght", ("Minimun", "Password", "Lenght")),
        ("MINIMUN PASSWORD LENGHT", ("MINIMUN", "PASSWORD", "LENGHT")),
        ("limits that Marten and NPA set", ("limits",)),  # a name, an acronym
        ("the cap on fees", ("fees",)),  # stop words, three letters
        ('"minimun lenght" of passwords', ("passwords",)),  # quoted
        ("npa-sop-001, MAS Notice 637 and 4.2.1(b) on limts", ("limts",)),
        ("risk-wieghted assets", ("risk", "wieghted", "assets")),
        ("write to help@bank.example or bank.example/rules", ("write",)),
        ("don't aprove", ("aprove",)),
        ("密码最短长度 passwrod", ("passwrod",)),
        ("Überprüfng der Rücklage", ("Überprüfng",)),
    ],
)
def test_what_of_a_query_may_be_misspelt(text: str, expected: tuple[str, ...]) -> None:
    assert words_to_check(text) == expected


def test_a_short_word_is_near_by_a_letter_more_or_less_or_swapped_and_by_no_other_letter() -> None:
    assert near_words("limt", ["limit", "list", "limb"]) == [(1, "limit")]
    assert near_words("ratse", ["rates", "rotse"]) == [(1, "rates")]
    assert near_words("moss", ["most", "boss", "mass"]) == []
    assert near_words("policy", ["police", "policy"]) == [(1, "police")]


def test_two_slips_are_allowed_from_eight_letters_on() -> None:
    assert near_words("accomodatoin", ["accommodation"]) == [(2, "accommodation")]
    assert near_words("govrnace", ["governance"]) == [(2, "governance")]
    assert near_words("exitt", ["exiting"]) == []


def test_another_inflection_of_a_word_one_slip_away_counts_as_two_slips() -> None:
    assert near_words("pasword", ["passwords", "password"]) == [(1, "password"), (2, "passwords")]
    assert near_words("aprovals", ["approving", "approve"]) == [(2, "approve"), (2, "approving")]


def test_a_suggestion_is_confident_for_a_longer_word_with_the_same_first_letter() -> None:
    assert confident("lenght", "length")
    assert confident("Lenght", "length")
    assert not confident("limt", "limit")
    assert not confident("flowers", "lowers")


def test_another_spelling_keeps_the_case_of_what_was_written() -> None:
    pairs = [("minimun", "minimum"), ("Lenght", "length"), ("PASWORD", "password")]
    assert reworded("minimun PASWORD Lenght, not minimuns", pairs) == "minimum PASSWORD Length, not minimuns"
    assert reworded("npaa", [("npaa", "NPA")]) == "NPA"
    assert reworded("as it is", []) == "as it is"
