"""The body and styles of a Word document as Markdown blocks (WordprocessingML, ECMA-376 Part 1, 17)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from context_engine.ingest.loaders.docx_numbering import BULLET, Numbering
from context_engine.ingest.loaders.docx_text import (
    Changes,
    DocxLeftOut,
    Paragraph,
    ParagraphReader,
    W,
    is_on,
    is_shaded,
    run_marks,
    value_of,
)
from context_engine.ingest.loaders.markdown import (
    CONTINUED,
    MarkdownBlock,
    heading,
    one_line,
    pipe_table,
    plain,
    unlinked,
)
from context_engine.ingest.loaders.ooxml import ALTERNATIVES, chosen

_ITEM: Final = re.compile(r"\d{1,3}[.)]|-")
_MOST_HEADING: Final = 500
_MOST_SPAN: Final = 100
_INSIDE: Final = (f"{W}p", f"{W}tbl", f"{W}altChunk")
_HEADING: Final = re.compile(r"(?i)heading ([1-9])")
_CONTENTS: Final = re.compile(r"(?i)toc(?: heading| \d)|table of figures|index \d")
_LEVELS: Final = 9
_MOST_CHAIN: Final = 20  # a circle of "based on" styles ends here


class DocxBody:
    """Reads one document once, from top to bottom, because numbers are counted on the way.

    Args:
        notes: {name of a note as in `Paragraph.notes`: its element}; notes that were read are removed.
        drawn: gives the blocks of a chart or diagram by its relation id.
        chunk: gives the blocks of the file behind an element `w:altChunk`.

    Attributes:
        title: the paragraph in the style "Title", or "".
        left_out: content that is not in the text.
    """

    def __init__(
        self,
        *,
        styles: Styles,
        numbering: Numbering,
        notes: dict[str, Any],
        drawn: Callable[[str], Sequence[MarkdownBlock]],
        chunk: Callable[[Any], Sequence[MarkdownBlock]],
        changes: Changes,
        target: Callable[[str], str],
    ) -> None:
        self._styles = styles
        self._numbering = numbering
        self._notes = notes
        self._drawn = drawn
        self._chunk = chunk
        self._hidden = styles.hidden()
        self.left_out = DocxLeftOut()
        self._reader = ParagraphReader(changes, self._hidden, self.left_out, target, styles)
        self.title = ""
        self._under_title = 0
        self._begun = ""  # the text of paragraphs whose marks were deleted: it goes on in the next one

    def blocks(self, parent: Any) -> Iterator[MarkdownBlock]:
        """Yield the blocks of an element: the body, a text box, a page header."""
        for child in parent:
            tag = child.tag
            if tag == f"{W}p":
                yield from self._paragraph(child)
            elif tag == f"{W}tbl":
                yield from self._table(child)
            elif tag == f"{W}altChunk":
                yield from self._chunk(child)
            elif tag == f"{W}sdt" and _is_contents(child):
                self.left_out.contents += [self._text(paragraph, []) for paragraph in child.iter(f"{W}p")]
            elif tag == ALTERNATIVES:
                yield from self.blocks(chosen(child))
            elif tag not in self._reader.gone:
                inside = next(child.iter(*_INSIDE), None) is not None
                yield from self.blocks(child) if inside else self._paragraph(child)
        if self._begun.strip():
            begun, self._begun = self._begun.strip(), ""
            yield MarkdownBlock(plain(begun))

    def rest(self) -> Iterator[MarkdownBlock]:
        """Yield the notes that nothing in the text refers to."""
        yield from self._attached(Paragraph("", notes=tuple(self._notes)))

    def _paragraph(self, element: Any) -> Iterator[MarkdownBlock]:
        properties = element.find(f"{W}pPr")
        name = value_of(properties, "pStyle") or ""
        style = self._styles.get(name)
        level = outline_level(properties, style)
        bold = level is None and not style.is_title
        paragraph = self._reader.read(element, bold=bold, hidden=name in self._hidden, style=name)
        text = f"{self._begun}{paragraph.text}".strip()
        self._begun = ""
        if text and self._is_joined(properties):
            self._begun = f"{text} "
            yield from self._attached(paragraph)
            return
        label, depth = self._label(properties, name, style)
        if style.is_contents:
            self.left_out.contents.append(text)
        elif text:
            yield self._block(text, level, label, depth, is_title=style.is_title)
        yield from self._attached(paragraph)

    def _is_joined(self, properties: Any | None) -> bool:
        """Whether the mark at the end of a paragraph is a tracked change that is not in the text."""
        mark = None if properties is None else properties.find(f"{W}rPr")
        return mark is not None and any(change.tag in self._reader.gone for change in mark)

    def _block(self, text: str, level: int | None, label: str | None, depth: int, *, is_title: bool) -> MarkdownBlock:
        if is_title and not self.title:
            self.title, self._under_title = unlinked(one_line(text)), 1
            return heading(1, text)
        numbered = f"{label} {text}" if label and label != BULLET else text
        if level is not None and len(text) <= _MOST_HEADING:
            return heading(level + 1 + self._under_title, numbered)
        if label and _ITEM.fullmatch(label):
            return MarkdownBlock(f"{'  ' * depth}{label} {text}", item=True)
        return MarkdownBlock(plain(numbered))

    def _attached(self, paragraph: Paragraph) -> Iterator[MarkdownBlock]:
        """Yield the text boxes, charts, diagrams and notes of a paragraph."""
        for box in paragraph.boxes:
            yield from self.blocks(box)
        for name in paragraph.drawn:
            yield from self._drawn(name)
        for name in paragraph.notes:
            note = self._notes.pop(name, None)
            if note is None:
                continue
            aside: list[Paragraph] = []
            text = one_line(self._text(note, aside))
            if text:
                yield MarkdownBlock(_comment(note, text) if name.startswith("comment") else f"[^{name}]: {text}")
            for block in aside:
                yield from self._attached(block)

    def _table(self, element: Any) -> Iterator[MarkdownBlock]:
        rows = [row for row in self._children(element, "tr") if not self._is_gone(row)]
        every = [cell for row in rows for cell in self._children(row, "tc")]
        if len(every) == 1:  # a frame around a text
            yield from self.blocks(every[0])
            return
        aside: list[Paragraph] = []
        table = pipe_table(self._cells(rows, aside))
        if table:
            yield table
        for block in aside:
            yield from self._attached(block)

    def _cells(self, rows: Sequence[Any], aside: list[Paragraph]) -> list[list[str]]:
        """Return a table's cells; a merged cell is repeated in each of its rows, in its first column only."""
        out: list[list[str]] = []
        above: dict[int, str] = {}
        for row in rows:
            cells = [""] * _span(row.find(f"{W}trPr"), "gridBefore", 0)
            for cell in self._children(row, "tc"):
                properties = cell.find(f"{W}tcPr")
                merged = None if properties is None else properties.find(f"{W}vMerge")
                goes_on = merged is not None and merged.get(f"{W}val", "continue") == "continue"
                own = one_line(self._text(cell, aside))
                text = own or above.get(len(cells), "") if goes_on else own
                above[len(cells)] = text
                cells += [text, *[CONTINUED] * (_span(properties, "gridSpan", 1) - 1)]
            out.append(cells)
        return out

    def _text(self, parent: Any, aside: list[Paragraph]) -> str:
        """Return a cell or note as one unmarked text; paragraphs with attachments are added to `aside`."""
        return " ".join(text for text in self._texts(parent, aside) if text.strip())

    def _texts(self, parent: Any, aside: list[Paragraph]) -> Iterator[str]:
        if parent.tag == f"{W}p":
            yield self._plain(parent, aside)
            return
        for child in parent:
            if child.tag == f"{W}tbl":
                rows = [row for row in self._children(child, "tr") if not self._is_gone(row)]
                cells = ([cell for cell in row if cell not in ("", CONTINUED)] for row in self._cells(rows, aside))
                yield "; ".join(filter(None, map(", ".join, cells)))
            elif child.tag == f"{W}altChunk":
                yield from (block.text for block in self._chunk(child))
            elif child.tag == ALTERNATIVES:
                yield from self._texts(chosen(child), aside)
            elif child.tag == f"{W}p" or next(child.iter(*_INSIDE), None) is None:
                yield "" if child.tag in self._reader.gone else self._plain(child, aside)
            elif child.tag not in self._reader.gone:
                yield from self._texts(child, aside)

    def _plain(self, element: Any, aside: list[Paragraph]) -> str:
        properties = element.find(f"{W}pPr")
        name = value_of(properties, "pStyle") or ""
        paragraph = self._reader.read(element, bold=False, hidden=name in self._hidden, style=name)
        label, _ = self._label(properties, name, self._styles.get(name))
        if paragraph.boxes or paragraph.drawn or paragraph.notes:
            aside.append(paragraph)
        return f"{label} {paragraph.text}" if label and paragraph.text.strip() else paragraph.text

    def _children(self, parent: Any, name: str) -> Iterator[Any]:
        """Yield the rows of a table or the cells of a row, including those in content controls and tracked changes."""
        for child in parent:
            if child.tag == f"{W}{name}":
                yield child
            elif child.tag == ALTERNATIVES:
                yield from self._children(chosen(child), name)
            elif child.tag not in self._reader.gone and child.tag not in (f"{W}tr", f"{W}tc", f"{W}p", f"{W}tbl"):
                yield from self._children(child, name)

    def _is_gone(self, row: Any) -> bool:
        changed = row.findall(f"{W}trPr/*")
        return any(change.tag in self._reader.gone for change in changed)

    def _label(self, properties: Any | None, name: str, style: Style) -> tuple[str | None, int]:
        """Return a paragraph's label and its level in the list."""
        direct = None if properties is None else properties.find(f"{W}numPr")
        number = value_of(direct, "numId") or style.number
        if number is None or number == "0":
            return None, 0
        level = value_of(direct, "ilvl") or style.level
        index = int(level) if level and level.isdecimal() else self._numbering.level_of_style(number, name)
        return self._numbering.label(number, index), min(index, _LEVELS)


