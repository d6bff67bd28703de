from __future__ import annotations

import pytest

from context_engine.core.query import prepare
from context_engine.core.ranking.candidates import AnalysedText
from context_engine.core.ranking.exact import REFERENCE_SHARE, exact_first

W = (1.0 + 0.5) / 2.0 + 0.001
TITLE = "MAS Notice 637: Risk Based Capital"
CITING = "Capital follows MAS Notice 637."


def lifted(
    query: str, texts: list[str], labels: list[str] | None = None, relevance: list[float] | None = None
) -> list[float]:
    labels = labels or [""] * len(texts)
    return exact_first(prepare(query), relevance or [0.5] * len(texts), read_texts(texts), read_texts(labels), 0.5)


def read_texts(texts: list[str]) -> list[AnalysedText]:
    return [AnalysedText(text) for text in texts]


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
        ("clause 4.2.1 (b)", "(a) one (b) two", "4.2.1 Criteria", True),
        ("clause 4.2.1 (b)", "under 4.2.1(b)", "", True),
        ("MAS Notice 637", "text", "MAS Notice No. 637", True),
        ("MAS 637", "under MAS Notice 637", "", True),
        ("MAS 637", "under MAS Notice 6370", "", False),
        ("MAS 637", "637 of MAS", "", False),
        ("NPA 001", "text", "Entry NPA-001", True),
        ("MAS Notice 637(4)(b)", "(a) one (b) two", "MAS Notice 637 4 Approval", True),
        ("MAS 637(4)(b)", "(a) one (b) two", "MAS Notice 637 4 Approval", True),
        ("MAS Notice 637(4)(b)", "two", "MAS Notice 637 4(b)", True),
        ("MAS Notice 637(4)(b)", "(b) two", "MAS Notice 637(4)", True),
        ("MAS Notice 637(4)(b)", "(a) one (b) two", "MAS Notice 637 5 Records", False),
        ("MAS Notice 637(4)(b)", "(a) one (c) two", "MAS Notice 637 4 Approval", False),
        ("MAS Notice 637(4)(b)", "(4) one (b) two", "MAS Notice 637", False),
        ("MAS Notice 637(4)(b)", "(a) one (b) two", "MAS Notice 626 4 Approval", False),
        ('"limit 3 (b)"', "limit 3(b)", "", False),
    ],
)
def test_what_holds_a_name(query: str, text: str, label: str, held: bool) -> None:
    first, _ = lifted(query, [text, "nothing"], [label, ""])
    assert (first > 0.5) is held


@pytest.mark.parametrize("margin", [0.0, 0.267, 0.425])
def test_what_is_called_so_leads_what_cites_it_and_that_what_does_neither(margin: float) -> None:
    relevance, labels = [0.0, 0.5, 1.0, 0.3], [TITLE, "SOP", "Other", TITLE]
    called, citing, neither, too = exact_first(
        prepare("MAS Notice 637"),
        relevance,
        read_texts(["Ratios.", CITING, "Capital.", "Scope."]),
        read_texts(labels),
        margin,
    )
    weight = min(2.0 * (1.0 + margin) / 3.0 + 0.001, 0.95)
    assert called == pytest.approx((1 - weight) * 0.0 + weight * 1.0)
    assert citing == pytest.approx((1 - weight) * 0.5 + weight * 0.5)
    assert neither == pytest.approx((1 - weight) * 1.0)
    assert too - called == pytest.approx((1 - weight) * 0.3)
    assert called - citing > margin
    assert citing - neither > margin


@pytest.mark.parametrize("margin", [0.6, 1.0])
def test_a_margin_that_leaves_no_room_for_three_keeps_the_lead_over_neither(margin: float) -> None:
    called, citing, neither = exact_first(
        prepare("MAS Notice 637"),
        [0.0, 1.0, 1.0],
        read_texts(["Ratios.", CITING, "Capital."]),
        read_texts([TITLE, "SOP", "Other"]),
        margin,
    )
    assert called - neither >= margin - 1e-9
    assert called >= citing - 0.5 > neither - 0.5


@pytest.mark.parametrize("heading", ["# MAS Notice 637\n\nRatios.", "Ratios.\n### Under MAS Notice No. 637\nMore."])
def test_a_heading_in_the_text_is_its_own_name(heading: str) -> None:
    called, citing = lifted("MAS Notice 637", [heading, CITING], relevance=[0.0, 1.0])
    assert called > citing


@pytest.mark.parametrize(
    ("query", "own", "label", "citing"),
    [
        ("4.2.1(b)", "(a) one (b) two", "4.2.1 Tests", "See 4.2.1(b)."),
        ("§ 4.2.1 (b)", "#### 4.2.1 Tests\n(a) one (b) two", "", "See 4.2.1(b)."),
        ("MAS Notice 637(4)(b)", "(a) one (b) two", f"{TITLE} 4 Approval", "See MAS Notice 637(4)(b)."),
        ("what does MAS Notice 637 apply to?", "Banks.", TITLE, "It does apply: MAS Notice 637."),
        ("MAS 637", "Banks.", TITLE, "The MAS 637 filings."),
    ],
)
def test_a_query_of_little_else_puts_what_is_called_so_first(query: str, own: str, label: str, citing: str) -> None:
    called, other = lifted(query, [own, citing], [label, ""], relevance=[0.0, 0.8])
    assert called > other


def test_a_question_with_more_words_leaves_both_to_their_relevance() -> None:
    query = "which desks file capital returns under MAS Notice 637"
    texts, labels = ["Ratios.", CITING, "Returns."], [TITLE, "SOP", ""]
    after = lifted(query, texts, labels, relevance=[0.2, 0.6, 1.0])
    assert after == pytest.approx([(1 - W) * 0.2 + W, (1 - W) * 0.6 + W, (1 - W) * 1.0])


def test_a_quoted_phrase_counts_alike_in_label_and_text() -> None:
    after = lifted('"material change"', ["text", "a material change", "none"], ["Material change", "", ""])
    assert after == pytest.approx([(1 - W) * 0.5 + W, (1 - W) * 0.5 + W, (1 - W) * 0.5])


def test_the_section_number_within_a_code_does_not_count_again() -> None:
    query = "which desks file capital returns under MAS Notice 637(4)"
    after = lifted(query, ["See 637(4).", "See MAS Notice 637(4)."], relevance=[1.0, 0.0])
    assert after == pytest.approx([(1 - W) * 1.0, W])


def test_section_numbers_of_a_question_weigh_by_a_share() -> None:
    first, second = lifted("sign-off limits under rule 3.5", ["Rule 3.5 applies.", "Rule 3.6 applies."])
    assert first == pytest.approx((1 - REFERENCE_SHARE) * 0.5 + REFERENCE_SHARE)
    assert second == pytest.approx((1 - REFERENCE_SHARE) * 0.5)


def test_a_question_without_exact_names_changes_nothing() -> None:
    assert lifted("approval limits", ["approval limits", "other"], relevance=[0.3, 0.7]) == [0.3, 0.7]
