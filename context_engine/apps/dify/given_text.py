"""A text of another node as documents to cut: one, or, where `read_document` wrote records, one for each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from context_engine.apps.dify.fields import checked_type, text_field
from context_engine.apps.dify.plain import plain, plain_text, unusable
from context_engine.errors import InvalidRequest
from context_engine.ingest import LoadedDocument, shown_name
from context_engine.ingest.declared_fields import DECLARED_FIELDS
from context_engine.ingest.header import BrokenFrontMatter, front_matter, header_fields

_RECORD: Final = re.compile(r"^## ", re.MULTILINE)
_NOT_OF_A_DOCUMENT: Final = frozenset(("file_name", "structure", "documents", "title", "doc_type"))
UNNAMED: Final = "document"
"""The path of a text of which no file is known."""
_MOST_PAGES: Final = 100_000


def given_text(fields: Mapping[str, Any]) -> tuple[LoadedDocument, ...]:
    """Return the documents of the fields `text`, `title`, `metadata` and `pages`; none where there is no text.

    Args:
        fields: of the form; the last three as `read_document` gives them, or left out.

    Raises:
        InvalidRequest: a field of another kind.
    """
    text = fields.get("text")
    text = "" if text is None else plain_text(checked_type(text, "text", str, "a text"))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        return ()
    metadata = fields.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise InvalidRequest("metadata must be the variable 'metadata' of the tool 'Read document', or be left out")
    problem = unusable(metadata)
    if problem is not None:
        raise InvalidRequest(f"metadata {problem}")
    metadata = plain(metadata)
    said, pages = metadata.get("file_name"), _pages(fields)
    path = shown_name(said) if isinstance(said, str) and said else UNNAMED
    if metadata.get("structure") == "fields":
        return tuple(_records(text, path))
    own = {name: value for name, value in metadata.items() if name not in _NOT_OF_A_DOCUMENT}
    if not metadata and not pages:
        own, text = _front_matter(text)
    if metadata.get("structure") == "declared":
        own["doc_type"] = metadata.get("doc_type")
    title = text_field(fields, "title")
    if title is not None:
        own["title"] = title
    return (LoadedDocument(path=path, text=text, fields=own, header=header_fields(text), pages=pages),)


def _front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter of a text that no reader has taken it off, and the text below."""
    try:
        fields, end = front_matter(text)
    except BrokenFrontMatter:
        return {}, text
    return (dict(fields), text[end:]) if text[end:].strip() else ({}, text)


def _records(text: str, path: str) -> list[LoadedDocument]:
    """Return the records of a text in which each has a heading and a line a field."""
    parts = [part.strip() for part in _RECORD.split(text)]
    return [_record(part, path, number) for number, part in enumerate(filter(None, parts), start=1)]


def _record(part: str, path: str, number: int) -> LoadedDocument:
    title, _, body = part.partition("\n")
    pairs = (row.partition(": ") for row in body.strip().split("\n"))
    found = {name: value for name, _, value in pairs if value and name not in DECLARED_FIELDS}
    return LoadedDocument(path=path, text=f"{title}\n{body.strip()}".strip(), fields=found, record=True, line=number)


def _pages(fields: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    rows = fields.get("pages") or ()
    if not isinstance(rows, Sequence) or isinstance(rows, str) or len(rows) > _MOST_PAGES:
        raise InvalidRequest("pages must be the variable 'pages' of the tool 'Read document', or be left out")
    found = [_page(row) for row in rows]
    if found != sorted(found):
        raise InvalidRequest("pages must be in the order of the text")
    return tuple(found)


def _page(row: Any) -> tuple[int, int]:
    offset, page = (row.get("offset"), row.get("page")) if isinstance(row, Mapping) else (None, None)
    if type(offset) is not int or type(page) is not int or offset < 0 or page < 1:
        raise InvalidRequest("pages must be objects with the whole numbers 'offset' (0 or more) and 'page' (1 or more)")
    return offset, page