def _comment(element: Any, text: str) -> str:
    author = one_line(element.get(f"{W}author") or "")
    return f"[Comment by {author}: {text}]" if author else f"[Comment: {text}]"


def _span(properties: Any | None, name: str, default: int) -> int:
    number = value_of(properties, name) or ""
    return min(int(number), _MOST_SPAN) if number.isascii() and number.isdecimal() and len(number) < 7 else default


def _is_contents(element: Any) -> bool:
    return any(
        "table of contents" in (gallery.get(f"{W}val") or "").lower() for gallery in element.iter(f"{W}docPartGallery")
    )


class Style(NamedTuple):
    """A style with the styles it is based on, itself first.

    Attributes:
        outline: heading level as written, from the first style that has one.
        number, level: the list and the level in it, each from the first style that has one.
    """

    names: tuple[str, ...] = ()
    outline: str | None = None
    number: str | None = None
    level: str | None = None

    @property
    def is_title(self) -> bool:
        return self.names[:1] != () and self.names[0].lower() == "title"

    @property
    def is_contents(self) -> bool:
        return bool(self.names) and _CONTENTS.fullmatch(self.names[0]) is not None


class Styles:
    """The styles of one document (`w:styles`), each read when first used: a template defines far more than it uses."""

    def __init__(self, root: Any | None) -> None:
        elements = () if root is None else root.iter(f"{W}style")
        self._elements = {style.get(f"{W}styleId", ""): style for style in elements}
        self._root = root
        self._read: dict[str, Style] = {}
        self._hidden: frozenset[str] | None = None
        self._marks: dict[str, str] = {}

    def get(self, name: str) -> Style:
        """Return a style by its id; an undefined one is empty."""
        if name not in self._read:
            chain = self._chain(name)
            properties = [style.find(f"{W}pPr") for style in chain]
            lists = [properties_of.find(f"{W}numPr") for properties_of in properties if properties_of is not None]
            self._read[name] = Style(
                tuple(value_of(style, "name") or "" for style in chain),
                _first(value_of(element, "outlineLvl") for element in properties),
                _first(value_of(numbering, "numId") for numbering in lists),
                _first(value_of(numbering, "ilvl") for numbering in lists),
            )
        return self._read[name]

    def hidden(self) -> frozenset[str]:
        """Return the ids of the styles whose text is hidden."""
        if self._hidden is None:
            some = self._root is not None and next(self._root.iter(f"{W}vanish"), None) is not None
            self._hidden = frozenset(filter(self._hides, self._elements)) if some else frozenset()
        return self._hidden

    def marks(self, name: str) -> str:
        """Return the marks of text in a style by its id: struck, raised, lowered."""
        if name not in self._marks:
            marks = ""
            for style in reversed(self._chain(name)):
                marks = run_marks(style.find(f"{W}rPr"), marks)
            self._marks[name] = marks
        return self._marks[name]

    def shades(self, name: str) -> bool:
        """Return whether a style gives its text a background."""
        return any(is_shaded(element) for style in self._chain(name) for element in style.iter(f"{W}shd"))

    def _hides(self, name: str) -> bool:
        run_properties = (style.find(f"{W}rPr") for style in self._chain(name))
        return next(
            (
                is_on(element, "vanish")
                for element in run_properties
                if element is not None and element.find(f"{W}vanish") is not None
            ),
            False,
        )

    def _chain(self, name: str) -> list[Any]:
        chain: list[Any] = []
        while name in self._elements and len(chain) < _MOST_CHAIN:
            chain.append(self._elements[name])
            name = value_of(chain[-1], "basedOn") or ""
        return chain


def outline_level(properties: Any | None, style: Style) -> int | None:
    """Return the level of a heading, 0 for the highest; None for body text. `properties` is the paragraph's `w:pPr`."""
    level = value_of(properties, "outlineLvl") or style.outline
    if level and level.isdecimal():
        return int(level) if int(level) < _LEVELS else None
    named = next((match for name in style.names if (match := _HEADING.fullmatch(name))), None)
    return int(named[1]) - 1 if named else None


def _first(values: Any) -> str | None:
    return next((value for value in values if value), None)
