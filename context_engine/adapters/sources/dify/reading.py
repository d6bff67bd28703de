"""Read chunks from Dify's records, without those above the caller's clearance.

General chunks and parents begin with the chunk line; in a question-answer pair the answer does. If the parent is a
whole document, each child has a line too, and the best child's line gives the place of the match.

Dify searches with the rights of the workspace's owner, so its records are divided by access here, before anything is
ranked, cut or reported. Withheld records go to the engine last, only for the audit record."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.dify.dataset import SearchMethod
from context_engine.adapters.sources.dify.metadata import MARKED, MARKS, MetadataReader, readable_name
from context_engine.core.chunking.chunk_line import ChunkLine, read_line, restored
from context_engine.core.models import (
    NOTHING,
    PLACE_OF_MATCH,
    AccessScope,
    Chunk,
    Classification,
    FetchedAtBasis,
    Notice,
    NoticeCode,
    SourceSpec,
    sanitized_mapping,
    to_moment,
)
from context_engine.core.policy.access import access_class
from context_engine.errors import SourceProtocolError


class SegmentText(NamedTuple):
    """A segment's text.

    Attributes:
        line: its parsed line; None without one.
        content: without the line; question and answer are one text.
        extra: `matched_spans` of a parent's children, and whether its place is that of a child; the matching `summary`
            of a summary index, the `files` (picture names) of a multimodal dataset, `question` and `answer` of a pair.
    """

    line: ChunkLine | None
    content: str
    extra: dict[str, Any]


class _Child(NamedTuple):
    line: ChunkLine | None
    content: str
    score: float


def segment_text(record: Mapping[str, Any], *, has_line: bool) -> SegmentText:
    """Return the text, line and place of a well-formed record's segment.

    Args:
        has_line: whether the text was written with a line, or escaped; otherwise it is kept byte for byte.
    """
    content: str = record["segment"]["content"]
    extra = _beside(record)
    if answer := record["segment"].get("answer"):
        line, shown = read_line(answer) if has_line else (None, answer)
        question = restored(content) if has_line else content
        text = f"{question}\n\n{shown}" if shown else question
        return SegmentText(line, text, {"question": question, "answer": shown, **extra})
    line, content = read_line(content) if has_line else (None, content)
    children = _children(record, has_line=has_line)
    spans = [[start, start + len(child.content)] for child in children if (start := content.find(child.content)) >= 0]
    extra |= {"matched_spans": spans} if spans else {}
    best = max(children, key=lambda child: child.score, default=None)
    if best is not None and best.line:
        line, extra = _placed(line, best.line), extra | {PLACE_OF_MATCH: True}
    return SegmentText(line, content, extra)


def line_of_first(body: Mapping[str, Any]) -> ChunkLine:
    """Return the chunk line of the first segment in Dify's list, empty if it has none."""
    rows = body.get("data")
    row = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], Mapping) else {}
    text = row.get("answer") or row.get("content")
    return (read_line(text)[0] if isinstance(text, str) else None) or ChunkLine()


def pictures_of(record: Mapping[str, Any]) -> list[str]:
    """Return the names of a record's pictures; their signed addresses are not passed on."""
    listed = record.get("files")
    files = listed if isinstance(listed, list) else []
    return [name for file in files if isinstance(file, Mapping) and isinstance(name := file.get("name"), str) and name]


def _beside(record: Mapping[str, Any]) -> dict[str, Any]:
    summary, files = record.get("summary"), pictures_of(record)
    extra: dict[str, Any] = {"summary": summary} if isinstance(summary, str) and summary else {}
    return extra | ({"files": files} if files else {})


def _children(record: Mapping[str, Any], *, has_line: bool) -> list[_Child]:
    out: list[_Child] = []
    for child in record.get("child_chunks") or []:
        text, score = (child.get("content"), child.get("score")) if isinstance(child, Mapping) else (None, None)
        line, content = read_line(text) if has_line and isinstance(text, str) else (None, text)
        if isinstance(content, str) and content:
            out.append(_Child(line, content, score if isinstance(score, int | float) else -inf))
    return out


