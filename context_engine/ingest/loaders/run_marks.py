"""Struck, raised and lowered runs of text, written in one way for all formats.

A loader puts the same mark before and after each run (`marked`); `written` joins neighbouring runs and writes them out.
Struck words become `~~words~~`. A raised 6 becomes ⁶ and a lowered 2 becomes ₂, so that 10⁶ is not read as 106; text
without such characters in Unicode follows "^" or "_". Ordinals stay as they are: 1st, 2e.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

STRUCK: Final = "\x01"  # XML cannot hold these characters, and HTML pages have no use for them
RAISED: Final = "\x02"
LOWERED: Final = "\x03"
_HIGH: Final = str.maketrans("0123456789+-−=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ")
_LOW: Final = str.maketrans("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")
_ORDINAL: Final = re.compile(r"st|nd|rd|th|er?|re|eme|ème|nd?e|os?|as?|º|ª|o\.|TM|SM|®|©|™", re.IGNORECASE)
_SIGNS: Final = re.compile(r"[^\w\s]+")


def marked(text: str, *, struck: bool = False, raised: bool = False, lowered: bool = False) -> str:
    """Return the text of a run between its marks."""
    marks = (STRUCK if struck else "") + (RAISED if raised else LOWERED if lowered else "")
    return f"{marks}{text}{marks[::-1]}" if text and marks else text


def written(text: str) -> str:
    """Return a text with its marked runs written out.

    >>> written(f"EUR 10{RAISED}6{RAISED}, CO{LOWERED}2{LOWERED}, x{RAISED}ab{RAISED}, 1{RAISED}st{RAISED}")
    'EUR 10⁶, CO₂, x^ab, 1st'
    >>> written(f"{STRUCK}limit {STRUCK}{STRUCK}30 %{STRUCK} limit 20 %")
    '~~limit 30 %~~ limit 20 %'
    """
    if RAISED in text:
        text = _spans(text, RAISED, _raised)
    if LOWERED in text:
        text = _spans(text, LOWERED, _lowered)
    return _spans(text, STRUCK, lambda words: f"~~{words}~~") if STRUCK in text else text


def _spans(text: str, mark: str, write: Callable[[str], str]) -> str:
    joined = re.sub(rf"{mark}(\s*){mark}", r"\1", text)
    spans = joined.split(mark)
    return "".join(_around(span, write) if place % 2 else span for place, span in enumerate(spans))


def _around(span: str, write: Callable[[str], str]) -> str:
    """Write the words of a span; white space at its ends stays outside."""
    bare = span.strip()
    if not bare:
        return span
    start = span.index(bare)
    return f"{span[:start]}{write(bare)}{span[start + len(bare) :]}"


def with_bold(spans: Sequence[str]) -> str:
    """Join spans, of which every second one is bold, and mark the bold words.

    A span is not marked if it has no letter or digit, or if a mark would split a word: a search would not find it.

    >>> with_bold(["keep ", "all", " jum", "ped", ""])
    'keep **all** jumped'
    """
    ends = [*spans, ""]
    return "".join(
        _around(span, lambda words: f"**{words}**")
        if place % 2 and any(map(str.isalnum, span)) and not _cuts(ends[place - 1], span, ends[place + 1])
        else span
        for place, span in enumerate(spans)
    )


def _cuts(before: str, span: str, after: str) -> bool:
    """Return whether a span begins or ends within a word."""
    return any(left[-1:].isalnum() and right[:1].isalnum() for left, right in pairwise((before, span, after)))


def _raised(text: str) -> str:
    plain = text.translate(_HIGH)
    if _ORDINAL.fullmatch(text) or _SIGNS.fullmatch(text) or text.startswith("[^"):
        return text
    return plain if not any(sign in text for sign in plain) else f"^{_grouped(text)}"


def _lowered(text: str) -> str:
    plain = text.translate(_LOW)
    if _SIGNS.fullmatch(text):
        return text
    return plain if not any(sign in text for sign in plain) else f"_{_grouped(text)}"


def _grouped(text: str) -> str:
    return text if text.isalnum() else f"({text})"
