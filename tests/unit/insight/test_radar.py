"""The conflict radar: what contradicts, what does not, who yields, and which documents are parallel."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from context_engine.core.models import Chunk
from context_engine.insight.radar import RadarFinding, RadarPassage, RadarReport, radar

TODAY = date(2026, 3, 2)
RULE = "The desk shall report an excess of the limit to the Board within 3 Business Days."


def passage(text: str, document: str, tier: int = 2, **fields: Any) -> RadarPassage:
    chunk = Chunk(text, f"{document}#1", document_id=document, title=fields.pop("title", document), **fields)
    return RadarPassage(f"tier{tier}", tier, chunk)


def found(*passages: RadarPassage) -> RadarReport:
    return radar(passages, TODAY)


def only(*passages: RadarPassage) -> RadarFinding:
    (finding,) = found(*passages).findings
    return finding


def codes(text: str, other: str) -> list[tuple[str, str, str]]:
    """The differences of two sentences of two documents."""
    findings = found(passage(text, "a"), passage(other, "b")).findings
    return [tuple(each) for finding in findings for each in finding.differences]


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (RULE.replace("3 B", "5 B"), ("number", "3 business days", "5 business days")),
        (RULE.replace("shall", "may"), ("modal", "must", "may")),
        (RULE.replace("shall", "shall not"), ("negation", "report", "not report")),
        ("According to the manual, " + RULE.replace("3 B", "5 B"), ("number", "3 business days", "5 business days")),
    ],
)
def test_the_same_rule_otherwise_is_a_contradiction(other: str, difference: tuple[str, str, str]) -> None:
    assert codes(RULE, other) == [difference]


def test_each_act_is_compared_by_itself() -> None:
    first = "Initial margin received shall be segregated and shall not be reused."
    second = "Initial margin received may be segregated and must not be reused."
    assert codes(first, second) == [("modal", "must", "may")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (RULE, RULE.replace("3 Business Days", "three Business Days").replace("shall", "must")),
        (RULE, RULE.replace("The desk", "The Audit Committee of the bank")),  # somebody else
        ("**Table 5-1 Strengths of identity evidence**", "**Table 5-2 Strengths of identity evidence**"),
        ("Section 4.2 covers the obligations of providers.", "Section 4.4 covers the obligations of providers."),
        (
            "A Material Change means an alteration to a product that meets any of 3 criteria.",
            "A Variation means an alteration to a product that meets any of 2 criteria.",
        ),
        ("Attributes can be asserted by the provider to relying parties.",
         "Attributes could be asserted by the provider to relying parties."),
        ("Software authenticators hold keys unique to the device.",
         "Software authenticators hold keys unique to the device that shall not be exportable."),
    ],
)  # fmt: skip
def test_what_says_the_same_or_speaks_of_something_else_is_none(first: str, second: str) -> None:
    assert codes(first, second) == []


def test_who_has_less_authority_yields() -> None:
    other = RULE.replace("3 B", "5 B")
    assert only(passage(RULE, "a", 2), passage(other, "b", 4)).yields == "second"
    dated = [passage(RULE, "a", effective_from=date(2024, 1, 1)), passage(other, "b", effective_from=date(2025, 1, 1))]
    assert only(*dated).yields == "first"
    assert only(passage(RULE, "a"), passage(other, "b")).yields == "undecided"


def test_a_statement_of_many_documents_is_shown_at_its_highest_authority() -> None:
    other = RULE.replace("3 B", "5 B")
    finding = only(passage(other, "web", 5), passage(RULE, "copy", 4), passage(RULE, "sop", 2))
    assert {(side.chunk.document_id, side.places) for side in (finding.first, finding.second)} == {
        ("web", 1),
        ("sop", 2),
    }


def test_what_is_not_in_force_is_left_out() -> None:
    other = RULE.replace("3 B", "5 B")
    ended = passage(other, "b", effective_to=date(2026, 1, 1))
    report = found(passage(RULE, "a"), ended)
    assert (report.findings, report.passages, report.not_in_force) == ((), 1, 1)
    versions = [
        passage(text, "a", document_version=version, effective_from=day)
        for text, version, day in ((RULE, "1", date(2024, 1, 1)), (other, "2", date(2025, 1, 1)))
    ]
    assert found(*versions).findings == ()


def test_within_a_document_only_the_same_heading_is_the_same_thing() -> None:
    other = RULE.replace("3 B", "5 B")

    def both(first: str, second: str) -> int:
        chunks = [
            Chunk(text, f"a#{number}", document_id="a", title="A", heading_path=("4 Limits", heading))
            for number, (text, heading) in enumerate(((RULE, first), (other, second)))
        ]
        return len(found(*(RadarPassage("s", 2, chunk) for chunk in chunks)).findings)

    assert both("4.1 Level 1", "4.2 Level 2") == 0
    assert both("4.1 Reports", "4.2 Reports") == 1


ROWS = "Limit of {} | USD {} million"
DESK = "\n\n".join(
    (
        "The desk may hold bonds of governments until the close of business.",
        "The desk reports its gross notional to the risk committee each day.",
        "A trader of the desk shall confirm each trade before noon.",
        "The desk shall not exceed an exposure of {} % to a single issuer.",
    )
)


def test_documents_that_are_alike_about_different_things_are_parallel() -> None:
    rates = passage(DESK.format(5), "m1", title="Mandate of the rates desk")
    credit = passage(DESK.format(7), "m2", title="Mandate of the credit desk")
    copy = passage(DESK.format(7), "m3", title="Mandate of the rates desk")
    assert only(rates, credit).parallel
    assert not only(rates, copy).parallel


def test_an_id_stays_as_long_as_the_sentences_do() -> None:
    other = RULE.replace("3 B", "5 B")
    finding = only(passage(RULE, "a"), passage(other, "b"))
    assert only(passage(f"New.\n\n{other}", "b"), passage(RULE, "a")).finding_id == finding.finding_id
    assert only(passage(RULE, "a"), passage(RULE.replace("3 B", "6 B"), "b")).finding_id != finding.finding_id


def test_cells_of_tables_are_compared_by_row_and_column() -> None:
    table = (
        "| Limit | Bonds | Swaps |\n|---|---|---|\n| Monthly stop-loss of the desk | USD {} million | USD 2 million |"
    )
    first, second = passage(table.format(6), "a"), passage(table.format(4), "b")
    assert [tuple(each) for each in only(first, second).differences] == [("number", "usd 6 million", "usd 4 million")]


def test_a_document_that_cites_a_replaced_version_with_its_number_is_found() -> None:
    rule = "An excess of the limit is reported to the Board within {} Business Days"
    versions = [
        passage(f"{rule.format(number)}.", "SOP-4", document_version=version, effective_from=day)
        for number, version, day in ((5, "1", date(2024, 1, 1)), (3, "2", date(2025, 1, 1)))
    ]
    citing = passage(f"{rule.format(5)} (SOP-4 v1 §4).", "desk-manual", 4)
    finding = only(*versions, citing)
    assert [tuple(each) for each in finding.differences] == [("number", "3 business days", "5 business days")]
    assert (finding.first.chunk.document_version, finding.second.cites, finding.first.cites) == ("2", "1", "")
    assert finding.yields == "second"
    follows = passage(f"{rule.format(3)} (SOP-4 v2 §4).", "desk-manual", 4)
    assert found(*versions, follows).findings == ()


HOLDING = "The minimum holding period of the book is {} calendar days."


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("Traders respect a holding period of no less than {} calendar days in the book.", ["number"]),
        ("A minimum of {} years of experience is asked of the head of a book.", []),  # another unit
        ("In Harbour a holding period of {} calendar days is respected in the book.", []),  # a name
        ("Cash of {} calendar days is kept.", []),  # other words
    ],
)
def test_a_value_for_the_same_thing_in_other_words(other: str, expected: list[str]) -> None:
    others = [passage(f"A {word} is paid by its client.", word) for word in ("fee", "margin", "premium", "coupon")]
    findings = found(passage(HOLDING.format(30), "a"), passage(other.format(14), "b"), *others).findings
    assert [(each.basis, each.differences[0].code) for each in findings] == [("rule", code) for code in expected]
    agreed = found(passage(HOLDING.format(30), "a"), passage(other.format(30), "b"), *others)
    assert agreed.findings == ()


def test_labels_that_differ_and_as_many_negations_are_no_contradiction() -> None:
    area = "Open area: a part of the building in which papers are {}stored at any time of the day."
    assert codes(area.format(""), area.format("not ").replace("Open", "Closed")) == []
    first = "The desk shall not make consent of the client a condition of the service."
    assert codes(first, "Consent of the client shall not be a condition that the desk makes of the service.") == []
