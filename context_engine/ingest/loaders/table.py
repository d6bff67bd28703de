"""Find the head and the columns of a table in rows of cells, and read its rows as records."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from datetime import date, datetime, time, timedelta
from itertools import pairwise, zip_longest
from typing import Any, Final, NamedTuple

from context_engine.ingest.declared_fields import ALIASES, DECLARED_FIELDS, ID_FIELDS
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders.markdown import one_line
from context_engine.ingest.loaders.periods import period_of
from context_engine.ingest.loaders.records import IDENTIFYING, NAMING, letter, record_document, row_title, telling_names

Cell = str | int | float | bool | date | datetime | time | timedelta | None
"""The value of a cell; dates of CSV files stay texts."""
MOST_COLUMNS: Final = 1_000
PREVIEW: Final = 30  # rows in which the head is searched
_MOST_NAME: Final = 120
MOST_CAPTION: Final = 300
_WIDE: Final = 0.6  # a head fills at least this share of the cells of the fullest row near it
_VALUE: Final = re.compile(r"[\s\d.,:/%()+-]*\d[\s\d.,:/%()+-]*")  # a number, date or time
_KNOWN: Final = frozenset((*DECLARED_FIELDS, *ID_FIELDS[True], *ALIASES, "name"))
ID_NAMES: Final = frozenset(ID_FIELDS[True])
_LEAST_WIDTH: Final = 2
_MOST_HEAD: Final = 4  # rows
_LEAST_PERIODS: Final = 2
_NO_VALUE: Final = re.compile(r"[-–—−.*…\s]*|n\.?/?a\.?", re.IGNORECASE)
_APART: Final = 2  # least difference of rows between the ends of two tables side by side; one may be a row of totals


class TableRow(NamedTuple):
    """A row that is not empty.

    Attributes:
        number: 1-based row of the sheet, or line of the file on which the row ends.
        cells: the values by column; None or a blank text if empty.
        gap: whether an empty row precedes it.
        notes: comments by column.
        styles: styles of the cells, if known.
        joined: whether it has horizontally merged cells.
        across: whether its only value is in a cell merged over several columns.
        covered: columns that repeat the merged cell to their left.
    """

    number: int
    cells: list[Cell]
    gap: bool = False
    notes: Mapping[int, str] = {}
    styles: Sequence[str] = ()
    joined: bool = False
    across: bool = False
    covered: Set[int] = frozenset()


class Head(NamedTuple):
    """The head of a table.

    Attributes:
        names: names of the columns; "" if a column has none.
        top: index of the first row below the caption.
        first: index of the first record.
        pairs: whether each row is a name and a value, so that the whole table is one record.
    """

    names: tuple[str, ...]
    top: int
    first: int
    pairs: bool = False


def find_head(rows: Sequence[TableRow]) -> Head:
    """Return the head of a table.

    The head is the first row that is nearly as full as the fullest row near it; the rows above are the caption. A row
    with a number or a date is not a head, except for a name followed by periods in order (2024, 2025; Q1, Q2), or if it
    is the only one and names above values show the head. A row with two equal texts is a head only if the rows below
    show it. Without a head the columns are named by letters. With two columns and names on the left, the table is
    instead one record of pairs. A head with horizontally merged cells continues in the row below, up to four rows.
    """
    cells = [row.cells for row in rows]
    counts = [sum(not empty(cell) for cell in row) for row in cells]
    fullest = max(counts, default=0)
    top = next((i for i, count in enumerate(counts) if count >= max(min(2, fullest), _WIDE * fullest)), len(rows))
    if top >= len(rows):
        return Head((), top, top)
    top = _below_notes(rows, top)
    row = cells[top]
    last = top
    while rows[last].joined and last + 1 < min(len(rows), top + _MOST_HEAD) and _all_names(cells[last + 1]):
        last += 1
    if last > top:
        return Head(names_of(_in_one_line(cells[top : last + 1])), top, last + 1)
    texts = _texts(rows[top])
    names = _all_names(row) and (len(set(texts)) == len(texts) or _is_above_others(rows[top:]))
    if (names and not _is_pairs(cells[top:])) or _names_periods(rows[top:]) or _names_but_one(rows[top:]):
        return Head(names_of(row), top, top + 1)
    if _is_pairs(cells[top:], headless=not _all_names(row)):
        return Head((), top, top, pairs=True)
    return Head((), top, top)


def _below_notes(rows: Sequence[TableRow], top: int) -> int:
    """Return the index of the head if rows of notes in several cells are above it: a full row of names above values."""
    for at in range(top + 2, min(top + _MOST_HEAD + 1, len(rows) - 2)):
        names, notes = _texts(rows[at]), [len(set(_texts(row))) for row in rows[top:at]]
        full = len(set(names)) == len(names) > notes[0] and min(notes) < _WIDE * len(names)
        if full and all(_all_names(row.cells) for row in rows[top : at + 1]):
            values = [{i for i in filled_columns(row) if not _is_name(row.cells[i])} for row in rows[at + 1 : at + 3]]
            if len(set.intersection(*values)) > 1:
                return at
    return top


def is_head(rows: Sequence[TableRow]) -> bool | None:
    """Return whether the first row names the columns of the others; None if that is unclear.

    True if its cells are styled differently, have usual column names (`name`, `No.`, `Entity ID`), or are above numbers
    and dates; False if one of its texts occurs again in its column.

    Args:
        rows: a row of names, and the rows below it.
    """
    first, below = rows[0], rows[1:]
    columns = [index for index in filled_columns(first) if not _NO_VALUE.fullmatch(str(first.cells[index]))]
    if first.styles and below and not _styles([first]) & _styles(below[:2]):
        return True
    texts = _texts(first)
    below = [row for row in below if _texts(row) != texts]  # leaves out repetitions of the head
    for index in columns:
        name = one_line(str(first.cells[index]))
        values = [row.cells[index] for row in below if index < len(row.cells) and not empty(row.cells[index])]
        if any(isinstance(value, str) and one_line(value) == name for value in values):
            return False
        if sum(not _is_name(value) for value in values) * 2 > len(values):
            return True
    names = names_of([first.cells[index] for index in columns])
    if any(name in _KNOWN or NAMING.fullmatch(name) or IDENTIFYING.fullmatch(name) for name in names):
        return True
    return None


def _styles(rows: Sequence[TableRow]) -> set[str]:
    return {style for row in rows for style, cell in zip(row.styles, row.cells) if not empty(cell)}


def _texts(row: TableRow) -> list[str]:
    return [one_line(str(cell)) for cell in row.cells if not empty(cell)]


_GROUPS: Final = ("Group", "Group above", "Group of this table")


def row_record(
    row: TableRow,
    names: Sequence[str],
    path: str,
    *,
    part: str = "",
    sheet: str = "",
    caption: str = "",
    telling: Sequence[str] = (),
    group: str = "",
) -> LoadedDocument | Skipped:
    """Return a row as a record.

    Columns named like record fields (`entity_id`, `Document ID`, `Version`, `Effective date` …) become those fields;
    others keep their names, and a column without a name gets its letter. A comment becomes a field next to its cell's.
    The title is made of the columns that identify the rows of the table.

    Args:
        names: names of the columns; "" if a column has none.
        part: distinguishes the record from others of the same row and file.
        sheet: the sheet, if there are several.
        telling: names of the identifying columns; empty: found from this row only.
        group: the row of a group above; it becomes the first field.
    """
    fields = row_fields(row, names)
    title = row_title(fields, telling or telling_names([fields]))
    if group:
        fields = {next(name for name in _GROUPS if name not in fields): group, **fields}
    if sheet:
        fields.setdefault("sheet", sheet)
    if caption:
        fields.setdefault("table", caption)
    return record_document(fields, path, row.number, title=title, part=part, place="the row")


def row_fields(row: TableRow, names: Sequence[str]) -> dict[str, Any]:
    """Return the values of a row by column name, each followed by its comment; a merged cell once without names."""
    fields: dict[str, Any] = {}
    for index, cell in enumerate(row.cells):
        if empty(cell) or (index in row.covered and not any(names[index : index + 1])):
            continue
        name = column_name(names, index)
        fields[name] = shown(cell)
        if index in row.notes:
            fields[f"{name} (comment)"] = row.notes[index]
    return fields


def pairs_record(
    rows: Sequence[TableRow], path: str, number: int, *, title: str = "", part: str = ""
) -> LoadedDocument | Skipped:
    """Return rows of a name and a value each as one record.

    Args:
        number: the 1-based number of the first row.
        part: distinguishes the record from others of the same row and file.
    """
    record: dict[str, Any] = {}
    filled = [[index for index, cell in enumerate(row.cells) if not empty(cell)] for row in rows]
    names = names_of([row.cells[columns[0]] for row, columns in zip(rows, filled)])
    for row, (label, value), name in zip(rows, filled, names):
        record[name] = shown(row.cells[value])
        notes = [row.notes[index] for index in (label, value) if index in row.notes]
        if notes:
            record[f"{name} (comment)"] = " / ".join(notes)
    return record_document(record, path, number, title=title, part=part, place="the row")


def column_name(names: Sequence[str], index: int) -> str:
    """Return the name of a column, or its letter if it has none."""
    return (names[index] if index < len(names) else "") or f"column {letter(index)}"


def shown(cell: Cell) -> Any:
    """Return a cell as a JSON value in readable form: 2026-03-31 for a date, 5 for 5.0, 0.3 for 0.1 + 0.2."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == time() else cell.isoformat(sep=" ", timespec="seconds")
    if isinstance(cell, (date, time)):
        return cell.isoformat()
    if isinstance(cell, timedelta):
        return str(cell)
    if isinstance(cell, float):
        if not math.isfinite(cell):
            return str(cell)
        return int(cell) if cell.is_integer() and abs(cell) < 1e15 else float(f"{cell:.15g}")
    return cell