def _placed(line: ChunkLine | None, child: ChunkLine) -> ChunkLine:
    """Return a parent's line with the place of a child's line."""
    of_parent = line or ChunkLine()
    return replace(of_parent, path=child.path, section=child.section, page=child.page, reference=child.reference)


_BUILT_IN_NAME: Final = "document_name"
"""A field that Dify fills in if a dataset's built-in metadata are switched on."""


class Records(NamedTuple):
    """The readable records of an answer in its order, and the number of unreadable ones."""

    good: tuple[Mapping[str, Any], ...]
    bad: int


def read_records(body: Any) -> Records:
    """Return the well-formed records of a retrieve answer.

    Raises:
        SourceProtocolError: the list of records is missing, or all records are unreadable.
    """
    rows = body.get("records") if isinstance(body, Mapping) else None
    if not isinstance(rows, list):
        raise SourceProtocolError("the answer has no list of records: Dify's version may have changed the format")
    good = tuple(record for record in rows if _is_record(record))
    if rows and not good:
        raise SourceProtocolError(f"all {len(rows)} records are unreadable: Dify may have changed the format")
    return Records(good, len(rows) - len(good))


def unnamed(records: Records) -> bool:
    """Return whether Dify says of no record to which document it belongs but by id, as 1.14.1 does."""
    documents = [record["segment"]["document"] for record in records.good]
    return bool(documents) and all("id" in document and document["id"] is None for document in documents)


def with_documents(records: Records, listed: Mapping[str, Mapping[str, Any]]) -> Records:
    """Return the records with their documents; a record whose document is not listed is unreadable.

    Args:
        listed: rows of Dify's list of documents by id, where metadata is a list and each value a text.
    """
    good = []
    for record in records.good:
        segment = record["segment"]
        row = listed.get(str(segment.get("document_id")))
        if row is not None:
            rows = row.get("doc_metadata") or ()
            fields = {field["name"]: _typed(field) for field in rows if field.get("id") != "built-in"}
            document = {"id": row["id"], "name": row.get("name"), "doc_metadata": fields or None}
            good.append({**record, "segment": {**segment, "document": document}})
    return Records(tuple(good), records.bad + len(records.good) - len(good))


def _typed(field: Mapping[str, Any]) -> Any:
    value = field.get("value")
    if field.get("type") not in ("number", "time") or not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() else number


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
    """Return the chunks of well-formed records in their order; records without text and duplicates are omitted."""
    chunks: dict[str, Chunk] = {}
    for record in records:
        segment = record["segment"]
        if segment["id"] in chunks:
            continue
        text = segment_text(record, has_line=claims.has_line(segment["document"].get("doc_metadata") or {}))
        if not text.content.strip():
            pictures = pictures_of(record)
            problem = f"is a picture ({', '.join(pictures)}), which is not read" if pictures else "has no text"
            message = f"dataset {dataset_id}: segment {segment['id'][:64]} {problem}"
            detail = {"dataset_id": dataset_id, "chunk_id": segment["id"][:64], "pictures": pictures}
            notices.append(Notice(NoticeCode.CHUNK_WITHOUT_TEXT, "", message, detail))
            continue
        chunks[segment["id"]] = _chunk(record, text, dataset_id, method, claims, notices)
    return list(chunks.values())


