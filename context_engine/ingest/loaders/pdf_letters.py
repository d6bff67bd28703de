"""The text of a page, and letters that PDFium gives in pieces or twice: accents, spaces inside words, words set wide.

A text keeps its length, because offsets in it are offsets in the page: NOTHING stands where a character is taken away.
"""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections.abc import Callable
from itertools import islice, pairwise
from statistics import median
from typing import Any, Final

from context_engine.ingest.loaders.pdf_digits import Box, height

NOTHING: Final = "\ufdd0"
"""The place of a character that is taken away; no text may contain it otherwise."""
WORD: Final = re.compile(rf"[^\s{NOTHING}](?:\S*[^\s{NOTHING}])?")
"""A word: it begins and ends with a character that has a place."""
UNNAMED: Final = "\ufffd"
"""A sign for which the font gives only a control character."""
_COMBINING: Final = {
    "´": "\u0301", "`": "\u0300", "¨": "\u0308", "ˆ": "\u0302", "˜": "\u0303", "ˇ": "\u030c", "˘": "\u0306",
    "˙": "\u0307", "˚": "\u030a", "˝": "\u030b", "¸": "\u0327", "¯": "\u0304",
}  # fmt: skip
_LIGATURES: Final = ("ff", "fi", "fj", "fl", "ft", "tt", "Th")
_DOTLESS: Final = {"ı": "i", "ȷ": "j"}
_ACCENT: Final = re.compile(rf"[{''.join(_COMBINING)}]")
_BETWEEN: Final = re.compile(rf"(?<=[^\W_]){NOTHING}* [ {NOTHING}]*(?=[^\W_])")
_TIGHT: Final = 0.05  # times a letter's height
_WITHIN: Final = 0.5  # of a space's width: the part of it that lies on a ligature
_MOST: Final = 2_000  # places of a line
_TOUCHING: Final = 0.1  # times a letter's height
_BETWEEN_WORDS: Final = 0.4
_OVERLAP: Final = 0.5  # of the lower letter's height
_DOUBLED: Final = re.compile(r"(?:([\w.,:;()-])\1){2,}")  # may be drawn twice, for a bold look or a border
_UPON: Final = 0.5  # of a letter: the part of it that lies on the one before
_SPACED: Final = re.compile(r"(?<!\S)\S{1,3}(?: {1,4}\S{1,3}){4,}(?!\S)")  # may be words set wide: "L I G H T"
_LEAST_SINGLE: Final = 0.5  # share of single letters in the pieces of such words
_MOST_WORDS: Final = 3  # single letters that may be words one after the other
_LEAST_LETTERS: Final = 4  # different ones
_WIDE: Final = (0.1, 0.75)  # times a letter's height: least and most between letters of a word set wide
_EVEN: Final = 0.08  # times a letter's height by which these gaps differ
_WORD_GAP: Final = 0.12  # times a letter's height by which the gap between two words is wider
_CONTROL: Final = re.compile(r"[\x00\x01\x03-\x08\x0e-\x1f\x7f-\x9f]")  # U+0002 is a hyphen at a line's end


def text_of(page: Any) -> str:
    """Return the text of a page; PDFium needs a range whose first and last characters are in the text."""
    from pypdfium2 import raw

    first, last = 0, raw.FPDFText_CountChars(page) - 1
    while first <= last and (start := raw.FPDFText_GetTextIndexFromCharIndex(page, first)) < 0:
        first += 1
    while first <= last and (end := raw.FPDFText_GetTextIndexFromCharIndex(page, last)) < 0:
        last -= 1
    if first > last:
        return ""
    buffer = (ctypes.c_ushort * (end - start + 2))()
    written = raw.FPDFText_GetText(page, first, last - first + 1, buffer)
    return bytes(buffer)[: max(0, written - 1) * 2].decode("utf-16-le", "surrogatepass")