def empty(cell: Cell) -> bool:
    """Return whether a cell holds no value."""
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _all_names(row: Sequence[Cell]) -> bool:
    cells = [cell for cell in row if not empty(cell)]
    return bool(cells) and all(map(_is_name, cells))


def _is_name(cell: Cell) -> bool:
    return isinstance(cell, str) and len(cell) <= _MOST_NAME and not _VALUE.fullmatch(cell)


def _is_pairs(rows: Sequence[Sequence[Cell]], *, headless: bool = False) -> bool:
    """Whether two columns hold names and values: distinct names on the left, and a value such as 3.2 in the first row.

    Args:
        headless: whether the first row is known not to be a head.
    """
    pairs = [[cell for cell in row if not empty(cell)] for row in rows]
    pairs = [pair for pair in pairs if pair]
    if not pairs or any(len(pair) > 2 for pair in pairs) or len(rows) >= PREVIEW:
        return False
    names = [pair[0] for pair in pairs]
    plain = all(isinstance(name, str) and len(name) <= 60 and not _VALUE.fullmatch(name) for name in names)
    labelled = any(str(name).strip().endswith(":") for name in names) or headless
    return plain and labelled and len({str(name) for name in names}) == len(names)


def names_of(row: Sequence[Cell]) -> tuple[str, ...]:
    """Return unique names for the columns; names that mean a record field get the field's spelling."""
    used: Counter[str] = Counter()
    out = []
    for cell in row:
        name = one_line("" if cell is None else str(shown(cell))).rstrip(":").strip()
        plain = name.lower().replace(" ", "_").replace("-", "_")
        name = ALIASES.get(plain, plain) if plain in _KNOWN else name
        used[name] += bool(name)
        out.append(name if used[name] < 2 else f"{name} ({used[name]})")
    return tuple(out)


