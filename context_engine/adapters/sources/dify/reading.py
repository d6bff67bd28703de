"""Dify's answer to a search: what is well formed in it, and chunks made of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.dify.breadcrumb import parse_breadcrumb
from context_engine.adapters.sources.dify.metadata import MARKED, MARKS, MetadataReader
from context_engine.adapters.sources.dify.method import SearchMethod
from context_engine.adapters.sources.dify.names import readable_name
from context_engine.core.models import (
    NOTHING,
    Chunk,
    Classification,
    FetchedAtBasis,
    Notice,
    NoticeCode,
    sanitized_mapping,
    to_moment,
)
from context_engine.errors import SourceProtocolError

__all__ = ["Records", "claimed_classification", "read_chunks", "read_records"]

_BUILT_IN_NAME: Final = "document_name"
"""A field that Dify itself fills in where a dataset's built-in metadata are switched on."""


class Records(NamedTuple):
    """The records of an answer that can be read, in its order, and how many cannot."""

    good: tuple[Mapping[str, Any], ...]
    bad: int


def read_records(body: Any) -> Records:
    """Return the well-formed records of the body of a retrieve answer.

    Raises:
        SourceProtocolError: the body holds no list of records, or none of its records can be read.
    """
    given = body.get("records") if isinstance(body, Mapping) else None
    if not isinstance(given, list):
        raise SourceProtocolError("the answer holds no list of records: Dify's version may have changed its form")
    good = tuple(record for record in given if _is_record(record))
    if given and not good:
        raise SourceProtocolError(f"none of the {len(given)} records can be read: Dify may have changed their form")
    return Records(good, len(given) - len(good))


def _is_record(record: Any) -> bool:
    segment = record.get("segment") if isinstance(record, Mapping) else None
    if not isinstance(segment, Mapping):
        return False
    document = segment.get("document")
    return (
        isinstance(segment.get("id"), str)
        and segment["id"] != ""
        and isinstance(segment.get("content"), str)
        and isinstance(segment.get("answer"), str | None)
        and isinstance(document, Mapping)
        and isinstance(document.get("doc_metadata"), Mapping | None)
        and isinstance(record.get("child_chunks"), list | None)
        and not isinstance(record.get("score"), str | Mapping | list)
    )


def read_chunks(
    records: Sequence[Mapping[str, Any]],
    dataset_id: str,
    method: SearchMethod,
    claims: MetadataReader,
    notices: list[Notice],
) -> list[Chunk]:
    """Return the chunks of well-formed records, in their order; records without text, and repeated ones, left out."""
    chunks: dict[str, Chunk] = {}
    for record in records:
        segment = record["segment"]
        if segment["id"] in chunks:
            continue
        if not segment["content"].strip():
            pictures = _files(record)
            what = f"is a picture ({', '.join(pictures)}), which is not read" if pictures else "has no text"
            said = f"dataset {dataset_id}: segment {segment['id'][:64]} {what}"
            detail = {"dataset_id": dataset_id, "chunk_id": segment["id"][:64], "pictures": pictures}
            notices.append(Notice(NoticeCode.CHUNK_WITHOUT_TEXT, "", said, detail))
            continue
        chunks[segment["id"]] = _chunk(record, segment, dataset_id, method, claims, notices)
    return list(chunks.values())


def claimed_classification(record: Mapping[str, Any], claims: MetadataReader) -> Classification | None:
    """Return what the document of a well-formed record says of its classification; None where it says nothing."""
    sound, _ = sanitized_mapping(record["segment"]["document"].get("doc_metadata") or {})
    claimed: Classification | None = claims.claims(dict(sound), []).get("classification")
    return claimed


