"""Records of a file, and the texts between them, as documents; and the titles of rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from context_engine.core.chunking.fields import record_text
from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.declared_fields import ID_FIELDS, RECORD_FIELDS, json_value
from context_engine.ingest.header import header_fields
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, file_notice
from context_engine.ingest.loaders.markdown import one_line, unlinked

MOST_LINE: Final = 16 << 20
"""Most characters of a line in a file of records."""
_MOST_BAD: Final = 100
_MOST_NOTICES: Final = 20
NAMING: Final = re.compile(r"(?i)(?:.*[ _])?(?:name|title)")
IDENTIFYING: Final = re.compile(r"(?i)(?:.*[ _])?(?:id|no\.?|number|code|ref\.?|reference|key)")
_NOT_TELLING: Final = frozenset(("version", "sheet", "table"))
_MOST_PARTS: Final = 4
_MOST_VALUE: Final = 80
_LEAST_SHARE: Final = 0.5
_MOST_CHARS: Final = 1_000_000


class LongLine(ValueError):
    """A line is too long for a file of records."""


class FileNotices:
    """Collects the notices about a file while it is read: the first ones, and the count of the rest."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: set[str] = set()
        self._fresh: list[Notice] = []
        self._more = 0

    def add(self, *notices: Notice) -> None:
        """Add notices; an equal sentence is kept once."""
        for notice in notices:
            if notice.message in self._known:
                continue
            if len(self._known) < _MOST_NOTICES:
                self._known.add(notice.message)
                self._fresh.append(notice)
            else:
                self._more += 1

    def with_documents(self, items: Iterable[LoadedDocument | Skipped]) -> Iterator[LoadedDocument | Skipped]:
        """Yield the items, each document with the notices added since the previous one; no notice is lost."""
        waiting: LoadedDocument | None = None
        try:
            for item in items:
                if waiting is not None:
                    yield waiting
                    waiting = None
                if isinstance(item, Skipped):
                    yield item
                else:
                    waiting = self._with_notices(item) if self._fresh else item
        except Exception:
            yield from self._end(waiting)
            raise
        yield from self._end(waiting)

    def _end(self, waiting: LoadedDocument | None) -> Iterator[LoadedDocument | Skipped]:
        if self._more:
            more = f"and {self._more:,} more of such lines"
            self._fresh.append(file_notice(NoticeCode.FURTHER_NOTICES, more, count=self._more))
        if waiting is not None:
            yield self._with_notices(waiting)
        yield from (Skipped(self._path, notice.message, error=False) for notice in self._fresh)

    def _with_notices(self, document: LoadedDocument) -> LoadedDocument:
        notices, self._fresh = self._fresh, []
        return replace(document, notices=(*document.notices, *notices))


def record_document(
    record: Any, path: str, number: int | None, *, title: str | None = None, part: str = "", place: str = "the line"
) -> LoadedDocument | Skipped:
    """Return a record as a document with a line per field; declared fields (version, tier, …) are not in its text.

    Args:
        record: any value read from a file; only a mapping with fields is a record.
        number: 1-based line, row or number of the record; None if it is the only one in its file.
        title: the first line of the text; None: made of the fields `title` or `name` and the id.
    """
    if not isinstance(record, Mapping) or not record:
        return Skipped(path, f"{place} is not an object with fields", number)
    shown = {key: value for key, value in record.items() if key not in RECORD_FIELDS}
    body = record_text(_title(record) if title is None else title, shown)
    if not body.strip():
        return Skipped(path, "the record has no fields to show", number)
    if "](" in body:
        record = {key: unlinked(value) if isinstance(value, str) else value for key, value in record.items()}
    return LoadedDocument(path=path, text=body, fields=record, record=True, line=number, part=part)


def bounded(stream: Iterable[str]) -> Iterator[str]:
    """Yield the lines of an open text file.

    Args:
        stream: a text file with `readline`, so that an overlong line is not held in memory.

    Raises:
        LongLine: a line is too long for a file of records.
    """
    read = stream.readline  # type: ignore[attr-defined]
    while line := read(MOST_LINE):
        if len(line) == MOST_LINE and not line.endswith("\n"):
            raise LongLine(f"has a line of over {MOST_LINE:,} characters, so it is not a file of records")
        yield line


def until_hopeless(items: Iterable[LoadedDocument | Skipped], path: str) -> Iterator[LoadedDocument | Skipped]:
    """Yield the items; stop with an error if most of the first ones cannot be read."""
    good = bad = 0
    for item in items:
        yield item
        good, bad = good + (not isinstance(item, Skipped)), bad + isinstance(item, Skipped)
        if bad >= _MOST_BAD and bad > good:
            reason = f"{bad} of the first {good + bad} records cannot be read: the rest of the file is not read"
            yield Skipped(path, reason)
            return


def _title(record: Mapping[str, Any]) -> str:
    title = unlinked(str(record.get("title") or record.get("name") or "").strip())
    identity = next((str(json_value(record[name])).strip() for name in ID_FIELDS[True] if record.get(name)), "")
    if not title or not identity or identity in title:
        return title or identity
    return f"{title} ({identity})"


