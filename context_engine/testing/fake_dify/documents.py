"""Dify's descriptions of documents and chunks that are requested by id or listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid5

from context_engine.testing.fake_dify.data import FakeDocument, FakeSegment
from context_engine.testing.fake_dify.describe import BUILT_IN_FIELDS, field_ids
from context_engine.testing.fake_dify.stored import OWNER, StoredDataset, StoredDocument, StoredSegment, built_in_values

PAGE_LIMIT: Final = 100
DEFAULT_LIMIT: Final = 20
_RUNNING: Final = ("parsing", "cleaning", "splitting", "indexing")
_DONE_BY: Final = {
    "processing_started_at": "parsing",
    "parsing_completed_at": "cleaning",
    "cleaning_completed_at": "splitting",
    "splitting_completed_at": "indexing",
    "completed_at": "completed",
}
_RULES: Final[Mapping[str, Any]] = {
    "pre_processing_rules": [
        {"id": "remove_extra_spaces", "enabled": True},
        {"id": "remove_urls_emails", "enabled": False},
    ],
    "segmentation": {"separator": "\n\n", "max_tokens": 500, "chunk_overlap": 50},
    "parent_mode": None,
    "subchunk_segmentation": None,
}
_ORDER: Final = ("waiting", *_RUNNING, "completed")


def document_row(stored: StoredDataset, document: StoredDocument) -> dict[str, Any]:
    """Return the description of a document; its counts are empty until it is indexed."""
    declared = document.document
    completed = declared.indexing_status == "completed"
    upload = str(uuid5(UUID(document.id), "upload"))
    return {
        "id": document.id,
        "position": document.position,
        "data_source_type": "upload_file",
        "data_source_info": {"upload_file_id": upload},
        "data_source_detail_dict": {"upload_file": _upload(upload, declared)},
        "dataset_process_rule_id": str(uuid5(UUID(document.id), "rule")),
        "name": declared.name,
        "created_from": "api",
        "created_by": OWNER,
        "created_at": declared.completed_at,
        "tokens": 0 if completed else None,
        "indexing_status": declared.indexing_status,
        "error": declared.error,
        "enabled": declared.enabled,
        "disabled_at": None if declared.enabled else declared.completed_at,
        "disabled_by": None if declared.enabled else OWNER,
        "archived": declared.archived,
        "display_status": _display(declared),
        "word_count": sum(map(_length, declared.segments)) if completed else None,
        "hit_count": 0,
        "doc_form": stored.dataset.doc_form,
        "doc_metadata": _metadata(stored, document),
        "summary_index_status": None,
        "need_summary": False,
    }


def _upload(identity: str, document: FakeDocument) -> dict[str, Any]:
    return {
        "id": identity,
        "name": document.name,
        "size": sum(map(_length, document.segments)),
        "extension": "txt",
        "mime_type": "text/plain",
        "created_by": OWNER,
        "created_at": float(document.completed_at),
    }


def _length(segment: str | FakeSegment) -> int:
    return len(segment if isinstance(segment, str) else segment.content)


def _display(document: FakeDocument) -> str:
    status = document.indexing_status
    if status == "completed":
        return "archived" if document.archived else "available" if document.enabled else "disabled"
    return {"waiting": "queuing", "error": "error"}.get(status, "indexing")


def _metadata(stored: StoredDataset, document: StoredDocument) -> list[dict[str, Any]] | None:
    """Return metadata as a list with values as text, or None."""
    if not document.metadata:
        return None
    fields = field_ids(stored)
    return [
        {"id": "built-in", "name": name, "type": BUILT_IN_FIELDS[name], "value": str(value)}
        if name in BUILT_IN_FIELDS
        else {**fields[name], "value": value if value is None else str(value)}
        for name, value in document.metadata.items()
    ]


def document_page(stored: StoredDataset, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return a page of documents, newest first; at most 100, although the requested limit is echoed."""
    page, asked = whole_number(query, "page", 1), whole_number(query, "limit", DEFAULT_LIMIT)
    keyword = (query.get("keyword") or [""])[0]
    status = (query.get("status") or [""])[0]
    matching = [
        document
        for document in stored.documents
        if keyword in document.document.name and status in ("", _display(document.document))
    ]
    matching.sort(key=lambda document: (document.document.completed_at, document.position), reverse=True)
    size = min(asked, PAGE_LIMIT) if asked > 0 else DEFAULT_LIMIT
    data = [document_row(stored, document) for document in matching[(max(page, 1) - 1) * size :][:size]]
    return {"data": data, "has_more": len(data) == asked, "limit": asked, "total": len(matching), "page": page}


