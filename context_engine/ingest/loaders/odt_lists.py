"""The marks of list items in an OpenDocument text: bullets, and the numbers that are counted (ODF 1.3 Part 3, 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from context_engine.ingest.loaders.docx_numbering import BULLET, numeral

_ODF: Final = "urn:oasis:names:tc:opendocument:xmlns"
_TEXT: Final = f"{{{_ODF}:text:1.0}}"
_STYLE: Final = f"{{{_ODF}:style:1.0}}"
_FORMS: Final = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_NUMBERED: Final = (f"{_TEXT}list-level-style-number", f"{_TEXT}outline-level-style")


class OdtLists:
    """Counts the items of lists, in the order of the document.

    Args:
        roots: the elements that hold the styles of lists.
    """

    def __init__(self, roots: Sequence[Any]) -> None:
        found = (one for root in roots for one in root.iter(f"{_TEXT}list-style", f"{_TEXT}outline-style"))
        self._styles = {_name(one): _levels(one) for one in found}
        self._open: list[str] = []
        self._counts: dict[tuple[str, int], int] = {}

    @contextmanager
    def opened(self, element: Any) -> Iterator[Callable[[Any], str]]:
        """Enter a list; what it gives returns the mark of an item, with the space before and after it."""
        style = element.get(f"{_TEXT}style-name") or (self._open[-1] if self._open else "?")
        level = len(self._open) + 1
        goes_on = element.get(f"{_TEXT}continue-numbering") == "true" or element.get(f"{_TEXT}continue-list")
        if not goes_on and (level == 1 or element.getprevious() is not None):  # the first in an item only deepens it
            self._counts.pop((style, level), None)
        self._open.append(style)
        try:
            yield lambda item: f"{'  ' * (level - 1)}{mark} " if (mark := self._mark(item, style, level)) else ""
        finally:
            self._open.pop()

    def heading(self, level: int) -> str:
        """Count a heading and return its number, "" where headings have none."""
        label = self._counted("", level, None)
        return "" if label == BULLET else label

    def _mark(self, item: Any, style: str, level: int) -> str:
        first = next(iter(item), None)
        if item.tag != f"{_TEXT}list-item" or first is None or first.tag == f"{_TEXT}list":
            return ""
        return self._counted(style, level, item.get(f"{_TEXT}start-value"))

    def _counted(self, style: str, level: int, start: str | None) -> str:
        """Count an item and return its label."""
        levels = self._styles.get(style, {})
        form = levels.get(level)
        if form is None:
            return BULLET
        before = self._counts.get((style, level))
        first = start or form.get(f"{_TEXT}start-value") or "1"
        self._counts[style, level] = _whole(first) if before is None or start else before + 1
        for lower in [one for one in self._counts if one[0] == style and one[1] > level]:
            del self._counts[lower]
        shown = _whole(form.get(f"{_TEXT}display-levels") or "1")
        parts = [self._numeral(style, one) for one in range(max(1, level - shown + 1), level + 1)]
        number = ".".join(filter(None, parts)) if parts[-1] else ""
        around = f"{form.get(f'{_STYLE}num-prefix') or ''}{number}{form.get(f'{_STYLE}num-suffix') or ''}".strip()
        return around or BULLET

    def _numeral(self, style: str, level: int) -> str:
        form = self._styles[style].get(level)
        name = None if form is None else _FORMS.get(form.get(f"{_STYLE}num-format") or "")
        return numeral(name, self._counts.get((style, level), 1)) if name else ""


def _name(style: Any) -> str:
    return "" if style.tag == f"{_TEXT}outline-style" else style.get(f"{_STYLE}name") or "?"


def _levels(style: Any) -> dict[int, Any]:
    numbered = style.iterfind("*")
    return {
        int(level): one
        for one in numbered
        if one.tag in _NUMBERED and (level := one.get(f"{_TEXT}level") or "").isdecimal()
    }


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 1
