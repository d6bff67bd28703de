"""Words split at the end of a line are one word, in plain text as in PDF."""

from collections import Counter

import pytest

from context_engine.ingest.loaders.split_words import unbroken, unsplit, with_whole_words


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("The over-\nsight holds.", "The\noversight holds."),
        ("The long-\nterm limit.", "The\nlong-term limit."),
        ("A state-of-the-\nart model.", "A\nstate-of-the-art model."),
        ("A non-\nperforming loan.", "A\nnon-performing loan."),
        ("  - the expo-\n    sure counts", "  - the\n    exposure counts"),
        ("Long- and short-\nterm rules.", "Long- and\nshort-term rules."),
    ],
)
def test_a_split_word_stands_whole_on_the_second_line(text, reads):
    assert with_whole_words(text) == reads
    assert text.count("\n") == reads.count("\n"), "the lines keep their numbers"


@pytest.mark.parametrize(
    "text",
    [
        "The short-\nand long-term rules.",
        "See NPA-\n001 for it.",
        "The Basel-\nIII rules.",
        "The A-\nB line.",
        "The desk -\nand the bank.",
        "over-\nsight",  # it begins the line
        "The end-\n\nanother paragraph.",
    ],
)
def test_other_hyphens_stay(text):
    assert with_whole_words(text) == text


def test_the_document_decides_where_it_writes_the_word_elsewhere():
    assert unsplit("risk", "neutral", Counter({"risk-neutral": 2, "riskneutral": 1})) == "risk-neutral"
    assert unsplit("counter", "party", Counter({"counter-party": 1, "counterparty": 3})) == "counterparty"
    assert unsplit("trade", "flow", Counter({"trade": 2, "flow": 2})) == "trade-flow"


def test_a_word_split_twice_in_a_narrow_column_is_one():
    assert unbroken(["an in-", "for-", "ma-", "tion"], Counter({"information": 2})) == "an information"


def test_capitals_are_joined_where_the_document_writes_the_word():
    assert unsplit("OP", "TIONAL", Counter({"optional": 3})) == "OPTIONAL"
    assert unsplit("NPA", "FORM", Counter()) == "NPA-FORM"
    assert unsplit("ELE", "MENT", Counter({"element": 1, "ele-ment": 1})) == "ELE-MENT"
    assert unsplit("Basel", "III", Counter({"baseliii": 1})) == "Basel-III"


def test_only_plain_text_is_joined(one):
    assert one("The over-\nsight holds.", "a.txt").text == "The\noversight holds."
    assert one("The over-\nsight holds.", "a.md").text == "The over-\nsight holds."
