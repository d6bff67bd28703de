"""The guard of near-duplicate merging: which differences may be hidden, and which may not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from context_engine.core.ranking import dedup
from context_engine.core.ranking.candidates import AnalysedText
from context_engine.core.ranking.dedup import Match
from context_engine.core.ranking.guard import allows

FRAME = (
    "The desk reviews its open trades at the close of business. {} "
    "The head of the desk signs the report and sends it to the committee, which keeps a copy in the group archive."
)

FORBIDDEN = [
    ("must and may", "A trader must report the excess to control.", "A trader may report the excess to control."),
    ("shall and should", "The owner shall certify the file.", "The owner should certify the file."),
    ("will and can", "Control will close the position.", "Control can close the position."),
    ("before and after", "The file is checked before the launch.", "The file is checked after the launch."),
    ("currency code", "The ceiling of the book is USD 50 million.", "The ceiling of the book is EUR 50 million."),
    ("currency symbol", "The fee is $ 40 for a copy.", "The fee is € 40 for a copy."),
    ("other currency symbol", "The fee is ₹40 for a copy.", "The fee is ₩40 for a copy."),
    (
        "percent changed",
        "The ceiling for one issuer is 5 % of the book.",
        "The ceiling for one issuer is 7 % of the book.",
    ),
    (
        "percent swapped",
        "The ceiling is 5 % for corporate issuers. The ceiling is 7 % for sovereign issuers.",
        "The ceiling is 7 % for corporate issuers. The ceiling is 5 % for sovereign issuers.",
    ),
    (
        "percent swapped by swapping the names",
        "The ceiling for corporate names is 5 %. The ceiling for sovereign names is 7 %.",
        "The ceiling for sovereign names is 5 %. The ceiling for corporate names is 7 %.",
    ),
    (
        "moved negation",
        "Staff may not trade on their own account and must report gifts.",
        "Staff may trade on their own account and must not report gifts.",
    ),
    (
        "negation moved across ordinary words",
        "Staff must not disclose the file and managers review it.",
        "Staff must disclose the file and managers not review it.",
    ),
    (
        "restriction moved into the next sentence",
        "Desks trade bonds only. Swaps are cleared daily.",
        "Desks trade bonds. Only swaps are cleared daily.",
    ),
    ("negation inserted", "The limit applies to hedges.", "The limit does not apply to hedges."),
    ("contracted negation", "Hedges don't count towards the ceiling.", "Hedges do count towards the ceiling."),
    ("negation by prefix", "An authorised trade is settled.", "An unauthorised trade is settled."),
    ("without", "Trades are booked with a ticket.", "Trades are booked without a ticket."),
    ("number word", "Records are kept for seven years.", "Records are kept for six years."),
    ("number inserted", "Records are kept for years.", "Records are kept for 7 years."),
    ("unit", "The answer is given within 10 days.", "The answer is given within 10 weeks."),
    ("frequency", "The committee meets monthly.", "The committee meets quarterly."),
    ("date", "The rule applies from 2025-01-01.", "The rule applies from 2026-01-01."),
    ("month", "The rule applies from 1 March.", "The rule applies from 1 April."),
    ("reference", "The exception follows clause 4.2.1(b).", "The exception follows clause 4.2.1(c)."),
    ("document code", "The form is filed under NPA-001.", "The form is filed under NPA-002."),
    ("roman numeral", "The case falls under part ii of the list.", "The case falls under part iii of the list."),
    ("annex letter", "The template stands in Annex B.", "The template stands in Annex C."),
    ("mixed code", "The VaR of the book is shown.", "The ROE of the book is shown."),
    ("capital code", "The KYC file is complete.", "The AML file is complete."),
    (
        "capital codes swapped",
        "Send KYC papers to them and AML papers to us.",
        "Send AML papers to them and KYC papers to us.",
    ),
    ("minimum and maximum", "The minimum size is met.", "The maximum size is met."),
    ("above and below", "Trades above the mark are listed.", "Trades below the mark are listed."),
    ("approve and reject", "The committee approved the request.", "The committee rejected the request."),
    ("more and less", "It takes more than a week.", "It takes less than a week."),
    ("at least and at most", "At least two people sign.", "At most two people sign."),
    ("increase and decrease", "The margin is increased.", "The margin is decreased."),
    ("include and exclude", "The figure includes hedges.", "The figure excludes hedges."),
    ("buy and sell", "The desk buys the bond.", "The desk sells the bond."),
    ("long and short", "The book is long in bonds.", "The book is short in bonds."),
    ("debit and credit", "The account is debited.", "The account is credited."),
    ("within and outside", "The trade is within the mandate.", "The trade is outside the mandate."),
    ("all and any", "All of the tests are passed.", "Any of the tests are passed."),
    ("and and or", "The owner and the deputy sign.", "The owner or the deputy signs."),
    ("internal and external", "An internal review follows.", "An external review follows."),
    ("accept and refuse", "The bank accepts the collateral.", "The bank refuses the collateral."),
    ("name", "The ceiling is that of the Rates desk.", "The ceiling is that of the Equity desk."),
    ("less-than sign", "A score < 5 closes the case.", "A score > 5 closes the case."),
    ("minus sign", "The floor of the rate is -5 points.", "The floor of the rate is 5 points."),
    ("rating sign before a point", "The desk buys bonds rated AA-.", "The desk buys bonds rated AA."),
    ("rating sign in quotes", 'It buys bonds rated "BBB-" alone.', 'It buys bonds rated "BBB" alone.'),
    ("rating sign", "The issuer holds the rating AA- today.", "The issuer holds the rating AA+ today."),
    ("Chinese negation", "交易员得在假期前持有隔夜头寸。", "交易员不得在假期前持有隔夜头寸。"),
    ("Chinese modal", "交易员必须在收市前报告超限。", "交易员可以在收市前报告超限。"),
    ("Chinese numeral", "记录保存七年。", "记录保存六年。"),
]

ALLOWED = [
    ("nothing", "A trader must report the excess.", "A trader must report the excess."),
    ("case", "A trader must report the excess to Market Risk.", "A trader must report the EXCESS to market risk."),
    ("punctuation", "Proposals, minutes and notes must be kept.", "Proposals; minutes, and notes: must be kept!"),
    (
        "white space",
        "A trader must report\nthe excess  within 5 days.",
        "A trader must report the excess within 5\tdays.",
    ),
    ("percent closed up", "The ceiling is 5 % of the book.", "The ceiling is 5% of the book."),
    (
        "a typographic hyphen before a number",
        "The point is at 35.02,\u2011106.53 east.",
        "The point is at 35.02,-106.53 east.",
    ),
    (
        "a few ordinary words",
        "Records must be kept in the archive while they are subject to a legal hold of 7 years.",
        "Records must be held in the archive whilst they are subject to a legal hold of 7 years.",
    ),
    ("ordinary words inserted", "The desk must file the form.", "The desk in question must file the completed form."),
    ("forms of one act", "The committee approves the request.", "The committee approved the request."),
    (
        "sentences in another order",
        "A trader must report the excess. The limit is 5 %. Hedges are not counted.",
        "Hedges are not counted. A trader must report the excess. The limit is 5 %.",
    ),
]


def deduplicate(texts: Sequence[str], **how: Any) -> list[Match | None]:
    """Dedup of plain texts."""
    return dedup.deduplicate([AnalysedText(text) for text in texts], **how)


@pytest.mark.parametrize(("first", "second"), [pair[1:] for pair in FORBIDDEN], ids=[pair[0] for pair in FORBIDDEN])
def test_conflicting_rules_must_not_merge(first: str, second: str) -> None:
    assert not allows(first, second)
    assert not allows(second, first)
    assert deduplicate([FRAME.format(first), FRAME.format(second)]) == [None, None]


@pytest.mark.parametrize(("first", "second"), [pair[1:] for pair in ALLOWED], ids=[pair[0] for pair in ALLOWED])
def test_harmless_differences_merge(first: str, second: str) -> None:
    assert allows(first, second)
    assert allows(second, first)
    match = deduplicate([FRAME.format(first), FRAME.format(second)])[1]
    assert match is not None
    assert match.into == 0


def test_a_sentence_moved_under_another_heading_has_changed() -> None:
    first = "## Permitted\n\nThe desk trades bonds. It is hedged. Gold is too.\n\n## Prohibited\n\nNobody trades oil."
    second = "## Permitted\n\nThe desk trades bonds. It is hedged.\n\n## Prohibited\n\nNobody trades oil. Gold is too."
    assert not allows(first, second)


def test_a_sentence_that_leans_on_the_one_before_it_moves_with_it() -> None:
    first = "Hedges are booked daily. Gifts are booked weekly. This is not permitted for interns."
    assert not allows(first, "Hedges are booked daily. This is not permitted for interns. Gifts are booked weekly.")
    assert allows(first, "Gifts are booked weekly. This is not permitted for interns. Hedges are booked daily.")


def test_a_number_after_an_abbreviation_is_no_sentence_of_its_own() -> None:
    first = "Retail follows Notice No. 637 on risk. Treasury follows Notice No. 658 on risk."
    second = "Retail follows Notice No. 658 on risk. Treasury follows Notice No. 637 on risk."
    assert not allows(first, second)


def test_a_bullet_moved_to_the_opposite_list_has_changed() -> None:
    first = "Allowed:\n- bonds\n- gold\n\nNot allowed:\n- oil\n- wheat"
    second = "Allowed:\n- bonds\n\nNot allowed:\n- oil\n- wheat\n- gold"
    assert not allows(first, second)


def test_a_word_that_is_moved_only_among_ordinary_words_is_harmless() -> None:
    assert allows("The desk quickly files the form.", "The desk files the form quickly.")


def test_a_text_in_capitals_has_no_codes() -> None:
    assert allows("THE DESK FILES THE FORM AT NOON.", "The desk files this form at noon.")


def test_sentences_that_moved_hide_no_changed_one() -> None:
    first = "Hedges are booked daily. The limit is 5 %. Gifts are booked weekly."
    moved = "Gifts are booked weekly. Hedges are booked daily. The limit is {} %."
    assert allows(first, moved.format(5))
    assert not allows(first, moved.format(7))
    assert not allows(first, moved.format(5) + " Hedges are booked daily.")


@pytest.mark.parametrize(
    ("first", "second", "allowed"),
    [
        ("Staff able to trade report it.", "Staff unable to trade report it.", False),
        ("The desk reads the set.", "The desk reads the inset.", True),  # a rest of three letters proves nothing
        ("The desk keeps the data in a file.", "The desk keeps the information in a file.", True),  # nor "formation"
    ],
)
def test_a_prefix_negates_a_word_of_four_letters_or_more(first: str, second: str, allowed: bool) -> None:
    assert (allows(first, second), allows(second, first)) == (allowed, allowed)


def test_an_initial_ends_no_sentence() -> None:
    first = "Retail reports to J. Smith of risk. Treasury reports to K. Jones of risk."
    second = "Retail reports to K. Jones of risk. Treasury reports to J. Smith of risk."
    assert not allows(first, second)


def test_a_word_said_twice_may_not_lose_one_to_the_other_side_of_a_negation() -> None:
    first = "The desk and the client desk report it and do not call the branch."
    second = "The desk and the client report it and do not call the branch desk."
    assert not allows(first, second)