def _chunk(
    record: Mapping[str, Any],
    segment: Mapping[str, Any],
    dataset_id: str,
    method: SearchMethod,
    claims: MetadataReader,
    notices: list[Notice],
) -> Chunk:
    document = segment["document"]
    sound, changes = sanitized_mapping(document.get("doc_metadata") or {})
    for change in changes:
        detail = {"chunk_id": segment["id"][:64], "field": "doc_metadata", "change": change}
        said = f"segment {segment['id'][:64]}: doc_metadata {change}"
        notices.append(Notice(NoticeCode.METADATA_REPAIRED, "", said, detail))
    metadata = dict(sound)
    if isinstance(metadata.get(_BUILT_IN_NAME), str):
        metadata[_BUILT_IN_NAME] = readable_name(metadata[_BUILT_IN_NAME])
    fields: dict[str, Any] = {}
    indexed = to_moment(segment.get("completed_at"))
    if indexed is not None:
        fields = {"fetched_at": indexed, "fetched_at_basis": FetchedAtBasis.INDEXED}
    fields |= claims.claims(metadata, notices)
    ours, whole = MARKED in metadata, bool(metadata.get(MARKS.content_hash))
    if ours and (version := _words(metadata.get(MARKS.version))) is not None:
        fields["document_version"] = version  # letter by letter: a field of numbers makes 3.1 of 3.10
    document_id, title = _identity(metadata, segment)
    text, extra = _text(record, segment)
    if ours:
        text, path, section, reference = parse_breadcrumb(text)
        fields |= {"heading_path": path, "section": section}
        metadata |= {"reference": reference} if reference else {}
    if ours and not whole:
        extra["unfinished"] = True
        said = (
            f"dataset {dataset_id}: document {document_id!r} is being written, or its writing was broken off: what was "
            "found of it may not be all of it"
        )
        detail = {"dataset_id": dataset_id, "document_id": document_id}
        notices.append(Notice(NoticeCode.DOCUMENT_UNFINISHED, "", said, detail))
    return Chunk(
        content=text,
        chunk_id=segment["id"],
        scores=method.scores(record.get("score")),
        document_id=document_id,
        dataset_id=dataset_id,
        title=title,
        position=_place(segment.get("position")),
        metadata=metadata or NOTHING,
        extra=extra or NOTHING,
        **fields,
    )


def _identity(metadata: dict[str, Any], segment: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return id and title of a document, its own where this package wrote it; its marks leave the metadata."""
    document = segment["document"]
    given = _words(segment.get("document_id")) or _words(document.get("id"))
    own = _words(metadata.get(MARKED))
    if own is None:
        return given, readable_name(document.get("name"))
    title = _words(metadata.get(MARKS.title))
    for name in MARKS:
        metadata.pop(name, None)
    metadata["dify_document_id"] = given
    return own, title


def _text(record: Mapping[str, Any], segment: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the text with what belongs to it: question and answer are one text; of a parent the spans of the children
    that matched, of a summary index the summary that matched, of a multimodal dataset the names of its pictures.
    """
    content: str = segment["content"]
    summary, files = _words(record.get("summary")), _files(record)
    extra: dict[str, Any] = {"summary": summary} if summary else {}
    extra |= {"files": files} if files else {}
    if segment.get("answer"):
        return f"{content}\n\n{segment['answer']}", {"question": content, "answer": segment["answer"], **extra}
    children = record.get("child_chunks") or []
    spans = [span for child in children if (span := _span(content, child)) is not None]
    return content, {"matched_spans": spans, **extra} if spans else extra


def _files(record: Mapping[str, Any]) -> list[str]:
    """Return the names of a record's pictures; their addresses are signed and stay here."""
    given = record.get("files")
    files = given if isinstance(given, list) else []
    return [name for one in files if isinstance(one, Mapping) and (name := _words(one.get("name")))]


def _span(parent: str, child: Any) -> list[int] | None:
    """Return [start, end) of a child's text in its parent's; None where it does not stand there word for word."""
    text = child.get("content") if isinstance(child, Mapping) else None
    start = parent.find(text) if isinstance(text, str) and text else -1
    return None if start < 0 or not isinstance(text, str) else [start, start + len(text)]


def _words(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _place(value: Any) -> int | None:
    """Dify counts from 1."""
    return value - 1 if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None