def _in_one_line(head: Sequence[Sequence[Cell]]) -> list[Cell]:
    columns = zip_longest(*head)
    return [" ".join(dict.fromkeys(str(cell) for cell in column if not empty(cell))) for column in columns]


def _is_above_others(rows: Sequence[TableRow]) -> bool:
    """Whether the rows below show that the first is a head: `is_head`, or a word above values that all have a digit."""
    known = is_head(rows)
    columns = ([row.cells[index] for row in rows if index < len(row.cells)] for index in filled_columns(rows[0]))
    coded = any(len(cells) > 1 and is_wordy(cells[0]) and not any(map(is_wordy, cells[1:])) for cells in columns)
    return known is True or (known is None and coded)


def _names_periods(rows: Sequence[TableRow]) -> bool:
    """Whether the first row is a name followed by at least two periods in order, and no row below has such periods."""
    first, below = rows[0].cells, [row.cells for row in rows[1:]]
    filled = [cell for cell in first if not empty(cell)]
    periods = [place for cell in filled if (place := period_of(cell)) is not None]
    named = len(filled) - len(periods)
    if len(periods) < _LEAST_PERIODS or named > 2 or not below or period_of(filled[0]) is not None:
        return False
    if not all(period_of(cell) is not None for cell in filled[named:]) or not all(map(_is_name, filled[:named])):
        return False
    ordered = sorted(set(periods))
    values = [cell for row in below for cell in row[len(first) - len(periods) :] if not empty(cell)]
    later = sum(period_of(cell) is not None for cell in values)
    return periods in (ordered, ordered[::-1]) and any(map(_is_value, values)) and later * 2 < len(values)


