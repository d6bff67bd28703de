"""The endpoints that change datasets, documents, chunks and metadata."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final, NamedTuple
from uuid import uuid4

from context_engine.testing.fake_dify.data import FakeDataset, FakeDocument, FakeSegment
from context_engine.testing.fake_dify.describe import BUILT_IN_FIELDS, describe, field_ids
from context_engine.testing.fake_dify.documents import document_row, document_status, segment_row
from context_engine.testing.fake_dify.refusals import (
    DifyRefusal,
    RefusedField,
    invalid_param,
    missing_field,
    segment_problems,
    validation_error,
    wrong_type,
)
from context_engine.testing.fake_dify.stored import HeldDataset, Indexing, StoredDocument, StoredSegment

_AUTOMATIC: Final = 500
_LEAST: Final = 50
_MOST: Final = 4000
_PER_TOKEN: Final = 4


def split_text(text: str, rule: Mapping[str, Any] | None) -> list[str]:
    """Return the chunks into which Dify splits a text.

    Args:
        rule: the request's `process_rule`; None: automatic.

    Raises:
        ValueError: the rule is invalid. Dify reports that during indexing, after its answer.
    """
    rules = (rule or {}).get("rules") or {}
    if (rule or {}).get("mode", "automatic") == "automatic":
        return _packed([part for part in _tidy(text).split("\n\n") if part.strip()], _AUTOMATIC * _PER_TOKEN, "\n\n")
    segmentation = rules.get("segmentation") or {}
    most, overlap = int(segmentation.get("max_tokens", _AUTOMATIC)), int(segmentation.get("chunk_overlap") or 0)
    if not _LEAST <= most <= _MOST:
        raise ValueError(f"Custom segment length should be between {_LEAST} and {_MOST}.")
    if overlap > most:
        raise ValueError(f"Got a larger chunk overlap ({overlap}) than chunk size ({most}), should be smaller.")
    if any(
        cleaning.get("id") == "remove_extra_spaces" and cleaning.get("enabled")
        for cleaning in rules["pre_processing_rules"]
    ):
        text = _tidy(text)
    separator = str(segmentation.get("separator") or "\n").replace("\\n", "\n")
    return [piece for part in text.split(separator) if part.strip() for piece in _fitting(part.strip(), most)]


def _tidy(text: str) -> str:
    return re.sub(r"[\t\f\r \u00a0\u2000-\u200a\u3000]{2,}", " ", re.sub(r"\n{3,}", "\n\n", text))


def _packed(parts: Sequence[str], most: int, joint: str) -> list[str]:
    """Join consecutive parts up to `most` characters."""
    out: list[str] = []
    for piece in (piece for part in parts for piece in _fitting(part, most // _PER_TOKEN)):
        if out and len(out[-1]) + len(joint) + len(piece) <= most:
            out[-1] += joint + piece
        else:
            out.append(piece)
    return out


def _fitting(part: str, tokens: int) -> list[str]:
    """Return a part unchanged if it fits, else split at spaces; the spaces are lost, as in Dify."""
    most = tokens * _PER_TOKEN
    if len(part) <= most:
        return [part]
    out = [""]
    for word in part.split():
        if out[-1] and len(out[-1]) + len(word) > most:
            out.append("")
        out[-1] += word
    return out


MOST_NAME: Final = 40
MOST_DOCUMENT_NAME: Final = 200
MOST_FIELD: Final = 255

_ACTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "enable": {"enabled": True},
    "disable": {"enabled": False},
    "archive": {"archived": True},
    "un_archive": {"archived": False},
}

_QUEUED: Final = {"indexing_status": "waiting", "error": None, "display_status": "queuing"}
_TECHNIQUES: Final = ("high_quality", "economy")


class WriteResponse(NamedTuple):
    """The status and body of an answer; None means no body."""

    status: int
    body: Any


class DatasetWriter:
    """Changes the datasets of a server.

    Args:
        datasets: by their ids, in the order of creation.
        clock: monotonic seconds.
        indexing_s: seconds that indexing takes.
        modern: whether DELETE answers 204 without a body, as in newer versions.
    """

    def __init__(
        self, datasets: dict[str, HeldDataset], clock: Callable[[], float], indexing_s: float, *, modern: bool
    ) -> None:
        self._datasets, self._clock, self._indexing_s, self._modern = datasets, clock, indexing_s, modern

    def create_dataset(self, body: Any) -> WriteResponse:
        """Create an empty dataset."""
        name = _text(body, "name", "DatasetCreatePayload", MOST_NAME)
        if any(other.dataset.name == name for other in self._datasets.values()):
            taken = "The dataset name already exists. Please modify your dataset name."
            raise DifyRefusal(409, "dataset_name_duplicate", taken)
        technique = body.get("indexing_technique")
        if technique not in (*_TECHNIQUES, None):
            problem = RefusedField(
                "indexing_technique", "Input should be 'high_quality' or 'economy'", "literal_error", name
            )
            raise validation_error("DatasetCreatePayload", [problem])
        fields: dict[str, Any] = {
            "description": body.get("description") or "",
            "retrieval_model": body.get("retrieval_model"),
            "permission": body.get("permission") or "only_me",
        }
        if body.get("embedding_model"):
            fields["embedding_model"] = (str(body.get("embedding_model_provider")), str(body["embedding_model"]))
        made = HeldDataset(FakeDataset(name, technique, id=str(uuid4()), **fields), int(time.time()), self._clock)
        self._datasets[made.dataset.dataset_id] = made
        return WriteResponse(200, describe(made.stored, alone=False, new=True))

    def delete_dataset(self, dataset: HeldDataset) -> WriteResponse:
        """Delete a dataset and its documents."""
        del self._datasets[dataset.dataset.dataset_id]
        return self._deleted()

    def create_by_text(self, dataset: HeldDataset, body: Any) -> WriteResponse:
        """Create a document; one of the same name is overwritten and keeps its id and metadata."""
        missing = [missing_field(name, body) for name in ("name", "text") if name not in body]
        if missing:
            raise validation_error("DocumentTextCreatePayload", missing)
        self._check_document(dataset, body)
        name = body["name"][:MOST_DOCUMENT_NAME]  # silently, as in Dify
        same = next((other for other in dataset.documents if other.name == name and other.enabled), None)
        if not dataset.documents:
            technique = dataset.dataset.indexing_technique or body["indexing_technique"]
            dataset.change(indexing_technique=technique, doc_form=body.get("doc_form") or "text_model")
        place = max((other.place or 0 for other in dataset.documents), default=0) + 1
        new = FakeDocument(name, id=str(uuid4()), place=place) if same is None else same
        document = replace(
            new, segments=(), indexing_status="waiting", error=None, completed_at=int(time.time()), batch=_batch()
        )
        row = document_row(dataset.stored, _stored(dataset, document if same is None else same))
        dataset.put(document, self._work(body["text"], body.get("process_rule")))
        return WriteResponse(200, {"document": {**row, **_QUEUED}, "batch": document.batch})

    def update_by_text(self, dataset: HeldDataset, document: FakeDocument, body: Any) -> WriteResponse:
        """Start an update that never ends, as in Dify: its worker deadlocks after deleting the document's chunks."""
        if "text" not in body and "process_rule" not in body:
            raise invalid_param("Data source or Process rule is required")
        renamed = replace(document, name=body.get("name", document.name), batch=_batch())
        row = document_row(dataset.stored, _stored(dataset, renamed))
        dataset.put(
            replace(renamed, indexing_status="indexing", segments=()), Indexing(self._clock(), inf, (), None, 0)
        )
        return WriteResponse(200, {"document": {**row, "created_from": "web", **_QUEUED}, "batch": renamed.batch})

    def delete_document(self, dataset: HeldDataset, document: FakeDocument) -> WriteResponse:
        """Delete a document, even during indexing; an archived document is refused."""
        if document.archived:
            archived = "The archived document is not editable."
            raise DifyRefusal(403, "archived_document_immutable", archived)
        assert document.id is not None
        dataset.remove(document.id)
        return self._deleted()

    def document_status(self, dataset: HeldDataset, action: str, body: Any) -> WriteResponse:
        """Enable, disable, archive or unarchive documents."""
        if action not in _ACTIONS:
            wording = f"Invalid action: {action}. Must be one of {list(_ACTIONS)}"
            raise DifyRefusal(400, "invalid_action", wording)
        for identity in body.get("document_ids") or ():
            document = dataset.document(identity)
            if document is not None:
                dataset.put(replace(document, **_ACTIONS[action]))
        return WriteResponse(200, {"result": "success"})

    def indexing_status(self, dataset: HeldDataset, batch: str) -> WriteResponse:
        """Return the indexing status of a batch."""
        documents = [document for document in dataset.documents if document.batch == batch]
        if not documents:
            raise DifyRefusal(404, "not_found", "Documents not found.")
        return WriteResponse(200, {"data": [document_status(_stored(dataset, document)) for document in documents]})

    def create_segments(self, dataset: HeldDataset, document: FakeDocument, body: Any) -> WriteResponse:
        """Append chunks to a document unchanged."""
        if document.indexing_status != "completed":
            raise DifyRefusal(404, "not_found", "Document is not completed.")
        if not document.enabled:
            raise DifyRefusal(404, "not_found", "Document is disabled.")
        sent = body.get("segments")
        if self._modern and (problems := segment_problems(body)):
            return WriteResponse(400, {"error": validation_error("SegmentCreatePayload", problems).message})
        if sent is None:
            return WriteResponse(400, {"error": "Segments is required"})
        if any(not str(segment.get("content") or "").strip() for segment in sent):
            raise invalid_param("Content is empty")
        before = _segments(dataset, document)
        first = max((segment.position or 0 for segment in before), default=0) + 1
        added = [
            FakeSegment(
                segment["content"],
                segment.get("answer"),
                segment.get("keywords"),
                id=str(uuid4()),
                position=first + number,
            )
            for number, segment in enumerate(sent)
        ]
        dataset.put(replace(document, segments=[*before, *added]))
        rows = [segment_row(_row_of(dataset, document, segment)) for segment in added]
        return WriteResponse(200, {"data": rows, "doc_form": dataset.dataset.doc_form})

    def update_segment(self, dataset: HeldDataset, document: FakeDocument, identity: str, body: Any) -> WriteResponse:
        """Change a chunk."""
        sent, segments = body.get("segment") or {}, _segments(dataset, document)
        old = _segment_by_id(segments, identity)
        changed = replace(old, **{name: sent[name] for name in ("content", "keywords", "enabled") if name in sent})
        dataset.put(replace(document, segments=[changed if segment is old else segment for segment in segments]))
        return WriteResponse(
            200, {"data": segment_row(_row_of(dataset, document, changed)), "doc_form": dataset.dataset.doc_form}
        )

    def delete_segment(self, dataset: HeldDataset, document: FakeDocument, identity: str) -> WriteResponse:
        """Delete a chunk."""
        segments = _segments(dataset, document)
        deleted = _segment_by_id(segments, identity)
        dataset.put(replace(document, segments=[segment for segment in segments if segment is not deleted]))
        return self._deleted()

    def create_field(self, dataset: HeldDataset, body: Any) -> WriteResponse:
        """Declare a metadata field."""
        name, kind = _text(body, "name", "MetadataArgs", MOST_FIELD), body.get("type")
        if kind not in ("string", "number", "time"):
            problem = RefusedField("type", "Input should be 'string', 'number' or 'time'", "literal_error", kind)
            raise validation_error("MetadataArgs", [problem])
        if name in field_ids(dataset.stored):
            raise invalid_param("Metadata name already exists.")
        if name in BUILT_IN_FIELDS:
            raise invalid_param("Metadata name already exists in Built-in fields.")
        dataset.change(fields={**dataset.dataset.fields, name: kind})
        made = field_ids(dataset.stored)[name]
        return WriteResponse(201, {"id": made["id"], "type": made["type"], "name": made["name"]})

    def built_in_fields(self, dataset: HeldDataset, action: str) -> WriteResponse:
        """Turn the built-in fields on or off."""
        dataset.change(built_in_fields=action == "enable")
        return WriteResponse(200, {"result": "success"})

    def assign_metadata(self, dataset: HeldDataset, body: Any) -> WriteResponse:
        """Set the metadata of documents; invalid operations are silently skipped, as in Dify."""
        for operation in body.get("operation_data") or ():
            document = dataset.document(str(operation.get("document_id")))
            if document is not None:
                values = {entry["name"]: entry.get("value") for entry in operation.get("metadata_list") or ()}
                kept = dict(document.metadata or {}) if operation.get("partial_update") else {}
                dataset.put(replace(document, metadata={**kept, **values}))
        return WriteResponse(200, {"result": "success"})

    def _deleted(self) -> WriteResponse:
        return WriteResponse(204, None) if self._modern else WriteResponse(200, 204)

    def _work(self, text: str, rule: Mapping[str, Any] | None) -> Indexing:
        moment, now = int(time.time()), self._clock()
        try:
            segments = [FakeSegment(piece, id=str(uuid4())) for piece in split_text(text, rule)]
        except ValueError as error:
            return Indexing(now, self._indexing_s, (), str(error), moment)
        return Indexing(now, self._indexing_s, segments, None, moment)

    def _check_document(self, dataset: HeldDataset, body: Mapping[str, Any]) -> None:
        technique = body.get("indexing_technique")
        if technique is None:
            raise validation_error("KnowledgeConfig", [missing_field("indexing_technique", {**body})])
        rule = body.get("process_rule") or {}
        if rule.get("mode") == "custom" and not rule.get("rules"):
            raise invalid_param("Process rule rules is required")
        form = body.get("doc_form", "text_model")
        if dataset.documents and form != dataset.dataset.doc_form:
            raise invalid_param("doc_form is different from the dataset doc_form.")


