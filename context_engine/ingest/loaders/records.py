"""Entity records as documents, whatever file they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from context_engine.core.chunking import record_text
from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.declared_fields import ID_FIELDS, RECORD_FIELDS, json_value
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, file_notice

MOST_LINE: Final = 16 << 20
"""Most characters of a line; a longer one is no line of a record file."""
_MOST_BAD: Final = 100
_MOST_NOTICES: Final = 20


class LongLine(ValueError):
    """A line is too long to be one of a file of records."""


class FileNotices:
    """The notices about a file while it is read: the first ones, and how many there were.

    Args:
        path: the file's name.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: set[str] = set()
        self._fresh: list[Notice] = []
        self._more = 0

    def add(self, *notices: Notice) -> None:
        """Take notices; the same sentence is kept once."""
        for one in notices:
            if one.message in self._known:
                continue
            if len(self._known) < _MOST_NOTICES:
                self._known.add(one.message)
                self._fresh.append(one)
            else:
                self._more += 1

    def with_documents(self, found: Iterable[LoadedDocument | Skipped]) -> Iterator[LoadedDocument | Skipped]:
        """Yield what was found, each document with the notices since the one before; none of them is lost."""
        held: LoadedDocument | None = None
        try:
            for one in found:
                if held is not None:
                    yield held
                    held = None
                if isinstance(one, Skipped):
                    yield one
                else:
                    held = self._with_notices(one) if self._fresh else one
        except Exception:
            yield from self._end(held)
            raise
        yield from self._end(held)

    def _end(self, held: LoadedDocument | None) -> Iterator[LoadedDocument | Skipped]:
        if self._more:
            more = f"and {self._more:,} more of such lines"
            self._fresh.append(file_notice(NoticeCode.FURTHER_NOTICES, more, count=self._more))
        if held is not None:
            yield self._with_notices(held)
        yield from (Skipped(self._path, one.message, error=False) for one in self._fresh)

    def _with_notices(self, document: LoadedDocument) -> LoadedDocument:
        notices, self._fresh = self._fresh, []
        return replace(document, notices=(*document.notices, *notices))


def record_document(
    record: Any,
    path: str,
    number: int | None,
    *,
    title: str | None = None,
    part: str = "",
    what: str = "the line",
) -> LoadedDocument | Skipped:
    """Return a record as a document whose text has a line a field; claims (version, tier, …) stand on it, not in it.

    Args:
        record: anything read from a file; only a mapping with fields is a record.
        path: the file's name.
        number: 1-based line, row or number of the record, None for one that is known by its file alone.
        title: what the text begins with; from the fields `title` or `name` and the id if None.
        part: the sheet.
        what: what an error calls the record's place.
    """
    if not isinstance(record, Mapping) or not record:
        return Skipped(path, f"{what} is not an object with fields", number)
    shown = {key: value for key, value in record.items() if key not in RECORD_FIELDS}
    body = record_text(_title(record) if title is None else title, shown)
    if not body.strip():
        return Skipped(path, "the record has no fields to show", number)
    return LoadedDocument(path=path, text=body, fields=record, record=True, line=number, part=part)


def bounded(stream: Iterable[str]) -> Iterator[str]:
    """Yield the lines of an open text file.

    Args:
        stream: a text file; its `readline` is used, so that a long line is not held in memory.

    Raises:
        LongLine: a line is too long to be one of a file of records.
    """
    read = stream.readline  # type: ignore[attr-defined]
    while line := read(MOST_LINE):
        if len(line) == MOST_LINE and not line.endswith("\n"):
            raise LongLine(f"has a line of over {MOST_LINE:,} characters, so it is no file of records")
        yield line


def until_hopeless(found: Iterable[LoadedDocument | Skipped], path: str) -> Iterator[LoadedDocument | Skipped]:
    """Yield what was found, and stop with an error where hardly anything in the file can be read."""
    good = bad = 0
    for one in found:
        yield one
        good, bad = good + (not isinstance(one, Skipped)), bad + isinstance(one, Skipped)
        if bad >= _MOST_BAD and bad > good:
            reason = f"{bad} of the first {good + bad} records cannot be read: the rest of the file is left"
            yield Skipped(path, reason)
            return


def _title(record: Mapping[str, Any]) -> str:
    title = str(record.get("title") or record.get("name") or "").strip()
    identity = next((str(json_value(record[name])).strip() for name in ID_FIELDS[True] if record.get(name)), "")
    if not title or not identity or identity in title:
        return title or identity
    return f"{title} ({identity})"
