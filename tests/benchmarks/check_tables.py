"""Sentences about rows of tables for `bench_check.py`: as the row says, with columns exchanged, with the row before.

A table is read here by its bars alone, not by the package. Cells of one or two letters, such as the marks of a table of
duties, are left out: nobody writes them into a sentence without the words that they stand for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from check_passages import Passage

_RULE = re.compile(r"^\|[\s:|-]+\|\s*$")
_LEAST = 3  # characters of a cell


class TableSentence(NamedTuple):
    """A sentence about a row.

    Attributes:
        kind: "row" if the table says it, else "columns" or "row_before".
        original: the row.
    """

    kind: str
    sentence: str
    passage: Passage
    original: str


def table_sentences(passages: Sequence[Passage]) -> Iterator[TableSentence]:
    """Yield the sentences about the rows of all tables with at least three columns, in the order of the passages."""
    for passage in passages:
        for head, rows in _tables(passage.text):
            for before, row in pairwise([None, *rows]):
                if row is not None and len(row) >= 3 and all(len(cell) >= _LEAST for cell in row[:3]):
                    yield from _of_row(passage, head, row, before)


def _of_row(
    passage: Passage, head: Sequence[str], row: Sequence[str], before: Sequence[str] | None
) -> Iterator[TableSentence]:
    original = " | ".join(row)
    (name, first, second), (column, other) = row[:3], head[1:3]
    yield TableSentence("row", f"For {name}, {column} is {first} and {other} is {second}.", passage, original)
    if first.lower() != second.lower():
        swapped = f"For {name}, {column} is {second} and {other} is {first}."
        yield TableSentence("columns", swapped, passage, original)
    if before and len(before[1]) >= _LEAST and before[1].lower() not in original.lower() and before[0] != name:
        said = f"For {name}, {column} is {before[1]}."
        yield TableSentence("row_before", said, passage, original)


def _tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield the head and the rows of each table."""
    lines = text.splitlines()
    for place, line in enumerate(lines[:-1]):
        if not (line.startswith("|") and _RULE.match(lines[place + 1])):
            continue
        rows = []
        for below in lines[place + 2 :]:
            if not below.startswith("|"):
                break
            rows.append(_cells(below))
        head = _cells(line)
        if len(head) >= 3 and all(head[:3]):
            yield head, [row for row in rows if len(row) == len(head)]


def _cells(line: str) -> list[str]:
    return [cell.strip().strip("*").rstrip(".") for cell in line.strip().strip("|").split("|")]
