"""What the documents that this package writes to Dify are known by: their names, their marks, their metadata.

A document's name ends in a tag made of its key and content hash, so that no two have one name (Dify would write one
over the other), and so that what a killed run left behind is known. Its marks are metadata fields; the hash is
assigned last, so a document is whole if it has one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from hashlib import sha256
from typing import Any, Final, NamedTuple

from context_engine.errors import SourceProtocolError
from context_engine.models import Chunk, utc_text
from context_engine.sources.dify.metadata import CLAIMS, MARKED, MARKS

__all__ = ["MOST_NAME", "Row", "Value", "document_name", "fields_of", "fitted", "kind_of", "marks_of", "read_row"]

MOST_NAME: Final = 255
"""Characters of a document's name in Dify."""

_MOST_VALUE: Final = 1000
_TAG: Final = re.compile(r"\[ce-[0-9a-f]{12}(?:\.\d+)?\]$")

Value = str | int | float | bool | date | datetime


class Row(NamedTuple):
    """A document as Dify lists it.

    Attributes:
        key: (source id, document id, version); None for a document of somebody else's, and for an unfinished one.
        content_hash: None where it is not whole.
        ours: whether this package made it.
        hidden: disabled or archived in Dify.
        failed: whether its indexing failed.
    """

    dify_id: str
    name: str
    key: tuple[str, str, str] | None
    content_hash: str | None
    ours: bool
    hidden: bool
    failed: bool


def document_name(key: tuple[str, str, str], title: str | None, content_hash: str, attempt: int = 1) -> str:
    """Return a name for people that no other document has, and no other version of it.

    Args:
        key: source id, document id, version.
        title: the document's.
        content_hash: of what it holds.
        attempt: how often it was begun.

    >>> document_name(("sops", "NPA-SOP-001", "3.2"), "New products", "ab12")
    'NPA-SOP-001 3.2 New products [ce-4c52b60fa1e9]'
    """
    _, document_id, version = key
    digest = sha256("\0".join((*key, content_hash)).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    tag = f"[ce-{digest}{f'.{attempt}' if attempt > 1 else ''}]"
    shown = " ".join(part for part in (document_id, version, title if title != document_id else None) if part)
    return f"{' '.join(shown.split())[: MOST_NAME - len(tag) - 1]} {tag}"


def read_row(row: Any) -> Row:
    """Read a document of Dify's list.

    Raises:
        SourceProtocolError: it is none.
    """
    if not isinstance(row, Mapping) or not isinstance(row.get("id"), str):
        raise SourceProtocolError("Dify's list of documents cannot be read")
    given = row.get("doc_metadata") if isinstance(row.get("doc_metadata"), list) else []
    fields = {str(one.get("name")): one.get("value") for one in given or () if isinstance(one, Mapping)}
    name, content_hash = str(row.get("name", "")), fields.get(MARKS.content_hash)
    source_id, document_id = fields.get(MARKS.source_id), fields.get(MARKED)
    whole = bool(content_hash and source_id and document_id)
    return Row(
        dify_id=row["id"],
        name=name,
        key=(str(source_id), str(document_id), str(fields.get(MARKS.version) or "")) if whole else None,
        content_hash=str(content_hash) if whole else None,
        ours=whole or _TAG.search(name) is not None,
        hidden=row.get("enabled") is False or row.get("archived") is True,
        failed=row.get("indexing_status") == "error",
    )


def marks_of(source_id: str, document_id: str, version: str, title: str | None) -> dict[str, Value]:
    """Return the marks of a document, its hash excepted."""
    marks = {MARKS.source_id: source_id, MARKED: document_id, MARKS.version: version, MARKS.title: title or ""}
    return {name: value for name, value in marks.items() if value}


def fields_of(chunks: Sequence[Chunk], names: Mapping[str, str]) -> dict[str, Value]:
    """Return the metadata of a document: what its chunks claim, and whatever further fields all of them share.

    Args:
        chunks: of one document.
        names: {our name: Dify's name} where the manifest gives one.
    """
    if not chunks:
        return {}
    first = chunks[0]
    claims = {names.get(name, name): getattr(first, name) for name in CLAIMS}
    shared = {
        name: value
        for name, value in first.metadata.items()
        if isinstance(value, str | int | float) and all(one.metadata.get(name) == value for one in chunks[1:])
    }
    return {name: value for name, value in {**shared, **claims}.items() if value is not None and value != ""}


def kind_of(value: Value) -> str:
    """Return the type of a new metadata field for a value."""
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else "string"


def fitted(value: Value, kind: str) -> str | int | float | None:
    """Return a value as a field of a type holds it; None where it cannot.

    A date is ISO text, a number such as 20260115, or unix seconds at midnight UTC.

    >>> fitted(date(2026, 1, 15), "string"), fitted(date(2026, 1, 15), "number"), fitted("soon", "number")
    ('2026-01-15', 20260115, None)
    """
    if isinstance(value, datetime):
        return utc_text(value) if kind == "string" else int(value.timestamp())
    if isinstance(value, date):
        if kind == "time":
            return int(datetime.combine(value, time(), UTC).timestamp())
        return value.isoformat() if kind == "string" else value.year * 10_000 + value.month * 100 + value.day
    if isinstance(value, bool) or kind == "string":
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return text if kind == "string" and len(text) <= _MOST_VALUE else None
    try:
        number = float(value)
    except ValueError:
        return None
    return int(number) if number.is_integer() else number
