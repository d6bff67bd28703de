"""Other spellings of a number or a code, and the syllables of scripts that put no space between words.

5,000,000, 5 000 000, 5.000.000, 5 million and 5m are one number; F-1208, F 1208 and F1208 are one code. The spelling
with digits or letters and digits alone is added to the search terms of a text; the text itself stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_SCALES: Final = {
    **dict.fromkeys(("k", "thousand", "tsd"), 3),
    **dict.fromkeys(("lakh", "lakhs"), 5),
    **dict.fromkeys(("m", "mn", "mln", "mio", "million", "millions", "millionen"), 6),
    **dict.fromkeys(("crore", "crores"), 7),
    **dict.fromkeys(("b", "bn", "mrd", "billion", "billions", "milliard", "milliards", "milliarden"), 9),
    **dict.fromkeys(("tn", "trillion", "trillions"), 12),
}
_LETTERS: Final = "kmb"  # of a scale that follows the number directly: "5 m" is a length
_SCALE: Final = "|".join(sorted(filter(lambda name: len(name) > 1, _SCALES), key=len, reverse=True))
_INITIALS: Final = "".join(sorted({name[0] for name in _SCALES}))
_INDIAN: Final = r"\d?(?:,\d{2})+,\d{3}(?:\.\d{1,2})?(?!\d)"
_GROUPED: Final = r"\d{0,2}(?P<group>[.,'’ ])\d{3}(?:(?P=group)\d{3})*(?!\d)(?:[.,]\d{1,2}(?!\d))?"
_NUMBER: Final = re.compile(
    rf"\d(?<![\d.,].)(?P<rest>(?P<indian>{_INDIAN})|(?P<grouped>{_GROUPED})|\d*(?:[.,]\d+)?(?=[ -]?[{_INITIALS}]))"
    rf"(?:[ -]?(?P<scale>{_SCALE})|(?P<letter>[{_LETTERS}]))?(?!\w|[.,]\d)",
    re.IGNORECASE,
)
"""A number. Its first digit stands before its groups, and after a number without groups the first letter of a scale is
expected, for without a scale it has no other spelling: both make the search fast."""
_CODE: Final = re.compile(r"(?<![\w-])([A-Z]{1,4}) (\d{2,8}[A-Za-z]?)(?![\w,.]*\d)")
_DIGIT: Final = re.compile(r"\d")
_MOST_DIGITS: Final = 18
JOINED: Final = re.compile(r"([a-z]{1,4})-?(\d{2,8}[a-z]?)")
"""A code of letters and a number, lower case."""

_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u08d3-\u08ff\u0900-\u0903\u093a-\u094f"
    "\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09d7\u09e2\u09e3\u0a01-\u0a03\u0a3c-\u0a51\u0a70\u0a71\u0a75"
    "\u0a81-\u0a83\u0abc-\u0acd\u0ae2\u0ae3\u0b01-\u0b03\u0b3c-\u0b57\u0b62\u0b63\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04"
    "\u0c3c-\u0c56\u0c62\u0c63\u0c81-\u0c83\u0cbc-\u0cd6\u0ce2\u0ce3\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0d62\u0d63"
    "\u0d81-\u0d83\u0dca-\u0ddf\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e"
    "\u1056-\u1059\u17b4-\u17d3\u17dd\u200c\u200d"
)
LETTER: Final = rf"[\w{_MARKS}]"
"""A letter, digit or underscore, or a mark that belongs to the letter before it."""

# Compiled when used: a class of thousands of characters takes milliseconds, and few texts hold one of them.
_OTHER_SCRIPT: Final = re.compile(r"[^\x00-\u024f\u2000-\u22ff]")
CJK: Final = r"[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]"
"""A Chinese, Japanese or Korean character, as a pattern."""

_SYLLABLE: Final = (
    r"[\u0e40-\u0e44\u0ec0-\u0ec4]?[\u0e01-\u0e2f\u0e81-\u0eaf\u0edc-\u0edf\u1000-\u102a\u103f\u1780-\u17b3]"
    r"(?:\u17d2[\u1780-\u17b3]|[\u0e30-\u0e3a\u0e45-\u0e4e\u0eb0-\u0ebd\u0ec6-\u0ece\u102b-\u103e\u17b4-\u17d3])*"
)
UNIT: Final = f"{CJK}|{_SYLLABLE}"
"""A unit of a script without spaces between words: a Chinese, Japanese or Korean character, or a consonant of Thai,
Lao, Burmese or Khmer with the vowels and marks around it."""
UNIT_OR_OTHER: Final = f"({UNIT})|((?:(?!{UNIT}).)+)"


def has_cjk(text: str) -> bool:
    """Return whether the text holds a Chinese, Japanese or Korean character."""
    return _holds(CJK, text)


def has_unspaced(text: str) -> bool:
    """Return whether the text holds a script without spaces between words: Chinese, Japanese, Korean, Thai, Lao,
    Burmese or Khmer.
    """
    return _holds(UNIT, text)


def _holds(pattern: str, text: str) -> bool:
    return not text.isascii() and bool(_OTHER_SCRIPT.search(text)) and bool(re.search(pattern, text))


class Spelling(NamedTuple):
    """Another spelling of a part of a text.

    Attributes:
        term: the spelling with digits alone, or with letters and digits alone.
        written: the words that it stands for; empty if they keep their weight.
    """

    term: str
    written: str = ""


def other_spellings(text: str) -> Iterator[Spelling]:
    """Yield the spelling of each grouped or scaled number, and of each code written with a space.

    Args:
        text: in Unicode's form NFKC.

    >>> [spelling.term for spelling in other_spellings("EUR 5,000,000 or USD 1.5 million under F 1208")]
    ['5000000', '1500000', 'f1208']
    """
    if not _DIGIT.search(text):
        return
    spaced = " ".join(text.split())
    for match in _NUMBER.finditer(spaced):
        number = _plain(match)
        if number:
            yield Spelling(number, match[0])
    for code in _CODE.finditer(spaced):
        yield Spelling(f"{code[1]}{code[2]}".casefold())


def _plain(match: re.Match[str]) -> str | None:
    """Return a number with digits alone; None if it is written so, or may be another number."""
    name = match["scale"] or match["letter"]
    scale = _SCALES[name.lower()] if name else 0
    number = match.string[match.start() : match.end("rest")]
    if match["indian"]:
        return _scaled(number.replace(",", ""), scale)
    if match["grouped"] and not (scale and match["group"] == "." and number.count(".") == 1):
        return _ungrouped(number, match["group"], scale)
    return _scaled(number.replace(",", "."), scale) if scale else None


def _ungrouped(number: str, group: str, scale: int) -> str | None:
    """Return a number in groups of three digits with digits alone.

    None if it may be another: 1.500 is 1500 or 1.5, and 637 638 two numbers.
    """
    whole, decimals = re.fullmatch(r"(.*?\d{3})(?:[.,](\d{1,2}))?", number).groups()  # type: ignore[union-attr]
    two = whole.count(group) == 1 and not decimals
    if two and (group == "." or (group == " " and not whole.endswith("000"))):
        return None
    return _scaled(whole.replace(group, "") + (f".{decimals}" if decimals else ""), scale)


def _scaled(digits: str, scale: int) -> str | None:
    """Return a number times a power of ten, without needless zeros after the decimal point."""
    whole, _, rest = digits.partition(".")
    rest = rest.ljust(scale, "0")
    moved = (whole + rest[:scale]).lstrip("0") or "0"
    decimals = rest[scale:].rstrip("0")
    return None if len(moved) > _MOST_DIGITS else f"{moved}.{decimals}" if decimals else moved
