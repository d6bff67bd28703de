"""What the rows of a sheet or file are called by, and the texts in it that stand in no record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from context_engine.ingest.header import header_fields
from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.loaders.records import FileNotices

_MOST_CHARS: Final = 1_000_000


@dataclass(slots=True)
class SheetPlace:
    """Where rows come from, and what they are called by.

    Attributes:
        path: the file's name.
        notices: takes what is reported of the file.
        title: of the sheet; "" for a file.
        part: the sheet, where there are several.
        row: what a row is called: "row" or "line".
        ids: whether a column of ids says what its records are known by; not where an entity may stand in two tables.
        heads: rows known to be heads.
        seen: hashes of the ids met so far.
    """

    path: str
    notices: FileNotices
    title: str = ""
    part: str = ""
    row: str = "row"
    ids: bool = True
    heads: frozenset[int] = frozenset()
    seen: set[int] = field(default_factory=set)

    def at(self, number: int) -> str:
        """Return a row's name in a message."""
        return f"{self.row} {number:,} of sheet {self.title!r}" if self.title else f"{self.row} {number:,}"


class SheetTexts:
    """Texts that stand in no record, as one document; as several where they are very long."""

    def __init__(self, place: SheetPlace) -> None:
        self._place = place
        self._lines: list[str] = []
        self._chars = self._number = 0

    def add(self, *lines: str) -> None:
        """Take lines."""
        for line in filter(None, (line.strip() for line in lines)):
            self._lines.append(line)
            self._chars += len(line)

    def full(self, number: int) -> Iterator[LoadedDocument]:
        """Yield a document when there is much to put into it; `number` is the row that was reached."""
        if self._chars > _MOST_CHARS:
            self._number = number
            yield from self.rest()

    def rest(self) -> Iterator[LoadedDocument]:
        """Yield a document of what there is."""
        if not self._lines:
            return
        lead = f"# {self._place.title}\n\n" if self._place.title else ""
        text = lead + "\n\n".join(self._lines)
        yield LoadedDocument(
            path=self._place.path,
            text=text,
            header=header_fields(text),
            part=self._place.part,
            line=self._number or None,
        )
        self._lines, self._chars, self._number = [], 0, 0
