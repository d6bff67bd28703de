"""The styles of an OpenDocument text: names, struck and raised words, text that nobody sees (ODF 1.3 Part 3, 16)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from context_engine.ingest.loaders.run_marks import LOWERED, RAISED, STRUCK

_ODF: Final = "urn:oasis:names:tc:opendocument:xmlns"
TEXT: Final = f"{{{_ODF}:text:1.0}}"
STYLE: Final = f"{{{_ODF}:style:1.0}}"
TABLE: Final = f"{{{_ODF}:table:1.0}}"
DRAW: Final = f"{{{_ODF}:drawing:1.0}}"
_FO: Final = f"{{{_ODF}:xsl-fo-compatible:1.0}}"
_MOST_CHAIN: Final = 20
_TINY: Final = 1.5  # points
_POINTS: Final = re.compile(r"([\d.]{1,6})pt")
_PALE: Final = re.compile(r"(?i)#(?:f[0-9a-f]){3}")
_GROUNDS: Final = tuple(
    f"{STYLE}{name}-properties" for name in ("text", "paragraph", "table-cell", "table-row", "table", "section")
)


class OdtStyles:
    """Looks up the styles of a document.

    Args:
        roots: the elements with the styles; a later style of a name overrides an earlier one.
    """

    def __init__(self, roots: Sequence[Any]) -> None:
        named = [style for root in roots for style in root.iter(f"{STYLE}style")]
        self._styles = {(style.get(f"{STYLE}name") or ""): style for style in named}
        self._marks = {name.lower(): marks for name, style in self._styles.items() if (marks := _marks(style))}
        self._hiding = {(style.get(f"{STYLE}name") or "").lower() for style in named if _hides(style)}
        self._pale = {name.lower() for name, style in self._styles.items() if _is_pale(style)}
        self._shaded = {name.lower() for name, style in self._styles.items() if _is_shaded(style, *_GROUNDS)}
        pages = (layout for root in roots for layout in root.iter(f"{STYLE}page-layout"))
        self._white = not any(_is_shaded(layout, f"{STYLE}page-layout-properties") for layout in pages)

    def names(self, element: Any) -> list[str]:
        """Return the lower-case names of an element's style and the styles it is based on."""
        space = TABLE if element.tag.startswith(TABLE) else TEXT
        name = element.get(f"{space}style-name") or ""
        out: list[str] = []
        while name and name.lower() not in out and len(out) < _MOST_CHAIN:
            out.append(name.lower())
            style = self._styles.get(name)
            name = "" if style is None else style.get(f"{STYLE}parent-style-name") or ""
        return out

    def marks(self, span: Any) -> str:
        """Return the marks of a span: struck, raised, lowered."""
        if not self._marks or span.tag != f"{TEXT}span":
            return ""
        return next((self._marks[name] for name in self.names(span) if name in self._marks), "")

    def hides(self, element: Any) -> bool:
        """Return whether the style of a paragraph or span hides its text, or makes it tiny or white on white."""
        names = self.names(element)
        if not self._hiding.isdisjoint(names):
            return True
        return self._white and not self._pale.isdisjoint(names) and self._is_on_white(element)

    def _is_on_white(self, element: Any) -> bool:
        for around in (element, *element.iterancestors()):
            if around.tag.startswith(DRAW) or not self._shaded.isdisjoint(self.names(around)):
                return False
        return True


def _marks(style: Any) -> str:
    """Return the marks of a run in a character style: struck, then raised or lowered."""
    marks = ""
    for text in style.iterfind(f"{STYLE}text-properties"):
        line = text.get(f"{STYLE}text-line-through-style") or text.get(f"{STYLE}text-line-through-type") or "none"
        place = (text.get(f"{STYLE}text-position") or "").split(" ")[0]
        raised = place == "super" or (place.endswith("%") and not place.startswith(("-", "0")))
        lowered = place == "sub" or place.startswith("-")
        marks += (STRUCK if line != "none" else "") + (RAISED if raised else LOWERED if lowered else "")
    return marks


def _hides(style: Any) -> bool:
    for text in style.iterfind(f"{STYLE}text-properties"):
        size = _POINTS.fullmatch(text.get(f"{_FO}font-size") or "")
        if text.get(f"{TEXT}display") == "none" or (size and size[1].count(".") < 2 and float(size[1]) <= _TINY):
            return True
    return False


def _is_pale(style: Any) -> bool:
    return any(_PALE.fullmatch(text.get(f"{_FO}color") or "") for text in style.iterfind(f"{STYLE}text-properties"))


def _is_shaded(style: Any, *properties: str) -> bool:
    """Whether a style gives its text a background that is not white."""
    grounds = (element.get(f"{_FO}background-color") or "" for element in style.iterchildren(*properties))
    return any(ground.startswith("#") and not _PALE.fullmatch(ground) for ground in grounds)
