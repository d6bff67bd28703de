"""A retrieve request from its body to the answer's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from context_engine.testing.fake_dify.filters import matching_documents
from context_engine.testing.fake_dify.keyword_search import keyword_search
from context_engine.testing.fake_dify.payload import RetrievePlan, plan
from context_engine.testing.fake_dify.stored import OWNER, StoredDataset, StoredSegment
from context_engine.testing.fake_dify.vector_search import UnitHit, WorkspaceModels, vector_search


class Behaviour(NamedTuple):
    """In what the Dify versions and processes differ.

    Attributes:
        typed: the retrieval model is checked by types, as since 1.13.
        modern: null lists are empty lists, pages say how many there are, and a deletion is a 204, as since 1.14.
        drop_filters: metadata filters are ignored without a word, as in 1.13.x.
        seed: decides the order and the cut among equals of keyword search.
    """

    typed: bool
    modern: bool
    drop_filters: bool
    seed: int


def retrieve(stored: StoredDataset, body: Any, how: Behaviour, models: WorkspaceModels) -> dict[str, Any]:
    """Return the body of a 200 answer.

    Raises:
        Refusal: what Dify answers instead.
    """
    asked = plan(body, stored.dataset.saved_model, typed=how.typed)
    documents: set[str] | None = None
    if asked.conditions and asked.query and not how.drop_filters:
        documents = matching_documents(stored, asked.conditions)
        if not documents:
            return _answer(asked.query, [])
    return _answer(asked.query, _records(stored, asked, documents, how, models))


def _answer(query: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"query": {"content": query}, "records": records}


def _records(
    stored: StoredDataset, asked: RetrievePlan, documents: set[str] | None, how: Behaviour, models: WorkspaceModels
) -> list[dict[str, Any]]:
    if asked.method == "keyword_search":
        found = keyword_search(stored, asked.query, asked.top_k, how.seed)
        kept = [segment for segment in found if documents is None or segment.document.id in documents]
        return [_record(segment, 0.0, None, how.modern) for segment in kept]
    if not asked.query.strip():
        return []
    return _grouped(vector_search(stored, asked, documents, models), how.modern)


def _grouped(hits: Sequence[UnitHit], modern: bool) -> list[dict[str, Any]]:
    """Bring child chunks together under their parent, whose score is the best child's."""
    by_segment: dict[str, list[UnitHit]] = {}
    for hit in hits:
        by_segment.setdefault(hit.unit.segment.id, []).append(hit)
    records = []
    for group in by_segment.values():
        children = [_child(hit, hit.unit.child) for hit in group if hit.unit.child is not None]
        record = _record(group[0].unit.segment, max(hit.score for hit in group), children or None, modern)
        if any(hit.unit.summary for hit in group):
            record["summary"] = group[0].unit.segment.segment.summary
        records.append(record)
    return sorted(records, key=lambda record: -float(record["score"]))


def _child(hit: UnitHit, position: int) -> dict[str, Any]:
    identity = f"{hit.unit.segment.id[:-4]}{position:04x}"
    return {"id": identity, "content": hit.unit.text, "position": position, "score": hit.score}


def _record(
    segment: StoredSegment, score: float, children: list[dict[str, Any]] | None, modern: bool
) -> dict[str, Any]:
    null: list[Any] | None = [] if modern else None
    return {
        "segment": _segment(segment, null),
        "child_chunks": children or null,
        "score": score,
        "tsne_position": None,
        "files": [_file(segment, name) for name in segment.segment.files] or null,
        "summary": None,
    }


def _file(segment: StoredSegment, name: str) -> dict[str, Any]:
    identity = str(uuid5(UUID(segment.id), name))
    return {
        "id": identity,
        "name": name,
        "size": 1024,
        "extension": name.rpartition(".")[2],
        "mime_type": "image/png",
        "source_url": f"/files/{identity}/file-preview?timestamp=1767225600&nonce=0&sign=signed",
    }


def _segment(stored: StoredSegment, null: list[Any] | None) -> dict[str, Any]:
    segment, moment = stored.segment, stored.document.document.completed_at
    return {
        "id": stored.id,
        "position": stored.position,
        "document_id": stored.document.id,
        "content": segment.content,
        "sign_content": segment.content,
        "answer": segment.answer,
        "word_count": len(segment.content),
        "tokens": 0 if stored.keywords is not None else len(segment.content) // 4,
        "keywords": list(stored.keywords) if stored.keywords is not None else null,
        "index_node_id": stored.node_id,
        "index_node_hash": stored.hash,
        "hit_count": 0,
        "enabled": True,
        "disabled_at": None,
        "disabled_by": None,
        "status": "completed",
        "created_by": OWNER,
        "created_at": moment,
        "indexing_at": moment,
        "completed_at": moment,
        "error": None,
        "stopped_at": None,
        "document": {
            "id": stored.document.id,
            "data_source_type": "upload_file",
            "name": stored.document.document.name,
            "doc_type": None,
            "doc_metadata": None if stored.document.metadata is None else dict(stored.document.metadata),
        },
    }
