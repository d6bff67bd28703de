"""A fence around text that may be read but not obeyed, which the text cannot close.

The markers stand on lines of their own: `<<<untrusted NONCE` and `NONCE>>>`. Inside, every run of three angle brackets
and every occurrence of the nonce is broken by the visible sign U+241B, whatever it is dressed as: full-width and other
look-alikes, entities, URL and string escapes, with white space, control, format or combining characters between. A
U+241B of the text itself is doubled, so that the original text is recovered exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import Final
from unicodedata import category

from context_engine.core.text import BLANK, BRACKETS
from context_engine.errors import InvalidRequest

BREAK: Final = "\u241b"
"""Breaks a mark, visibly."""

_BREAKS: Final = re.compile(BREAK + "+")
_NONCE: Final = re.compile(r"[A-Za-z0-9_-]{6,64}")

_WIDTH: Final = {char: width for width, pairs in BRACKETS.items() for char in pairs.replace(" ", "")}
_KINDS: Final = frozenset(("Cc", "Cf", "Mn", "Mc", "Me"))


@cache
def _unseen() -> str:
    """Return a pattern for a character that leaves a marker a marker to the reader's eye.

    That is white space and every control, format and combining character, but no line break. Unicode has them in its
    first two planes and among the tags.
    """
    chars = map(chr, (*range(0x20000), *range(0xE0000, 0xE1000)))
    found = [ord(char) for char in chars if char != "\n" and (category(char) in _KINDS or char.isspace())]
    return f"[{BLANK}{''.join(_ranges(found))}]"


def _ranges(codes: Sequence[int]) -> Iterator[str]:
    """Yield ascending code points as ranges of a character class."""
    for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        members = [code for _, code in run]
        yield rf"\U{members[0]:08x}-\U{members[-1]:08x}"


def _bracket(side: int) -> str:
    """Return a pattern for one opening (0) or closing (1) bracket in any dress."""
    chars = "".join(pair[side] for pairs in BRACKETS.values() for pair in pairs.split())
    name, digit, hexadecimal = (("lt", "60", "3c"), ("gt", "62", "3e"))[side]
    entity = rf"&(?:amp;|#0*38;|#x0*26;)*(?:{name}|#0*{digit}|#x0*{hexadecimal});?"
    return rf"(?:[{chars}]|{entity}|%{hexadecimal}|\\(?:u00|x|u\{{0*){hexadecimal}\}}?)"


_BRACKET: Final = re.compile(f"{_bracket(0)}|{_bracket(1)}", re.IGNORECASE)


@cache
def _runs() -> re.Pattern[str]:
    """Return the pattern of brackets of one side, however many, with nothing visible between."""
    sides = (rf"{_bracket(side)}(?:{_unseen()}*{_bracket(side)})*" for side in (0, 1))
    return re.compile("|".join(sides), re.IGNORECASE)


@cache
def _hidden() -> re.Pattern[str]:
    return re.compile(f"{_unseen()}+")


def checked_nonce(nonce: str) -> str:
    """Return the nonce if it can stand in a marker.

    Raises:
        InvalidRequest: not 6 to 64 letters, digits, "_" or "-".
    """
    if not isinstance(nonce, str) or not _NONCE.fullmatch(nonce):
        raise InvalidRequest(f"nonce must be 6 to 64 letters, digits, '_' or '-', got {nonce!r}")
    return nonce


@lru_cache(maxsize=64)
def _plain_nonce(nonce: str) -> re.Pattern[str]:
    """Return the pattern of a nonce with nothing between its letters, in any case and in full width too."""
    return re.compile("".join(_letters(nonce)), re.IGNORECASE)


@lru_cache(maxsize=64)
def _spread_nonce(nonce: str) -> re.Pattern[str]:
    """Return the pattern of a nonce with anything unseen between its letters; takes long to make."""
    return re.compile(f"{_unseen()}*".join(_letters(nonce)), re.IGNORECASE)


def _letters(nonce: str) -> list[str]:
    return [f"[{re.escape(char)}{chr(ord(char) + 0xFEE0)}]" for char in checked_nonce(nonce)]


def _break_first(found: re.Match[str]) -> str:
    return found[0][0] + BREAK + found[0][1:]


def _break_run(found: re.Match[str]) -> str:
    if sum(_WIDTH.get(one, 1) for one in _BRACKET.findall(found[0])) < 3:
        return found[0]
    broken = _BRACKET.sub(lambda one: one[0] + BREAK, found[0])
    after = _BREAKS.match(found.string, found.end())
    return broken.removesuffix(BREAK) if after and len(after[0]) % 2 else broken  # a break stands there already


def neutralise(text: str, nonce: str, claims: Callable[[str], str] = str) -> str:
    """Return the text with nothing in it that reads as a marker; reversible.

    Args:
        claims: breaks what else a text must not hold, by a break where none stands.
    """
    return without_nonce(_runs().sub(_break_run, claims(text.replace(BREAK, BREAK * 2))), nonce)


def without_nonce(text: str, nonce: str) -> str:
    """Return a trusted text, verbatim unless it holds the nonce: it cannot open or close a fence by accident."""
    seen = "".join(text.split())
    if not (seen.isascii() and seen.isprintable()):
        seen = _hidden().sub("", seen)
    if not _plain_nonce(nonce).search(seen):
        return text
    return _spread_nonce(nonce).sub(_break_first, text)


def fence(text: str, nonce: str, claims: Callable[[str], str] = str) -> str:
    """Return the text between its markers, three lines or more.

    Args:
        claims: as in `neutralise`.

    Raises:
        InvalidRequest: the nonce is not 6 to 64 letters, digits, "_" or "-".
    """
    return f"<<<untrusted {checked_nonce(nonce)}\n{neutralise(text, nonce, claims)}\n{nonce}>>>"


def parse_fences(text: str, nonce: str) -> list[str]:
    """Return the original texts of all fences with this nonce, in order.

    Raises:
        InvalidRequest: a marker without its counterpart.
    """
    opening, closing = f"<<<untrusted {checked_nonce(nonce)}", f"{nonce}>>>"
    found = re.findall(rf"{re.escape(opening)}\n(.*?)\n{re.escape(closing)}", text, re.DOTALL)
    if text.count(opening) != len(found) or text.count(closing) != len(found):
        raise InvalidRequest(f"half a fence: {opening!r} and {closing!r} do not pair up")
    # A break that was put in stands single; those of the text come in pairs, with at most one put in before them.
    return [_BREAKS.sub(lambda run: BREAK * (len(run[0]) // 2), body) for body in found]
