"""JSON: `.jsonl` (`.ndjson`), a record a line, and `.json`, an array of records, an object with one, or one record.

Read: `.jsonl` line by line, so that the file may be large; a line that is no record is an error of its own, and the
next one is read. `.json` as a whole: every object of an array is a record, known by its number; an object whose only
list of objects stands in one field (`{"as_of": …, "items": [...]}`) is that list, any other object is one record; a
`.json` that holds a record a line is read as `.jsonl`. Not read: arrays of plain values, NaN and Infinity.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from context_engine.ingest.loaded import LoadedDocument, Skipped
from context_engine.ingest.loaders.encoding import decoded, open_text
from context_engine.ingest.loaders.records import bounded, parsed, record_document, until_hopeless
from context_engine.ingest.loaders.source_file import SourceFile

__all__ = ["load_json", "load_jsonl"]


def load_jsonl(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the record of every line."""
    return until_hopeless(_lines(file), file.name)


def load_json(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the records of a JSON file."""
    found = decoded(file.read(), file.name)
    if isinstance(found, Skipped):
        yield found
        return
    if not found.text.strip():
        yield Skipped(file.name, "is empty")
        return
    if _is_lines(found.text):
        yield from load_jsonl(file)
        return
    value = parsed(found.text, file.name, 0, "the file")
    if isinstance(value, Skipped):
        yield value._replace(line=None)
        return
    yield from until_hopeless(_records(value, file.name, found.warnings), file.name)


def _lines(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    opened = open_text(file)
    if isinstance(opened, Skipped):
        yield opened
        return
    stream, warnings = opened
    any_line = False
    with stream:
        for number, line in enumerate(bounded(stream), start=1):
            if not line.strip():
                continue
            any_line = True
            value = parsed(line, file.name, number)
            if isinstance(value, Skipped):
                yield value
            else:
                yield record_document(value, file.name, number, warnings=warnings)
                warnings = ()
    if not any_line:
        yield Skipped(file.name, "is empty")


def _is_lines(text: str) -> bool:
    """Whether a text is a record a line: its first line is an object, and something other than blanks follows it."""
    first, _, rest = text.strip().partition("\n")
    if not rest.strip() or not first.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def _records(value: Any, path: str, warnings: tuple[str, ...]) -> Iterator[LoadedDocument | Skipped]:
    records = value if isinstance(value, list) else _listed(value)
    if not records:
        yield Skipped(path, "holds no record")
        return
    for number, record in enumerate(records, start=1):
        yield record_document(record, path, number, warnings=warnings if number == 1 else (), what="the record")


def _listed(value: Any) -> list[Any]:
    """Return the list of objects that stands in an object's one field, else the object itself as the only record."""
    if not isinstance(value, dict):
        return [value]
    lists = [inner for inner in value.values() if isinstance(inner, list) and inner and isinstance(inner[0], dict)]
    others = any(isinstance(inner, dict) for inner in value.values())
    known = {"id", "entity_id", "document_id", "title", "name"} & value.keys()
    return lists[0] if len(lists) == 1 and not others and not known else [value]
