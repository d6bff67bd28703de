"""Periods as names of columns: years, halves, quarters, months and dates."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

_YEAR: Final = re.compile(r"(?:FY|CY)\s?(\d\d|(?:19|20)\d\d)\s?[AEFBP]?|((?:19|20)\d\d)\s?[AEFBP]?")
_PART: Final = re.compile(r"([QH])([1-4])(?:[\s/'-]*((?:19|20)?\d\d))?", re.IGNORECASE)
_YEAR_FIRST: Final = re.compile(r"((?:19|20)\d\d)[\s/-]?([QH])([1-4])", re.IGNORECASE)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMES: Final = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?"
)
_MONTH: Final = re.compile(rf"({_NAMES})\.?(?:[\s/'-]*((?:19|20)?\d\d))?", re.IGNORECASE)


def period_of(cell: object) -> float | None:
    """Return the place of a period in time, comparable within one head; None for anything else.

    >>> period_of(2024), period_of("Q2 2024"), period_of("Mar-25"), period_of("limit")
    (2024.0, 2024.2, 2025.02, None)
    """
    if isinstance(cell, date):
        return float(cell.toordinal())
    text = " ".join(str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell).split())
    if match := _YEAR.fullmatch(text):
        return _year(match[1] or match[2])
    if match := _PART.fullmatch(text):
        return _year(match[3]) + int(match[2]) / 10
    if match := _YEAR_FIRST.fullmatch(text):
        return _year(match[1]) + int(match[3]) / 10
    if match := _MONTH.fullmatch(text):
        return _year(match[2]) + _MONTHS.index(match[1][:3].lower()) / 100
    try:
        return float(date.fromisoformat(text).toordinal())
    except ValueError:
        return None


def _year(text: str | None) -> float:
    return float(f"20{text}" if text and len(text) == 2 else text or 0)
