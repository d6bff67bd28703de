"""Expressions that hold an answer."""

import pytest

from context_engine.answer.wants import Expression, has, places_of


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Expression.DURATION, "retained for seven years"),
        (Expression.DURATION, "within 5 Business Days"),
        (Expression.DURATION, "a 15-minute timeout"),
        (Expression.DURATION, "within a second of the call"),
        (Expression.DURATION, "for a quarter, at most"),
        (Expression.DURATION, "revoked immediately"),
        (Expression.DURATION, "for one and a half hours"),
        (Expression.INTERVAL, "changed every 90 days"),
        (Expression.OCCASION, "sealed at time of sale"),
        (Expression.OCCASION, "changed anytime a guard leaves"),
        (Expression.AGE, "complete by age 18"),
        (Expression.AGE, "Age: 69"),
        (Expression.AGE, "who is 21 years old"),
        (Expression.FREQUENCY, "reviewed at least once per year"),
        (Expression.FREQUENCY, "every 90 days"),
        (Expression.FREQUENCY, "on a weekly basis"),
        (Expression.AMOUNT, "USD 10 million"),
        (Expression.AMOUNT, "5 % of the limit"),
        (Expression.NUMBER, "at least two approvals"),
        (Expression.NUMBER, "medium (.5)"),
        (Expression.DATE, "from 2025-03-01"),
        (Expression.DATE, "on 3 March 2025"),
        (Expression.ROLE, "the Head of Market Risk"),
        (Expression.ROLE, "the credit committee"),
        (Expression.RULE, "must not be shared"),
        (Expression.REASON, "because it is slow"),
    ],
)
def test_held(kind, text):
    assert has(kind, text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Expression.DURATION, "a timely report"),
        (Expression.LENGTH, "dedicated telephone lines"),
        (Expression.DURATION, "a second copy, and a second process for it"),
        (Expression.DURATION, "a quarter of the staff"),
        (Expression.AGE, "on pages 12 and 13"),
        (Expression.DURATION, "issued every two years"),
        (Expression.INTERVAL, "issued every year"),
        (Expression.FREQUENCY, "within 7 days"),
        (Expression.AMOUNT, "in 7 days"),
        (Expression.NUMBER, "under SOP-2025-017 of the bank"),
        (Expression.DATE, "in due course"),
        (Expression.ROLE, "the archive"),
        (Expression.RULE, "the archive is cold"),
    ],
)
def test_not_held(kind, text):
    assert not has(kind, text)


def test_places_are_characters_of_the_text_itself():
    text = "NPA-SOP-001 keeps it for 7 years."
    (place,) = places_of(Expression.DURATION, text)
    assert text[slice(*place)] == "7 years"
