"""The marks of list items in an OpenDocument text: bullets, and the numbers that are counted (ODF 1.3 Part 3, 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from context_engine.ingest.loaders.docx_numbering import BULLET, numeral

__all__ = ["OdtLists"]

_ODF: Final = "urn:oasis:names:tc:opendocument:xmlns"
_TEXT: Final = f"{{{_ODF}:text:1.0}}"
_STYLE: Final = f"{{{_ODF}:style:1.0}}"
_FORMS: Final = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}


class OdtLists:
    """Counts the items of lists, in the order of the document.

    Args:
        roots: the elements that hold the styles of lists.
    """

    def __init__(self, roots: Sequence[Any]) -> None:
        found = (one for root in roots for one in root.iter(f"{_TEXT}list-style"))
        self._styles = {one.get(f"{_STYLE}name") or "": _levels(one) for one in found}
        self._open: list[str] = []
        self._counts: dict[tuple[str, int], int] = {}

    @contextmanager
    def opened(self, element: Any) -> Iterator[Callable[[Any], str]]:
        """Enter a list; what it gives returns the mark of an item, with the space before and after it."""
        style = element.get(f"{_TEXT}style-name") or (self._open[-1] if self._open else "")
        level = len(self._open) + 1
        goes_on = element.get(f"{_TEXT}continue-numbering") == "true" or element.get(f"{_TEXT}continue-list")
        if not goes_on:
            self._counts.pop((style, level), None)
        self._open.append(style)
        try:
            yield lambda item: f"{'  ' * (level - 1)}{self._mark(item, style, level)} "
        finally:
            self._open.pop()

    def _mark(self, item: Any, style: str, level: int) -> str:
        form = self._styles.get(style, {}).get(level)
        if form is None or item.tag != f"{_TEXT}list-item":
            return BULLET if item.tag == f"{_TEXT}list-item" else ""
        start = item.get(f"{_TEXT}start-value") or form.get(f"{_TEXT}start-value") or "1"
        first = int(start) if start.isdecimal() and len(start) < 7 else 1
        before = self._counts.get((style, level))
        count = first if before is None or item.get(f"{_TEXT}start-value") else before + 1
        self._counts[style, level] = count
        name = _FORMS.get(form.get(f"{_STYLE}num-format") or "")
        shown = numeral(name, count) if name else ""
        around = f"{form.get(f'{_STYLE}num-prefix') or ''}{shown}{form.get(f'{_STYLE}num-suffix') or ''}".strip()
        return around or BULLET


def _levels(style: Any) -> dict[int, Any]:
    numbered = style.iterfind(f"{_TEXT}list-level-style-number")
    return {int(level): one for one in numbered if (level := one.get(f"{_TEXT}level") or "").isdecimal()}
