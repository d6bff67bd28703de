"""The input of the tool `chunk_document`: its form fields, and a text of another node as documents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final, Literal, cast

from context_engine.apps.dify.dify_json import plain, plain_text, unusable
from context_engine.apps.dify.form import checked_type, choice_field, flag_field, text_field, whole_field
from context_engine.core.chunking.strategy import DEFAULT_STRATEGIES, LEAST_SIZE, MOST_SIZE, ChunkingStrategy
from context_engine.core.models import Chunk, DocumentRule, to_date
from context_engine.core.text import bare_version
from context_engine.errors import InvalidRequest
from context_engine.ingest.declared_fields import DECLARED_FIELDS
from context_engine.ingest.files import shown_name
from context_engine.ingest.header import BrokenFrontMatter, front_matter, header_fields
from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.reading import IngestOptions

AUTO: Final = "auto"
_TYPES: Final = (AUTO, *DEFAULT_STRATEGIES)
_STRUCTURES: Final = ("general", "parent_child", "qa")
_PARENT_MODES: Final = ("paragraph", "full-doc")
_LONGEST_VALUE: Final = 300
Structure = Literal["general", "parent_child", "qa"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkForm:
    """The parsed form of `chunk_document`.

    Attributes:
        structure: of the knowledge base for which the chunks are made.
        parent_mode: the parent is a section ("paragraph") or the document ("full-doc").
        chunk_line: whether a chunk begins with a line about its origin.
        rule: how to cut; None to decide by the document.
        options: sizes.
        metadata_fields: chunk fields stated in the form; they override the document's own.
    """

    structure: Structure
    parent_mode: str
    chunk_line: bool
    rule: DocumentRule | None
    options: IngestOptions
    metadata_fields: Mapping[str, Any]

    def stated(self, chunk: Chunk) -> Chunk:
        """Return a chunk with the document metadata stated in the form."""
        return chunk._replace(**self.metadata_fields) if self.metadata_fields else chunk


def read_chunk_form(fields: Mapping[str, Any], own: IngestOptions) -> ChunkForm:
    """Read the fields other than the input; an absent, None or blank field takes its default.

    Args:
        own: the bank's table and limit; sizes in the form override them.

    Raises:
        InvalidRequest: an invalid field; the message says which, and what is allowed.
    """
    doc_type = choice_field(fields, "document_type", _TYPES, AUTO)
    return ChunkForm(
        structure=cast(Structure, choice_field(fields, "structure", _STRUCTURES, "general")),
        parent_mode=choice_field(fields, "parent_mode", _PARENT_MODES, "paragraph"),
        chunk_line=flag_field(fields, "chunk_line", True),
        rule=None if doc_type == AUTO else DocumentRule.model_validate({"include": "*", "doc_type": doc_type}),
        options=_options(fields, doc_type, own),
        metadata_fields=_stated_metadata(fields),
    )


def _options(fields: Mapping[str, Any], doc_type: str, own: IngestOptions) -> IngestOptions:
    """Return the chunking table with the sizes in the form, for every type."""
    size = whole_field(fields, "chunk_size", LEAST_SIZE, MOST_SIZE)
    overlap = whole_field(fields, "overlap", 0, MOST_SIZE - 1)
    if size is None and overlap is None:
        return own
    rows = own.strategies or DEFAULT_STRATEGIES
    table = {name: row if size is None else _sized(row, size) for name, row in rows.items()}
    if overlap is not None:
        meant = [name for name in table if doc_type in (AUTO, name) and table[name].method != "field_level"]
        for name in meant:
            if overlap >= table[name].chunk_size:
                raise InvalidRequest(
                    f"overlap must be smaller than the chunk size, {table[name].chunk_size} for {name}: got {overlap}"
                )
            table[name] = replace(table[name], overlap=overlap)
    return replace(own, strategies=table, max_chunk_tokens=own.max_chunk_tokens if size is None else size)


def _sized(row: ChunkingStrategy, size: int) -> ChunkingStrategy:
    """Return a row with that size, and an overlap of at most a quarter of it."""
    return replace(row, chunk_size=size, overlap=min(row.overlap, size // 4))


def _stated_metadata(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document metadata stated in the form, by chunk field."""
    metadata = {
        "document_id": _short(fields, "document_id"),
        "title": _short(fields, "title"),
        "document_version": bare_version(_short(fields, "version") or "") or None,
        "effective_from": _day(fields, "effective_from"),
        "effective_to": _day(fields, "effective_to"),
    }
    start, end = metadata["effective_from"], metadata["effective_to"]
    if isinstance(start, date) and isinstance(end, date) and start >= end:
        raise InvalidRequest(f"effective_to, the first day no longer in force, must be after effective_from ({start})")
    return {name: value for name, value in metadata.items() if value is not None}


