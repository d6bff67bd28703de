"""Markdown blocks, which the loaders of all formatted documents produce."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

_MOST_LEVEL: Final = 6
_LIKE_HEADING: Final = re.compile(r"#{1,6}\s")


class MarkdownBlock(NamedTuple):
    """A paragraph, heading or table, or (`item`) an item of a list."""

    text: str
    item: bool = False


def joined(blocks: Iterable[MarkdownBlock]) -> str:
    """Join blocks to one text, with a blank line between them except between items of a list."""
    out: list[str] = []
    before = False
    for block in blocks:
        if out:
            out.append("\n" if before and block.item else "\n\n")
        out.append(block.text)
        before = block.item
    return "".join(out)


def heading(level: int, text: str) -> MarkdownBlock:
    """Return a heading; levels deeper than 6 become 6."""
    return MarkdownBlock(f"{'#' * min(level, _MOST_LEVEL)} {one_line(text)}")


def pipe_table(rows: Sequence[Sequence[str]]) -> MarkdownBlock | None:
    """Return a table with the first row as its head; None if every cell is empty.

    Empty rows and columns are left out; short rows are filled with empty cells.
    """
    kept = [[one_line(cell).replace("|", "\\|") for cell in row] for row in rows if any(cell.strip() for cell in row)]
    width = max((len(row) for row in kept), default=0)
    full = [row + [""] * (width - len(row)) for row in kept]
    columns = [index for index in range(width) if any(row[index] for row in full)]
    if not columns:
        return None
    lines = ["| " + " | ".join(row[index] for index in columns) + " |" for row in full]
    lines.insert(1, "|" + " --- |" * len(columns))
    return MarkdownBlock("\n".join(lines))


def plain(text: str) -> str:
    """Escape a text that looks like a heading but is not ("# this line is a comment")."""
    return f"\\{text}" if _LIKE_HEADING.match(text) else text


def one_line(text: str) -> str:
    """Return a text on one line, with single spaces."""
    return " ".join(text.split())