def _batch() -> str:
    return f"{time.time_ns():020d}"


def _text(body: Any, name: str, model: str, most: int) -> str:
    value = body.get(name)
    if name not in body:
        raise validation_error(model, [missing_field(name, body)])
    if not isinstance(value, str):
        raise validation_error(model, [wrong_type(name, "string", "string_type", value)])
    if len(value) > most:
        wording = f"String should have at most {most} characters"
        raise validation_error(model, [RefusedField(name, wording, "string_too_long", value)])
    if not value:
        raise validation_error(
            model, [RefusedField(name, "String should have at least 1 character", "string_too_short", value)]
        )
    return value


def _stored(dataset: HeldDataset, document: FakeDocument) -> StoredDocument:
    """Return the stored form of a document, which need not be in the dataset yet."""
    assert document.id is not None
    known = next((row for row in dataset.stored.documents if row.id == document.id), None)
    metadata = document.metadata if known is None else known.metadata
    return StoredDocument(document.id, document, metadata, document.place or 1)


def _segments(dataset: HeldDataset, document: FakeDocument) -> list[FakeSegment]:
    """Return the chunks of a document with their ids and positions."""
    rows = [row for row in dataset.stored.segments if row.document.id == document.id]
    return [replace(row.segment, id=row.id, position=row.position) for row in rows]


def _segment_by_id(segments: list[FakeSegment], identity: str) -> FakeSegment:
    match = next((segment for segment in segments if segment.id == identity), None)
    if match is None:
        raise DifyRefusal(404, "not_found", "Segment not found.")
    return match


def _row_of(dataset: HeldDataset, document: FakeDocument, segment: FakeSegment) -> StoredSegment:
    return next(row for row in dataset.stored.segments if row.id == segment.id and row.document.id == document.id)