def _short(fields: Mapping[str, Any], name: str) -> str | None:
    text = text_field(fields, name)
    if text is None:
        return None
    if len(text) > _LONGEST_VALUE:
        raise InvalidRequest(f"{name} has {len(text):,} characters, at most {_LONGEST_VALUE} are kept")
    return " ".join(text.split())


def _day(fields: Mapping[str, Any], name: str) -> date | None:
    text = text_field(fields, name)
    day = None if text is None else to_date(text)
    if text is not None and day is None:
        raise InvalidRequest(f"{name} must be a date such as 2026-01-31, got {text[:40]!r}")
    return day


_RECORD: Final = re.compile(r"^## ", re.MULTILINE)
_NOT_OF_A_DOCUMENT: Final = frozenset(("file_name", "structure", "documents", "title", "doc_type"))
UNNAMED: Final = "document"
"""The path of a text without a known file."""

_MOST_PAGES: Final = 100_000


def text_of_form(fields: Mapping[str, Any]) -> tuple[LoadedDocument, ...]:
    """Return the documents in the fields `text`, `title`, `metadata` and `pages`; none if there is no text.

    Args:
        fields: of the form; the last three as returned by `read_document`, or omitted.

    Raises:
        InvalidRequest: a field of the wrong type.
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
    file_name, pages = metadata.get("file_name"), _pages(fields)
    path = shown_name(file_name) if isinstance(file_name, str) and file_name else UNNAMED
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
    """Return the front matter of a text that no loader has parsed, and the text below it."""
    try:
        fields, end = front_matter(text)
    except BrokenFrontMatter:
        return {}, text
    return (dict(fields), text[end:]) if text[end:].strip() else ({}, text)


def _records(text: str, path: str) -> list[LoadedDocument]:
    """Return the records of a text in which each record has a heading and one line per field."""
    parts = [part.strip() for part in _RECORD.split(text)]
    return [_record(part, path, number) for number, part in enumerate(filter(None, parts), start=1)]


def _record(part: str, path: str, number: int) -> LoadedDocument:
    title, _, body = part.partition("\n")
    pairs = (row.partition(": ") for row in body.strip().split("\n"))
    fields = {name: value for name, _, value in pairs if value and name not in DECLARED_FIELDS}
    return LoadedDocument(path=path, text=f"{title}\n{body.strip()}".strip(), fields=fields, record=True, line=number)


def _pages(fields: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    rows = fields.get("pages") or ()
    if not isinstance(rows, Sequence) or isinstance(rows, str) or len(rows) > _MOST_PAGES:
        raise InvalidRequest("pages must be the variable 'pages' of the tool 'Read document', or be left out")
    pages = [_page(row) for row in rows]
    if pages != sorted(pages):
        raise InvalidRequest("pages must be in the order of the text")
    return tuple(pages)


def _page(row: Any) -> tuple[int, int]:
    offset, page = (row.get("offset"), row.get("page")) if isinstance(row, Mapping) else (None, None)
    if type(offset) is not int or type(page) is not int or offset < 0 or page < 1:
        raise InvalidRequest("pages must be objects with the whole numbers 'offset' (0 or more) and 'page' (1 or more)")
    return offset, page