def telling_names(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the fields that identify a row: an id, a name or words, then other fields until all rows differ.

    A field with the same value in every row is not used.

    >>> rows = [("Fraud", "R-1", "Phishing"), ("Fraud", "R-2", "Theft")]
    >>> telling_names([dict(zip(("Kind", "Ref", "Risk"), row)) for row in rows])
    ('Ref', 'Risk')
    """
    names = list(dict.fromkeys(name for row in rows for name in row if name not in _NOT_TELLING))
    values = {name: [_value(row.get(name)) for row in rows] for name in names}
    differing = [name for name in names if len(rows) < 2 or len(set(values[name])) > 1]
    if not differing:
        return tuple(names[:1])
    identity = next(iter(_ordered(differing, ID_FIELDS[True], IDENTIFYING)), None)
    spoken = _spoken([name for name in differing if name != identity], values, len(rows))
    chosen = [name for name in (identity, spoken) if name] or differing[:1]
    while len(chosen) < _MOST_PARTS and (better := _better(chosen, differing, values)):
        chosen.append(better)
    return tuple(chosen)


def row_title(fields: Mapping[str, Any], telling: Sequence[str]) -> str:
    """Return the title of a row: "Phishing (R-14)" for a name and an id, else its identifying values side by side.

    Args:
        fields: the row.

    >>> row_title({"Ref": "R-14", "Risk": "Phishing"}, ("Ref", "Risk"))
    'R-14 · Phishing'
    >>> row_title({"id": "7", "name": "Theft"}, ("id", "name"))
    'Theft (7)'
    """
    values = {name: text for name in telling if (text := _value(fields.get(name)))}
    if len(values) == 2:
        (first, identity), (second, name) = values.items()
        if NAMING.fullmatch(second) and (first in ID_FIELDS[True] or IDENTIFYING.fullmatch(first)):
            return name if identity in name else f"{name} ({identity})"
    if values:
        return " · ".join(dict.fromkeys(values.values()))
    return next((text for value in fields.values() if (text := _value(value))), "")


def _ordered(names: Sequence[str], known: Sequence[str], pattern: re.Pattern[str]) -> list[str]:
    """Return the known names, in that order, then those that match a pattern."""
    return [name for name in known if name in names] + [name for name in names if pattern.fullmatch(name)]


def _spoken(names: Sequence[str], values: Mapping[str, Sequence[str]], count: int) -> str | None:
    """Return the field that names a row in words: one called name or title, else the first with enough distinct
    values.
    """
    if named := _ordered(names, ("title", "name"), NAMING):
        return named[0]
    wordy = [name for name in names if _is_wordy(values[name])]
    fitting = (name for name in wordy if len(set(values[name])) >= _LEAST_SHARE * count)
    return next(fitting, max(wordy, key=lambda name: len(set(values[name])), default=None))


def _is_wordy(values: Sequence[str]) -> bool:
    """Whether most values are short words without digits."""
    filled = [value for value in values if value]
    words = sum(
        any(map(str.isalpha, value)) and not any(map(str.isdigit, value)) and "…" not in value for value in filled
    )
    return words * 2 > len(filled)


def _better(chosen: Sequence[str], names: Sequence[str], values: Mapping[str, Sequence[str]]) -> str | None:
    """Return the field that separates the most rows beyond those already chosen; None if none separates more."""
    most, best = _combined(chosen, values), None
    for name in names:
        if name not in chosen and (distinct := _combined([*chosen, name], values)) > most:
            most, best = distinct, name
    return best


def _combined(names: Sequence[str], values: Mapping[str, Sequence[str]]) -> int:
    return len(set(zip(*(values[name] for name in names), strict=True)))


def _value(value: Any) -> str:
    """Return a value for a title: on one line, cut at a word."""
    text = unlinked(one_line("" if value is None else str(value)))
    if len(text) <= _MOST_VALUE:
        return text
    return f"{text[:_MOST_VALUE].rpartition(' ')[0] or text[:_MOST_VALUE]}…"


@dataclass(slots=True)
class SheetPlace:
    """The sheet or file that rows come from.

    Attributes:
        path: the file's name.
        notices: collects the notices about the file.
        title: the title of the sheet; "" for a file.
        part: the sheet, if there are several.
        row: the word for a row in messages: "row" or "line".
        ids: whether a column of ids identifies its records; False if an entity may be in two tables.
        heads: rows known to be heads.
        seen: hashes of the ids met so far.
        repeats: rows with an id that another row above has.
    """

    path: str
    notices: FileNotices
    title: str = ""
    part: str = ""
    row: str = "row"
    ids: bool = True
    heads: frozenset[int] = frozenset()
    seen: set[int] = field(default_factory=set)
    repeats: int = 0

    def at(self, number: int) -> str:
        """Return the name of a row in messages."""
        return f"{self.row} {number:,} of sheet {self.title!r}" if self.title else f"{self.row} {number:,}"


class SheetTexts:
    """Texts outside of records, as one document; as several if they are very long."""

    def __init__(self, place: SheetPlace) -> None:
        self._place = place
        self._lines: list[str] = []
        self._chars = self._number = 0

    def add(self, *lines: str) -> None:
        """Add lines."""
        for line in filter(None, (line.strip() for line in lines)):
            self._lines.append(line)
            self._chars += len(line)

    def full(self, number: int) -> Iterator[LoadedDocument]:
        """Yield a document if there is enough text for one; `number` is the row that was reached."""
        if self._chars > _MOST_CHARS:
            self._number = number
            yield from self.rest()

    def rest(self) -> Iterator[LoadedDocument]:
        """Yield a document of the remaining text, if any."""
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


def letter(index: int) -> str:
    """Return the letters of a column, given its 0-based index.

    >>> letter(0), letter(25), letter(26)
    ('A', 'Z', 'AA')
    """
    letters = ""
    while index >= 0:
        letters = chr(ord("A") + index % 26) + letters
        index = index // 26 - 1
    return letters