def _names_but_one(rows: Sequence[TableRow]) -> bool:
    """Whether the first row has one value among different names, and two of them are words above values alone."""
    columns = [
        [row.cells[index] for row in rows if index < len(row.cells) and not empty(row.cells[index])]
        for index in filled_columns(rows[0])
    ]
    first = [cells[0] for cells in columns]
    if sum(not _is_name(cell) for cell in first) != 1 or len(set(map(str, first))) < len(first):
        return False
    return sum(len(cells) > 2 and is_wordy(cells[0]) and all(map(_is_value, cells[1:])) for cells in columns) > 1


def _is_value(cell: Cell) -> bool:
    return not isinstance(cell, str) or _VALUE.fullmatch(cell) is not None


def caption_of(rows: Sequence[TableRow]) -> str:
    """Return the rows above a table as one line."""
    lines = [
        " ".join(dict.fromkeys(one_line(str(shown(cell))) for cell in row.cells if not empty(cell))) for row in rows
    ]
    return "; ".join(dict.fromkeys(line for line in lines if line))


def table_bands(rows: Sequence[TableRow]) -> list[range]:
    """Return the columns of each table in a block of rows; a single range if it is one table."""
    used = sorted({index for row in rows for index in filled_columns(row)})
    one_band = [range(used[0], used[-1] + 1)]
    bands: list[range] = []
    for index in used:
        if bands and bands[-1].stop == index:
            bands[-1] = range(bands[-1].start, index + 1)
        else:
            bands.append(range(index, index + 1))
    if len(bands) < 2 or any(len(band) < _LEAST_WIDTH for band in bands):
        return one_band
    parts = [[cut for row in rows if (cut := within(row, band)) and len(filled_columns(cut)) > 1] for band in bands]
    if not all(parts):
        return one_band
    heads = [{one_line(str(part[0].cells[index])) for index in filled_columns(part[0])} for part in parts]
    alike = any(first & second for first, second in pairwise(heads))
    starts, ends = ({part[end].number for part in parts} for end in (0, -1))
    return bands if alike or len(starts) > 1 or max(ends) - min(ends) >= _APART else one_band


def within(row: TableRow, band: range) -> TableRow | None:
    """Return a row restricted to some columns; None if they are empty."""
    if band.start == 0 and band.stop >= len(row.cells):
        return row
    cells = [cell if index in band else None for index, cell in enumerate(row.cells[: band.stop])]
    if all(map(empty, cells)):
        return None
    return row._replace(cells=cells, notes={index: note for index, note in row.notes.items() if index in band})


def filled_columns(row: TableRow) -> list[int]:
    """Return the columns in which a row is not empty."""
    return [index for index, cell in enumerate(row.cells) if not empty(cell)]


def cell_texts(row: TableRow) -> list[str]:
    """Return the cells of a row as texts, each with its comment."""
    return [
        f"{shown(row.cells[index])} ({note})" if (note := row.notes.get(index)) else str(shown(row.cells[index]))
        for index in filled_columns(row)
    ]


def numeric_columns(rows: Sequence[TableRow]) -> frozenset[int]:
    """Return the columns with more numbers and dates than words."""
    words: dict[int, int] = {}
    for row in rows:
        for index in filled_columns(row):
            if not _NO_VALUE.fullmatch(str(row.cells[index])):
                words[index] = words.get(index, 0) + (1 if is_wordy(row.cells[index]) else -1)
    return frozenset(index for index, more in words.items() if more < 0)


def is_wordy(cell: object) -> bool:
    """Whether a cell is a text without a digit, and no sign for a missing value."""
    return isinstance(cell, str) and not any(sign.isdigit() for sign in cell) and not _NO_VALUE.fullmatch(cell)
