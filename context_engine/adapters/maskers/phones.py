"""Telephone numbers that a country's numbering plan has.

A number with `+` or `00` before it is read as it is; one without as of the regions that are configured, and then it is
written in the groups of its region, or stands behind a word such as "tel" or "call": eight digits alone are as often an
account, a date or an amount.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from phonenumbers import SUPPORTED_REGIONS as _REGIONS
from phonenumbers import Leniency, PhoneNumberFormat, PhoneNumberMatcher, format_number

from context_engine.adapters.maskers.plain_text import PlainText
from context_engine.core.protocols import PersonalData

__all__ = ["PHONE", "SUPPORTED_REGIONS", "find_phones"]

PHONE: Final = "PHONE"
SUPPORTED_REGIONS: Final[frozenset[str]] = frozenset(_REGIONS)

_WRITTEN: Final = re.compile(
    r"(?<![\w+])(?<!\d[-.,/])(?:\+ ?|\(\+?|0)?\(?\d[\d ().\-/]{4,22}\d(?!\w)(?:,? ?(?:ext|x)\.? ?\d{1,5}\b)?"
)
_INTERNATIONAL: Final = re.compile(r"\(?\+|00(?=[1-9])")
_WORD_BEFORE: Final = re.compile(
    r"(?:\b(?:tele?(?:phone|fon|efono)?|phone|mobile?|cell|hand(?:y|phone)|fax|call|dial|ring|hotline|helpline|"
    r"whats ?app|sms|t[ée]l(?:[ée]phone)?|tel[ée]fono)(?:'s|s)?\b|电话|電話|手机|手機|热线|熱線|传真|傳真)[^\n\d]{0,20}$",
    re.IGNORECASE,
)
_BEFORE: Final = 40
_LEAST_DIGITS: Final = 7
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_DATE: Final = re.compile(r"\d{1,2}[-./]\d{1,2}[-./]\d{2,4}|\d{4}[-./]\d{1,2}[-./]\d{1,2}")


def find_phones(plain: PlainText, regions: Sequence[str]) -> Iterator[PersonalData]:
    """Yield the telephone numbers of a text; the value is the number in E.164 (`+6561234567`)."""
    text = plain.text
    for found in _WRITTEN.finditer(text):
        start, written = found.start(), found[0]
        if sum(map(str.isdigit, written)) < _LEAST_DIGITS:
            continue
        for first, last, value in _numbers(written, text[max(0, start - _BEFORE) : start], regions):
            yield PersonalData(*plain.span(start + first, start + last), PHONE, value)


def _numbers(written: str, before: str, regions: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return the numbers in what looks like one, each with its place in it."""
    international = _INTERNATIONAL.match(written)
    if international:
        zeros = written.startswith("00")
        return _matched(f"+{written[2:]}" if zeros else written, None, Leniency.VALID, shift=int(zeros))
    named = _WORD_BEFORE.search(before) is not None
    if not named and (_DATE.match(written) or all(map(_YEAR.fullmatch, re.findall(r"\d+", written)))):
        return []
    for region in regions:
        leniency = Leniency.VALID if named else Leniency.STRICT_GROUPING
        numbers = _matched(written, region, leniency)
        numbers = [one for one in numbers if named or not written[one[0] : one[1]].isdigit()]
        if numbers:
            return numbers
    return []


def _matched(written: str, region: str | None, leniency: int, *, shift: int = 0) -> list[tuple[int, int, str]]:
    """Return numbers with their places; `shift` characters at the beginning were left out of `written`."""
    return [
        (one.start + (shift if one.start else 0), one.end + shift, format_number(one.number, PhoneNumberFormat.E164))
        for one in PhoneNumberMatcher(written, region, leniency=leniency)
    ]
