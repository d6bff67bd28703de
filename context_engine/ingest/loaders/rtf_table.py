"""The rows of an RTF table by its columns; a merged cell is a wide one, or has flags (RTF 1.9.1, Table Definitions)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from context_engine.ingest.loaders.markdown import CONTINUED

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
