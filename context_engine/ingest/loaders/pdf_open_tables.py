"""Grids of tables with rules only below their head and perhaps their rows, in one segment for each column.

The segments give the columns; the words below, or rules below each row, give the rows. A line belongs to the table if
each of its words is in one column, with gaps at the column edges wider than between words. A row begins below a
gap wider than between the lines of one row or, if all gaps are alike, with each line that fills the first column.
In case of doubt the text is not read as a table.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from math import inf
from typing import Final, NamedTuple

from context_engine.ingest.loaders.pdf_grids import Cell, Grid, Ruling
from context_engine.ingest.loaders.pdf_text import PdfLine

_SAME: Final = 1.5  # points by which the segments of a rule may differ in height, or be apart
_LEAST_PART: Final = 8.0  # points
_LEAST_COLUMNS: Final = 2
_GAP: Final = 0.5  # times the type size: least gap between the words of two columns
_HEAD_NEAR: Final = 1.8  # times the type size: from the head to its rule
_LINE_NEAR: Final = 1.4  # times the type size: between the lines of a head
_ROW_FAR: Final = 3.0  # times the type size: a wider gap ends the table
_LARGER: Final = 1.12  # times the type size of the head: a heading
_WIDER: Final = 1.25  # times the line distance within a row
_LEAST_HEAD: Final = 0.6  # share of the columns with a name


class PlacedLine(NamedTuple):
    """A line and the (left, right) of its words, in order."""

    line: PdfLine
    words: Sequence[tuple[float, float]]


class _Rule(NamedTuple):
    """A horizontal rule in adjoining segments; `edges` are their left ends and the right end of the last one."""

    height: float
    edges: tuple[float, ...]


class _TableBand(NamedTuple):
    """The text at one height within the table; `columns` are those it fills."""

    bottom: float
    top: float
    size: float
    columns: frozenset[int]


def may_head_tables(rulings: Sequence[Ruling]) -> bool:
    """Whether a rule is drawn in segments: a quick test that spares most pages the search."""
    return any(_rules(rulings))


def open_grids(rulings: Sequence[Ruling], lines: Sequence[PlacedLine], taken: Sequence[Grid]) -> list[Grid]:
    """Return the grids of tables with a ruled head and perhaps ruled rows, from the top.

    Args:
        rulings: those of the page, turned so that its text is horizontal.
    """
    rules = [rule for rule in _rules(rulings) if not any(_inside(rule, grid) for grid in taken)]
    grids: list[Grid] = []
    number = 0
    while number < len(rules):
        levels = _levels(rules[number].edges, lines)
        count = _separators(rules[number:], levels)
        floor = rules[number + count].height if number + count < len(rules) else -inf
        grid = _grid(rules[number : number + count], levels, floor)
        if grid:
            grids.append(grid)
        number += count
    return grids


def _separators(rules: Sequence[_Rule], levels: Sequence[_TableBand]) -> int:
    """Count the rules that belong to one table: the text between each two of them fits its columns."""
    count = 1
    for above, rule in pairwise(rules):
        inside = [level for level in levels if rule.height - _SAME <= level.bottom < above.height - _SAME]
        same = len(rule.edges) == len(above.edges) and all(
            abs(left - two) <= _SAME * 2 for left, two in zip(rule.edges, above.edges)
        )
        if not same or not inside or not all(level.columns for level in inside):
            break
        if max(level.size for level in inside) > min(level.size for level in inside) * _LARGER:
            break
        reached = inside[-1].bottom - rule.height < _HEAD_NEAR * inside[-1].size
        if not reached or above.height - inside[0].bottom > _ROW_FAR * inside[0].size:
            break
        count += 1
    return count


def _rules(rulings: Sequence[Ruling]) -> Iterator[_Rule]:
    """Yield each rule in adjoining segments, from the top."""
    level = sorted(
        {ruling for ruling in rulings if ruling.level and ruling.end - ruling.start >= _LEAST_PART},
        key=lambda ruling: -ruling.at,
    )
    for _, group in groupby(_numbered(level), key=lambda numbered: numbered[0]):
        parts = sorted(
            {(round(ruling.start), round(ruling.end)): ruling for _, ruling in group}.values(),
            key=lambda ruling: ruling.start,
        )
        edges = _edges(parts)
        if len(edges) > _LEAST_COLUMNS:
            yield _Rule(parts[0].at, edges)


def _edges(parts: Sequence[Ruling]) -> tuple[float, ...]:
    """Return the left ends of a rule's segments and the right end of the last; nothing if they do not adjoin."""
    edges: list[float] = []
    for part in parts:
        if not edges:
            edges = [part.start, part.end]
        elif abs(part.start - edges[-1]) <= _SAME:
            edges.append(part.end)
        elif abs(part.start - edges[-2]) > _SAME or abs(part.end - edges[-1]) > _SAME:  # not the rule's lower edge
            return ()
    return tuple(edges)


def _numbered(level: Sequence[Ruling]) -> Iterator[tuple[int, Ruling]]:
    """Number the rulings by height; those at the same height share a number."""
    number = 0
    for above, ruling in pairwise([None, *level]):
        assert ruling
        number += above is not None and above.at - ruling.at > _SAME
        yield number, ruling


def _inside(rule: _Rule, grid: Grid) -> bool:
    across = rule.edges[0] < grid.edges[-1] and rule.edges[-1] > grid.edges[0]
    return across and grid.heights[-1] - _SAME <= rule.height <= grid.heights[0] + _SAME


