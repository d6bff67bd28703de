"""Contradictions between passages: what differs, what does not, and who yields."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.answer.conflicts import Conflict, ConflictDifference, conflicts, differs
from context_engine.answer.reading import read
from context_engine.answer.values import Evidence, Quote, Sentence, Verdict

RULE = "The desk shall report an excess of the limit to the Board within 3 days."


def passage(rank: int, text: str, tier: int | None = None, effective_from: str | None = None) -> Evidence:
    return Evidence(f"[{rank}]", "sops", str(rank), text, (), rank, None, tier, effective_from)


def contradictions(passages: Iterable[Evidence]) -> tuple[Conflict, ...]:
    """Those of an answer that quotes every passage whole."""
    known = {item.label: item for item in passages}
    quotes = tuple(Quote(item.label, 0, len(item.text), item.text) for item in known.values())
    return conflicts([Sentence("All of it.", quotes, Verdict.SUPPORTED, 1.0)], known)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (RULE.replace("3 days", "5 days"), ConflictDifference("number", "3 days", "5 days")),
        (RULE.replace("3 days", "3 weeks"), ConflictDifference("unit", "3 days", "3 weeks")),
        (RULE.replace("shall", "may"), ConflictDifference("modal", "must", "may")),
        (RULE.replace("shall report", "shall not report"), ConflictDifference("negation", "", "not")),
        ("USD".join(RULE.split("3 days")), None),
    ],
)
def test_the_same_thing_said_otherwise(other: str, difference: ConflictDifference | None) -> None:
    assert differs(read(RULE), read(other)) == ((difference,) if difference else ())


def test_currency_date_and_bound() -> None:
    text = "Netting sets transfer at least EUR 500,000 of margin before 1 March 2026."
    assert differs(read(text), read(text.replace("EUR", "USD"))) == (
        ConflictDifference("currency", "eur 500,000", "usd 500,000"),
    )
    assert differs(read(text), read(text.replace("at least", "at most")))[0].code == "bound"
    assert differs(read(text), read(text.replace("1 March", "1 April")))[0].code == "date"
    assert differs(read(text), read(text.replace("before", "after"))) == (
        ConflictDifference("bound", "before", "after"),
    )


def test_other_words_for_the_same_value_are_no_contradiction() -> None:
    assert differs(read(RULE), read(RULE.replace("3 days", "three days").replace("shall", "must"))) == ()


@pytest.mark.parametrize(
    "other",
    [
        "The trader shall keep a record of the call for the auditor within 5 days.",
        "The desk shall report an excess of the limit to Group Finance within 5 days.",
    ],
)
def test_sentences_about_something_else_do_not_contradict(other: str) -> None:
    first = RULE.replace("the Board", "Group Compliance")
    assert differs(read(first), read(other)) == ()


@pytest.mark.parametrize(
    ("first", "second", "is_conflict"),
    [
        (
            "Tier 1 branches must reconcile the cash ledger within 3 days.",
            "Tier 2 branches must reconcile the cash ledger within 5 days.",
            False,
        ),
        (
            "Tier 1 branches must reconcile the cash ledger within 3 days.",
            "Tier 1 branches must reconcile the cash ledger within 5 days.",
            True,
        ),
        (
            "At least 2 approvers must sign the daily release form.",
            "At least 3 approvers must sign the daily release form.",
            True,
        ),
        (
            "A committee of 3 members must sign the daily release form.",
            "A committee of 5 members must sign the daily release form.",
            True,
        ),
    ],
)
def test_a_number_that_names_the_subject_is_no_other_value(first: str, second: str, is_conflict: bool) -> None:
    assert bool(differs(read(first), read(second))) is is_conflict


@pytest.mark.parametrize(
    ("first", "second", "yields"),
    [
        ((1, "2024-01-01"), (5, "2026-01-01"), "second"),
        ((3, None), (2, None), "first"),
        ((2, "2024-01-01"), (2, "2025-01-01"), "first"),
        ((2, None), (2, "2025-01-01"), "undecided"),
        ((None, None), (2, None), "undecided"),
    ],
)
def test_who_yields_follows_from_authority(
    first: tuple[int | None, str | None], second: tuple[int | None, str | None], yields: str
) -> None:
    (conflict,) = contradictions([passage(1, RULE, *first), passage(2, RULE.replace("3", "5"), *second)])
    assert conflict.yields == yields
    assert (conflict.first.tier, conflict.second.effective_from) == (first[0], second[1])


def test_only_what_the_answer_quotes_is_compared() -> None:
    passages = [passage(1, RULE), passage(2, RULE.replace("3", "5")), passage(3, "Nothing else is said here.")]
    evidence = {item.label: item for item in passages}

    def said(label: str) -> Sentence:
        text = evidence[label].text
        return Sentence(text, (Quote(label, 0, len(text), text),), Verdict.SUPPORTED, 1.0)

    assert [found.second.quote.label for found in conflicts([said("[1]")], evidence)] == ["[2]"]
    assert conflicts([said("[3]")], evidence) == ()
    assert conflicts([], evidence) == ()


def test_obligations_under_other_parts_of_a_law_are_no_contradiction() -> None:
    duty = "Make records available as necessary to satisfy the obligations under 45 CFR 164.524 within 30 days."
    assert differs(read(duty), read(duty.replace("164.524", "164.526"))) == ()
    assert differs(read(duty), read(duty.replace("30", "60"))) == (ConflictDifference("number", "30 days", "60 days"),)
    report = "A severe loss event must be reported to the regulator within 24 hours of its discovery."
    assert differs(read(report), read(report.replace("24", "72"))) == (
        ConflictDifference("number", "24 hours", "72 hours"),
    )


def test_a_rule_in_capitals_does_not_contradict_itself() -> None:
    rule = "(KBV) SHALL NOT be used for in-person or supervised remote identity verification."
    assert not contradictions(
        [passage(1, f"Knowledge-based verification {rule}"), passage(2, rule.replace("(KBV)", "KBV"))]
    )


def test_rows_are_compared_cell_by_cell() -> None:
    head = "| Rating | Head of Risk | FCAA |\n|---|---|---|\n"
    rows = ["| Severe event of the desk | 1 hour | 24 hours |\n", "| Severe event of the desk | 1 hour | 48 hours |\n"]
    (conflict,) = contradictions([passage(rank, head + row) for rank, row in enumerate(rows, start=1)])
    assert conflict.differences == (ConflictDifference("number", "24 hours", "48 hours"),)


def test_headers_of_documents_are_not_compared() -> None:
    header = "Owner: Group Risk\nVersion: {}.0\nClassification: Internal use of the bank"
    assert contradictions([passage(1, header.format(1)), passage(2, header.format(2))]) == ()


@given(st.permutations([RULE, RULE.replace("3", "5"), RULE.replace("shall", "may"), "Records are kept."]))
def test_a_sentence_never_contradicts_itself_and_order_does_not_matter(texts: list[str]) -> None:
    assert all(differs(read(text), read(text)) == () for text in texts)
    passages = [passage(rank, text) for rank, text in enumerate(texts, start=1)]
    assert contradictions(passages) == contradictions(reversed(passages))


def test_sections_of_one_document_under_other_headings_do_not_contradict_each_other() -> None:
    three, five = passage(1, RULE), passage(2, RULE.replace("3 days", "5 days"))
    rates = three._replace(headings=("Excess rules", "4.2 Rates desk"))
    assert contradictions([rates, five._replace(headings=("Excess rules", "4.3 FX desk"))]) == ()
    assert len(contradictions([rates, five._replace(headings=("Excess rules", "7.1 Rates desk"))])) == 1
    assert len(contradictions([rates, five._replace(headings=("Other rules", "4.3 FX desk"))])) == 1


def test_two_versions_of_a_document_contradict_each_other_under_other_headings() -> None:
    old, new = passage(1, RULE, 2, "2024-01-01"), passage(2, RULE.replace("3 days", "5 days"), 2, "2026-01-01")
    headings = ("Excess rules", "4 Reports"), ("Excess rules", "5 Reports of excesses")
    (conflict,) = contradictions([old._replace(headings=headings[0]), new._replace(headings=headings[1])])
    assert conflict.yields == "first"


def test_what_must_be_accepted_does_not_contradict_what_is_needed() -> None:
    needed = "Codes of customers must be at least 8 characters long."
    for accepted in (
        "Branches should permit codes of customers of at least 64 characters.",
        "Codes of customers must be permitted to be at least 64 characters long.",
    ):
        assert differs(read(needed), read(accepted)) == ()
    assert differs(read(needed), read(needed.replace("8", "12"))) == (ConflictDifference("number", "8", "12"),)


def test_rules_for_other_subjects_do_not_contradict_each_other() -> None:
    guests = "Codes for guest accounts must be at least 8 characters long."
    assert differs(read(guests), read("Codes for owner accounts must be at least 14 characters long.")) == ()
    same = "Codes for accounts of guests must be at least 14 characters long."
    assert differs(read(guests), read(same)) == (ConflictDifference("number", "8", "14"),)
