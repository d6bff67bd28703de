"""International bank account numbers: of a country that issues them, as long as that country's, and valid (mod 97)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from stdnum import iban, numdb

from context_engine.adapters.maskers.plain_text import PlainText
from context_engine.core.protocols import PersonalData

IBAN: Final = "IBAN"

_START: Final = re.compile(r"(?:(?<![^\W_])|(?<=iban))([a-z]{2})(?=(?:[ -]?\d){2}[ \n-]?[a-z0-9])", re.IGNORECASE)
_PART: Final = re.compile(r"(?:[ -]{1,2}|\n)?[A-Za-z0-9]", re.ASCII)
_LENGTHS: Final = re.compile(r"(\d+)!")


def find_ibans(plain: PlainText) -> Iterator[PersonalData]:
    """Yield the account numbers of a text; the value is the number without blanks, in capitals."""
    text, done = plain.text, 0
    for found in _START.finditer(text):
        start, length = found.start(), _length(found[1].upper())
        if length is None or start < done:
            continue
        end = _end(text, start, length)
        if end is None or (end < len(text) and text[end].isalnum()):
            continue
        number = re.sub(r"[ \n-]", "", text[start:end]).upper()
        if iban.is_valid(number, check_country=False):
            done = end
            yield PersonalData(*plain.span(start, end), IBAN, number)


def _end(text: str, start: int, length: int) -> int | None:
    """Return where that many letters and digits end, with at most a blank, a hyphen or a line's end between two."""
    place = start
    for _ in range(length):
        part = _PART.match(text, place)
        if part is None:
            return None
        place = part.end()
    return place


@cache
def _length(country: str) -> int | None:
    """Return how long a country's numbers are, None for a country that has none."""
    found = numdb.get("iban").info(f"{country}00")
    structure = found[0][1].get("bban", "") if found else ""
    return 4 + sum(map(int, _LENGTHS.findall(structure))) if structure else None
