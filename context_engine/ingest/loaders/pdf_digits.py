"""Raised and lowered digits of a PDF, told by the boxes of the characters of a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SMALL: Final = 0.8  # times the height of a full character
_RISE: Final = 0.15  # of that height
_UNLIKE: Final = 0.06  # of a character's height
_DIGITS: Final = "0123456789"
Box = tuple[float, float, float, float]
"""Left, bottom, right and top in points."""


def height(box: Box) -> float:
    """Return the height of a box."""
    return box[3] - box[1]


def turned(box: Box, turn: int) -> Box:
    """Return a box (left, bottom, right, top) when the page is turned by `turn` quarter turns, counterclockwise."""
    left, bottom, right, top = box
    if turn == 0:
        return box
    if turn == 1:
        return bottom, -right, top, -left
    if turn == 2:
        return -right, -top, -left, -bottom
    return -top, left, -bottom, right


def small_digits(chars: str, boxes: Sequence[Box]) -> str:
    """Return the characters of a word with a run of raised or lowered digits as such.

    Only if all other characters of the word are alike in height and place: a recognised scan has digits of any size.
    """
    full = max(boxes, key=height)
    small = [height(box) < SMALL * height(full) for box in boxes]
    start = small.index(True) if True in small else len(small)
    end = next((at for at in range(start, len(small)) if not small[at]), len(small))
    run, others = boxes[start:end], [*boxes[:start], *boxes[end:]]
    if not run or any(small[end:]) or not set(chars[start:end]) <= set(_DIGITS) or not _alike(run):
        return chars
    if not _alike(others):
        return chars
    rise = (run[0][1] - full[1]) / height(full)
    digits = "⁰¹²³⁴⁵⁶⁷⁸⁹" if rise > _RISE else "₀₁₂₃₄₅₆₇₈₉" if rise < 0 else _DIGITS
    return chars[:start] + "".join(digits[int(char)] for char in chars[start:end]) + chars[end:]


def _alike(boxes: Sequence[Box]) -> bool:
    """Whether boxes have one height and stand on one line."""
    most = _UNLIKE * height(boxes[0])
    return all(abs(box[1] - boxes[0][1]) < most and abs(box[3] - boxes[0][3]) < most for box in boxes)
