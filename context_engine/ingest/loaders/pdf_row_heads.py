"""The names of columns above a table without rulings: in one or more lines, some over several columns.

A line above the table belongs to its head if each of its parts stands over columns of values, or over the first column
beside such a part. A name over several columns ("Year ended 31 December" above "2023" and "2024") is given to each: the
rule below it shows which they are or, without rules, its place in their middle. In case of doubt it stays a line.
Between the head and the first row may be lines that name groups of rows ("Assets"). A line that gives the unit of all
amounts ("(in thousands)") belongs to the name of the first column, wherever in the head it stands.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

from context_engine.ingest.loaders.pdf_grids import Ruling
from context_engine.ingest.loaders.pdf_text import LinePart, PdfLine, PdfTable
from context_engine.ingest.loaders.periods import period_of

Columns = Sequence[tuple[float, float]]
"""Left and right of each column in points."""
_MOST_LINES: Final = 24
_MOST_NAME: Final = 60  # characters of a line of a name
_MOST_UNITS: Final = 100
_LEAST_ROWS: Final = 3
_MOST_GROUPS: Final = 3  # lines between the head and the first row
_NEAR: Final = 2.2  # times the type size: between the lines of a head
_ABOVE: Final = 3.0  # times the type size: between the head and the first row
_LARGER: Final = 1.12  # times the type size of the first row: a heading
_NAMED: Final = 0.5  # share of the columns of values with a name
_OFF: Final = 0.04  # of the width of columns by which a name over them may be off their middle
_WIDE: Final = 0.6  # of the width of columns: a name over them that need not be in their middle
_NARROW: Final = 0.6  # of the distance between columns
_SLACK: Final = 0.5  # times the type size by which a name may reach into the space of the next column
_INDENT: Final = 2.0  # times the type size by which the name of a group may begin left of the rows
_BELOW: Final = (0.6, 0.3)  # times the type size: a rule below and above the lower edge of a name
_ADJOIN: Final = 1.5  # points between the segments of a rule
_BESIDE: Final = 0.15  # of the length of a rule: a name farther from its middle is not the one above it
_COVERED: Final = 0.5  # of the width of a column below a rule
_MONTH: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE: Final = re.compile(
    rf"(?i)(?:{_MONTH} \d{{1,2}},? ?|\d{{1,2}}\.? {_MONTH},? )(?:19|20)\d\d|\d{{1,2}}([./-])\d{{1,2}}\1(?:\d\d){{1,2}}"
)
_MARK: Final = re.compile(r"(?:\s*(?:\(\w\)|[*†‡]+))+$")
_ITEM: Final = re.compile(r"(?i)(?:[•▪●◦‣–—*-]|\(?(?:\d{1,3}|[a-z]|[ivxlc]{1,5})[.)])(?:\s|$)")
_SCALE: Final = (
    r"\b(?:thousands?|[mb]illions?|tausend|millionen|milliarden|milliers|millones|miles|milioni|migliaia|milhões"
    r"|milhares|tsd|mio|mrd|mn|bn)\b[^()\d]*"
)
_UNITS: Final = re.compile(
    rf"(?i)\([^()\d]*{_SCALE}\)?|(?:(?:amounts?|dollars?|values?) )?(?:in|en) [^()\d]*{_SCALE}"
    rf"|(?-i:[A-Z]{{3}}|[A-Z]{{0,3}}[$€£¥])\s?(?:in )?{_SCALE}"
)
_ENDS: Final = (".", ";", ":")
_COLONS: Final = (":", "：")


class _Name(NamedTuple):
    """A part of a head, and the ends of the rule below it alone; `ruled`: whether the head has such rules."""

    part: LinePart
    rule: tuple[float, float] | None = None
    ruled: bool = False


class _HeadLevel(NamedTuple):
    """The lines at one height, and their parts."""

    lines: list[PdfLine]
    names: list[_Name]


def is_period(text: str) -> bool:
    """Whether a text names a period, with or without the mark of a note: "2023", "31 December 2023(a)"."""
    bare = _MARK.sub("", text)
    return _DATE.fullmatch(bare) is not None or period_of(bare) is not None


def parts_of(line: PdfLine) -> Sequence[LinePart]:
    """Return the parts of a line; one without gaps is a single part."""
    return line.parts or (LinePart(line.text, line.left, line.right, line.size, line.bold),)


def is_value(part: LinePart) -> bool:
    """Whether a part has a digit and names no period."""
    return any(map(str.isdigit, part.text)) and not is_period(part.text)


def with_head(above: Sequence[PdfLine], table: PdfTable, rules: Sequence[Ruling]) -> tuple[PdfTable, int]:
    """Return a table with the names that stand above its values, and how many lines above it they take.

    The number is negative if the first lines of the table belong to no name: they are text above it.

    Args:
        rules: the horizontal rulings of the page.
    """
    first, own = table.head
    bare = table._replace(rows=(((),) * len(table.columns), *table.rows[first:]), lines=table.lines[own:])
    head, groups = _head_above([*above, *table.lines[:own]], bare, rules)
    names = names_of(head, table.columns, rules)
    in_words = not any(is_value(part) for line in bare.lines for part in line.parts[1:])
    if (own and in_words) or not head or sum(map(bool, names)) < sum(map(bool, table.rows[0])):
        return with_units(table), 0
    rest = [((line.text,), *((),) * (len(names) - 1)) for line in groups]
    whole = bare._replace(rows=(tuple(names), *rest, *bare.rows[1:]))
    return with_units(whole), len(head) + len(groups) - own


def with_units(table: PdfTable) -> PdfTable:
    """Return a table with a first row of nothing but units moved into the name of its first column."""
    if len(table.rows) < _LEAST_ROWS or not any(table.rows[0][1:]):
        return table
    names, row, *rest = table.rows
    filled = [cell for cell in row if any(cell)]
    if len(filled) != 1 or not _is_units(" ".join(filled[0])):
        return table
    return table._replace(rows=(((*names[0], *filled[0]), *names[1:]), *rest))


def _head_above(
    lines: Sequence[PdfLine], table: PdfTable, rules: Sequence[Ruling]
) -> tuple[list[PdfLine], list[PdfLine]]:
    """Return the last lines, if they name columns of the table below them, and the lines of groups below these names.

    Args:
        table: one without a head.
    """
    above = list(lines[-_MOST_LINES:])
    groups: list[PdfLine] = []
    while above and len(groups) < _MOST_GROUPS:
        first = (*groups, *table.lines)[0]
        is_group = _is_group(above[-1], table) and not _is_units(above[-1].text)
        if not is_group or not _is_near(above[-1], first, first.bottom):
            break
        groups.insert(0, above.pop())
    first = (*groups, *table.lines)[0]
    head: list[PdfLine] = []
    highest = first.bottom
    for line in reversed(above):
        if not _is_near(line, first, highest) or not _may_name(line, table):
            break
        head.insert(0, line)
        highest = max(highest, line.bottom)
    head = _certain(head, table, rules)
    return head, groups if head else []


def _is_near(line: PdfLine, first: PdfLine, highest: float) -> bool:
    """Whether a line is above the first one, and not far above the highest one."""
    far = (_ABOVE if highest == first.bottom else _NEAR) * first.size
    return not line.table and line.turn == first.turn and first.bottom < line.bottom < highest + far


def _is_group(line: PdfLine, table: PdfTable) -> bool:
    """Whether a line may name a group of rows: a short text that is over the first column alone."""
    short = len(line.parts) < 2 and len(line.text) <= _MOST_NAME and line.size <= table.lines[0].size * _LARGER
    beside = table.columns[0][0] - _INDENT * line.size <= line.left and line.right < table.columns[1][0]
    return short and beside and _is_worded(line.text)


def _may_name(line: PdfLine, table: PdfTable) -> bool:
    """Whether the parts of a line may name columns: words or periods, one of them beside the first column."""
    parts = parts_of(line)
    if line.size > table.lines[0].size * _LARGER:
        return False
    if _is_units(line.text):
        return True
    if line.text.endswith(_ENDS):
        return False
    if not all(len(part.text) <= _MOST_NAME and _is_name(part.text) for part in parts):
        return False
    return max(_middle(part.left, part.right) for part in parts) > table.columns[0][1]


def _is_name(text: str) -> bool:
    """Whether a text is words, a period, or the mark of a note; no item of a list, and no label with a value."""
    if _MARK.sub("", text) == "" or is_period(text):
        return True
    return _is_worded(text) and not _ITEM.match(text) and not any(colon in text for colon in _COLONS)


def _is_units(text: str) -> bool:
    """Whether a text gives the unit of all amounts: "(in thousands, except per share data)", "EUR Mio."."""
    return len(text) <= _MOST_UNITS and _UNITS.fullmatch(text) is not None


def _is_worded(text: str) -> bool:
    return any(map(str.isalpha, text))


def _certain(head: Sequence[PdfLine], table: PdfTable, rules: Sequence[Ruling]) -> list[PdfLine]:
    """Return the lowest lines of a head whose columns are certain; none if a name may go on above them.

    They name most columns; a name over several is above their own names. A title is over the first column alone,
    or by itself over a column without a name above the names of others.
    """
    named = set[int]()
    count = 0
    for level in reversed(_levels(head, rules)):
        places = [_named(name, level.names, table.columns) for name in level.names]
        fit = all(_is_over(name.part, place, table.columns) for name, place in zip(level.names, places))
        units = len(level.names) == 1 and _is_units(level.names[0].part.text)
        title = not units and (
            all(place == [0] for place in places) or (named and len(places) == 1 and not named.issuperset(places[0]))
        )
        if title or not fit or not all(named.issuperset(place) for place in places if len(place) > 1):
            if not title and any(len(place) == 1 and place != [0] for place in places):
                return []
            break
        named.update(*places)
        count += len(level.lines)
    kept = list(head[len(head) - count :])
    lowest = max((line.bottom for line in head[: len(head) - count]), default=inf)
    in_order = all(line.bottom < lowest for line in kept) if count < len(head) else True
    return kept if in_order and len(named - {0}) > _NAMED * (len(table.columns) - 1) else []


def names_of(lines: Sequence[PdfLine], columns: Columns, rules: Sequence[Ruling]) -> list[tuple[str, ...]]:
    """Return the lines of the name of each column, from the top; an uncertain part names the columns below it."""
    names: list[list[str]] = [[] for _ in columns]
    for level in _levels(lines, rules):
        for name in level.names:
            for column in _named(name, level.names, columns) or _over(name.part, columns):
                names[column].append(name.part.text)
    return [tuple(name) for name in names]


def _levels(lines: Sequence[PdfLine], rules: Sequence[Ruling]) -> list[_HeadLevel]:
    """Return the lines at each height, from the top; they may be drawn column by column."""
    levels: list[_HeadLevel] = []
    for line in sorted(lines, key=lambda line: -line.bottom):
        if not levels or levels[-1].lines[0].bottom - line.bottom > line.size / 2:
            levels.append(_HeadLevel([], []))
        levels[-1].lines.append(line)
        levels[-1].names.extend(_Name(part, _rule_below(part, line, rules)) for part in parts_of(line))
    counts = [Counter(name.rule for name in level.names) for level in levels]
    ruled = any(rule and count[rule] == 1 for count in counts for rule in count)
    return [
        level._replace(
            names=[_Name(name.part, name.rule if count[name.rule] == 1 else None, ruled) for name in level.names]
        )
        for level, count in zip(levels, counts)
    ]


def _rule_below(part: LinePart, line: PdfLine, rules: Sequence[Ruling]) -> tuple[float, float] | None:
    """Return the ends of the rule below a part, whose segments adjoin."""
    low, high = line.bottom - _BELOW[0] * line.size, line.bottom + _BELOW[1] * line.size
    left, right = inf, -inf
    for rule in sorted((rule for rule in rules if low <= rule.at <= high), key=lambda rule: rule.start):
        if rule.start <= right + _ADJOIN:
            right = max(right, rule.end)
        elif left < part.right and right > part.left:
            break
        else:
            left, right = rule.start, rule.end
    return (left, right) if left < part.right and right > part.left else None


def _named(name: _Name, level: Sequence[_Name], columns: Columns) -> list[int]:
    """Return the columns that a part names: those over its rule, those in whose middle it is, or the one it is over.

    Empty if it is not certain which.

    Args:
        level: the parts at its height; without rules each column belongs to the nearest of them.
    """
    part, over = name.part, _over(name.part, columns)
    if over == [0] or (len(level) == 1 and _is_units(part.text)):
        return [0]
    if name.rule and name.rule[0] >= columns[0][1] and _is_centred(part, name.rule):
        covered = [number for number, column in enumerate(columns) if _is_covered(column, name.rule)]
        return covered or over
    shares = [[] if name.ruled else _share(other, level, columns) for other in level]
    run = _run(part, over, shares[level.index(name)], columns, alone=len(level) == 1)
    if run and _within(part, over, columns) and (len(level) == 1 or not all(len(share) > 1 for share in shares)):
        return [] if len(level) == 1 else over
    certain = len(over) == 1 and (len(level) > 1 or _within(part, over, columns) or _is_narrow(part, columns))
    return run or (over if certain else [])


def _over(part: LinePart, columns: Columns) -> list[int]:
    """Return the columns that a part is over, else the nearest."""
    middle = _middle(part.left, part.right)
    over = [number for number, (left, right) in enumerate(columns) if part.left < right and part.right > left]
    return over or [min(range(len(columns)), key=lambda number: abs(_middle(*columns[number]) - middle))]


def _share(name: _Name, level: Sequence[_Name], columns: Columns) -> list[int]:
    """Return the columns of values to which no part of a level is nearer than this one."""

    def nearest(middle: float) -> _Name:
        return min(level, key=lambda other: abs(_middle(other.part.left, other.part.right) - middle))

    return [number for number in range(1, len(columns)) if nearest(_middle(*columns[number])) is name]


def _is_centred(part: LinePart, rule: tuple[float, float]) -> bool:
    return abs(_middle(part.left, part.right) - _middle(*rule)) <= _BESIDE * (rule[1] - rule[0])


def _is_covered(column: tuple[float, float], rule: tuple[float, float]) -> bool:
    return min(column[1], rule[1]) - max(column[0], rule[0]) > _COVERED * (column[1] - column[0])


def _run(part: LinePart, over: Sequence[int], share: Sequence[int], columns: Columns, *, alone: bool) -> list[int]:
    """Return the longest run of neighbouring columns in whose middle a part is, or most of whose width it takes.

    A part alone at its height may be in the middle of some of the columns by chance.
    """
    if len(share) < 2:
        return []
    least = len(share) if alone else 2
    runs = (
        share[at : at + length] for length in range(len(share), least - 1, -1) for at in range(len(share) - length + 1)
    )
    for run in runs:
        left, right = columns[run[0]][0], columns[run[-1]][1]
        off = abs(_middle(part.left, part.right) - _middle(left, right))
        centred = off <= max(_OFF * (right - left), _SLACK * part.size)
        wide = list(over) == list(run) and part.right - part.left >= _WIDE * (right - left)
        if set(over) <= set(run) and (centred or wide):
            return list(run)
    return []


def _within(part: LinePart, over: Sequence[int], columns: Columns) -> bool:
    """Whether a part is no wider than the only column that it is over."""
    slack = _SLACK * part.size
    return len(over) == 1 and columns[over[0]][0] - slack <= part.left and part.right <= columns[over[0]][1] + slack


def _is_narrow(part: LinePart, columns: Columns) -> bool:
    """Whether a part is much narrower than the distance between columns of values, or there is only one."""
    middles = [_middle(*column) for column in columns[1:]]
    return part.right - part.left <= _NARROW * min((after - before for before, after in pairwise(middles)), default=inf)


def _is_over(part: LinePart, place: Sequence[int], columns: Columns) -> bool:
    """Whether a part reaches over no other column than those that it names."""
    if not place or place == [0]:
        return bool(place)
    slack = _SLACK * part.size
    before = columns[place[0] - 1][1] if place[0] > 1 else (columns[0][0] + columns[1][0]) / 2
    after = columns[place[-1] + 1][0] if place[-1] + 1 < len(columns) else part.right
    return before - slack <= part.left and part.right <= after + slack


def _middle(left: float, right: float) -> float:
    return (left + right) / 2