def _grid(rules: Sequence[_Rule], levels: Sequence[_TableBand], floor: float) -> Grid | None:
    """Return the grid of a table, None in case of doubt.

    Args:
        rules: the rules above or below its head, and below its rows if drawn.
        levels: the text between the outer edges of the columns.
    """
    edges, top, bottom = rules[0].edges, rules[0].height, rules[-1].height
    parts = [
        [level for level in levels if lower.height - _SAME <= level.bottom < upper.height - _SAME]
        for upper, lower in pairwise(rules)
    ]
    head = _head([level for level in reversed(levels) if level.bottom >= top - _SAME], top)
    if not _names_columns(head, edges):
        head = parts.pop(0) if parts else []
    if not _names_columns(head, edges):
        return None
    parts.append(_body([level for level in levels if level.bottom < bottom - _SAME], bottom, head[0].size, floor))
    rows = [row for part in parts for row in _rows(part)]
    if not rows or not all(map(_rows, filter(None, parts))):
        return None
    high = max(level.top for level in head) + 1
    bands = [head, *rows]
    between = [(_low(above) + max(level.top for level in below)) / 2 for above, below in pairwise(bands)]
    heights = (high, *between, _low(rows[-1]) - 1)
    cells = [
        Cell(left, low, right, up, row, column, 1, 1)
        for row, (up, low) in enumerate(pairwise(heights))
        for column, (left, right) in enumerate(pairwise(edges))
    ]
    return Grid(tuple(cells), edges, heights)


def _low(levels: Sequence[_TableBand]) -> float:
    return min(level.bottom for level in levels)


def _names_columns(head: Sequence[_TableBand], edges: Sequence[float]) -> bool:
    return len(frozenset().union(*(level.columns for level in head))) >= _LEAST_HEAD * (len(edges) - 1)


def _levels(edges: Sequence[float], lines: Sequence[PlacedLine]) -> list[_TableBand]:
    """Return the text between the outer edges of the columns, line by line from the top."""
    across = [line for line in lines if line.words and line.line.left < edges[-1] and line.line.right > edges[0]]
    across.sort(key=lambda line: -line.line.bottom)
    groups: list[list[PlacedLine]] = []
    for line in across:
        if groups and groups[-1][0].line.bottom - line.line.bottom < line.line.size / 2:
            groups[-1].append(line)
        else:
            groups.append([line])
    return [_level(edges, group) for group in groups]


def _level(edges: Sequence[float], group: Sequence[PlacedLine]) -> _TableBand:
    size = max(line.line.size for line in group)
    words = sorted(word for line in group for word in line.words)
    columns = [bisect(edges, (left + right) / 2) - 1 for left, right in words]
    inside = all(
        0 <= column < len(edges) - 1 and edges[column] - _SAME <= left and right <= edges[column + 1] + _SAME
        for column, (left, right) in zip(columns, words)
    )
    apart = all(
        first == second or after[0] - before[1] >= _GAP * size
        for (first, before), (second, after) in pairwise(zip(columns, words))
    )
    bottom, top = min(line.line.bottom for line in group), max(line.line.top for line in group)
    return _TableBand(bottom, top, size, frozenset(columns) if inside and apart else frozenset())


def _head(above: Sequence[_TableBand], height: float) -> list[_TableBand]:
    """Return the lines of the head, upwards from the rule."""
    head: list[_TableBand] = []
    for level in above:
        near = (
            level.bottom - head[-1].bottom <= _LINE_NEAR * level.size
            if head
            else level.bottom - height < _HEAD_NEAR * level.size
        )
        if not near or not level.columns or (head and abs(level.size - head[0].size) > _SAME):
            break
        head.append(level)
    return head


def _body(below: Sequence[_TableBand], height: float, size: float, floor: float) -> list[_TableBand]:
    """Return the lines below the head, down to the end of the table."""
    body: list[_TableBand] = []
    for level in below:
        near = (body[-1].bottom if body else height) - level.bottom <= _ROW_FAR * size
        next_head = level.bottom >= floor and level.bottom - floor < _HEAD_NEAR * level.size
        if not near or not level.columns or level.size > size * _LARGER or next_head:
            break
        body.append(level)
    return body


def _rows(levels: Sequence[_TableBand]) -> list[list[_TableBand]]:
    """Return the lines of each row; nothing if it is not certain which lines form a row."""
    if not levels:
        return []
    if all(0 in level.columns and len(level.columns) > _LEAST_COLUMNS for level in levels):
        return [[level] for level in levels]
    gaps = [above.bottom - below.bottom for above, below in pairwise(levels)]
    wide = min(gaps, default=0.0) * _WIDER
    if gaps and max(gaps) > wide:
        starts = [0, *(number for number, gap in enumerate(gaps, start=1) if gap > wide)]
    else:
        starts = [number for number, level in enumerate(levels) if 0 in level.columns]
    rows = [list(levels[start:end]) for start, end in pairwise([*starts, len(levels)])]
    lines_of_two = len(rows) > 1 and all(len(row) == 1 and len(row[0].columns) <= _LEAST_COLUMNS for row in rows)
    return rows if starts[:1] == [0] and all(map(_is_one_row, rows)) and not lines_of_two else []


def _is_one_row(levels: Sequence[_TableBand]) -> bool:
    """Whether the first line fills the first column, and no later one fills it together with another."""
    return 0 in levels[0].columns and not any(0 in level.columns and len(level.columns) > 1 for level in levels[1:])