def document_alone(stored: StoredDataset, document: StoredDocument) -> dict[str, Any]:
    """Return the description of a document requested by id.

    Unlike in lists, numbers stay numbers, and a document with metadata always has the built-in fields too.
    """
    row, declared = document_row(stored, document), document.document
    metadata = row["doc_metadata"] or []
    own = [
        {**field, "value": (document.metadata or {})[field["name"]]} for field in metadata if field["id"] != "built-in"
    ]
    built_in = [
        {"id": "built-in", "name": name, "type": BUILT_IN_FIELDS[name], "value": str(value)}
        for name, value in built_in_values(declared).items()
    ]
    count = sum(segment.document.id == document.id for segment in stored.segments)
    rule = {"id": row["dataset_process_rule_id"], "dataset_id": stored.id, "mode": "custom", "rules": _RULES}
    return {
        **{name: row[name] for name in ("id", "position", "data_source_type")},
        "data_source_info": row["data_source_detail_dict"],
        "dataset_process_rule_id": row["dataset_process_rule_id"],
        "dataset_process_rule": {"mode": "custom", "rules": _RULES},
        "document_process_rule": rule,
        **{name: row[name] for name in ("name", "created_from", "created_by", "created_at", "tokens")},
        "indexing_status": declared.indexing_status,
        "completed_at": declared.completed_at if declared.indexing_status == "completed" else None,
        "updated_at": declared.completed_at,
        "indexing_latency": 1.0,
        **{name: row[name] for name in ("error", "enabled", "disabled_at", "disabled_by", "archived")},
        "doc_type": None,
        "doc_metadata": [*own, *built_in] if metadata else None,
        "segment_count": count,
        "average_segment_length": sum(map(_length, declared.segments)) // count if count else 0,
        **{name: row[name] for name in ("hit_count", "display_status", "doc_form")},
        "doc_language": "English",
        **{name: row[name] for name in ("summary_index_status", "need_summary")},
    }


def document_status(document: StoredDocument) -> dict[str, Any]:
    """Return the indexing status of a document."""
    declared = document.document
    failed = declared.indexing_status == "error"
    reached = _ORDER.index("splitting" if failed else declared.indexing_status)
    moments = {name: declared.completed_at if reached >= _ORDER.index(by) else None for name, by in _DONE_BY.items()}
    return {
        "id": document.id,
        "indexing_status": declared.indexing_status,
        **moments,
        "paused_at": None,
        "error": declared.error,
        "stopped_at": declared.completed_at if failed else None,
        "completed_segments": len(declared.segments),
        "total_segments": len(declared.segments),
    }


def segment_row(segment: StoredSegment) -> dict[str, Any]:
    """Return the description of a chunk in the form of the chunk endpoints."""
    moment, enabled = segment.document.document.completed_at, segment.segment.enabled
    return {
        "id": segment.id,
        "position": segment.position,
        "document_id": segment.document.id,
        "content": segment.segment.content,
        "sign_content": segment.segment.content,
        "answer": segment.segment.answer,
        "word_count": len(segment.segment.content),
        "tokens": 0 if segment.keywords is not None else len(segment.segment.content) // 4,
        "keywords": None if segment.keywords is None else list(segment.keywords),
        "index_node_id": segment.node_id,
        "index_node_hash": segment.hash,
        "hit_count": 0,
        "enabled": enabled,
        "disabled_at": None if enabled else moment,
        "disabled_by": None if enabled else OWNER,
        "status": "completed",
        "created_by": OWNER,
        "created_at": moment,
        "updated_at": moment,
        "updated_by": None,
        "indexing_at": moment,
        "completed_at": moment,
        "error": None,
        "stopped_at": None,
        "child_chunks": [],
        "attachments": [],
        "summary": None,
    }


def segment_page(stored: StoredDataset, document: StoredDocument, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return a page of a document's chunks in their order."""
    page, asked = whole_number(query, "page", 1), whole_number(query, "limit", DEFAULT_LIMIT)
    size = min(asked, PAGE_LIMIT) if asked > 0 else DEFAULT_LIMIT
    segments = sorted(
        (segment for segment in stored.segments if segment.document.id == document.id),
        key=lambda segment: segment.position,
    )
    start = (max(page, 1) - 1) * size
    return {
        "data": [segment_row(segment) for segment in segments[start : start + size]],
        "doc_form": stored.dataset.doc_form,
        "total": len(segments),
        "has_more": start + size < len(segments),
        "limit": size,
        "page": page,
    }


def whole_number(query: Mapping[str, Sequence[str]], name: str, default: int) -> int:
    """Return a number of the query string, or the default if it is not a number, as document lists do."""
    try:
        return int((query.get(name) or [str(default)])[0])
    except ValueError:
        return default
