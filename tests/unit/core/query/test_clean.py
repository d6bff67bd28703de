from __future__ import annotations

import pytest

from context_engine.core.query import clean


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("  two \t words\r\n", "two words"),
        ("no\u00a0break\u2003space", "no break space"),
        ("zero\u200bwidth \ufeffmark so\u00adft", "zerowidth mark soft"),
        ("bell\x07 and \x1bescape", "bell and escape"),
        ("“material change”", '"material change"'),
        ("「重大な変更」とは", '"重大な変更"とは'),
        ("bank’s own", "bank's own"),
        ("NPA\u2011001 and NPA\u2010002", "NPA-001 and NPA-002"),
        ("NPA\u2013001", "NPA-001"),
        ("2019\u20132020 and cost \u2013 benefit", "2019\u20132020 and cost \u2013 benefit"),
        ("ＮＰＡ－００１　４．２．１（ｂ）", "NPA-001 4.2.1(b)"),
        ("Cafe\u0301", "Café"),
        ("10 m² ① ½", "10 m² ① ½"),
        ("4.2.1(b) MAS Notice 637 NPA-001", "4.2.1(b) MAS Notice 637 NPA-001"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_one_spelling(given: str, text: str) -> None:
    assert clean(given).text == text


def test_a_query_of_nothing_visible_stays() -> None:
    assert clean("\u200b\u200b").text == "\u200b\u200b"


@pytest.mark.parametrize(
    ("given", "most", "text"),
    [
        ("one two three", 13, "one two three"),
        ("one two three", 12, "one two"),
        ("one two three", 7, "one two"),
        ("one two three", 6, "one"),
        ("abcdefgh", 5, "abcde"),
    ],
)
def test_a_long_query_is_cut_between_words(given: str, most: int, text: str) -> None:
    assert clean(given, most) == (text, text != given)
