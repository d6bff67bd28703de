"""Answers a retrieve request, with Dify's 18 filter operators and their pitfalls.

A condition with a missing or null value, or `is` with a list, is ignored, so every document passes. A document without
the field is dropped even under negative operators, because a comparison with SQL's null is neither true nor false.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from context_engine.testing.fake_dify.refusals import (
    RefusedField,
    RetrievePlan,
    internal_error,
    missing_field,
    plan,
    validation_error,
)
from context_engine.testing.fake_dify.search import UnitHit, WorkspaceModels, keyword_search, vector_search
from context_engine.testing.fake_dify.stored import OWNER, StoredDataset, StoredSegment

OPERATORS: Final = (
    "contains", "not contains", "start with", "end with", "is", "is not", "empty", "not empty", "in", "not in",
    "=", "≠", ">", "<", "≥", "≤", "before", "after",
)  # fmt: skip

_MODEL: Final = "MetadataFilteringCondition"


class _RefusalForm(NamedTuple):
    """How a refused filter is named: the validated model, and the place of the filter in it."""

    model: str
    place: str


_ALONE: Final = _RefusalForm(_MODEL, "")
_IN_BODY: Final = _RefusalForm("HitTestingPayload", "retrieval_model.metadata_filtering_conditions.")
_Test = Callable[[Mapping[str, Any]], bool]

_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": lambda have, want: have > want,
    "after": lambda have, want: have > want,
    "<": lambda have, want: have < want,
    "before": lambda have, want: have < want,
    "≥": lambda have, want: have >= want,
    "≤": lambda have, want: have <= want,
    "is": lambda have, want: have == want,
    "=": lambda have, want: have == want,
    "is not": lambda have, want: have != want,
    "≠": lambda have, want: have != want,
}

_LIKE: Final = {"contains": "%{}%", "not contains": "%{}%", "start with": "{}%", "end with": "%{}"}


def matching_documents(stored: StoredDataset, conditions: Mapping[str, Any], form: _RefusalForm = _ALONE) -> set[str]:
    """Return the ids of the searchable documents that match a filter.

    Args:
        conditions: {"logical_operator": "and" | "or", "conditions": [{"name", "comparison_operator", "value"}]}.

    Raises:
        DifyRefusal: 400 for an unknown operator, 500 for a comparison that the database cannot make.
    """
    rows = _checked(conditions, form)
    tests = [test for row in rows if (test := _test(row)) is not None]
    every = all if (conditions.get("logical_operator") or "and") == "and" else any
    return {
        document.id
        for document in stored.documents
        if document.searchable and (not tests or every([test(document.metadata or {}) for test in tests]))
    }


def _checked(conditions: Mapping[str, Any], form: _RefusalForm) -> Sequence[Mapping[str, Any]]:
    if not isinstance(conditions, dict):
        text = f"Input should be a valid dictionary or instance of {_MODEL}"
        raise validation_error(_MODEL, [RefusedField("", text, "model_type", conditions)])
    problems: list[RefusedField] = []
    logic = conditions.get("logical_operator", "and")
    if logic not in ("and", "or", None):
        problems.append(RefusedField("logical_operator", "Input should be 'and' or 'or'", "literal_error", logic))
    rows = conditions.get("conditions")
    if not isinstance(rows, list | None):
        problems.append(RefusedField("conditions", "Input should be a valid list", "list_type", rows))
    elif rows is not None:
        problems += [problem for place, row in enumerate(rows) for problem in _row_problems(f"conditions.{place}", row)]
    if problems:
        placed = [problem._replace(place=form.place + problem.place) for problem in problems]
        raise validation_error(form.model, placed)
    if rows is None:
        raise internal_error("'NoneType' object is not iterable")
    return list(rows)


def _row_problems(place: str, row: Any) -> list[RefusedField]:
    if not isinstance(row, dict):
        return [RefusedField(place, "Input should be a valid dictionary or instance of Condition", "model_type", row)]
    problems = [missing_field(f"{place}.{name}", row) for name in ("name", "comparison_operator") if name not in row]
    operator = row.get("comparison_operator", "is")
    if operator not in OPERATORS:
        text = "Input should be " + ", ".join(repr(name) for name in OPERATORS[:-1]) + f" or {OPERATORS[-1]!r}"
        problems.append(RefusedField(f"{place}.comparison_operator", text, "literal_error", operator))
    return problems


def _test(row: Mapping[str, Any]) -> _Test | None:
    """Return the test of one condition, or None if Dify ignores it."""
    name, operator, value = row["name"], row["comparison_operator"], row.get("value")
    if operator in ("empty", "not empty"):
        return lambda metadata: (metadata.get(name) is None) is (operator == "empty")
    if value is None:
        return None
    if operator in ("in", "not in"):
        return _membership(name, _listed(value), wanted=operator == "in")
    if operator in _LIKE:
        return _likeness(name, _LIKE[operator].format(value), wanted=operator != "not contains")
    if operator in ("is", "=", "is not", "≠") and isinstance(value, str | list):
        return _equality(name, value, wanted=operator in ("is", "=")) if isinstance(value, str) else None
    return lambda metadata: (
        metadata.get(name) is not None and _COMPARE[operator](_number(metadata[name]), _number(value))
    )


def _listed(value: Any) -> list[str]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [str(part) for part in value if part is not None] if isinstance(value, list) else [str(value)]


def _membership(name: str, values: Sequence[str], *, wanted: bool) -> _Test:
    if not values:
        return lambda metadata: not wanted
    return lambda metadata: metadata.get(name) is not None and (str(metadata[name]) in values) is wanted


def _equality(name: str, value: str, *, wanted: bool) -> _Test:
    return lambda metadata: metadata.get(name) is not None and (str(metadata[name]) == value) is wanted


def _likeness(name: str, like: str, *, wanted: bool) -> _Test:
    """Return a test like SQL's LIKE; % and _ in the request's value are wildcards too."""
    pattern = re.compile(re.escape(like).replace("%", ".*").replace("_", "."), re.DOTALL)
    return lambda metadata: (
        metadata.get(name) is not None and (pattern.fullmatch(str(metadata[name])) is not None) is wanted
    )


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        problem = (
            f'(psycopg2.errors.InvalidTextRepresentation) invalid input syntax for type double precision: "{value}"'
        )
        statement = "[SQL: SELECT documents.id AS documents_id \nFROM documents \nWHERE documents.dataset_id IN (...)]"
        raise internal_error(f"{problem}\n\n{statement}") from None


class Behaviour(NamedTuple):
    """Differences between Dify versions and processes.

    Attributes:
        typed: the types of the retrieval model are checked (since 1.13).
        modern: lists are never null, pages have the right total, a deletion answers 204, the key is checked before the
            dataset, and a filter with the rest of the body (since 1.14).
        drop_filters: metadata filters are silently ignored (1.13.x).
        unnamed: all fields of a segment's document are null (1.14.1).
        seed: decides the order of keyword search, and the cut among equals.
    """

    typed: bool
    modern: bool
    drop_filters: bool
    seed: int
    unnamed: bool = False


def retrieve(stored: StoredDataset, body: Any, how: Behaviour, models: WorkspaceModels) -> dict[str, Any]:
    """Return the body of a 200 answer.

    Raises:
        DifyRefusal: Dify refuses the request.
    """
    asked = plan(body, stored.dataset.saved_model, typed=how.typed)
    documents: set[str] | None = None
    if asked.conditions and asked.query and not how.drop_filters:
        form = _IN_BODY if how.modern else _ALONE
        documents = matching_documents(stored, asked.conditions, form)
    none_match = documents is not None and not documents
    records = [] if none_match else _records(stored, asked, documents, how, models)
    if how.unnamed:
        for record in records:
            record["segment"]["document"] = dict.fromkeys(record["segment"]["document"])
    return {"query": {"content": asked.query}, "records": records}


def _records(
    stored: StoredDataset, asked: RetrievePlan, documents: set[str] | None, how: Behaviour, models: WorkspaceModels
) -> list[dict[str, Any]]:
    if asked.method == "keyword_search":
        segments = keyword_search(stored, asked.query, asked.top_k, how.seed)
        kept = [segment for segment in segments if documents is None or segment.document.id in documents]
        return [_record(segment, 0.0, None, how.modern) for segment in kept]
    if not asked.query.strip():
        return []
    return _grouped(vector_search(stored, asked, documents, models), how.modern)


def _grouped(hits: Sequence[UnitHit], modern: bool) -> list[dict[str, Any]]:
    """Group child chunks under their parent, whose score is the best child's."""
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
        "sign_content": segment.content if null is None else None,
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
