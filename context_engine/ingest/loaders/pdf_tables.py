"""The tables of a PDF: which of its grids are tables, where one goes on on the next page, and how they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from context_engine.ingest.loaders.markdown import one_line, pipe_table
from context_engine.ingest.loaders.pdf_line import PdfLine, PdfTable

_SAME_EDGE: Final = 4.0  # points by which the columns of two pages may differ
_MOST_BELOW: Final = 8  # lines of a note between a table and the rest of it on the next page

Pages = Sequence[Sequence[PdfLine]]


def without_margin_tables(pages: Pages) -> list[list[PdfLine]]:
    """Return the pages with the tables in their margins that come back, but for their numbers, as lines.

    They are page heads and feet, and treated as such; the others are tables.
    """
    in_margin = [[_wording(line) for line in lines if line.table and line.edge] for lines in pages]
    counts = Counter(wording for page in in_margin for wording in set(page))
    return [[kept for line in lines for kept in _in_margin(line, counts)] for lines in pages]


def _in_margin(line: PdfLine, counts: Mapping[str, int]) -> Sequence[PdfLine]:
    if not line.table or not line.edge:
        return (line,)
    return line.table.lines if counts[_wording(line)] > 1 else (line._replace(edge=False),)


def _wording(line: PdfLine) -> str:
    return "".join(filter(str.isalpha, line.text))


def joined_tables(pages: Pages) -> list[list[PdfLine]]:
    """Return the pages with a table that goes on on the next ones where it begins; its head stands once.

    What stands below the table on its page, the page's foot or a note, comes before it then.

    Args:
        pages: the lines of each; those at the edge run through the document.
    """
    out = [list(lines) for lines in pages]
    begun: tuple[int, PdfLine] | None = None  # the page of a table that may go on, and its line there
    for page, lines in enumerate(out):
        first = next((line for line in lines if not line.edge), None)
        goes_on = begun is not None and first is not None and _goes_on(begun[1], first, out[begun[0]])
        if begun and first and goes_on:
            at, above = begun
            begun = at, _with_rows(above, first, page)
            out[at] = [*(line for line in out[at] if line is not above), begun[1]]
            lines.remove(first)
        body = [line for line in lines if not line.edge]
        last = next((number for number in reversed(range(len(body))) if body[number].table), -1)
        if len(body) - 1 - last > _MOST_BELOW:
            begun = None
        elif last >= 0:
            begun = page, body[last]
        elif not goes_on:
            begun = None
    return out


def _goes_on(above: PdfLine, line: PdfLine, page: Sequence[PdfLine]) -> bool:
    """Whether a table goes on with one above: it has the same columns, no title, and no head of its own.

    Args:
        above: the last table of the page before.
        line: what the page begins with.
        page: the lines of the page before.
    """
    if above.table is None or line.table is None or line.table.titles:
        return False
    first, second = above.table.edges, line.table.edges
    if len(first) != len(second) or any(abs(one - two) > _SAME_EDGE for one, two in zip(first, second)):
        return False
    head = line.table.rows[0]
    at_end = next(one for one in reversed(page) if not one.edge or one is above) is above
    numbers = any(sign.isdigit() for cell in head for text in cell for sign in text)
    return at_end or numbers or _said(head) == _said(above.table.rows[0])


def _with_rows(above: PdfLine, line: PdfLine, page: int) -> PdfLine:
    """Return a table with the rows of the next page, without the head that is repeated there."""
    table, rest = above.table, line.table
    assert table
    assert rest
    rows = rest.rows[_said(rest.rows[0]) == _said(table.rows[0]) :]
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
