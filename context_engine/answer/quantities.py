"""Numbers with units and currencies, dates and times, each in one spelling."""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from decimal import Decimal
from itertools import chain
from typing import Final, NamedTuple

from context_engine.core.text.spellings import other_spellings


class Value(NamedTuple):
    """A number with what belongs to it; empty where it has none.

    Attributes:
        number: digits alone: "1000000", "0.5".
        unit: "business day", "%".
        currency: its ISO code.
        bound: at least, at most, more than, less than or within.
    """

    number: str
    unit: str = ""
    currency: str = ""
    bound: str = ""

    def differs_in(self, other: Value) -> str:
        """Return in what a value differs from another first: number, unit, currency or bound."""
        return next((name for name, own, its in zip(self._fields, self, other) if own != its), "")


_UNDER_TWENTY: Final = """
    one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen
"""
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
_SPELLED: Final = {
    **{word: number for number, word in enumerate(_UNDER_TWENTY.split(), start=1)},
    **{word: 10 * number for number, word in enumerate(_TENS.split(), start=2)},
}
_SCALES: Final = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9}
_CURRENCIES: Final = {
    "USD": r"us ?\$|usd|us dollars?|dollars?|\$",
    "EUR": "eur|euros?|€",
    "GBP": "gbp|pounds sterling|pounds?|sterling|£",
    "JPY": "jpy|yen|¥",
    "CHF": "chf|swiss francs?",
    "CNY": "cny|rmb|renminbi|yuan",
    "INR": "inr|rupees?",
    "AED": "aed|dirhams?",
    **{code.upper(): code for code in ("hkd", "sgd", "aud", "cad", "nzd", "sek", "nok", "dkk")},
}
_UNITS: Final = {
    "%": "%|per ?cent|pct",
    "percentage point": "percentage points?",
    "basis point": "basis points?|bps?",
    "minute": "minutes?|mins?",
    "hour": "hours?|hrs?",
    "time": "times",
    **{name: f"{name}s?" for name in ("second", "day", "week", "month", "quarter", "year")},
}
MAY: Final = "mai"
"""How the month of May is written for `DATE`, because "may" is a modal."""
_MONTHS: Final = {
    name.lower().replace("may", MAY): number
    for number, name in chain(enumerate(calendar.month_name), enumerate(calendar.month_abbr))
    if name
}


def _table(forms: Mapping[str, str]) -> tuple[re.Pattern[str], list[str]]:
    """Return a pattern with a group for each name, whose forms end where a word ends, and the names."""
    groups = (
        "|".join(form if form[-1] in "$€£¥%" else f"{form}(?![a-z])" for form in each.split("|"))
        for each in forms.values()
    )
    return re.compile("|".join(f"({group})" for group in groups)), list(forms)


_CURRENCY, _CURRENCY_NAMES = _table(_CURRENCIES)
_UNIT, _UNIT_NAMES = _table(_UNITS)
_BEFORE_UNIT: Final = re.compile(
    r"[ -]?(?:(?:consecutive|full|clear|more|further) )*"
    r"(?P<days>(?:business|working|calendar|trading|banking) (?=days?\b))?"
)
_MORE_OR_LESS: Final = re.compile(
    r",? (?:or|and) (?:(?P<more>more|above|over|longer)|less|fewer|below|under|shorter)\b"
)
_DAY_FIRST: Final = re.compile(r"\d{1,2}(?!\d)")
_DAY_LATER: Final = re.compile(r"(?<= )\d{1,2}(?!\d)")
_YEAR: Final = re.compile(r"\d{4}$")

SPELLED: Final = "|".join(sorted((*_SPELLED, *_SCALES), key=len, reverse=True))
"""Pattern of the words that numbers are spelled with."""
_MONTH: Final = "|".join(sorted(_MONTHS, key=len, reverse=True))
_PREFIX: Final = f"(?:(?:{re.sub(r'[(](?![?])', '(?:', _CURRENCY.pattern)}) ?)?"
DATE: Final = (
    rf"\d{{4}}-\d\d-\d\d(?!\w)|\d{{1,2}}(?:st|nd|rd|th)? ?(?:of )?(?:{_MONTH})(?:,? \d{{4}})?(?!\w)"
    rf"|(?:{_MONTH}) (?:\d{{1,2}}(?:st|nd|rd|th)?,? )?\d{{4}}(?!\w)|\d{{1,2}}:\d\d"
)
"""Pattern of a date or time, in lower case."""
NUMBER: Final = (
    rf"{_PREFIX}(?:\d{{1,3}}(?:[, ']\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?: ?(?:million|billion|trillion|thousand|mn|bn|m|k)\b)?"
    rf"|{_PREFIX}\b(?:{SPELLED})\b(?:[- ](?:and )?(?:{SPELLED})\b)*"
)
"""Pattern of a number with a currency before it, in lower case."""


def currency_of(word: str) -> str | None:
    """Return the ISO code of a currency's name, code or sign in lower case; None for another word."""
    match = _CURRENCY.fullmatch(word)
    return _CURRENCY_NAMES[(match.lastindex or 1) - 1] if match else None


def date_key(written: str) -> str:
    """Return a date as year-month-day with what it names, or a time as hours:minutes.

    >>> date_key("1 march 2026"), date_key("march 2026"), date_key("9:30")
    ('2026-03-01', '2026-03-', '09:30')
    """
    if ":" in written:
        return written.zfill(5)
    if written[:5].endswith("-"):
        return written
    month = re.search(_MONTH, written)
    day = _DAY_FIRST.match(written) or _DAY_LATER.search(written)
    year = _YEAR.search(written)
    return f"{year[0] if year else ''}-{_MONTHS[month[0]] if month else 0:02}-{f'{int(day[0]):02}' if day else ''}"


def quantity(text: str, match: re.Match[str]) -> tuple[Value, int]:
    """Return the value of a number that `NUMBER` matched, with its unit, and where it ends in the text."""
    written, end = match[0], match.end()
    currency = unit = bound = ""
    if before := _CURRENCY.match(written):
        currency = _CURRENCY_NAMES[(before.lastindex or 1) - 1]
        written = written[before.end() :].strip()
    between = _BEFORE_UNIT.match(text, end)
    start = between.end() if between else end
    if after := _UNIT.match(text, start):
        days = between["days"] if between else None
        name = _UNIT_NAMES[(after.lastindex or 1) - 1]
        is_error = after[0] == f"{name}s" and _digits(written) == "1"  # "1 days": 1 day, or another number of days
        unit, end = f"{days or ''}{after[0] if is_error else name}", after.end()
    elif not currency and (after := _CURRENCY.match(text, start)):
        currency, end = _CURRENCY_NAMES[(after.lastindex or 1) - 1], after.end()
    if more := _MORE_OR_LESS.match(text, end):
        bound, end = ("at least" if more["more"] else "at most"), more.end()
    return Value(_digits(written), unit, currency, bound), end


def _digits(written: str) -> str:
    """Return a number with digits alone."""
    if not written[0].isdigit():
        return str(_spelled_number(written))
    spelled = next(other_spellings(written), None)
    term = spelled.term if spelled else written.replace(",", "").replace(" ", "")
    try:
        return f"{Decimal(term).normalize():f}"
    except ArithmeticError:
        return term


def _spelled_number(written: str) -> int:
    total, current = 0, 0
    for word in re.split(r"[- ]", written):
        scale = _SCALES.get(word, 0)
        current = max(current, 1) * scale if scale else current + _SPELLED.get(word, 0)
        if scale > 100:
            total, current = total + current, 0
    return total + current
