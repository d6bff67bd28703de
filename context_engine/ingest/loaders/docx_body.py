"""The body of a Word document as Markdown blocks, read from its XML (WordprocessingML, ECMA-376 Part 1, 17)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from context_engine.ingest.loaders.docx_numbering import BULLET, Numbering
from context_engine.ingest.loaders.docx_text import Paragraph, W, paragraph, value_of
from context_engine.ingest.loaders.markdown import Block, heading, joined, one_line, pipe_table, plain

__all__ = ["DocxBody"]

_HEADING: Final = re.compile(r"(?i)heading ([1-9])")
_CONTENTS: Final = re.compile(r"(?i)toc(?: heading| \d)|table of figures|index \d")
_ITEM: Final = re.compile(r"\d{1,3}[.)]|-")
_LEVELS: Final = 9
_WRAPPERS: Final = frozenset(f"{W}{name}" for name in ("ins", "moveTo", "customXml", "smartTag", "sdtContent"))
_MOST_CHAIN: Final = 20  # styles that styles are based on; a circle ends here
_MOST_SPAN: Final = 100


class _Style(NamedTuple):
    name: str
    based_on: str
    outline: str | None
    number: str | None
    level: str | None


class DocxBody:
    """Reads one document once, from top to bottom, because numbers are counted on the way.

    Args:
        body: the element `w:body`.
        styles: the element `w:styles`.
        numbering: the element `w:numbering`, None where there is none.
        footnotes: the element `w:footnotes`, None where there is none.
    """

    def __init__(self, body: Any, *, styles: Any, numbering: Any | None, footnotes: Any | None) -> None:
        self._body = body
        self._elements = {one.get(f"{W}styleId", ""): one for one in styles.iter(f"{W}style")}
        self._styles: dict[str, tuple[_Style, ...]] = {}
        self._numbering = Numbering(numbering)
        self._notes = {} if footnotes is None else {one.get(f"{W}id"): one for one in footnotes.iter(f"{W}footnote")}
        self.title = ""
        self._under_title = 0

    def text(self) -> str:
        """Return the document as one text."""
        return joined(self._blocks(self._body))

    def _blocks(self, parent: Any) -> Iterator[Block]:
        for child in parent:
            if child.tag == f"{W}p":
                yield from self._paragraph(child)
            elif child.tag == f"{W}tbl":
                yield from self._table(child)
            elif (child.tag == f"{W}sdt" and not _is_contents(child)) or child.tag in _WRAPPERS:
                yield from self._blocks(child)

    def _paragraph(self, element: Any) -> Iterator[Block]:
        properties = element.find(f"{W}pPr")
        style = value_of(properties, "pStyle") or ""
        chain = self._chain(style)
        level = _outline(properties, chain)
        is_title = bool(chain) and chain[0].name.lower() == "title"
        found = paragraph(element, bold=level is None and not is_title)
        label, depth = self._label(properties, style, chain)
        if chain and _CONTENTS.fullmatch(chain[0].name):
            return
        if found.text.strip():
            yield self._block(found.text.strip(), level, label, depth, is_title=is_title)
        yield from self._beside(found)

    def _block(self, text: str, level: int | None, label: str | None, depth: int, *, is_title: bool) -> Block:
        if is_title and not self.title:
            self.title, self._under_title = one_line(text), 1
            return heading(1, text)
        numbered = f"{label} {text}" if label and label != BULLET else text
        if level is not None and len(text) <= 500:
            return heading(level + 1 + self._under_title, numbered)
        if label and _ITEM.fullmatch(label):
            return Block(f"{'  ' * depth}{label} {text}", item=True)
        return Block(plain(numbered))

    def _beside(self, found: Paragraph) -> Iterator[Block]:
        """Yield what stands beside a paragraph: text boxes in it, footnotes it refers to."""
        for box in found.boxes:
            yield from self._blocks(box)
        for name in found.notes:
            note = self._notes.get(name)
            if note is not None and (text := one_line(self._plain(note))):
                yield Block(f"[^{name}]: {text}")

    def _table(self, element: Any) -> Iterator[Block]:
        every = [cell for row in _children(element, "tr") for cell in _children(row, "tc")]
        if len(every) == 1:  # a frame around a text
            yield from self._blocks(every[0])
            return
        rows: list[list[str]] = []
        above: dict[int, str] = {}
        notes: list[str] = []
        for row in _children(element, "tr"):
            if row.find(f"{W}trPr/{W}del") is not None:
                continue
            cells: list[str] = []
            for cell in _children(row, "tc"):
                properties = cell.find(f"{W}tcPr")
                notes += [one.get(f"{W}id") for one in cell.iter(f"{W}footnoteReference")]
                merged = None if properties is None else properties.find(f"{W}vMerge")
                goes_on = merged is not None and merged.get(f"{W}val", "continue") == "continue"
                text = above.get(len(cells), "") if goes_on else one_line(self._plain(cell))
                above[len(cells)] = text
                span = value_of(properties, "gridSpan") or "1"
                cells += [text, *[""] * (min(int(span), _MOST_SPAN) - 1 if span.isdecimal() else 0)]
            rows.append(cells)
        table = pipe_table(rows)
        if table:
            yield table
        yield from self._beside(Paragraph("", (), tuple(notes)))

    def _plain(self, parent: Any) -> str:
        """Return the paragraphs inside a cell or a note as one text, without marks."""
        texts = []
        for element in parent.iter(f"{W}p"):
            found = paragraph(element, bold=False)
            properties = element.find(f"{W}pPr")
            style = value_of(properties, "pStyle") or ""
            label, _ = self._label(properties, style, self._chain(style))
            texts.append(f"{label} {found.text}" if label else found.text)
        return " ".join(texts)

    def _chain(self, style: str) -> tuple[_Style, ...]:
        """Return a style and those it is based on, read once each: a template defines far more than it uses."""
        if style not in self._styles:
            chain: list[_Style] = []
            name = style
            while name in self._elements and len(chain) < _MOST_CHAIN:
                chain.append(_style(self._elements[name]))
                name = chain[-1].based_on
            self._styles[style] = tuple(chain)
        return self._styles[style]

    def _label(self, properties: Any | None, style: str, chain: Sequence[_Style]) -> tuple[str | None, int]:
        """Return (the label of a paragraph, its level in the list)."""
        direct = None if properties is None else properties.find(f"{W}numPr")
        number = value_of(direct, "numId") or next((one.number for one in chain if one.number), None)
        if number is None or number == "0":
            return None, 0
        level = value_of(direct, "ilvl") or next((one.level for one in chain if one.level), None)
        index = int(level) if level and level.isdecimal() else self._numbering.level_of_style(number, style)
        return self._numbering.label(number, index), min(index, _LEVELS)


def _style(element: Any) -> _Style:
    properties = element.find(f"{W}pPr")
    number = None if properties is None else properties.find(f"{W}numPr")
    return _Style(
        value_of(element, "name") or "",
        value_of(element, "basedOn") or "",
        value_of(properties, "outlineLvl"),
        value_of(number, "numId"),
        value_of(number, "ilvl"),
    )


def _outline(properties: Any | None, chain: Sequence[_Style]) -> int | None:
    """Return the level of a heading, 0 for the highest; None for a paragraph of text."""
    given = value_of(properties, "outlineLvl") or next((one.outline for one in chain if one.outline), None)
    if given and given.isdecimal():
        return int(given) if int(given) < _LEVELS else None
    named = next((match for one in chain if (match := _HEADING.fullmatch(one.name))), None)
    return int(named[1]) - 1 if named else None


def _children(parent: Any, name: str) -> Iterator[Any]:
    """Yield the rows of a table or the cells of a row, those in content controls and tracked insertions too."""
    for child in parent:
        if child.tag == f"{W}{name}":
            yield child
        elif child.tag == f"{W}sdt" or child.tag in _WRAPPERS:
            yield from _children(child, name)


def _is_contents(element: Any) -> bool:
    return any("table of contents" in (one.get(f"{W}val") or "").lower() for one in element.iter(f"{W}docPartGallery"))
