"""The rows of a sheet, streamed from its XML; hidden cells are counted, and read only if requested."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, BinaryIO, Final, NamedTuple
from zipfile import ZipFile

from context_engine.ingest.loaders.markdown import linked
from context_engine.ingest.loaders.records import letter
from context_engine.ingest.loaders.run_marks import marked, written
from context_engine.ingest.loaders.table import MOST_COLUMNS, Cell, TableRow
from context_engine.ingest.loaders.xlsx_values import Handlers, Values, height, is_on, parse

_MOST_MERGES: Final = 10_000
_MOST_LINKS: Final = 100_000
_MOST_TAG: Final = 2_000  # bytes
_MOST_ROW: Final = 1 << 24  # characters
_LAST_COLUMN: Final = 16_384
_BLOCK: Final = 1 << 20
_MERGE: Final = re.compile(rb"<(?:\w+:)?mergeCell\s[^>]*?ref=[\"']([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})[\"']")
_LINK: Final = re.compile(rb"<(?:\w+:)?hyperlink\s[^>]*>")
_LINK_REF: Final = re.compile(rb"\bref=[\"']([A-Z]{1,3}\d{1,7})")
_LINK_ID: Final = re.compile(rb"\b\w+:id=[\"']([^\"']{1,100})[\"']")
_LINK_FORMULA: Final = re.compile(r'HYPERLINK\("([^"]{1,500})"', re.IGNORECASE)
_REF: Final = re.compile(r"([A-Za-z]{1,3})(\d{0,7})")
_HEADERS: Final = ("oddHeader", "evenHeader", "firstHeader", "oddFooter", "evenFooter", "firstFooter")


class Merge(NamedTuple):
    """Merged cells; rows and columns count from 1."""

    top: int
    bottom: int
    left: int
    right: int


class SheetRows:
    """Reads one sheet; the counts are final after its last row.

    Args:
        notes: comments by cell.
        links: targets of links by cell.
        painted: as in `SheetEnd`.
        read_hidden: whether hidden cells are read.

    Attributes:
        hidden: cells with a value in hidden rows or columns that were not read.
        unseen: cells whose format hides their value, and that were not read.
        unsaved: formulas without a saved value.
        beyond: cells to the right of the last possible column.
        headers: page headers and footers.
    """

    def __init__(
        self,
        values: Values,
        notes: Mapping[str, str] | None = None,
        links: Mapping[str, str] | None = None,
        *,
        painted: bool = False,
        read_hidden: bool = False,
    ) -> None:
        self._values, self._read_hidden, self._painted = values, read_hidden, painted
        self._links = {place(ref): target for ref, target in (links or {}).items()}
        self._notes: dict[int, dict[int, str]] = {}
        for ref, text in (notes or {}).items():
            column, row = place(ref)
            self._notes.setdefault(row, {})[column] = text
        self.hidden = self.unseen = self.unsaved = self.beyond = 0
        self.headers: dict[str, str] = {}
        self._hidden_columns: set[int] = set()
        self._rows: list[TableRow] = []
        self._chars: list[str] = []
        self._number = self._column = 0
        self._last = 0  # the last row with a value
        self._row_hidden = self._skipping = False
        self._cells: list[Cell] = []
        self._styles: list[str] = []
        self._kind = self._style = self._stored = self._formula = ""
        self._inline: list[str] = []
        self._run: dict[str, bool] = {}  # how an inline run is written: arguments of `marked`
        self._has_value = self._has_formula = False

    def rows(self, source: BinaryIO | Any) -> Iterator[TableRow]:
        """Yield the rows that hold a value.

        Raises:
            ExpatError: the XML is broken; the rows before the error were yielded.
        """
        starts = Handlers(
            row=self._start_row, c=self._start_cell, col=self._start_column, v=self._clear, f=self._start_formula,
            t=self._clear, rPh=self._start_phonetic, r=self._start_run, strike=self._strike, vertAlign=self._height,
            **dict.fromkeys(_HEADERS, self._clear),
        )  # fmt: skip
        ends = Handlers(
            row=self._end_row, c=self._end_cell, v=self._end_value, f=self._end_formula, t=self._end_text,
            rPh=self._end_phonetic, **{name: self._header(name) for name in _HEADERS},
        )  # fmt: skip
        for _ in parse(source, starts, ends, self._chars):
            yield from self._rows
            self._rows.clear()
            if sum(map(len, self._chars)) > _MOST_ROW:
                raise ValueError(f"a cell of row {self._number} has over {_MOST_ROW:,} characters")

    @property
    def notes(self) -> Iterator[tuple[str, str]]:
        """Yield (cell, comment) for the cells that were not read."""
        for row, notes in sorted(self._notes.items()):
            for column, text in sorted(notes.items()):
                yield f"{letter(column)}{row}", text

    def _clear(self, _: Mapping[str, str]) -> None:
        self._chars.clear()

    def _start_column(self, attributes: Mapping[str, str]) -> None:
        if attributes.get("hidden") in ("1", "true"):
            first, last = _number(attributes.get("min")), _number(attributes.get("max"))
            self._hidden_columns.update(range(first - 1, min(last, _LAST_COLUMN)))

    def _start_row(self, attributes: Mapping[str, str]) -> None:
        self._number = _number(attributes.get("r")) or self._number + 1
        self._row_hidden = attributes.get("hidden") in ("1", "true")
        self._column = -1
        self._cells, self._styles = [], []

    def _start_cell(self, attributes: Mapping[str, str]) -> None:
        ref = attributes.get("r")
        self._column = _column(ref.rstrip("0123456789")) - 1 if ref else self._column + 1
        self._kind, self._style = attributes.get("t", ""), attributes.get("s", "")
        self._stored = self._formula = ""
        self._has_value = self._has_formula = False
        if self._inline:
            self._inline.clear()
            self._run.clear()

    def _start_formula(self, attributes: Mapping[str, str]) -> None:
        self._chars.clear()
        self._has_formula = True

    def _start_phonetic(self, attributes: Mapping[str, str]) -> None:
        self._skipping = True

    def _end_phonetic(self) -> None:
        self._skipping = False

    def _start_run(self, _: Mapping[str, str]) -> None:
        self._run.clear()

    def _strike(self, attributes: Mapping[str, str]) -> None:
        self._run["struck"] = is_on(attributes)

    def _height(self, attributes: Mapping[str, str]) -> None:
        self._run |= height(attributes)

    def _end_value(self) -> None:
        self._stored = "".join(self._chars)
        self._has_value = True

    def _end_formula(self) -> None:
        self._formula = "".join(self._chars).strip()

    def _end_text(self) -> None:
        if not self._skipping:
            self._inline.append(marked("".join(self._chars), **self._run))

    def _end_cell(self) -> None:
        stored = written("".join(self._inline)) if self._inline else self._stored
        value = self._values.value("str" if self._inline else self._kind, stored, self._style) if stored else None
        if value is None and self._has_formula and not (self._has_value and self._kind == "str"):
            self.unsaved += 1
            value = f"={self._formula}" if self._formula else None
        if value is None:
            return
        column = self._column
        if not 0 <= column < _LAST_COLUMN:
            self.beyond += 1
            return
        covered = self._row_hidden or column in self._hidden_columns
        if not self._read_hidden and (covered or self._is_unseen()):
            self.hidden, self.unseen = self.hidden + covered, self.unseen + (not covered)
            self._last = self._number
            self._notes.get(self._number, {}).pop(column, None)
            return
        if (self._links or self._has_formula) and isinstance(value, str):
            value = linked(value, self._target())
        cells, short = self._cells, column - len(self._cells)
        if short < 0:
            cells[column], self._styles[column] = value, self._style
            return
        if short:
            cells += [None] * short
            self._styles += [""] * short
        cells.append(value)
        self._styles.append(self._style)

    def _is_unseen(self) -> bool:
        """Whether the format of the current cell hides its value."""
        return self._values.any_unseen and self._values.is_unseen(self._style, painted=self._painted)

    def _target(self) -> str:
        """Return where the current cell links to; "" if it does not."""
        if self._has_formula and (link := _LINK_FORMULA.match(self._formula)):
            return link[1]
        return self._links.get((self._column, self._number), "")

    def _end_row(self) -> None:
        if not self._cells:
            return
        notes = self._notes.get(self._number, {})
        own = {column: notes.pop(column) for column in sorted(notes) if _at(self._cells, column) is not None}
        gap = self._number > self._last + 1
        self._rows.append(TableRow(self._number, self._cells, gap, own, self._styles))
        self._last = self._number

    def _header(self, name: str) -> Any:
        def end() -> None:
            self.headers[name] = "".join(self._chars)

        return end


class SheetEnd(NamedTuple):
    """What the XML of a sheet lists after its rows.

    Attributes:
        merges: the merged cells.
        links: relation ids of links by cell, such as "B7".
        painted: whether tables or conditional formats may give cells a background.
    """

    merges: list[Merge]
    links: dict[str, str]
    painted: bool = False


def end_of(archive: ZipFile, part: str) -> SheetEnd:
    """Return what a sheet lists after its rows."""
    merges: list[Merge] = []
    links: dict[str, str] = {}
    with archive.open(part) as source:
        rest, painted = b"", False
        while block := source.read(_BLOCK):
            text = rest + block
            if b"mergeCell" in text and len(merges) < _MOST_MERGES:
                merges += [merge for match in _MERGE.finditer(text) if (merge := _merge(match))]
            if b"hyperlink" in text and len(links) < _MOST_LINKS:
                links |= dict(_links(text))
            painted = painted or b"tablePart " in text or b"conditionalFormatting" in text
            cut = text.rfind(b"<")
            rest = text[cut:] if cut >= 0 and b">" not in text[cut:] and len(text) - cut < _MOST_TAG else b""
    return SheetEnd(merges[:_MOST_MERGES], links, painted)


def _links(text: bytes) -> Iterator[tuple[str, str]]:
    for element in _LINK.findall(text):
        ref, relation = _LINK_REF.search(element), _LINK_ID.search(element)
        if ref and relation:
            yield ref[1].decode(), relation[1].decode("utf-8", "replace")


def filled(rows: Iterator[TableRow], merges: Sequence[Merge]) -> Iterator[TableRow]:
    """Copy the value of merged cells to each of them; a row with a single wide cell stays as it is."""
    ahead = sorted(merges, reverse=True)
    open_now: dict[Merge, Cell] = {}
    for row in rows:
        number, cells = row.number, row.cells
        alone = sum(cell is not None for cell in cells) == 1
        while ahead and ahead[-1].top <= number:
            merge = ahead.pop()
            open_now[merge] = _at(cells, merge.left - 1) if merge.top == number else None
        if open_now:
            open_now = {
                merge: value for merge, value in open_now.items() if merge.bottom >= number and value is not None
            }
        wide = across = False
        covered: set[int] = set()
        for merge, value in open_now.items():
            if alone and merge.top == number and merge.right > merge.left:
                across = True
                continue
            cells += [None] * (merge.right - len(cells))
            cells[merge.left - 1 : merge.right] = [value] * (merge.right - merge.left + 1)
            covered.update(range(merge.left, merge.right))
            wide |= merge.top == number and merge.right > merge.left
        yield row._replace(joined=wide, across=across, covered=covered) if across or covered else row


def place(ref: str) -> tuple[int, int]:
    """Return (column from 0, row from 1) of a cell such as "B7"; (-1, 0) if it is not one."""
    match = _REF.fullmatch(ref.replace("$", ""))
    return (_column(match[1]) - 1, int(match[2] or 0)) if match else (-1, 0)


def _merge(match: re.Match[bytes]) -> Merge | None:
    left, right = _column(match[1].decode()), _column(match[3].decode())
    top, bottom = int(match[2]), int(match[4])
    return Merge(top, bottom, left, right) if left <= right <= MOST_COLUMNS and top <= bottom else None


@lru_cache(maxsize=32_768)
def _column(name: str) -> int:
    number = 0
    for sign in name.upper():
        if not "A" <= sign <= "Z" or number > _LAST_COLUMN:
            return _LAST_COLUMN + 1
        number = number * 26 + ord(sign) - ord("A") + 1
    return number


def _at(cells: Sequence[Cell], column: int) -> Cell:
    return cells[column] if 0 <= column < len(cells) else None


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 9 else 0
