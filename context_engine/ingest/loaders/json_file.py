"""JSON: `.jsonl` (`.ndjson`), a record per line, and `.json`, a list of records, an object with a list, or a record.

Both are streamed, so the file may be large; a line or element that is not a record is an error, and reading goes on
with the next. In a `.json` every object of a list is a record, identified by its number. An object with one list of
objects (`{"as_of": …, "items": [...]}`) is that list, and its other fields are a separate record. An object of similar
objects (`{"ACC-1": {...}, "ACC-2": {...}}`) is a list of them; the key is the id of a record that has none. Any other
object is one record, or several, cut between fields, if it is too long to hold. A `.json` with a record per line is
read as `.jsonl`. Not read: plain values in lists of records (reported).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TextIO

from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.declared_fields import ID_FIELDS
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, file_notice
from context_engine.ingest.loaders.encoding import open_text
from context_engine.ingest.loaders.json_stream import BLOCK, Broken, JsonReader, JsonStream, TooDeep, Unread
from context_engine.ingest.loaders.records import MOST_LINE, FileNotices, bounded, record_document, until_hopeless
from context_engine.ingest.loaders.source_file import EMPTY, SourceFile

_MOST_KEYS: Final = 10_000
_ALIKE: Final = 0.5  # share of filled cells in the table that similar objects make
_KNOWN: Final = frozenset((*ID_FIELDS[True], "title", "name"))
_NO_OBJECT: Final = "the record is not an object with fields"
Found = Iterator[LoadedDocument | Skipped]


def load_jsonl(file: SourceFile) -> Found:
    """Yield the record of every line."""
    notices = FileNotices(file.name)
    return until_hopeless(notices.with_documents(_lines(file, notices)), file.name)


def load_json(file: SourceFile, *, most: int = MOST_LINE, block: int = BLOCK) -> Found:
    """Yield the records of a JSON file.

    Args:
        most: limit in characters for a record that is held in memory.
        block: characters read at a time.
    """
    opened = open_text(file)
    if isinstance(opened, Skipped):
        yield opened
        return
    stream, guesses = opened
    notices = FileNotices(file.name)
    notices.add(*guesses)
    with stream:
        first = stream.read(MOST_LINE)
        if not first.strip(" \t\r\n\ufeff"):
            yield Skipped(file.name, EMPTY, error=False)
            return
        if _is_lines(first):
            yield from load_jsonl(file)
            return
        del first
        yield from until_hopeless(notices.with_documents(_records(stream, file.name, notices, most, block)), file.name)


def _lines(file: SourceFile, notices: FileNotices) -> Found:
    opened = open_text(file)
    if isinstance(opened, Skipped):
        yield opened
        return
    stream, guesses = opened
    notices.add(*guesses)
    reader, any_line = JsonReader(), False
    with stream:
        for number, line in enumerate(bounded(stream), start=1):
            if line.strip():
                any_line = True
                yield _line(reader, line.strip(" \t\r\n\ufeff"), file.name, number, notices)
    if not any_line:
        yield Skipped(file.name, EMPTY, error=False)


def _line(reader: JsonReader, line: str, path: str, number: int, notices: FileNotices) -> LoadedDocument | Skipped:
    try:
        read = reader.read(line)
    except TooDeep:
        return Skipped(path, "the record is nested too deep", number)
    except json.JSONDecodeError as error:
        return Skipped(path, f"the line is not JSON: {error.msg} (character {error.pos + 1:,})", number)
    if line[read.end :].strip():
        return Skipped(path, f"the line is not JSON: more follows its value (character {read.end + 1:,})", number)
    notices.add(*(_repaired(f"line {number}: {repair}") for repair in read.repairs))
    record = record_document(read.value, path, number)
    return record if isinstance(record, Skipped) else replace(record, location={"line": number})


def _is_lines(text: str) -> bool:
    """Whether each line is a record: the first line is an object, and other text follows."""
    first, _, rest = text.strip(" \t\r\n\ufeff").partition("\n")
    if not first.startswith("{") or not first.rstrip().endswith("}") or not rest.strip():
        return False
    try:
        return isinstance(JsonReader().read(first).value, dict)
    except ValueError:
        return False


def _records(text: TextIO, path: str, notices: FileNotices, most: int, block: int) -> Found:
    def opened() -> JsonStream:
        text.seek(0)
        return JsonStream(text, most=most, block=block)

    records, stream = _JsonRecords(path, notices, most), opened()
    try:
        if stream.sign() == "[":
            yield from records.listed(stream)
            if not records.number:
                yield Skipped(path, "holds no record", error=False)
        elif stream.sign() == "{":
            shape = _shape(stream)
            yield from records.object(opened(), shape, whole_file=stream.taken <= most)
        else:
            value = stream.value()
            yield Skipped(path, f"the file {value.reason}" if isinstance(value, Unread) else _NO_OBJECT)
        if stream.sign():
            raise Broken("has more text after its first value, which is not JSON")
    except Broken as error:
        behind = f": nothing is read after record {records.number:,}" if records.number else ""
        yield Skipped(path, f"the file {error}{behind}")


@dataclass
class _Shape:
    """The kinds of an object's values, which decide what its records are."""

    lists: list[str] = field(default_factory=list)
    objects: int = 0
    others: int = 0
    known: bool = False
    cells: int = 0
    names: set[str] = field(default_factory=set)

    @property
    def envelope(self) -> str | None:
        return self.lists[0] if len(self.lists) == 1 and not self.objects and not self.known else None

    @property
    def alike(self) -> bool:
        """Whether all values are objects, two or more, that share their fields."""
        if self.lists or self.others or self.objects < 2 or len(self.names) > _MOST_KEYS:
            return False
        return self.cells > _ALIKE * self.objects * len(self.names)

    def add(self, key: str, value: Any) -> None:
        """Count a value that is not a list of objects."""
        if not isinstance(value, Mapping):
            self.others += 1
            return
        self.objects += 1
        self.cells += len(value)
        if len(self.names) <= _MOST_KEYS:
            self.names |= value.keys()


