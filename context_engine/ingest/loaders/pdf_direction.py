"""Lines of a PDF with Hebrew or Arabic in the order in which they are read.

PDFium guesses the order of such lines from that of drawing and turns Latin codes round. Here the characters are taken
from left to right as the page shows them, and the runs of one direction are put in order: the reverse of the Unicode
bidirectional algorithm (UAX #9) for a line without marks of direction.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Final

_Box = tuple[float, float, float, float]
_RIGHT_TO_LEFT: Final = re.compile(  # U+FDD0 to U+FDEF are no characters
    r"[\u0590-\u08ff\ufb1d-\ufdcf\ufdf0-\ufdff\ufe70-\ufeff]"
)
_RTL_WORD: Final = re.compile(rf"{_RIGHT_TO_LEFT.pattern}+")
_LATIN_WORD: Final = re.compile(r"[A-Za-z]+[a-z]")
_LATIN: Final = re.compile(r"[^\W_]")
_GAP: Final = 0.12  # of a character's height: wider between two characters is a space
_IN_NUMBERS: Final = frozenset(".,:/-+")
_RTL: Final = frozenset(("R", "AL"))
_AROUND: Final = frozenset("%‰€$£¥#°")


def needs_order(text: str) -> bool:
    """Return whether a line has right-to-left letters beside Latin letters or digits, and no combining marks."""
    if text.isascii() or not _RIGHT_TO_LEFT.search(text):
        return False
    others = _RIGHT_TO_LEFT.sub("", text)
    return bool(_LATIN.search(others)) and not any(map(unicodedata.combining, text))


def in_logical_order(chars: Sequence[tuple[str, _Box]]) -> str | None:
    """Return the text of a line in reading order; None if its characters lie upon each other.

    Args:
        chars: the characters without spaces, each with its box (left, bottom, right, top); the letters of a ligature
            share one and follow each other in reading order.
    """
    from_left = sorted(enumerate(chars), key=lambda numbered: (numbered[1][1][0], -numbered[0]))
    if any(_overlap(before, after) for (_, (_, before)), (_, (_, after)) in pairwise(from_left)):
        return None
    visual = _spaced([char for _, char in from_left])
    runs = _runs(visual)
    if len(_RTL_WORD.findall(visual)) >= len(_LATIN_WORD.findall(visual)):
        return "".join(run if ltr else _mirrored(run) for ltr, run in reversed(runs))
    return "".join(run if ltr else _mirrored(run) for ltr, run in _embedded(runs))


def _overlap(before: _Box, after: _Box) -> bool:
    """Whether a character begins in the first half of the one before it, and is no part of a ligature."""
    return before[0] < after[0] < (before[0] + before[2]) / 2


def _spaced(chars: Sequence[tuple[str, _Box]]) -> str:
    """Return characters from left to right, with a space in each gap."""
    if not chars:
        return ""
    out = [chars[0][0]]
    for (_, before), (char, box) in pairwise(chars):
        if box[0] - before[2] > _GAP * (box[3] - box[1]):
            out.append(" ")
        out.append(char)
    return "".join(out)


def _is_rtl(char: str) -> bool:
    return unicodedata.bidirectional(char) in _RTL


def _runs(visual: str) -> list[tuple[bool, str]]:
    """Return (whether it is read from left to right, its text) of each run, from left to right.

    Signs within a code, a number or words of Latin letters belong to them; all others to the right-to-left text.
    """
    ltr = [unicodedata.bidirectional(char) == "L" or char.isdigit() for char in visual]
    neutral = [not (left or _is_rtl(char)) for left, char in zip(ltr, visual)]
    for start in [at for at, sign in enumerate(neutral) if sign and (at == 0 or not neutral[at - 1])]:
        end = next((at for at in range(start, len(visual)) if not neutral[at]), len(visual))
        before, after = start > 0 and ltr[start - 1], end < len(visual) and ltr[end]
        if before and after and _joins(visual, start, end):
            ltr[start:end] = [True] * (end - start)
        elif before and visual[start] in _AROUND:
            ltr[start] = True
        elif after and visual[end].isdigit() and visual[end - 1] in _AROUND:
            ltr[end - 1] = True
    return [(kind, "".join(char for _, char in group)) for kind, group in groupby(zip(ltr, visual), key=lambda x: x[0])]


def _joins(visual: str, start: int, end: int) -> bool:
    """Whether the signs between two left-to-right characters belong to them."""
    before, between, after = visual[start - 1], visual[start:end], visual[end]
    if before.isdigit() and after.isdigit():
        return len(between) == 1 and between in _IN_NUMBERS
    return True if " " not in between else before.isalpha() or _word_before(visual, start)


def _word_before(visual: str, start: int) -> bool:
    """Whether the word that ends at a place has a Latin letter, so that the code goes on ("NPA-001 A")."""
    word = re.search(r"\S*$", visual[:start])
    return word is not None and any(char.isalpha() and not _is_rtl(char) for char in word[0])


def _mirrored(run: str) -> str:
    """Return a right-to-left run in reading order, with brackets as they are typed."""
    turned = {"(": ")", ")": "(", "[": "]", "]": "[", "{": "}", "}": "{", "<": ">", ">": "<", "«": "»", "»": "«"}
    return "".join(turned.get(char, char) for char in reversed(run))


def _embedded(runs: Sequence[tuple[bool, str]]) -> list[tuple[bool, str]]:
    """Return the runs of a left-to-right line: neutral signs beside right-to-left words stay where they are."""
    out: list[tuple[bool, str]] = []
    for ltr, run in runs:
        if ltr:
            out.append((True, run))
            continue
        inner = run.strip(" .,;:()[]-/")
        start = run.index(inner) if inner else len(run)
        out += [(True, run[:start]), (False, inner), (True, run[start + len(inner) :])]
    return out
