"""The styles of a Word document: names, levels of headings, lists, and which hide their text."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from context_engine.ingest.loaders.docx_text import W, is_on, value_of

_HEADING: Final = re.compile(r"(?i)heading ([1-9])")
_CONTENTS: Final = re.compile(r"(?i)toc(?: heading| \d)|table of figures|index \d")
_LEVELS: Final = 9
_MOST_CHAIN: Final = 20  # styles that styles are based on; a circle ends here


class Style(NamedTuple):
    """A style with those it is based on, itself first.

    Attributes:
        names: of the styles.
        outline: level that the first of them gives to a heading, as it is written.
        number, level: the list that the first of them puts a paragraph in, and the level in it.
    """

    names: tuple[str, ...] = ()
    outline: str | None = None
    number: str | None = None
    level: str | None = None

    @property
    def is_title(self) -> bool:
        """Whether it is the title's."""
        return self.names[:1] != () and self.names[0].lower() == "title"

    @property
    def is_contents(self) -> bool:
        """Whether it is that of a line in a table of contents or an index."""
        return bool(self.names) and _CONTENTS.fullmatch(self.names[0]) is not None


class Styles:
    """The styles of one document, read once each: a template defines far more than it uses.

    Args:
        root: the element `w:styles`, None where the document has none.
    """

    def __init__(self, root: Any | None) -> None:
        found = () if root is None else root.iter(f"{W}style")
        self._elements = {one.get(f"{W}styleId", ""): one for one in found}
        self._root = root
        self._read: dict[str, Style] = {}
        self._hidden: frozenset[str] | None = None

    def get(self, name: str) -> Style:
        """Return a style by its id; one that is not defined says nothing."""
        if name not in self._read:
            chain = self._chain(name)
            properties = [one.find(f"{W}pPr") for one in chain]
            lists = [one.find(f"{W}numPr") for one in properties if one is not None]
            self._read[name] = Style(
                tuple(value_of(one, "name") or "" for one in chain),
                _first(value_of(one, "outlineLvl") for one in properties),
                _first(value_of(one, "numId") for one in lists),
                _first(value_of(one, "ilvl") for one in lists),
            )
        return self._read[name]

    def hidden(self) -> frozenset[str]:
        """Return the ids of styles whose text is hidden."""
        if self._hidden is None:
            some = self._root is not None and next(self._root.iter(f"{W}vanish"), None) is not None
            self._hidden = frozenset(filter(self._hides, self._elements)) if some else frozenset()
        return self._hidden

    def _hides(self, name: str) -> bool:
        said = (one.find(f"{W}rPr") for one in self._chain(name))
        return next(
            (is_on(one, "vanish") for one in said if one is not None and one.find(f"{W}vanish") is not None), False
        )

    def _chain(self, name: str) -> list[Any]:
        chain: list[Any] = []
        while name in self._elements and len(chain) < _MOST_CHAIN:
            chain.append(self._elements[name])
            name = value_of(chain[-1], "basedOn") or ""
        return chain


def outline_level(properties: Any | None, style: Style) -> int | None:
    """Return the level of a heading, 0 for the highest; None for a paragraph of text.

    Args:
        properties: the paragraph's `w:pPr`.
        style: of the paragraph.
    """
    given = value_of(properties, "outlineLvl") or style.outline
    if given and given.isdecimal():
        return int(given) if int(given) < _LEVELS else None
    named = next((match for name in style.names if (match := _HEADING.fullmatch(name))), None)
    return int(named[1]) - 1 if named else None


def _first(values: Any) -> str | None:
    return next((one for one in values if one), None)