def _shape(stream: JsonStream) -> _Shape:
    """Read through an object without keeping it.

    Raises:
        Broken: it ends before the kind of its records is known.
    """
    shape = _Shape()
    try:
        for key in stream.members():
            shape.known |= key in _KNOWN
            if stream.sign() != "[":
                shape.add(key, stream.value())
                continue
            shape.lists.append(key)
            for number, value in enumerate(stream.elements()):
                if not number and not isinstance(value, Mapping):
                    shape.lists.pop()
                    shape.others += 1
    except Broken:
        if shape.envelope is None and not shape.alike:
            raise
    return shape


class _JsonRecords:
    """The records of one file, counted; one holds at most `most` characters."""

    def __init__(self, path: str, notices: FileNotices, most: int) -> None:
        self._path, self._notices, self._most = path, notices, most
        self.number = 0

    def listed(self, stream: JsonStream, part: str = "") -> Found:
        for value in stream.elements():
            yield self._record(stream, value, part=part)

    def object(self, stream: JsonStream, shape: _Shape, *, whole_file: bool) -> Found:
        """Yield the records of the object that follows in `stream`; `whole_file`: it may be held completely."""
        if stream.sign() == "{" and shape.alike:
            for key in stream.members():
                yield self._record(stream, _identified(stream.value(), key))
        elif shape.envelope is None and whole_file:
            value = stream.value()
            if isinstance(value, Unread):
                raise Broken(value.reason)
            yield self._record(stream, value)
        else:
            yield from self._enveloped(stream, shape.lists)

    def _enveloped(self, stream: JsonStream, lists: Sequence[str]) -> Found:
        """Yield the objects of the lists, and the other fields as a record."""
        rest: dict[str, Any] = {}
        size = 0
        for key in stream.members():
            if stream.sign() == "[" and key in lists:
                yield from self.listed(stream, part=key if len(lists) > 1 else "")
                continue
            before = stream.taken
            rest[key] = stream.value()
            size += stream.taken - before + len(key)
            if isinstance(rest[key], Unread):
                yield Skipped(self._path, f"the field {key[:60]!r} {rest.pop(key).reason}")
            if size > self._most:
                yield self._record(stream, rest)
                rest, size = {}, 0
        if rest:
            yield record_document(rest, self._path, None)

    def _record(self, stream: JsonStream, value: Any, part: str = "") -> LoadedDocument | Skipped:
        self.number += 1
        if isinstance(value, Unread):
            return Skipped(self._path, f"the record {value.reason}", self.number)
        self._notices.add(*(_repaired(f"record {self.number}: {repair}") for repair in stream.repairs))
        return record_document(value, self._path, self.number, part=part, place="the record")


def _repaired(sentence: str) -> Notice:
    return file_notice(NoticeCode.RECORD_REPAIRED, sentence)


def _identified(value: Any, key: str) -> Any:
    """Add the key to a record: as its id if it has none."""
    if not isinstance(value, Mapping) or not value:
        return value
    own = next((value[name] for name in ID_FIELDS[True] if value.get(name)), None)
    if own is None:
        return {"entity_id": key, **{name: inner for name, inner in value.items() if name != "entity_id"}}
    return dict(value) if str(own) == key or "key" in value else {"key": key, **value}
