from __future__ import annotations

import pytest

from context_engine.query import exact_first, prepare
from context_engine.query.exact import REFERENCE_SHARE

W = (1.0 + 0.5) / 2.0 + 0.001


def lifted(
    query: str, texts: list[str], labels: list[str] | None = None, relevance: list[float] | None = None
) -> list[float]:
    return exact_first(prepare(query), relevance or [0.5] * len(texts), texts, labels or [""] * len(texts), 0.5)


def test_a_text_with_the_phrase_leads_by_more_than_the_margin() -> None:
    held, not_held = lifted(
        '"material change"', ["A Material change.", "A change that is material."], relevance=[0.0, 1.0]
    )
    assert (held, not_held) == (pytest.approx((1 - W) * 0.0 + W * 1.0), pytest.approx((1 - W) * 1.0))
    assert held - not_held > 0.5


def test_the_order_among_those_that_hold_the_same_stays() -> None:
    after = lifted("NPA-001", ["NPA-001", "NPA-001 twice NPA-001", "none", "other"], relevance=[0.2, 0.4, 0.3, 0.9])
    assert sorted(range(4), key=lambda place: -after[place]) == [1, 0, 3, 2]


@pytest.mark.parametrize("texts", [["a", "b"], ["NPA-001", "NPA-001 too"], []])
def test_where_all_hold_the_same_all_stays(texts: list[str]) -> None:
    relevance = [0.1, 0.9][: len(texts)]
    assert lifted("NPA-001", texts, relevance=relevance) == (relevance or [])


@pytest.mark.parametrize(
    ("query", "text", "label", "held"),
    [
        ("MAS Notice 637", "under MAS notice 637.", "", True),
        ("MAS Notice 637", "MAS Notice 6370", "", False),
        ("MAS Notice 637", "Notice 637 of MAS", "", False),
        ("NPA-001", "NPA-0012", "", False),
        ("NPA-001", "NPA 001", "", False),
        ("NPA-001", "Register", "Entry NPA-001", True),
        ("4.2.1(b)", "see 4.2.1(b)", "", True),
        ("4.2.1(b)", "see 4.2.1(c)", "", False),
        ("4.2.1(b)", "(a) one (b) two", "4.2.1 Criteria", True),
        ("4.2.1(b)", "(a) one (c) two", "4.2.1 Criteria", False),
        ("4.2.1(b)(ii)", "(ii) two", "4.2.1.(b)", True),
        ("4.2.1(b)", "text", "4.2.1.(b)", True),
    ],
)
def test_what_holds_a_name(query: str, text: str, label: str, held: bool) -> None:
    first, _ = lifted(query, [text, "nothing"], [label, ""])
    assert (first > 0.5) is held


def test_section_numbers_of_a_question_weigh_by_a_share() -> None:
    first, second = lifted("sign-off limits under rule 3.5", ["Rule 3.5 applies.", "Rule 3.6 applies."])
    assert first == pytest.approx((1 - REFERENCE_SHARE) * 0.5 + REFERENCE_SHARE)
    assert second == pytest.approx((1 - REFERENCE_SHARE) * 0.5)


def test_a_question_without_exact_names_changes_nothing() -> None:
    assert lifted("approval limits", ["approval limits", "other"], relevance=[0.3, 0.7]) == [0.3, 0.7]
