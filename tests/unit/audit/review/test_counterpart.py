"""Where two texts differ, and how much of them is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.audit.review.counterpart import WordChange, likeness, word_changes

TEXTS = st.lists(st.sampled_from(["the", "limit", "is", "5", "7", "must", "not", "may"]), max_size=30).map(" ".join)


@pytest.mark.parametrize(
    ("was", "now", "changes"),
    [
        ("a b c", "a b c", ()),
        ("a  b\nc", "a b c", ()),
        ("It must be so", "It may be so", (WordChange("It", "must", "may"),)),
        ("It may be so", "It may not be so", (WordChange("It may", "", "not"),)),
        ("It may not be so", "It may be so", (WordChange("It may", "not", ""),)),
        ("", "a", (WordChange("", "", "a"),)),
        ("a b c d e f", "a b c d e g", (WordChange("b c d e", "f", "g"),)),
    ],
)
def test_each_difference_is_named_with_the_words_before_it(was, now, changes):
    assert word_changes(was, now) == changes


@given(TEXTS, TEXTS)
def test_the_differences_turn_the_one_text_into_the_other(was, now):
    """What was taken out and what was put in have as many words as the lengths of the two texts differ by."""
    changes = word_changes(was, now)
    if len(changes) < 20:
        gained = sum(len(one.now.split()) - len(one.was.split()) for one in changes)
        assert gained == len(now.split()) - len(was.split())
        assert bool(changes) == (was.split() != now.split())


@given(TEXTS, TEXTS)
def test_a_limit_changes_no_likeness_that_reaches_it(was, now):
    share = likeness(was, now)
    assert likeness(was, now, 0.75) == (share if share >= 0.75 else 0.0)
    assert (share == 1.0) == (was.split() == now.split())


def test_a_long_list_of_differences_is_cut():
    was = " ".join(f"w{n} same" for n in range(100))
    now = " ".join(f"x{n} same" for n in range(100))
    assert len(word_changes(was, now)) == 20
    assert likeness(was, now) == 0.5
