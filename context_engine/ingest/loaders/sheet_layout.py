"""Divide a sheet or CSV file into tables below and beside each other, pairs of name and value, and texts.

Rows without an empty row between them form a block. A block is a table, a continuation of the table above, or text;
two tables side by side are separated by an empty column and have similar heads or different rows. A row of a table is
a record. Other cells go into the texts of the sheet: paragraphs, notes, a head without rows, names of columns without a
value, captions too long for every record. So no cell is lost.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from context_engine.core.models import NoticeCode
from context_engine.ingest.declared_fields import ID_FIELDS
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, file_notice
from context_engine.ingest.loaders.markdown import one_line
from context_engine.ingest.loaders.records import SheetPlace, SheetTexts, letter, telling_names
from context_engine.ingest.loaders.table import (
    ID_NAMES,
    MOST_CAPTION,
    MOST_COLUMNS,
    PREVIEW,
    TableRow,
    caption_of,
    cell_texts,
    column_name,
    filled_columns,
    find_head,
    is_head,
    is_wordy,
    names_of,
    numeric_columns,
    pairs_record,
    row_fields,
    row_record,
    table_bands,
    within,
)
from context_engine.ingest.loaders.table_groups import IsGroup, group_name, group_test

_MOST_LINES: Final = 10_000  # characters kept as a possible caption
_PAIR: Final = 2
_FEW_ROWS: Final = 2  # up to this many pairs may also be the end of the table above
_KEY: Final = (*ID_FIELDS[True], "version")
_MOST_REPEATS: Final = 5  # rows of a sheet that are named because they repeat an id
Found = Iterator[LoadedDocument | Skipped]


@dataclass(slots=True)
class _Table:
    """A table whose rows are being read."""

    names: Sequence[str]
    columns: frozenset[int]
    numeric: frozenset[int]
    caption: str
    unused: set[int]
    part: str
    telling: tuple[str, ...] = ()  # names of the columns that identify its rows
    is_group: IsGroup | None = None
    group: str = ""  # of the rows that follow
    opened: str = ""  # a group without rows so far

    def takes(self, rows: Sequence[TableRow]) -> bool:
        """Whether rows below an empty one continue the table: in its columns, with numbers where it has numbers."""
        columns = {index for row in rows for index in filled_columns(row)}
        if not columns <= self.columns:
            return False
        if not self.numeric:
            return len(columns) == len(self.columns)
        cells = [row.cells[index] for row in rows for index in filled_columns(row) if index in self.numeric]
        return bool(cells) and not any(is_wordy(cell) for cell in cells)


_Begun = Generator[LoadedDocument | Skipped, None, _Table | None]


def laid_out(rows: Iterable[TableRow], place: SheetPlace, texts: SheetTexts) -> Found:
    """Yield the records of non-empty rows; other text goes to `texts`, which the caller yields."""
    return _Layout(place, texts).read(_Blocks(rows))


class _Blocks:
    """Yields rows block by block."""

    def __init__(self, rows: Iterable[TableRow]) -> None:
        self._rows = iter(rows)
        self._next = next(self._rows, None)

    def more(self) -> bool:
        """Whether another block follows."""
        return self._next is not None

    def take(self, most: int | None = None, *, first: bool = False) -> Iterator[TableRow]:
        """Yield rows of the block; with `first` also the row that opens it."""
        count = 0
        while self._next is not None and (most is None or count < most):
            if self._next.gap and not first:
                return
            row, first = self._next, False
            self._next = next(self._rows, None)
            count += 1
            yield row


class _Layout:
    """Reads one sheet; holds the table that may continue, and rows whose use depends on the next block."""

    def __init__(self, place: SheetPlace, texts: SheetTexts) -> None:
        self._place, self._texts = place, texts
        self._table: _Table | None = None
        self._lines: list[str] = []  # single cells: the caption of a table that may follow
        self._part = place.part  # tells the records of a table from those of the table beside it
        self._head_part = ""
        self._head: TableRow | None = None  # a row of names without rows: the head of rows that may follow

    def read(self, blocks: _Blocks) -> Found:
        while blocks.more():
            yield from self._block(blocks)
        yield from self._release_waiting()
        self._close()

    def _block(self, blocks: _Blocks) -> Found:
        preview = list(blocks.take(PREVIEW, first=True))
        while preview and all(len(filled_columns(row)) == 1 for row in preview):
            if len(self._lines) > PREVIEW or sum(map(len, self._lines)) > _MOST_LINES:
                self._texts.add(*self._lines)
                self._lines.clear()
            self._lines += [line for row in preview for line in cell_texts(row)]
            yield from self._texts.full(preview[-1].number)
            preview = list(blocks.take(PREVIEW))
        if not preview:
            return
        if max(len(row.cells) for row in preview) > MOST_COLUMNS:
            where = f"a sheet {self._place.title!r} of " if self._place.title else ""
            yield Skipped(self._place.path, f"has {where}over {MOST_COLUMNS:,} columns: it is not a table of records")
            for _ in blocks.take():
                pass
            return
        bands = table_bands(preview)
        tables: list[tuple[range, _Table]] = []
        for number, band in enumerate(bands):
            beside = letter(band.start) if number else ""
            self._part = ":".join(filter(None, (self._place.part, beside)))
            rows = [cut for row in preview if (cut := within(row, band))]
            table = yield from self._begin(rows)
            if table is not None:
                tables.append((band, table))
        for row in blocks.take():
            yield from self._more(row, tables)
        last = tables[0][1] if len(tables) == 1 == len(bands) else None
        ended = [self._table, *(table for _, table in tables)]
        self._table = last
        for table in ended:
            if table is not None and (last is None or table.unused is not last.unused):
                self._leave(table)

    def _more(self, row: TableRow, tables: Sequence[tuple[range, _Table]]) -> Found:
        """Yield the records of a row after the preview."""
        if not tables:
            self._texts.add(*cell_texts(row))
            yield from self._texts.full(row.number)
        if len(tables) == 1:
            yield from self._record(row, tables[0][1])
            return
        for number, (band, table) in enumerate(tables):
            start = band.start if number else 0
            stop = tables[number + 1][0].start if number + 1 < len(tables) else len(row.cells)
            cut = within(row, range(start, max(stop, start)))
            if cut is not None:
                yield from self._record(cut, table)

    def _begin(self, rows: list[TableRow]) -> _Begun:
        """Yield the documents of a block's first rows; return the table they belong to, if any."""
        head = find_head(rows)
        table = self._table
        if head.pairs and not (len(rows) - head.top <= _FEW_ROWS and table and table.takes(rows[head.top :])):
            yield from self._pairs(rows, head.top)
            return None
        body, rows_below = rows[head.first :], rows[head.top :]
        if not body:
            if table is not None and (table.numeric or len(table.columns) > _PAIR) and table.takes(rows_below):
                return (yield from self._go_on(table, rows_below, rows[: head.top]))
            if len(filled_columns(rows_below[0])) > _PAIR and (waiting := self._named_above(rows_below)):
                return (yield from self._new(rows, waiting, head.top, head.top))
            yield from self._wait(rows, head.top)
            return None
        names, first = head.names, head.first
        shows = is_head(rows_below) if names and head.first == head.top + 1 else bool(names)
        if names and rows_below[0].number in self._place.heads:
            shows = True
        if not shows and (waiting := self._named_above(rows_below)):
            names, first, shows = waiting, head.top, True
        elif table is not None and names == tuple(table.names):
            return (yield from self._go_on(table, body, rows[: head.top]))
        elif not shows and table is not None and table.takes(rows_below):
            return (yield from self._go_on(table, rows_below, rows[: head.top]))
        elif shows is False:
            names, first = (), head.top
        elif names and shows is None:
            row = self._place.at(rows_below[0].number)
            problem = f"{row} is taken for the column names, which is a guess"
            self._place.notices.add(file_notice(NoticeCode.HEADER_ROW_ASSUMED, problem))
        return (yield from self._new(rows, names, head.top, first))

    def _new(self, rows: Sequence[TableRow], names: Sequence[str], top: int, first: int) -> _Begun:
        """Begin a table and yield the records of the rows so far."""
        caption = self._caption(rows[:top])
        yield from self._release_waiting()
        self._close()
        body = rows[first:]
        self._noted(rows[top:first])
        columns = frozenset(index for row in rows[top:] for index in filled_columns(row))
        named = {index for index, name in enumerate(names) if name}
        table = _Table(names, columns, numeric_columns(body), caption[:MOST_CAPTION], named, self._part)
        if ID_NAMES & set(names):
            if not self._place.ids:
                table.names = _without_ids(names)
            self._place.ids = False  # the next table may repeat an entity
        table.is_group = group_test(body, columns)
        shown = [row for row in body if table.is_group is None or not table.is_group(row)]
        table.telling = telling_names([row_fields(row, table.names) for row in shown])
        for row in body:
            yield from self._record(row, table)
        return table

    def _go_on(self, table: _Table, rows: Sequence[TableRow], above: Sequence[TableRow]) -> _Begun:
        """Yield the records of rows that continue the table above."""
        yield from self._release_waiting()
        table = replace(table, part=self._part)  # another table beside it may continue the one above
        lead = caption_of(above)
        if len(lead) > MOST_CAPTION // 2:
            self._texts.add(*(line for row in above for line in cell_texts(row)))
        else:
            self._noted(above)
        if lead:
            parts = (table.caption, lead[: MOST_CAPTION // 2])
            table = replace(table, caption="; ".join(filter(None, parts)))
        for row in rows:
            yield from self._record(row, table)
        return table

    def _pairs(self, rows: Sequence[TableRow], top: int) -> Found:
        """Yield names and values as one record."""
        caption = self._caption(rows[:top])
        yield from self._release_waiting()
        pairs = [row for row in rows[top:] if len(filled_columns(row)) == 2]
        self._texts.add(*(line for row in rows[top:] if len(filled_columns(row)) != 2 for line in cell_texts(row)))
        place = self._place
        title = caption[:MOST_CAPTION] or place.title
        yield from self._record_or_text(
            pairs_record(pairs, place.path, pairs[0].number, title=title, part=self._part), pairs
        )

    def _caption(self, above: Sequence[TableRow]) -> str:
        """Return the caption of the table below some rows; one too long for each record also becomes text."""
        caption = "; ".join(filter(None, (*map(one_line, self._lines), caption_of(above))))
        if len(caption) > MOST_CAPTION:
            self._texts.add(*self._lines, *(line for row in above for line in cell_texts(row)))
        else:
            self._noted(above)
        self._lines.clear()
        return caption

    def _wait(self, rows: Sequence[TableRow], top: int) -> Found:
        """Keep a row that may be the head of what follows."""
        yield from self._release_waiting()
        self._lines += [line for row in rows[:top] for line in cell_texts(row)]
        for row in rows[top:-1]:
            self._texts.add(" | ".join(cell_texts(row)))
        self._head, self._head_part = rows[-1], self._part

    def _named_above(self, rows: Sequence[TableRow]) -> tuple[str, ...] | None:
        """Return the waiting column names above some rows, if they cover the same columns."""
        if self._head is None:
            return None
        above = set(filled_columns(self._head))
        below = {index for row in rows for index in filled_columns(row)}
        if len(above & below) < 0.6 * len(above | below):
            return None
        head, self._head = self._head, None
        self._noted([head])
        return names_of(head.cells)

    def _release_waiting(self) -> Found:
        """Yield, or keep as text, waiting rows whose table did not follow."""
        lines, self._lines = self._lines, []
        head, self._head = self._head, None
        if head is not None and len(filled_columns(head)) == 2:
            caption = "; ".join(map(one_line, lines))
            title = caption if len(caption) <= MOST_CAPTION else ""
            self._texts.add(*(lines if not title else ()))
            place = self._place
            record = pairs_record([head], place.path, head.number, title=title or place.title, part=self._head_part)
            yield from self._record_or_text(record, [head])
            return
        self._texts.add(*lines, *([" | ".join(cell_texts(head))] if head is not None else []))

    def _record(self, row: TableRow, table: _Table) -> Found:
        if table.is_group is not None and table.is_group(row):
            table.opened = " / ".join(filter(None, (table.opened, group_name(row))))
            self._noted([row])
            return
        if table.unused:
            table.unused -= set(filled_columns(row))
        if table.opened:
            table.group, table.opened = table.opened, ""
        place, names = self._place, table.names
        last = max(filled_columns(row), default=-1)
        if names and place.row == "line" and last >= len(names):
            problem = (
                f"{place.at(row.number)} has {last + 1} cells, the head has {len(names)}: the others are named "
                "by their letters; a separator or quote may be wrong"
            )
            place.notices.add(file_notice(NoticeCode.RECORD_REPAIRED, problem))
        record = self._row(row, table, names)
        if isinstance(record, Skipped) or not ID_NAMES & record.fields.keys():
            yield from self._record_or_text(record, [row])
            return
        known = hash(tuple(map(record.fields.get, _KEY)))
        if known not in place.seen:
            place.seen.add(known)
            yield record
            return
        place.repeats += 1
        if place.repeats <= _MOST_REPEATS:
            problem = f"{place.at(row.number)} repeats an id from above: it is identified by its {place.row}"
            place.notices.add(file_notice(NoticeCode.ID_REPEATED, problem))
        elif place.repeats == _MOST_REPEATS + 1:
            problem = f"more rows from {place.at(row.number)} on repeat an id: each is identified by its {place.row}"
            place.notices.add(file_notice(NoticeCode.ID_REPEATED, problem))
        yield from self._record_or_text(self._row(row, table, _without_ids(names)), [row])

    def _row(self, row: TableRow, table: _Table, names: Sequence[str]) -> LoadedDocument | Skipped:
        telling = table.telling if names is table.names else _without_ids(table.telling)
        form = {"part": table.part, "sheet": self._place.part, "caption": table.caption, "group": table.group}
        return row_record(row, names, self._place.path, telling=telling, **form)

    def _record_or_text(self, record: LoadedDocument | Skipped, rows: Sequence[TableRow]) -> Found:
        """Yield a record; rows with nothing but document identifiers become text."""
        if isinstance(record, Skipped):
            self._texts.add(*(" | ".join(cell_texts(row)) for row in rows))
        else:
            yield record

    def _noted(self, rows: Sequence[TableRow]) -> None:
        """Keep the comments of rows that become names or captions."""
        for row in rows:
            self._texts.add(*(f"{one_line(str(row.cells[index]))}: {note}" for index, note in row.notes.items()))

    def _close(self) -> None:
        if self._table is not None:
            self._leave(self._table)
        self._table = None

    def _leave(self, table: _Table) -> None:
        """Keep the names of columns without a value, and of a group without rows."""
        if table.opened:
            self._texts.add(table.opened)
            table.opened = ""
        if table.unused:
            names = ", ".join(column_name(table.names, index) for index in sorted(table.unused))
            self._texts.add(f"Columns without a value: {names}")
            table.unused.clear()


def _without_ids(names: Sequence[str]) -> tuple[str, ...]:
    """Return the column names with those of id fields spelled so that they do not identify records.

    >>> _without_ids(["entity_id", "id", "desk"])
    ('entity id', 'ID', 'desk')
    """
    return tuple(
        (name.replace("_", " ") if "_" in name else name.upper()) if name in ID_NAMES else name for name in names
    )
