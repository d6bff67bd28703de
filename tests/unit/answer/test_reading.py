"""A sentence read for what a rule depends on: values, dates, phrases, names and words."""

import pytest

from context_engine.answer.quantities import Value
from context_engine.answer.reading import MeaningKind, MeaningToken, read


def values(text: str) -> list[Value]:
    return [token.value for token in read(text) if token.value]


def keys(text: str, kind: MeaningKind) -> list[str]:
    return [token.key for token in read(text) if token.kind is kind]


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        (["5 %", "5%", "five percent", "5 per cent", "5.0 %"], Value("5", "%")),
        (
            ["EUR 1m", "1,000,000 euros", "€1 million", "one million euros"],
            Value("1000000", "", "EUR"),
        ),
        (["$5,000", "USD 5,000", "5000 US dollars", "US$ 5k"], Value("5000", "", "USD")),
        (["thirty days", "30 days", "30-day"], Value("30", "day")),
        (["ten consecutive business days", "10 Business Days"], Value("10", "business day")),
        (["at least 3 years", "no less than three years", "3 years or more"], Value("3", "year", "", "at least")),
        (["up to 60 minutes", "no longer than 60 minutes", "60 minutes at most"], Value("60", "minute", "", "at most")),
        (["within 2 hours", "no later than two hours"], Value("2", "hour", "", "within")),
        (["above 10 bps", "more than 10 basis points"], Value("10", "basis point", "", "more than")),
        (["one hundred and twenty days"], Value("120", "day")),
        (["twice"], Value("2", "time")),
    ],
)
def test_one_value_in_several_spellings(texts: list[str], value: Value) -> None:
    assert [values(text) for text in texts] == [[value]] * len(texts)


def test_calendar_days_are_no_business_days() -> None:
    assert values("5 calendar days") != values("5 business days")


def test_a_range_shares_its_unit() -> None:
    assert values("5 to 10 days, 5-10 days") == [Value("5", "day"), Value("10", "day")] * 2


def test_dates_and_times() -> None:
    text = "1 March 2026, March 1, 2026, 2026-03-01, the 1st of March 2026; March 2026; 1 March; 9:30"
    assert keys(text, MeaningKind.DATE) == ["2026-03-01"] * 4 + ["2026-03-", "-03-01", "09:30"]


def test_the_month_of_may_is_no_modal() -> None:
    assert keys("It may end on 1 May 2026, or by 2 May, or in May 2027.", MeaningKind.MODAL) == ["may"]
    assert keys("Rule 5 may apply.", MeaningKind.MODAL) == ["may"]


@pytest.mark.parametrize("text", ["may not", "must not", "shall not", "cannot", "can't", "is not permitted to"])
def test_a_prohibition_is_one_in_any_words(text: str) -> None:
    tokens = [(token.kind, token.key) for token in read(f"A bank {text} trade") if token.kind is not MeaningKind.WORD]
    assert tokens == [(MeaningKind.MODAL, "must"), (MeaningKind.NEGATION, "not")]


def test_no_subject_may_is_a_prohibition() -> None:
    assert (
        keys("No member may trade", MeaningKind.MODAL) == keys("A member may not trade", MeaningKind.MODAL) == ["must"]
    )


def test_conditions_exceptions_and_bounds() -> None:
    text = "Where asked, unless closed, other than by the Board, only prior to launch"
    kinds = (MeaningKind.CONDITION, MeaningKind.EXCEPTION, MeaningKind.ONLY, MeaningKind.BOUND)
    assert [token.key for token in read(text) if token.kind in kinds] == ["if", "unless", "except", "only", "before"]


def test_references_and_names() -> None:
    names = [token.written for token in read("The Board of Group Risk reads it.") if token.is_name]
    assert names == ["board", "group", "risk"]
    assert keys("Rule 4.2.1(b) and NPA-SOP-001", MeaningKind.REFERENCE) == ["4.2.1(b)", "npa-sop-001"]


def test_acts_and_sides_are_told_from_plain_words() -> None:
    assert keys("The higher limit was approved.", MeaningKind.SIDE) == ["higher", "approv"]
    assert read("the committee") == (MeaningToken(MeaningKind.WORD, "committe", "committee"),)


@pytest.mark.parametrize("part", ["a", "ab-", "c1", "a_", "1.", "1-", "a.b/", "(a)", "a'b"])
def test_a_run_of_any_length_is_read(part: str) -> None:
    """A pattern that looks for its end from each of its characters would need minutes for each."""
    assert read(part * 15_000 + " breaches must be reported")[-1].key == keys("reported", MeaningKind.WORD)[0]