def mended(
    text: str, box_of: Callable[[int], Box], is_made_up: Callable[[int], bool], origin_of: Callable[[int], float]
) -> str:
    """Return a line with accents on the letters they are drawn on, and without spaces inside words.

    Such a space was made up by PDFium, or the file has it upon a ligature.

    Args:
        box_of: the box of the character at a place of `text`.
        is_made_up: whether PDFium made up the character at a place.
        origin_of: where the pen was set down for the character at a place; a slanted letter begins left of it.
    """
    chars = list(text)
    for match in islice(_ACCENT.finditer(text), _MOST):
        _put_accent(chars, match.start(), box_of)
    for match in islice(_DOUBLED.finditer(text), _MOST):
        _take_double(chars, match.start(), match.end(), box_of)
    letters = "".join(chars)
    for match in islice(_BETWEEN.finditer(letters), _MOST):
        first, last = match.start(), match.end()
        if all(is_made_up(place) for place in range(first, last) if chars[place] == " "):
            inside = _is_inside(letters, first - 1, last, box_of, origin_of)
        else:
            inside = match[0] == " " and letters.startswith(_LIGATURES, first - 2) and _is_upon(first, box_of)
        if inside:
            chars[first:last] = NOTHING * (last - first)
    for match in islice(_SPACED.finditer(letters), _MOST):
        _close_up(chars, match.start(), match.end(), box_of)
    return "".join(chars)


def sign_between(before: Box, after: Box) -> str:
    """Return the two characters that stand for a line break between neighbours in one row; "" if it is a break.

    Some programs draw each letter by itself, and PDFium then breaks the line after each; it does so around a raised
    mark of a footnote, too.

    >>> sign_between((0, 0, 6, 10), (6, 0, 12, 10)) == NOTHING * 2, sign_between((0, 0, 6, 10), (9, 4, 12, 12))[0]
    (True, ' ')
    """
    tall = height(before)
    least = _TOUCHING * tall
    gap = after[0] - before[2]
    beside = min(before[3], after[3]) - max(before[1], after[1]) >= _OVERLAP * min(tall, height(after))
    if not beside or tall <= 0 or gap < -least:
        return ""
    return NOTHING * 2 if gap <= least else f" {NOTHING}" if gap <= _BETWEEN_WORDS * tall else ""


def unnamed(text: str) -> int:
    """Return how many signs of a text have only a control character."""
    return 0 if text.isprintable() else len(_CONTROL.findall(text))


def is_illegible(text: str, unmapped: int) -> bool:
    """Whether a page's text is none: most of its signs have no Unicode mapping, and most are no letters or digits.

    Letters without a mapping alone say little: many programs leave it out where the codes are the letters.

    >>> is_illegible("\x03\x04 $%# %+6==", 12), is_illegible("plain words", 10)
    (True, False)
    """
    signs = [char for char in text if not char.isspace()]
    return 0 < len(signs) <= 2 * unmapped and 2 * sum(map(str.isalnum, signs)) < len(signs)


def with_unnamed(text: str) -> str:
    """Return a text whose signs without a name are U+FFFD, so that a lost letter or minus sign is seen.

    >>> with_unnamed("di\\x1fcult, \\x030.94")
    'di�cult, �0.94'
    """
    return _CONTROL.sub(UNNAMED, text) if any(map(str.isalnum, text)) else text