def claimed_classification(record: Mapping[str, Any], claims: MetadataReader) -> Classification | None:
    """Return the classification that a well-formed record's document claims, or None."""
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
    ours, complete = MARKED in metadata, bool(metadata.get(MARKS.content_hash))
    if ours and (version := _words(metadata.get(MARKS.version))) is not None:
        fields["document_version"] = version  # as text: a numeric field would turn 3.10 into 3.1
    document_id, title = _identity(metadata, segment, line)
    for name, stated in (("page", line.page), ("reference", line.reference)):
        if stated is not None and metadata.get(name) is None:
            metadata[name] = stated
    if ours and not complete:
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
    sound, changes = sanitized_mapping(segment["document"].get("doc_metadata") or {})
    for change in changes:
        detail = {"chunk_id": segment["id"][:64], "field": "doc_metadata", "change": change}
        message = f"segment {segment['id'][:64]}: doc_metadata {change}"
        notices.append(Notice(NoticeCode.METADATA_REPAIRED, "", message, detail))
    metadata = dict(sound)
    if isinstance(metadata.get(_BUILT_IN_NAME), str):
        metadata[_BUILT_IN_NAME] = readable_name(metadata[_BUILT_IN_NAME])
    return metadata


def _of_line(line: ChunkLine) -> dict[str, Any]:
    """Return the fields in a chunk's line; document metadata overrides them."""
    fields = {
        "document_version": line.version,
        "section": line.section,
        "effective_from": line.effective_from,
        "effective_to": line.effective_to,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _identity(metadata: dict[str, Any], segment: Mapping[str, Any], line: ChunkLine) -> tuple[str | None, str | None]:
    """Return a document's id and title: from its marks or its line, else Dify's.

    Removes the marks from the metadata; adds Dify's id if it differs.
    """
    document = segment["document"]
    document_id = _words(segment.get("document_id")) or _words(document.get("id"))
    own = _words(metadata.get(MARKED))
    if own is None:
        title = line.title or readable_name(document.get("name"))
    else:
        title = _words(metadata.get(MARKS.title))
        for name in MARKS:
            metadata.pop(name, None)
    identity = own or line.document_id
    if identity is None:
        return document_id, title
    metadata["dify_document_id"] = document_id
    return identity, title


def _unfinished(dataset_id: str, document_id: str | None) -> Notice:
    message = (
        f"dataset {dataset_id}: document {document_id!r} is being written, or its writing was interrupted: its chunks "
        "may be incomplete"
    )
    detail = {"dataset_id": dataset_id, "document_id": document_id}
    return Notice(NoticeCode.DOCUMENT_UNFINISHED, "", message, detail)


def _words(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _place(value: Any) -> int | None:
    """Return a 0-based position; Dify counts from 1."""
    return value - 1 if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None


class DividedRecords(NamedTuple):
    """The records of an answer by whether the caller may read them, both in Dify's order."""

    readable: tuple[Mapping[str, Any], ...]
    withheld: tuple[Mapping[str, Any], ...] = ()


def divided(
    records: Sequence[Mapping[str, Any]], spec: SourceSpec, claims: MetadataReader, access: AccessScope | None
) -> DividedRecords:
    """Divide well-formed records by whether the caller may read their document.

    Args:
        access: the caller's access; None admits everything.
    """
    if access is None or not _can_be_too_high(spec, access):
        return DividedRecords(tuple(records))
    parts: dict[bool, list[Mapping[str, Any]]] = {True: [], False: []}
    for record in records:
        claimed = claimed_classification(record, claims)
        parts[access.admits(access_class("", spec.classification, claimed))].append(record)
    return DividedRecords(tuple(parts[True]), tuple(parts[False]))


def may_withhold(spec: SourceSpec, access: AccessScope | None, field: str | None, fields: Collection[str]) -> bool:
    """Return whether records may be withheld, so that more records must be requested.

    Args:
        field: the metadata field that the manifest maps to the classification, or None.
        fields: of the dataset; documents written by this package state their classification under that name.
    """
    claims = field is not None or (MARKED in fields and "classification" in fields)
    return claims and access is not None and _can_be_too_high(spec, access)


def _can_be_too_high(spec: SourceSpec, access: AccessScope) -> bool:
    highest = max(level.rank for level in Classification)
    return max(access.clearance.rank, spec.classification.rank) < highest
