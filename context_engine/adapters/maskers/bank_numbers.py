"""Payment card numbers and IBANs: of a known issuer or country, of the right length, and with a valid checksum."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from stdnum import iban, luhn, numdb

from context_engine.adapters.maskers.plain_text import PlainText
from context_engine.core.protocols import PersonalData

CARD: Final = "CARD"
_GAP: Final = r"(?:[ -]{1,2}|\n)"
_WRITTEN: Final = re.compile(
    rf"(?<!\w)(?<!\d[-.,/])(?<![A-Z]{{2}}\d\d[ -])(?=("
    rf"[2-6]\d{{11,18}}"
    rf"|[2-6]\d{{3}}{_GAP}\d{{4}}{_GAP}\d{{4}}{_GAP}\d{{4}}(?:{_GAP}\d{{3}}(?!\d))?"
    rf"|3\d{{3}}{_GAP}\d{{6}}{_GAP}\d{{4,5}}"
    rf"|62\d{{4}}{_GAP}\d{{13}}"
    rf")(?!\w)(?![.,]\d))"
)
"""Unbroken; in fours, perhaps with three more digits; 4-6-5, 4-6-4 or 6-13; never a part of a longer number."""

_ISSUERS: Final = (
    ("Visa", "4", "4", (13, 16, 19)),
    ("Mastercard", "51", "55", (16,)),
    ("Mastercard", "2221", "2720", (16,)),
    ("American Express", "34", "34", (15,)),
    ("American Express", "37", "37", (15,)),
    ("Diners Club", "300", "305", (14, 16, 19)),
    ("Diners Club", "36", "36", (14, 16, 19)),
    ("Diners Club", "38", "39", (14, 16, 19)),
    ("JCB", "3528", "3589", (16, 17, 18, 19)),
    ("Discover", "6011", "6011", (16, 17, 18, 19)),
    ("Discover", "644", "659", (16, 17, 18, 19)),
    ("UnionPay", "62", "62", (16, 17, 18, 19)),
    ("RuPay", "60", "60", (16,)),
    ("Mir", "2200", "2204", (16, 17, 18, 19)),
    *(("Maestro", prefix, prefix, tuple(range(12, 20))) for prefix in ("5018", "5020", "5038", "5893", "6304")),
    ("Maestro", "6759", "6763", tuple(range(12, 20))),
)
"""Name, first and last prefix, lengths in digits."""


def find_cards(plain: PlainText) -> Iterator[PersonalData]:
    """Yield the card numbers of a text; the value is the digits."""
    for match in _WRITTEN.finditer(plain.text):
        end = _end_of_card(match[1])
        if end:
            start = match.start()
            digits = _digits(match[1][:end])
            yield PersonalData(*plain.span(start, start + end), CARD, digits)


def _end_of_card(written: str) -> int:
    """Return the length of the card number in a candidate, 0 for none: a short last group may be the security code."""
    shorter = len(re.sub(r"\D+\d{3}$", "", written))
    return next((end for end in (len(written), shorter) if _is_card(_digits(written[:end]))), 0)


def _is_card(digits: str) -> bool:
    issued = any(
        len(digits) in lengths and first <= digits[: len(first)] <= last for _, first, last, lengths in _ISSUERS
    )
    return issued and bool(luhn.is_valid(digits))


def _digits(written: str) -> str:
    return re.sub(r"\D", "", written)


IBAN: Final = "IBAN"
_START: Final = re.compile(r"(?:(?<![^\W_])|(?<=iban))([a-z]{2})(?=(?:[ -]?\d){2}[ \n-]?[a-z0-9])", re.IGNORECASE)
_PART: Final = re.compile(r"(?:[ -]{1,2}|\n)?[A-Za-z0-9]", re.ASCII)
_LENGTHS: Final = re.compile(r"(\d+)!")


def find_ibans(plain: PlainText) -> Iterator[PersonalData]:
    """Yield the account numbers of a text; the value is the number in capitals without spaces."""
    text, done = plain.text, 0
    for match in _START.finditer(text):
        start, length = match.start(), _length(match[1].upper())
        if length is None or start < done:
            continue
        end = _end_of_iban(text, start, length)
        if end is None or (end < len(text) and text[end].isalnum()):
            continue
        number = re.sub(r"[ \n-]", "", text[start:end]).upper()
        if iban.is_valid(number, check_country=False):
            done = end
            yield PersonalData(*plain.span(start, end), IBAN, number)


def _end_of_iban(text: str, start: int, length: int) -> int | None:
    """Return where `length` letters and digits end, with at most a space, hyphen or line end between two."""
    place = start
    for _ in range(length):
        part = _PART.match(text, place)
        if part is None:
            return None
        place = part.end()
    return place


@cache
def _length(country: str) -> int | None:
    """Return the length of a country's numbers, None if it has none."""
    entries = numdb.get("iban").info(f"{country}00")
    structure = entries[0][1].get("bban", "") if entries else ""
    return 4 + sum(map(int, _LENGTHS.findall(structure))) if structure else None
