"""The paragraph numbers that Word shows but does not store, computed from `numbering.xml`.

Source: ECMA-376 Part 1, 17.9 (numbering definitions, levels, restarts, `lvlText`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
BULLET: Final = "-"
_LEVELS: Final = 9
_PLACE: Final = re.compile(r"%([1-9])")
_MOST_LETTERS: Final = 50
_ROMAN: Final = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl")),
    *((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)


class _NumberingLevel(NamedTuple):
    start: int = 1
    form: str = "decimal"
    text: str = ""
    legal: bool = False
    restarts: bool = True
    style: str = ""


_Levels = dict[int, _NumberingLevel]


class Numbering:
    """Counts the numbered paragraphs of one document, in their order; `root` is the element `w:numbering`."""

    def __init__(self, root: Any | None) -> None:
        self._lists: dict[str, _Levels] = {}
        self._list_of: dict[str, str] = {}
        self._overrides: dict[str, dict[int, int]] = {}
        self._counts: dict[str, list[int | None]] = {}
        if root is not None:
            self._read(root)

    def level_of_style(self, number: str, style: str) -> int:
        """Return the level a list assigns to a paragraph style, 0 if it names none."""
        levels = self._lists.get(self._list_of.get(number, ""), {})
        return next((index for index, level in levels.items() if style and level.style == style), 0)

    def label(self, number: str, index: int) -> str | None:
        """Count a paragraph and return its label ("4.2", "(a)", `BULLET`), or None if it has no label.

        Args:
            number: the `numId` of the paragraph.
            index: its level, 0-8.
        """
        name = self._list_of.get(number)
        levels = self._lists.get(name or "")
        if name is None or not levels or index not in levels or index >= _LEVELS:
            return None
        counts = self._counts.setdefault(name, [None] * _LEVELS)
        override = self._overrides.get(number, {}).pop(index, None)
        before = counts[index]
        counts[index] = override if override is not None else levels[index].start if before is None else before + 1
        for lower in range(index + 1, _LEVELS):
            if levels.get(lower, _NumberingLevel()).restarts:
                counts[lower] = None
        return self._text(levels, counts, index)

    def _text(self, levels: _Levels, counts: list[int | None], index: int) -> str | None:
        level = levels[index]
        if level.form == "bullet":
            return BULLET

        def counted(match: re.Match[str]) -> str:
            at = int(match[1]) - 1
            other = levels.get(at, _NumberingLevel())
            count = counts[at]
            value = other.start if count is None else count
            return str(value) if level.legal else numeral(other.form, value)

        return _PLACE.sub(counted, level.text).strip() or None

    def _read(self, root: Any) -> None:
        linked: dict[str, str] = {}
        by_style: dict[str, str] = {}
        for element in root.iter(f"{_W}abstractNum"):
            name = element.get(f"{_W}abstractNumId", "")
            self._lists[name] = dict(map(_level, element.iter(f"{_W}lvl")))
            if style := _value(element, "styleLink"):
                by_style[style] = name
            if style := _value(element, "numStyleLink"):
                linked[name] = style
        for name, style in linked.items():
            self._lists[name] = self._lists.get(by_style.get(style, ""), {})
        for element in root.iter(f"{_W}num"):
            number = element.get(f"{_W}numId", "")
            self._list_of[number] = _value(element, "abstractNumId") or ""
            self._read_overrides(number, element)

    def _read_overrides(self, number: str, element: Any) -> None:
        for override in element.iter(f"{_W}lvlOverride"):
            index = _number(override.get(f"{_W}ilvl"), 0)
            if start := _value(override, "startOverride"):
                self._overrides.setdefault(number, {})[index] = _number(start, 1)
            own = override.find(f"{_W}lvl")
            if own is not None:
                name = f"{self._list_of[number]}/{number}"  # a separate list; its other levels are unchanged
                self._lists[name] = {**self._lists.get(self._list_of[number], {}), index: _level(own)[1]}
                self._list_of[number] = name


def numeral(form: str, value: int) -> str:
    """Return a number in a format of `w:numFmt`; in digits if the format is unknown.

    >>> numeral("lowerRoman", 4), numeral("upperLetter", 27)
    ('iv', 'AA')
    """
    return _FORMS.get(form, str)(value)


def _level(element: Any) -> tuple[int, _NumberingLevel]:
    legal = element.find(f"{_W}isLgl")
    return _number(element.get(f"{_W}ilvl"), 0), _NumberingLevel(
        start=_number(_value(element, "start"), 1),
        form=_value(element, "numFmt") or "decimal",
        text=_value(element, "lvlText") or "",
        legal=legal is not None and legal.get(f"{_W}val", "1") not in ("0", "false"),
        restarts=_value(element, "lvlRestart") != "0",
        style=_value(element, "pStyle") or "",
    )


def _value(element: Any, name: str) -> str | None:
    child = element.find(f"{_W}{name}")
    return None if child is None else child.get(f"{_W}val")


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 7 else default


def _letters(value: int) -> str:
    """Return a, b, … z, aa, bb, as Word counts."""
    if value < 1:
        return str(value)
    times, letter = divmod(value - 1, 26)
    return chr(ord("a") + letter) * min(times + 1, _MOST_LETTERS)


def _roman(value: int) -> str:
    if not 0 < value < 4000:
        return str(value)
    out = ""
    for worth, sign in _ROMAN:
        times, value = divmod(value, worth)
        out += sign * times
    return out


def _chinese(value: int) -> str:
    if not 0 < value < 100:
        return str(value)
    digits = "零一二三四五六七八九"
    tens, ones = divmod(value, 10)
    lead = "" if not tens else "十" if tens == 1 else f"{digits[tens]}十"
    return lead + (digits[ones] if ones else "")


def _ordinal(value: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th") if value % 100 not in (11, 12, 13) else "th"
    return f"{value}{ending}"


_FORMS: Final[Mapping[str, Callable[[int], str]]] = {
    "decimal": str,
    "decimalZero": "{:02}".format,
    "lowerLetter": _letters,
    "upperLetter": lambda value: _letters(value).upper(),
    "lowerRoman": _roman,
    "upperRoman": lambda value: _roman(value).upper(),
    "ordinal": _ordinal,
    "chineseCounting": _chinese,
    "chineseCountingThousand": _chinese,
    "ideographDigital": _chinese,
    "japaneseCounting": _chinese,
    "none": lambda _: "",
}
