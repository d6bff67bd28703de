"""Files as documents: Markdown, text, and entity records one a line."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from context_engine.chunking import record_text
from context_engine.ingest.claims import ID_FIELDS, RECORD_CLAIMS
from context_engine.ingest.header import BrokenFrontMatter, front_matter, header_fields
from context_engine.ingest.loaded import LoadedDocument, Skipped

__all__ = ["LOADERS", "MOST_BYTES", "Loader", "load"]

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 50 * 1024 * 1024

Loader = Callable[[bytes, str], Iterator[LoadedDocument | Skipped]]
"""From a file's bytes and its relative path to its documents."""


def load(
    path: Path, root: Path, *, most_bytes: int = MOST_BYTES, name: str | None = None
) -> Iterator[LoadedDocument | Skipped]:
    """Yield the documents of one file, and a `Skipped` for whatever could not be read.

    Args:
        path: the file.
        root: the folder that is ingested; a link that leads out of it is refused.
        most_bytes: files above are refused.
        name: the path to give the documents; relative to `root` if None.
    """
    shown = path.relative_to(root).as_posix() if name is None else name
    loader = LOADERS.get(path.suffix.lower())
    if loader is None:
        kind = path.suffix or "files without a suffix"
        yield Skipped(shown, f"{kind} cannot be read; supported: {', '.join(sorted(LOADERS))}", error=False)
        return
    try:
        if not path.resolve().is_relative_to(root.resolve()):
            yield Skipped(shown, "is a link that leads out of the folder: copy the file there instead")
            return
        size = path.stat().st_size
        if size > most_bytes:
            yield Skipped(shown, f"has {size:,} bytes, at most {most_bytes:,} are read: split it or raise the limit")
            return
        data = path.read_bytes()
    except OSError as error:
        yield Skipped(shown, f"cannot be opened: {error.strerror or error}")
        return
    yield from loader(data, shown)


def _decoded(data: bytes, path: str) -> str | Skipped:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Skipped(path, "is UTF-16: save it as UTF-8")
    if b"\x00" in data:
        return Skipped(path, "holds NUL bytes, so it is not text", data[: data.index(b"\x00")].count(b"\n") + 1)
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return Skipped(path, f"is not UTF-8 (byte 0x{data[error.start]:02x}): save it as UTF-8", line)


def _text(data: bytes, path: str) -> Iterator[LoadedDocument | Skipped]:
    text = _decoded(data, path)
    if isinstance(text, Skipped):
        yield text
        return
    try:
        fields, end = front_matter(text)
    except BrokenFrontMatter as error:
        yield Skipped(path, str(error), error.line)
        return
    body = text[end:]
    if not body.strip():
        yield Skipped(path, "has no text")
        return
    yield LoadedDocument(path=path, text=body, offset=end, fields=fields, header=header_fields(body))


def _records(data: bytes, path: str) -> Iterator[LoadedDocument | Skipped]:
    text = _decoded(data, path)
    if isinstance(text, Skipped):
        yield text
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _record(line, path, number)


def _record(line: str, path: str, number: int) -> LoadedDocument | Skipped:
    try:
        record = json.loads(line, parse_constant=_refused)
        json.dumps(record, ensure_ascii=False).encode()
    except RecursionError:
        return Skipped(path, "the record is nested too deep", number)
    except UnicodeEncodeError:
        return Skipped(path, "the record holds a lone surrogate (\\ud800-\\udfff), which is no character", number)
    except ValueError as error:
        return Skipped(path, f"the line is not JSON: {error}", number)
    if not isinstance(record, dict) or not record:
        return Skipped(path, "the line is not an object with fields", number)
    shown = {key: value for key, value in record.items() if key not in RECORD_CLAIMS}
    body = record_text(_record_title(record), shown)
    if not body.strip():
        return Skipped(path, "the record has no fields to show", number)
    return LoadedDocument(path=path, text=body, fields=record, record=True, line=number)


def _record_title(record: Mapping[str, Any]) -> str:
    title = str(record.get("title") or record.get("name") or "").strip()
    identity = next((str(record[name]).strip() for name in ID_FIELDS[True] if record.get(name)), "")
    if not title or not identity or identity in title:
        return title or identity
    return f"{title} ({identity})"


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


LOADERS: Final[Mapping[str, Loader]] = {
    ".md": _text,
    ".markdown": _text,
    ".txt": _text,
    ".jsonl": _records,
}
