"""An RTF text under construction: the state of its groups, its paragraphs and its tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from context_engine.ingest.loaders.markdown import MarkdownBlock, one_line, pipe_table, plain, with_links
from context_engine.ingest.loaders.rtf_table import RtfRow, by_column
from context_engine.ingest.loaders.rtf_words import with_groups
from context_engine.ingest.loaders.run_marks import written


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