def units(text: str) -> int:
    """Return the length of a text in UTF-16 units, as PDFium counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def clean(text: str) -> str:
    """Return a line without non-characters, a control character in a text as U+FFFD.

    A hyphen that PDFium marks as splitting a word is U+00AD.
    """
    if text.isascii() and text.isprintable():
        return text.strip()
    marked = text.replace("\x02", "\u00ad").replace("\ufffe", "\u00ad")
    valid = marked.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return (valid if valid.isprintable() else "".join(map(_kept, with_unnamed(valid)))).strip()


def _kept(char: str) -> str:
    """Return a printable character, a space for any kind of space, nothing for a control character."""
    if char.isprintable() or char == "\u00ad":
        return char
    return " " if char.isspace() else ""


def _put_accent(chars: list[str], place: int, box_of: Callable[[int], Box]) -> None:
    """Put the accent at a place on the letter that it is drawn above or below: a neighbour, else another of its line.

    PDFium gives an accent that is drawn by itself at the end of the line.
    """
    left, _, right, _ = box_of(place)
    others = range(len(chars)) if chars[place - 1 : place] == [" "] or place == 0 else ()
    for at in (place + 1, place - 1, *others):
        if not 0 <= at < len(chars):
            continue
        letter = unicodedata.normalize("NFC", _DOTLESS.get(chars[at], chars[at]) + _COMBINING[chars[place]])
        if len(letter) == 1 and (box := box_of(at))[0] < (left + right) / 2 < box[2]:
            chars[at], chars[place] = letter, NOTHING
            return


def _take_double(chars: list[str], start: int, end: int, box_of: Callable[[int], Box]) -> None:
    """Remove the second letter of each pair if all of them lie on the first ones: they were drawn twice."""
    pairs = range(start, end, 2)
    if all(_lies_on(box_of(place), box_of(place + 1)) for place in pairs):
        chars[start + 1 : end : 2] = NOTHING * len(pairs)


def _lies_on(box: Box, upon: Box) -> bool:
    """Whether more than half of the second box lies on the first, both across and up."""
    shared = (min(box[2], upon[2]) - max(box[0], upon[0]), min(box[3], upon[3]) - max(box[1], upon[1]))
    return shared[0] > _UPON * (upon[2] - upon[0]) > 0 and shared[1] > _UPON * height(upon)


def _close_up(chars: list[str], start: int, end: int, box_of: Callable[[int], Box]) -> None:
    """Remove the spaces inside words set wide ("L I G H T"), and keep the wider ones between words."""
    pieces = "".join(chars[start:end]).replace(NOTHING, "").split()
    single = [piece for piece in pieces if len(piece) == 1 and piece.isalpha()]
    in_order = all(first.casefold() < second.casefold() for first, second in pairwise(single))  # names of columns
    signs = set("".join(pieces))
    formula = any(unicodedata.category(sign) == "Sm" or sign in "{}[]/\\" for sign in signs)
    if formula or in_order or len(single) < max(_LEAST_SINGLE * len(pieces), _MOST_WORDS + 1):
        return
    if sum(map(str.isalpha, signs)) < _LEAST_LETTERS:
        return
    places = [place for place in range(start, end) if chars[place] not in (" ", NOTHING)]
    boxes = [box_of(place) for place in places]
    gaps = [after[0] - before[2] for before, after in pairwise(boxes)]
    tall, usual = median(map(height, boxes)), median(gaps)
    even = sum(abs(gap - usual) <= _EVEN * tall for gap in gaps)
    if not _WIDE[0] * tall < usual <= _WIDE[1] * tall or 2 * even <= len(gaps):
        return
    for (place, following), gap in zip(pairwise(places), gaps):
        if -usual <= gap <= usual + _WORD_GAP * tall:  # far to the left a new line begins
            chars[place + 1 : following] = NOTHING * (following - place - 1)


def _is_upon(place: int, box_of: Callable[[int], Box]) -> bool:
    """Whether a space of the file lies on a ligature, and the letter after it follows without a gap."""
    before, space = box_of(place - 1), box_of(place)
    if before != box_of(place - 2) or not before[0] < space[0] < space[2]:
        return False
    after = box_of(place + 1)
    if before[2] - space[0] <= _WITHIN * (space[2] - space[0]) or not _on_one_line(before, after):
        return False
    return after[0] - before[2] <= _TIGHT * height(before)


def _is_inside(
    text: str, first: int, last: int, box_of: Callable[[int], Box], origin_of: Callable[[int], float]
) -> bool:
    """Whether two letters with a space between them are as close as the letters beside them."""
    before, after = box_of(first), box_of(last)
    most = _TIGHT * height(before)
    if after[0] - before[2] > most or not _on_one_line(before, after):
        return False
    gap = max(after[0], origin_of(last)) - before[2]
    if text[first - 1 : first].isalnum() and (letter := box_of(first - 1)) != before:  # a ligature is one letter
        usual = before[0] - letter[2]
    elif text[last + 1 : last + 2].isalnum() and (letter := box_of(last + 1)) != after:
        usual = letter[0] - after[2]
    else:
        return False
    return abs(gap - usual) <= most


def _on_one_line(before: Box, after: Box) -> bool:
    return abs(before[1] - after[1]) <= _TIGHT * height(before)
