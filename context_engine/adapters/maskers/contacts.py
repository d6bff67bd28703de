"""Telephone numbers that exist in a country's numbering plan, and e-mail addresses.

A number with `+` or `00` before it is read as an international number. Any other number is read as one of the
configured regions. It must follow a word such as "tel" or "call", or be grouped as in its region without other digits
beside it, because eight plain digits are as often an account, a date or an amount, and table rows are full of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from phonenumbers import SUPPORTED_REGIONS as _REGIONS
from phonenumbers import Leniency, PhoneNumberFormat, PhoneNumberMatch, PhoneNumberMatcher, format_number

from context_engine.adapters.maskers.plain_text import PlainText
from context_engine.core.protocols import PersonalData

PHONE: Final = "PHONE"
SUPPORTED_REGIONS: Final[frozenset[str]] = frozenset(_REGIONS)
_WRITTEN: Final = re.compile(
    r"(?<![\w+/=])(?<!\d[-.,/])(?:\+ ?|\(\+?|0)?\(?\d(?:[\d ().\-]|/(?=\d)){4,22}\d(?!\w)"
    r"(?:,? ?(?:ext|x)\.? ?\d{1,5}\b)?"
)
_INTERNATIONAL: Final = re.compile(r"\(?\+|00(?=[1-9])")
_WORD_BEFORE: Final = re.compile(
    r"(?:\b(?:t[ée]l(?:[ée]phone|efon|[ée]fono)?|phone|mobile?|cell|hand(?:y|phone)|fax|call|dial|ring|hotline|"
    r"helpline|whats ?app|sms)s?\b|电话|電話|手机|手機|热线|熱線|传真|傳真)[^\n\d]{0,20}$",
    re.IGNORECASE,
)
_MORE_DIGITS: Final = re.compile(r"[ .\-]{1,2}\d")
_BEFORE: Final = 40
_Number = tuple[int, int, str]
"""(start, end, number in E.164)."""
_LEAST_DIGITS: Final = 7
_MOST_DIGITS: Final = 15
_MOST_PAGES: Final = 100
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_DATE: Final = re.compile(r"\d{1,2}[-./]\d{1,2}[-./]\d{2,4}|\d{4}[-./]\d{1,2}[-./]\d{1,2}")


def find_phones(plain: PlainText, regions: Sequence[str]) -> Iterator[PersonalData]:
    """Yield the telephone numbers of a text; the value is the number in E.164 (`+6561234567`)."""
    text = plain.text
    for match in _WRITTEN.finditer(text):
        start, written = match.start(), match[0]
        if sum(map(str.isdigit, written)) < _LEAST_DIGITS:
            continue
        if _INTERNATIONAL.match(written):
            numbers = _international(written)
        elif regions and _WORD_BEFORE.search(text, max(0, start - _BEFORE), start):
            numbers = _national(written, regions, Leniency.VALID)
        elif regions and not (_is_other(written) or _MORE_DIGITS.match(text, match.end())):
            national = _national(written, regions, Leniency.STRICT_GROUPING)
            numbers = [number for number in national if _is_all_of(written, number)]
        else:
            continue
        for first, last, value in numbers:
            yield PersonalData(*plain.span(start + first, start + last), PHONE, value)


def _international(written: str) -> list[_Number]:
    """Return the numbers in a text that begins with `+` or `00`."""
    if not written.startswith("00"):
        return _matched(written, None, Leniency.VALID)
    numbers = _matched(f"+{written[2:]}", None, Leniency.VALID)
    return [(first + (first > 0), last + 1, value) for first, last, value in numbers]


def _national(written: str, regions: Sequence[str], leniency: int) -> list[_Number]:
    """Return the numbers of the first region that has any."""
    return next((numbers for region in regions if (numbers := _matched(written, region, leniency))), [])


def _is_all_of(written: str, number: _Number) -> bool:
    """Return whether a grouped number is the whole text, except for brackets around it."""
    return not written.isdigit() and number[0] <= 1 and number[1] == len(written)


def _is_other(written: str) -> bool:
    """Return whether grouped digits are too many, a date, years, a page range, or parts of a path."""
    groups = re.findall(r"\d+", written)
    first, second = (*map(int, groups[:2]), 0)[:2]
    pages = len(groups) == 2 and len(groups[0]) == len(groups[1]) and first < second < first + _MOST_PAGES
    too_many = sum(map(len, groups)) > _MOST_DIGITS
    return bool(too_many or pages or "/" in written or _DATE.match(written) or all(map(_YEAR.fullmatch, groups)))


def _matched(written: str, region: str | None, leniency: int) -> list[_Number]:
    matches = PhoneNumberMatcher(written, region, leniency=leniency)
    return [(_first(number), number.end, format_number(number.number, PhoneNumberFormat.E164)) for number in matches]


def _first(match: PhoneNumberMatch) -> int:
    """Return where a number begins; an unclosed bracket at its start belongs to the surrounding text."""
    opened = match.raw_string.startswith("(") and ")" not in match.raw_string
    return int(match.start) + opened


EMAIL: Final = "EMAIL"
_LONGEST_NAME: Final = 64
_NAME: Final = re.compile(r"(?<![\w.+%'~-])[\w+%~](?:[\w+%'~-]|\.(?!\.)){0,63}(?<![.'])$")
_DOMAIN: Final = re.compile(r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?![\w-])")


def find_emails(plain: PlainText) -> Iterator[PersonalData]:
    """Yield the addresses of a text; the value is the address in lower case."""
    at = plain.text.find("@")
    while at >= 0:
        first = max(0, at - _LONGEST_NAME - 1)
        domain = _DOMAIN.match(plain.text, at + 1)
        name = _NAME.search(plain.text[first:at]) if domain else None
        if name and domain:
            start, end = first + name.start(), domain.end()
            yield PersonalData(*plain.span(start, end), EMAIL, plain.text[start:end].casefold())
        at = plain.text.find("@", at + 1)
