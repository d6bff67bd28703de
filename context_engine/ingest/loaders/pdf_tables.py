"""The tables of a PDF: which of its grids are tables, where one goes on on the next page, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from context_engine.ingest.loaders.markdown import one_line, pipe_table
from context_engine.ingest.loaders.pdf_line import PdfLine, PdfTable

__all__ = ["joined_tables", "table_text", "without_margin_tables"]

_SAME_EDGE: Final = 4.0  # points by which the columns of two pages may differ
_MOST_HEAD: Final = 4  # rows of a head that is repeated

Pages = Sequence[Sequence[PdfLine]]


def without_margin_tables(pages: Pages) -> list[list[PdfLine]]:
    """Return the pages with the tables in their margins as lines: they are page heads and feet.

    One that goes on with the table at the foot of the page before stays a table.
    """
    out: list[list[PdfLine]] = []
    for lines in pages:
        kept: list[PdfLine] = []
        first = next((line for line in lines if line.table or not line.edge), None)
        for line in lines:
            if not line.table or not line.edge:
                kept.append(line)
            elif line is first and out and _goes_on(_last(out[-1]), line):
                kept.append(line._replace(edge=False))
            else:
                kept += line.table.lines
        out.append(kept)
    return out


def joined_tables(pages: Pages) -> list[list[PdfLine]]:
    """Return the pages with a table that goes on on the next ones where it begins; its head stands once.

    Args:
        pages: the lines of each; those at the edge run through the document and stand between the parts of no table.
    """
    out = [list(lines) for lines in pages]
    begun: tuple[int, PdfLine] | None = None  # the page of a table that may go on, and its line there
    for page, lines in enumerate(out):
        first = next((line for line in lines if not line.edge), None)
        if begun and first and _goes_on(begun[1], first):
            at, above = begun
            whole = _with_rows(above, first, page)
            out[at] = [line for line in out[at] if line is not above]
            out[at].append(whole)  # behind the foot of its page
            lines.remove(first)
            begun = (at, whole) if not any(not line.edge for line in lines) else None
            if begun:
                continue
        last = _last(lines)
        begun = (page, last) if last and last.table else None
    return out


def _last(lines: Sequence[PdfLine]) -> PdfLine | None:
    return next((line for line in reversed(lines) if not line.edge), None)


def _goes_on(above: PdfLine | None, line: PdfLine) -> bool:
    """Whether two tables have the same columns, and the lower one no title of its own."""
    if above is None or above.table is None or line.table is None or line.table.titles:
        return False
    first, second = above.table.edges, line.table.edges
    return len(first) == len(second) and all(abs(one - two) <= _SAME_EDGE for one, two in zip(first, second))


def _with_rows(above: PdfLine, line: PdfLine, page: int) -> PdfLine:
    """Return a table with the rows of the next page, without the head that is repeated there."""
    table, rest = above.table, line.table
    assert table
    assert rest
    head = 0
    while head < min(_MOST_HEAD, len(rest.rows), len(table.rows)) and _said(rest.rows[head]) == _said(table.rows[head]):
        head += 1
    rows = rest.rows[head:]
    if not rows:
        return above
    breaks = (*table.breaks, (len(table.rows), page))
    whole = table._replace(rows=(*table.rows, *rows), lines=(*table.lines, *rest.lines), breaks=breaks)
    return above._replace(table=whole, text=f"{above.text} {' '.join(_said(row) for row in rows)}")


def _said(row: Sequence[Sequence[str]]) -> str:
    return " ".join(one_line(line) for cell in row for line in cell)


def table_text(table: PdfTable, written: Callable[[Sequence[str]], str]) -> tuple[str, list[tuple[int, int]]]:
    """Return a table as Markdown below its titles, and (offset, page index) of the rows that begin a page.

    Args:
        table: with rows.
        written: makes one text of the lines of a cell.
    """
    cells = [[written(cell) for cell in row] for row in table.rows]
    block = pipe_table(cells)
    text = "\n\n".join((*map(one_line, table.titles), *((block.text,) if block else ())))
    begin = len(text) - (len(block.text) if block else 0)
    starts = [begin]
    for line in text[begin:].split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    return text, [(starts[row + 1], page) for row, page in table.breaks]  # the rule below the head is a line, too
