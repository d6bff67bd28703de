"""An RTF text under construction: the state of its groups, its paragraphs and its tables."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from context_engine.ingest.loaders.markdown import CONTINUED, MarkdownBlock, one_line, pipe_table, plain, with_links
from context_engine.ingest.loaders.rtf_words import with_groups
from context_engine.ingest.loaders.run_marks import written

_NEAR: Final = 60  # twips: edges closer than this are one


@dataclass(slots=True)
class RtfRow:
    """A row: its cells, and the definition of each.

    Attributes:
        edges: right edges of the cells, in twips.
        goes_on: whether each cell continues the one above.
        covered: whether each cell is covered by the one to its left.
        shaded: whether a cell is shaded.
    """

    cells: list[str] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    goes_on: list[bool] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)
    shaded: bool = False
    _next: set[bytes] = field(default_factory=set)

    def define(self, word: bytes, number: int | None) -> None:
        """Take a control word of the row's definition: `trowd`, `clvmrg`, `clmrg` or `cellx`."""
        if word == b"trowd":
            self.edges, self.goes_on, self.covered, self.shaded = [], [], [], False
            self._next.clear()
        elif word == b"cellx":
            self.edges.append(number or 0)
            self.goes_on.append(b"clvmrg" in self._next)
            self.covered.append(b"clmrg" in self._next)
            self._next.clear()
        else:
            self._next.add(word)

    def following(self) -> RtfRow:
        """Return an empty row with the same definition, which lasts until the next one."""
        return RtfRow([], [*self.edges], [*self.goes_on], [*self.covered], self.shaded)


def by_column(rows: Sequence[RtfRow]) -> list[list[str]]:
    """Return the cells of each row by column; those that a wide cell covers are `CONTINUED`."""
    columns = _columns(rows)
    out: list[list[str]] = []
    for row in rows:
        cells: list[str] = []
        above = out[-1] if out else []
        for number, text in enumerate(row.cells):
            if _at(row.goes_on, number) and not text.strip() and len(cells) < len(above):
                text = above[len(cells)]
            cells.append(CONTINUED if _at(row.covered, number) and not text.strip() else text)
            end = bisect_right(columns, row.edges[number] + _NEAR // 2) if columns else 0
            cells += [CONTINUED] * (end - len(cells))
        out.append(cells)
    return out


def _columns(rows: Sequence[RtfRow]) -> list[int]:
    """Return the right edges of the columns; none if a row does not give those of all its cells."""
    if any(len(row.edges) < len(row.cells) or row.edges != sorted(row.edges) for row in rows):
        return []
    edges: list[int] = []
    for edge in sorted({edge for row in rows for edge in row.edges[: len(row.cells)]}):
        if not edges or edge - edges[-1] > _NEAR:
            edges.append(edge)
    return edges


def _at(flags: Sequence[bool], number: int) -> bool:
    return number < len(flags) and flags[number]


@dataclass(slots=True)
class GroupState:
    """The state that a group inherits from the enclosing group."""

    place: str = "body"
    font: int = -1
    skip: int = 1
    hidden: bool = False
    size: int | None = None  # half points
    colour: int = 0  # its number in the table of colours
    ground: int = 0
    deleted: bool = False
    inserted: bool = False
    struck: bool = False
    height: bytes = b""  # super or sub
    label: bool = False  # a list item's mark, saved as text
    link: bool = False
    formula: int = 0  # depth of its groups


@dataclass(slots=True)
class RtfFlow:
    """A text under construction: the body, or one outside it."""

    text: list[str] = field(default_factory=list)
    blocks: list[MarkdownBlock] = field(default_factory=list)
    row: RtfRow = field(default_factory=RtfRow)
    rows: list[RtfRow] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)
    beside: list[MarkdownBlock] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    in_table: bool = False
    shaded: bool = False  # the paragraph
    level: int | None = None
    style: int = 0

    def take(self) -> str:
        """Return the text up to here, with its links, and begin anew."""
        text = written(with_links(with_groups("".join(self.text)), self.targets))
        self.text.clear()
        self.targets.clear()
        return text

    def end_row(self, *, nested: bool) -> None:
        """End a row of the table, or of one in a cell, which becomes a line of the cell."""
        if nested:
            self.text.append(", ".join(map(one_line, self.nested)) + "; ")
            self.nested.clear()
        elif self.row.cells:
            self.rows.append(self.row)
            self.row = self.row.following()

    def end_table(self) -> None:
        """Make a block of the rows so far, if there are any."""
        rows = [*self.rows, *([self.row] if self.row.cells else [])]
        if not rows:
            return
        self.rows, self.row = [], RtfRow()
        table = pipe_table(by_column(rows))
        if table:
            self.blocks += [table, *self.beside]
            self.beside = []


def plain_block(text: str) -> MarkdownBlock:
    """Return a paragraph, or a list item if the text begins with a bullet."""
    marked = re.match(r"[•·\uf0b7▪o]\s+", text)
    return (
        MarkdownBlock(f"- {text[marked.end() :]}", item=True)
        if marked and text[0] != "o"
        else MarkdownBlock(plain(text))
    )
