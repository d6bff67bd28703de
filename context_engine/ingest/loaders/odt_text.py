"""The text inside an OpenDocument file as Markdown blocks, with list marks counted (ODF 1.3 Part 3, 5 and 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from context_engine.ingest.loaders.docx_numbering import BULLET, numeral
from context_engine.ingest.loaders.docx_text import Changes
from context_engine.ingest.loaders.markdown import (
    CONTINUED,
    MarkdownBlock,
    heading,
    linked,
    one_line,
    pipe_table,
    plain,
    unlinked,
)
from context_engine.ingest.loaders.odt_styles import DRAW, STYLE, TABLE, TEXT, OdtStyles
from context_engine.ingest.loaders.run_marks import written

_ODF: Final = "urn:oasis:names:tc:opendocument:xmlns"
_FORMS: Final = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_NUMBERED: Final = (f"{TEXT}list-level-style-number", f"{TEXT}outline-level-style")
_OFFICE: Final = f"{{{_ODF}:office:1.0}}"
_SVG: Final = f"{{{_ODF}:svg-compatible:1.0}}"
_FORM: Final = f"{{{_ODF}:form:1.0}}"
_DC: Final = "{http://purl.org/dc/elements/1.1/}"
_XLINK: Final = "{http://www.w3.org/1999/xlink}"
_INDEX_KINDS: Final = "table-of-content illustration-index table-index object-index alphabetical-index user-index"
_INDEXES: Final = frozenset(f"{TEXT}{name}" for name in _INDEX_KINDS.split())
_GONE: Final = frozenset(
    (f"{TEXT}tracked-changes", f"{TEXT}sequence-decls", f"{TEXT}variable-decls", f"{TEXT}user-field-decls",
     f"{_OFFICE}forms", f"{TEXT}ruby-text", f"{_OFFICE}annotation-end", f"{TEXT}note-citation", f"{DRAW}image",
     f"{_OFFICE}binary-data", f"{_OFFICE}event-listeners")
)  # fmt: skip
_BREAKS: Final = {f"{TEXT}tab": " ", f"{TEXT}line-break": "\n"}
_MOST_REPEATED: Final = 1_000
_MOST_SPACES: Final = 100


class OdtLists:
    """Counts list items in document order; `roots` hold the list styles."""

    def __init__(self, roots: Sequence[Any]) -> None:
        styles = (style for root in roots for style in root.iter(f"{TEXT}list-style", f"{TEXT}outline-style"))
        self._styles = {_name(style): _levels(style) for style in styles}
        self._open: list[str] = []
        self._counts: dict[tuple[str, int], int] = {}

    @contextmanager
    def opened(self, element: Any) -> Iterator[Callable[[Any], str]]:
        """Enter a list; yield a function that returns the mark of an item with the space before and after it."""
        style = element.get(f"{TEXT}style-name") or (self._open[-1] if self._open else "?")
        level = len(self._open) + 1
        goes_on = element.get(f"{TEXT}continue-numbering") == "true" or element.get(f"{TEXT}continue-list")
        if not goes_on and (level == 1 or element.getprevious() is not None):  # a list that opens an item only indents
            self._counts.pop((style, level), None)
        self._open.append(style)
        try:
            yield lambda item: f"{'  ' * (level - 1)}{mark} " if (mark := self._mark(item, style, level)) else ""
        finally:
            self._open.pop()

    def heading(self, level: int) -> str:
        """Count a heading and return its number; "" if headings are not numbered."""
        label = self._counted("", level, None)
        return "" if label == BULLET else label

    def _mark(self, item: Any, style: str, level: int) -> str:
        first = next(iter(item), None)
        if item.tag != f"{TEXT}list-item" or first is None or first.tag == f"{TEXT}list":
            return ""
        return self._counted(style, level, item.get(f"{TEXT}start-value"))

    def _counted(self, style: str, level: int, start: str | None) -> str:
        levels = self._styles.get(style, {})
        form = levels.get(level)
        if form is None:
            return BULLET
        before = self._counts.get((style, level))
        first = start or form.get(f"{TEXT}start-value") or "1"
        self._counts[style, level] = _number(first) if before is None or start else before + 1
        for lower in [counted for counted in self._counts if counted[0] == style and counted[1] > level]:
            del self._counts[lower]
        shown = _number(form.get(f"{TEXT}display-levels") or "1")
        parts = [self._numeral(style, place) for place in range(max(1, level - shown + 1), level + 1)]
        number = ".".join(filter(None, parts)) if parts[-1] else ""
        around = f"{form.get(f'{STYLE}num-prefix') or ''}{number}{form.get(f'{STYLE}num-suffix') or ''}".strip()
        return around or BULLET

    def _numeral(self, style: str, level: int) -> str:
        form = self._styles[style].get(level)
        name = None if form is None else _FORMS.get(form.get(f"{STYLE}num-format") or "")
        return numeral(name, self._counts.get((style, level), 1)) if name else ""


def _name(style: Any) -> str:
    return "" if style.tag == f"{TEXT}outline-style" else style.get(f"{STYLE}name") or "?"


def _levels(style: Any) -> dict[int, Any]:
    numbered = style.iterfind("*")
    return {
        int(level): form
        for form in numbered
        if form.tag in _NUMBERED and (level := form.get(f"{TEXT}level") or "").isdecimal()
    }


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 1


def qualified(space: str, name: str) -> str:
    """Return an ODF name as lxml writes it: ("office", "body")."""
    return f"{{{_ODF}:{space}:1.0}}{name}"


class OdtBody:
    """Reads one document once, from top to bottom.

    Args:
        roots: the elements with the styles and the text.
        drawn: gives the blocks of an object (a chart, an equation, another file) by its name.

    Attributes:
        title: the paragraph in the style "Title", or "".
        hidden: number of hidden words.
        contents: the lines of tables of contents and indexes.
    """

    def __init__(self, roots: Sequence[Any], changes: Changes, drawn: Callable[[str], Sequence[MarkdownBlock]]) -> None:
        self._drawn_by = drawn
        self._lists = OdtLists(roots)
        self._styles = OdtStyles(roots)
        self._changes = changes
        self._regions = {
            region.get(f"{TEXT}id") or region.get("{http://www.w3.org/XML/1998/namespace}id") or "": region
            for root in roots
            for region in root.iter(f"{TEXT}changed-region")
        }
        self._dropping: set[str] = set()
        self._below: list[MarkdownBlock] = []
        self._notes = 0
        self.title = ""
        self._under_title = 0
        self.hidden = 0
        self.contents: list[str] = []

    def blocks(self, parent: Any, mark: str = "") -> Iterator[MarkdownBlock]:
        """Yield the blocks of an element; its first paragraph begins with `mark`, the mark of a list item."""
        for child in parent:
            tag = child.tag
            if tag in (f"{TEXT}p", f"{TEXT}h"):
                yield from self._paragraph(child, mark)
                mark = " " * (len(mark) - len(mark.lstrip()) + 2) if mark.strip() else mark
            elif tag == f"{TEXT}list":
                with self._lists.opened(child) as label:
                    for item in child:
                        yield from self.blocks(item, label(item))
            elif tag == f"{TABLE}table":
                yield from self._table(child)
            elif tag in _INDEXES:
                self.contents += filter(None, (self._line(line) for line in child.iter(f"{TEXT}p")))
            elif tag in (f"{TEXT}change", f"{TEXT}change-start", f"{TEXT}change-end"):
                text = self._change(child)
                yield from [MarkdownBlock(text)] if text else []
            elif self._is_hidden(child):
                self.hidden += len(" ".join(child.itertext()).split())
            elif tag not in _GONE:
                if tag.startswith(DRAW):
                    yield from self._drawn(child)
                else:
                    yield from self.blocks(child, mark)

    def _paragraph(self, element: Any, mark: str) -> Iterator[MarkdownBlock]:
        text = self._inline(element).strip()
        if self._styles.hides(element):
            self.hidden, text = self.hidden + len(text.split()), ""
        if text and "title" in self._styles.names(element)[:2] and not self.title:
            self.title, self._under_title = unlinked(one_line(text)), 1
            yield heading(1, text)
        elif text and element.tag == f"{TEXT}h":
            level = element.get(f"{TEXT}outline-level") or "1"
            depth = int(level) if level.isdecimal() else 1
            label = mark.strip() or self._lists.heading(depth)
            yield heading(depth + self._under_title, text if label in ("", BULLET) else f"{label} {text}")
        elif text:
            yield MarkdownBlock(f"{mark}{text}", item=True) if mark else MarkdownBlock(plain(text))
        yield from self._aside()

    def _aside(self) -> list[MarkdownBlock]:
        aside, self._below = self._below, []
        return aside

    def _line(self, element: Any) -> str:
        return one_line(self._inline(element))

    def _inline(self, element: Any) -> str:
        return written("".join(self._parts(element)))

    def _parts(self, parent: Any) -> Iterator[str]:
        yield self._kept(parent.text)
        for child in parent:
            tag = child.tag
            if tag == f"{TEXT}s":
                count = child.get(f"{TEXT}c") or "1"
                yield " " * (min(int(count), _MOST_SPACES) if count.isdecimal() else 1)
            elif tag in _BREAKS:
                yield _BREAKS[tag]
            elif tag == f"{TEXT}note":
                yield self._note(child)
            elif tag == f"{_OFFICE}annotation":
                self._comment(child)
            elif tag in (f"{TEXT}change", f"{TEXT}change-start", f"{TEXT}change-end"):
                yield self._change(child)
            elif tag == f"{TEXT}ruby":
                above = child.findtext(f"{TEXT}ruby-text") or ""
                yield "".join(self._parts(child)) + (f"({above})" if above else "")
            elif self._is_hidden(child):
                self.hidden += len(" ".join(child.itertext()).split())
            elif tag.startswith(DRAW) and tag != f"{DRAW}a":
                beside, self._below = self._below, []
                drawn = self._drawn(child)
                self._below = [*beside, *drawn, *self._below]
            elif tag == f"{TEXT}a":
                yield linked("".join(self._parts(child)), child.get(f"{_XLINK}href") or "")
            elif tag not in _GONE:
                marks = self._styles.marks(child)
                yield from (marks, *self._parts(child), marks[::-1])
            yield self._kept(child.tail)

    def _kept(self, text: str | None) -> str:
        return "" if self._dropping else " ".join((text or "").split("\n"))

    def _note(self, element: Any) -> str:
        self._notes += 1
        body = element.find(f"{TEXT}note-body")
        beside, self._below = self._below, []
        text = "" if body is None else self._flat(body)
        self._below = [*beside, MarkdownBlock(f"[^{self._notes}]: {text}"), *self._below]
        return f"[^{self._notes}]"

    def _comment(self, element: Any) -> None:
        author = one_line(element.findtext(f"{_DC}creator") or "")
        lines = [self._line(line) for line in element.iter(f"{TEXT}p")]
        text = " ".join(filter(None, lines))
        if text:
            self._below.append(MarkdownBlock(f"[Comment by {author}: {text}]" if author else f"[Comment: {text}]"))

    def _change(self, element: Any) -> str:
        """Return the text that a tracked change leaves in its place."""
        name = element.get(f"{TEXT}change-id") or ""
        region = self._regions.get(name)
        if region is None or self._changes == "accept":
            return ""
        inserted = region.find(f"{TEXT}insertion") is not None
        if element.tag == f"{TEXT}change-start" and inserted:
            if self._changes == "reject":
                self._dropping.add(name)
            return "[inserted: " if self._changes == "both" else ""
        if element.tag == f"{TEXT}change-end" and inserted:
            self._dropping.discard(name)
            return "]" if self._changes == "both" else ""
        deletion = region.find(f"{TEXT}deletion")
        if element.tag != f"{TEXT}change" or deletion is None:
            return ""
        text = " ".join(self._line(line) for line in deletion.iter(f"{TEXT}p", f"{TEXT}h"))
        return f"[deleted: {text}]" if self._changes == "both" else text

    def _drawn(self, element: Any) -> list[MarkdownBlock]:
        """Return the text boxes, shapes and objects of a drawing."""
        if element.tag in (f"{DRAW}object", f"{DRAW}object-ole"):
            name = (element.get(f"{_XLINK}href") or "").removeprefix("./")
            return list(self._drawn_by(name)) if element.find(f".//{TEXT}p") is None else list(self.blocks(element))
        description = one_line(element.findtext(f"{_SVG}desc") or "")
        out = (
            [MarkdownBlock(f"[Picture: {description}]")]
            if description and element.find(f"{DRAW}image") is not None
            else []
        )
        return [*out, *self.blocks(element)]

    def _table(self, element: Any) -> Iterator[MarkdownBlock]:
        rows = list(self._rows(element))
        cells = [cell for row in rows for cell in row.iterfind(f"{TABLE}table-cell")]
        if len(cells) == 1:  # a frame around a text
            yield from self.blocks(cells[0])
            return
        lasting: dict[int, tuple[str, int]] = {}
        table = pipe_table([self._cells(row, lasting) for row in rows])
        yield from [table] if table else []
        yield from self._aside()

    def _rows(self, parent: Any) -> Iterator[Any]:
        for child in parent:
            if child.tag == f"{TABLE}table-row":
                yield child
            elif child.tag.startswith(f"{TABLE}table-") and child.tag != f"{TABLE}table-columns":
                yield from self._rows(child)

    def _cells(self, row: Any, lasting: dict[int, tuple[str, int]]) -> list[str]:
        """Return the cells of a row; `lasting` holds, by column, the text of a merged cell and its remaining rows."""
        out: list[str] = []
        covered = 0
        for cell in row.iterfind("*"):
            if cell.tag not in (f"{TABLE}table-cell", f"{TABLE}covered-table-cell"):
                continue
            text = self._flat(cell)
            above, rows = lasting.pop(len(out), ("", 0))
            if rows:
                text = text or above
                lasting[len(out)] = (above, rows - 1)
            elif (below := _count(cell, "number-rows-spanned") - 1) > 0:
                lasting[len(out)] = (text, below)
            repeated = _count(cell, "number-columns-repeated")
            if cell.tag == f"{TABLE}covered-table-cell" and covered:
                hidden = min(covered, repeated)
                out += [CONTINUED] * hidden + [""] * (repeated - hidden)
                covered -= hidden
                continue
            covered = _count(cell, "number-columns-spanned") - 1
            out += [text] * repeated
        return out

    def _flat(self, parent: Any) -> str:
        """Return a cell or note as one line; its notes are kept and follow the paragraph."""
        beside, self._below = self._below, []
        blocks = list(self.blocks(parent))
        aside = [block for block in blocks if block.text.startswith(("[^", "[Comment"))]
        text = " ".join(one_line(_bare(block.text)) for block in blocks if block not in aside)
        self._below = [*beside, *aside, *self._below]
        return text

    def _is_hidden(self, element: Any) -> bool:
        if element.tag in (f"{TEXT}span", f"{TEXT}section") and element.get(f"{TEXT}display") == "none":
            return True
        if element.tag == f"{TEXT}span":
            return self._styles.hides(element)
        return bool(element.tag == f"{TEXT}hidden-paragraph" and element.get(f"{TEXT}is-hidden") == "true")


def _count(cell: Any, name: str) -> int:
    number = cell.get(f"{TABLE}{name}") or "1"
    return min(int(number), _MOST_REPEATED) if number.isascii() and number.isdecimal() and len(number) < 9 else 1


def _bare(text: str) -> str:
    """Return a block on one line, a table with "," between cells and ";" between rows."""
    if not text.startswith("| "):
        return text.removeprefix("- ")
    rows = [line.strip("| ").split(" | ") for line in text.split("\n") if not line.startswith("| ---")]
    return "; ".join(", ".join(filter(None, map(str.strip, row))) for row in rows)
