"""Where the head of a table is, and its rows as records; for CSV files and sheets."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

from context_engine.ingest.claims import ALIASES, CLAIMS, ID_FIELDS
from context_engine.ingest.loaded import LoadedDocument, Skipped
from context_engine.ingest.loaders.markdown import one_line
from context_engine.ingest.loaders.records import record_document

__all__ = ["MOST_COLUMNS", "PREVIEW", "Cell", "Head", "find_head", "pairs_record", "row_record", "shown"]

Cell = str | int | float | bool | date | datetime | time | timedelta | None
"""What a cell holds; dates of CSV files are texts, as they are written."""

MOST_COLUMNS: Final = 1_000
PREVIEW: Final = 30
"""Rows in which the head is looked for."""
_MOST_NAME: Final = 120
_MOST_CAPTION: Final = 300
_WIDE: Final = 0.6  # a head has at least this share of the cells of the fullest row near it
_VALUE: Final = re.compile(r"[\s\d.,:/%()+-]*\d[\s\d.,:/%()+-]*")  # a number, date or time
_KNOWN: Final = frozenset((*CLAIMS, *ID_FIELDS[True], *ALIASES, "name"))
_NAMING: Final = re.compile(r"(?i)(?:.*[ _])?(?:name|title)")
_IDENTIFYING: Final = re.compile(r"(?i)(?:.*[ _])?(?:id|no\.?|number|code|ref\.?|reference|key)")


class Head(NamedTuple):
    """What stands above the records of a table.

    Attributes:
        names: of the columns; "" where a column has none.
        first: index of the first row of records.
        caption: the lines above the head, such as "Limits as at 31 March 2026 (USD m)".
        pairs: whether the table has no head but a name and a value a row, so that all of it is one record.
    """

    names: tuple[str, ...]
    first: int
    caption: str = ""
    pairs: bool = False


def find_head(rows: Sequence[Sequence[Cell]], *, joined: frozenset[int] = frozenset()) -> Head:
    """Return the head of a table.

    The head is the first row that is nearly as full as the fullest near it; what stands above is the caption. A row
    with a number, a date or two equal texts in it is no head: then the columns are named by their letters, or, with
    two columns and names down the left, the table is one record of pairs.

    Args:
        rows: the first rows, `PREVIEW` or fewer.
        joined: indices of rows with cells merged side by side; a head among them takes the row below as its second.
    """
    counts = [sum(not _empty(cell) for cell in row) for row in rows]
    fullest = max(counts, default=0)
    first = next((i for i, count in enumerate(counts) if count >= max(min(2, fullest), _WIDE * fullest)), len(rows))
    caption = _caption(rows[:first])
    if first >= len(rows):
        return Head((), first, caption)
    row = rows[first]
    if first in joined and first + 1 < len(rows) and _all_names(rows[first + 1]):
        return Head(_names(_two_lines(row, rows[first + 1])), first + 2, caption)
    texts = [one_line(str(cell)) for cell in row if not _empty(cell)]
    if _all_names(row) and len(set(texts)) == len(texts) and not _is_pairs(rows[first:]):
        return Head(_names(row), first + 1, caption)
    if _is_pairs(rows[first:], headless=not _all_names(row)):
        return Head((), first, caption, pairs=True)
    return Head(tuple("" for _ in row), first, caption)


def row_record(
    cells: Sequence[Cell],
    head: Head,
    path: str,
    number: int,
    *,
    part: str = "",
    warnings: tuple[str, ...] = (),
    exact: bool = True,
) -> LoadedDocument | Skipped | None:
    """Return a row as a record, None for an empty row.

    Columns that are named as the fields of records are (`entity_id`, `Document ID`, `Version`, `Effective date` …)
    mean the same; others keep their names. A record without a title is named by its first column that is called a
    name or an id.

    Args:
        cells: of the row.
        head: of the table.
        path: the file's name.
        number: 1-based row in the file or sheet.
        part: the sheet, where there are several.
        warnings: what was guessed about the file.
        exact: whether more cells than the head has are an error, as they are where a separator may be amiss.
    """
    filled = [(index, cell) for index, cell in enumerate(cells) if not _empty(cell)]
    if not filled:
        return None
    width = len(head.names)
    if exact and filled[-1][0] >= width:
        reason = f"the row has {filled[-1][0] + 1} cells, the head has {width}: a separator or quote is amiss"
        return Skipped(path, reason, number)
    named = ((head.names[index] if index < width else "", index, cell) for index, cell in filled)
    fields = {name or f"column {_letter(index)}": shown(cell) for name, index, cell in named}
    lead = {key: value for key, value in (("sheet", part), ("table", head.caption)) if value and key not in fields}
    record = {**fields, **lead}
    return record_document(record, path, number, title=_title(fields), part=part, warnings=warnings)


def pairs_record(
    rows: Sequence[Sequence[Cell]],
    head: Head,
    path: str,
    *,
    title: str = "",
    part: str = "",
    warnings: tuple[str, ...] = (),
) -> LoadedDocument | Skipped:
    """Return a table of names and values as one record.

    Args:
        rows: all of the table.
        head: of the table; its caption is the record's title, `title` where it has none.
        path: the file's name.
        title: the name of the sheet.
        part: the sheet, where there are several.
        warnings: what was guessed about the file.
    """
    pairs = [[cell for cell in row if not _empty(cell)] for row in rows[head.first :]]
    names = _names([pair[0] for pair in pairs if len(pair) > 1])
    values = [shown(pair[1]) for pair in pairs if len(pair) > 1]
    record = dict(zip(names, values))
    return record_document(record, path, head.first + 1, title=head.caption or title, part=part, warnings=warnings)


def shown(cell: Cell) -> Any:
    """Return a cell as JSON can hold it and people read it: 2026-03-31 for a date, 5 for 5.0, 0.3 for 0.1 + 0.2."""
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


def _empty(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _all_names(row: Sequence[Cell]) -> bool:
    cells = [cell for cell in row if not _empty(cell)]
    return bool(cells) and all(
        isinstance(cell, str) and len(cell) <= _MOST_NAME and not _VALUE.fullmatch(cell) for cell in cells
    )


def _is_pairs(rows: Sequence[Sequence[Cell]], *, headless: bool = False) -> bool:
    """Whether two columns hold names and values: names down the left that differ, and a value such as 3.2 on top.

    Args:
        rows: of the table.
        headless: whether the first row is known to be no head.
    """
    pairs = [[cell for cell in row if not _empty(cell)] for row in rows]
    pairs = [pair for pair in pairs if pair]
    if not pairs or any(len(pair) > 2 for pair in pairs) or len(rows) >= PREVIEW:
        return False
    names = [pair[0] for pair in pairs]
    plain = all(isinstance(name, str) and len(name) <= 60 and not _VALUE.fullmatch(name) for name in names)
    labelled = any(str(name).strip().endswith(":") for name in names) or headless
    return plain and labelled and len({str(name) for name in names}) == len(names)


def _names(row: Sequence[Cell]) -> tuple[str, ...]:
    """Return names for the columns, each once; those that mean a field of a record in its spelling."""
    used: Counter[str] = Counter()
    out = []
    for cell in row:
        name = one_line("" if cell is None else str(shown(cell))).rstrip(":").strip()
        plain = name.lower().replace(" ", "_").replace("-", "_")
        name = ALIASES.get(plain, plain) if plain in _KNOWN else name
        used[name] += bool(name)
        out.append(name if used[name] < 2 else f"{name} ({used[name]})")
    return tuple(out)


def _two_lines(upper: Sequence[Cell], lower: Sequence[Cell]) -> list[Cell]:
    width = max(len(upper), len(lower))
    pairs = zip([*upper, *[None] * (width - len(upper))], [*lower, *[None] * (width - len(lower))])
    return [" ".join(dict.fromkeys(str(cell) for cell in pair if not _empty(cell))) for pair in pairs]


def _caption(rows: Sequence[Sequence[Cell]]) -> str:
    lines = [" ".join(one_line(str(shown(cell))) for cell in row if not _empty(cell)) for row in rows]
    return "; ".join(dict.fromkeys(line for line in lines if line))[:_MOST_CAPTION]


def _title(fields: Mapping[str, Any]) -> str:
    """Return what names a row: its name and its id, as far as columns are called so, else its first cell."""
    naming, identifying = _called(tuple(fields))
    name, identity = _first(fields, naming), _first(fields, identifying)
    if not name or not identity or identity in name:
        return name or identity or one_line(str(next(iter(fields.values()))))
    return f"{name} ({identity})"


@lru_cache(maxsize=256)
def _called(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns called a name, and those called an id, the plainest first."""
    naming = [name for name in ("title", "name") if name in names]
    identifying = [name for name in ID_FIELDS[True] if name in names]
    return (
        tuple(dict.fromkeys([*naming, *filter(_NAMING.fullmatch, names)])),
        tuple(dict.fromkeys([*identifying, *filter(_IDENTIFYING.fullmatch, names)])),
    )


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((text for name in names if (text := one_line(str(fields[name])))), "")


def _letter(index: int) -> str:
    letters = ""
    while index >= 0:
        letters = chr(ord("A") + index % 26) + letters
        index = index // 26 - 1
    return letters
