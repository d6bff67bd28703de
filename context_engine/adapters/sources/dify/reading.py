"""Dify's answer to a search: what is well formed in it, and chunks made of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.dify.metadata import MARKED, MARKS, MetadataReader
from context_engine.adapters.sources.dify.method import SearchMethod
from context_engine.adapters.sources.dify.names import readable_name
from context_engine.adapters.sources.dify.segment_text import SegmentText, pictures_of, segment_text
from context_engine.core.chunking import ChunkLine
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
        text = segment_text(record, has_line=claims.has_line(segment["document"].get("doc_metadata") or {}))
        if not text.content.strip():
            pictures = pictures_of(record)
            what = f"is a picture ({', '.join(pictures)}), which is not read" if pictures else "has no text"
            said = f"dataset {dataset_id}: segment {segment['id'][:64]} {what}"
            detail = {"dataset_id": dataset_id, "chunk_id": segment["id"][:64], "pictures": pictures}
            notices.append(Notice(NoticeCode.CHUNK_WITHOUT_TEXT, "", said, detail))
            continue
        chunks[segment["id"]] = _chunk(record, text, dataset_id, method, claims, notices)
    return list(chunks.values())


def claimed_classification(record: Mapping[str, Any], claims: MetadataReader) -> Classification | None:
    """Return what the document of a well-formed record says of its classification; None where it says nothing."""
    sound, _ = sanitized_mapping(record["segment"]["document"].get("doc_metadata") or {})
    claimed: Classification | None = claims.claims(dict(sound), []).get("classification")
    return claimed


def _chunk(
    record: Mapping[str, Any],
    text: SegmentText,
    dataset_id: str,
    method: SearchMethod,
    claims: MetadataReader,
    notices: list[Notice],
) -> Chunk:
    segment, line = record["segment"], text.line or ChunkLine()
    metadata = _metadata(segment, notices)
    fields: dict[str, Any] = {"heading_path": line.path, **_of_line(line)}
    indexed = to_moment(segment.get("completed_at"))
    if indexed is not None:
        fields |= {"fetched_at": indexed, "fetched_at_basis": FetchedAtBasis.INDEXED}
    fields |= claims.claims(metadata, notices)
    ours, whole = MARKED in metadata, bool(metadata.get(MARKS.content_hash))
    if ours and (version := _words(metadata.get(MARKS.version))) is not None:
        fields["document_version"] = version  # letter by letter: a field of numbers makes 3.1 of 3.10
    document_id, title = _identity(metadata, segment, line)
    for name, said in (("page", line.page), ("reference", line.reference)):
        if said is not None and metadata.get(name) is None:
            metadata[name] = said
    if ours and not whole:
        text.extra["unfinished"] = True
        notices.append(_unfinished(dataset_id, document_id))
    return Chunk(
        content=text.content,
        chunk_id=segment["id"],
        scores=method.scores(record.get("score")),
        document_id=document_id,
        dataset_id=dataset_id,
        title=title,
        position=_place(segment.get("position")),
        metadata=metadata or NOTHING,
        extra=text.extra or NOTHING,
        **fields,
    )


def _metadata(segment: Mapping[str, Any], notices: list[Notice]) -> dict[str, Any]:
    """Return a document's metadata, fit to be read."""
    sound, changes = sanitized_mapping(segment["document"].get("doc_metadata") or {})
    for change in changes:
        detail = {"chunk_id": segment["id"][:64], "field": "doc_metadata", "change": change}
        said = f"segment {segment['id'][:64]}: doc_metadata {change}"
        notices.append(Notice(NoticeCode.METADATA_REPAIRED, "", said, detail))
    metadata = dict(sound)
    if isinstance(metadata.get(_BUILT_IN_NAME), str):
        metadata[_BUILT_IN_NAME] = readable_name(metadata[_BUILT_IN_NAME])
    return metadata


def _of_line(line: ChunkLine) -> dict[str, Any]:
    """Return the fields of a chunk that its line says, by which metadata may still win."""
    said = {
        "document_version": line.version,
        "section": line.section,
        "effective_from": line.effective_from,
        "effective_to": line.effective_to,
    }
    return {name: value for name, value in said.items() if value is not None}


def _identity(metadata: dict[str, Any], segment: Mapping[str, Any], line: ChunkLine) -> tuple[str | None, str | None]:
    """Return id and title of a document, its own where this package wrote it or its line says them.

    Its marks leave the metadata; Dify's id joins it where it is another.
    """
    document = segment["document"]
    given = _words(segment.get("document_id")) or _words(document.get("id"))
    own = _words(metadata.get(MARKED))
    if own is None:
        title = line.title or readable_name(document.get("name"))
    else:
        title = _words(metadata.get(MARKS.title))
        for name in MARKS:
            metadata.pop(name, None)
    identity = own or line.document_id
    if identity is None:
        return given, title
    metadata["dify_document_id"] = given
    return identity, title


def _unfinished(dataset_id: str, document_id: str | None) -> Notice:
    said = (
        f"dataset {dataset_id}: document {document_id!r} is being written, or its writing was broken off: what was "
        "found of it may not be all of it"
    )
    detail = {"dataset_id": dataset_id, "document_id": document_id}
    return Notice(NoticeCode.DOCUMENT_UNFINISHED, "", said, detail)


def _words(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _place(value: Any) -> int | None:
    """Dify counts from 1."""
    return value - 1 if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None
