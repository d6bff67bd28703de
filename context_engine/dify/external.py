"""Dify's External Knowledge API: what it asks, and what it must be answered.

Dify drops records whose `metadata` is no object, sorts by `score`, and turns any status but 200 into "succeeded,
nothing found"; after 429 and 5xx it asks three times more. So whatever is an answer is a 200, and what failed says so
in a record.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from context_engine.dify.answer import DEMO_LABEL
from context_engine.dify.conditions import read_conditions
from context_engine.dify.node_output import content_for_model, document_metadata, node_scores
from context_engine.dify.size import fitted
from context_engine.errors import InvalidRequest
from context_engine.models import Decision, Filter, SearchResult, SourceStatus

__all__ = [
    "LEAST_TOKEN",
    "ExternalAnswer",
    "ExternalRequest",
    "authorised",
    "notice_record",
    "read_request",
    "records_answer",
    "refused",
]

LEAST_TOKEN: Final = 32
_MOST_RECORDS: Final = 100
_DEFAULT_TOP_K: Final = 4
_NOTICE_TITLE: Final = "Knowledge incomplete"
_BELOW_NOTICE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class ExternalAnswer:
    """An HTTP answer: a status and a JSON body."""

    status: int
    body: Mapping[str, Any]

    def encoded(self) -> bytes:
        """Return the body as UTF-8 JSON."""
        return json.dumps(self.body, ensure_ascii=False, default=str).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalRequest:
    """What Dify asks.

    Attributes:
        knowledge_id: a domain.
        score_threshold: [0, 1], compared with relevance.
    """

    knowledge_id: str
    query: str
    top_k: int
    score_threshold: float
    filters: Filter | None


def authorised(token: Any, header: str | None) -> bool:
    """Return whether a request carries the token, in a time that does not depend on it.

    A token shorter than 32 characters lets nobody in.
    """
    expected = str(token or "").strip()
    scheme, _, given = (header or "").strip().partition(" ")
    equal = hmac.compare_digest(given.strip().encode(), expected.encode())
    return equal and len(expected) >= LEAST_TOKEN and scheme.casefold() == "bearer"


def read_request(body: bytes) -> ExternalRequest | None:
    """Read a request; None for the probes that Dify sends when the API is registered: no body, or an empty question.

    Raises:
        InvalidRequest: it cannot be used.
        InvalidFilter: a condition that cannot be read.
    """
    if not body.strip():
        return None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, Mapping):
        raise InvalidRequest("the body must be a JSON object")
    knowledge_id, query = value.get("knowledge_id"), value.get("query")
    if not knowledge_id and not query:
        return None
    setting = value.get("retrieval_setting") or {}
    if not isinstance(knowledge_id, str) or not isinstance(query, str) or not isinstance(setting, Mapping):
        raise InvalidRequest("'knowledge_id' and 'query' must be texts, 'retrieval_setting' an object")
    return ExternalRequest(
        knowledge_id=knowledge_id.strip(),
        query=query,
        top_k=_top_k(setting.get("top_k")),
        score_threshold=_threshold(setting.get("score_threshold")),
        filters=read_conditions(value.get("metadata_condition")),
    )


def records_answer(
    result: SearchResult, request: ExternalRequest, *, notice_records: bool, demo: bool = False
) -> ExternalAnswer:
    """Return a result as records.

    Args:
        notice_records: put a record first that names the sources that did not answer.
    """
    notices = [notice_record(result.sources, result.search_id)] if notice_records and _incomplete(result) else []
    room = request.top_k - len(notices)
    if result.decision is Decision.OUT_OF_SCOPE:
        return ExternalAnswer(200, {"records": notices})
    titles = {source.source_id: source.title or source.source_id for source in result.sources}
    records: list[dict[str, Any]] = []
    for chunk, score in zip(result.chunks, node_scores(result), strict=True):
        if chunk.relevance < request.score_threshold or len(records) >= room:
            continue
        title = chunk.chunk.title or chunk.chunk.document_id or titles.get(chunk.source_id, chunk.source_id)
        metadata = document_metadata(chunk, result.search_id) | {"source_title": titles.get(chunk.source_id)}
        records.append(
            {
                "content": content_for_model(chunk, result.search_id),
                "score": min(score, 1 - _BELOW_NOTICE) if notices else score,
                "title": f"{DEMO_LABEL} {title}" if demo else title,
                "metadata": {**metadata, "demo": True} if demo else metadata,
            }
        )
    fit = fitted("records", [*notices, *records])
    if fit.cut is None:
        return ExternalAnswer(200, {"records": fit.value})
    return ExternalAnswer(200, {"records": fit.value or notices, "cut": fit.cut})


def notice_record(sources: Sequence[SourceStatus], search_id: str) -> dict[str, Any]:
    """Return the record that stands for what is missing; its score puts it first."""
    missing = [one.title or one.source_id for one in sources if one.state in ("failed", "partial")]
    names = ", ".join(missing) or "a part of the search"
    metadata = {
        "notice": True,
        "search_id": search_id,
        "sources": [one.source_id for one in sources if one.state in ("failed", "partial")],
        "relevance": None,
        "final": None,
    }
    return {
        "content": f"{_NOTICE_TITLE}: {names} unavailable. What it holds is missing from these records.",
        "score": 1.0,
        "title": f"{_NOTICE_TITLE}: {names} unavailable",
        "metadata": metadata,
    }


def refused(status: int, code: int, message: str) -> ExternalAnswer:
    """Return a refusal in the API's form."""
    return ExternalAnswer(status, {"error_code": code, "error_msg": message})


def _incomplete(result: SearchResult) -> bool:
    return any(one.state in ("failed", "partial") for one in result.sources)


def _top_k(value: Any) -> int:
    if value is None:
        return _DEFAULT_TOP_K
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 1:
        raise InvalidRequest(f"top_k must be a whole number, 1 or more, got {value!r}")
    return min(int(value), _MOST_RECORDS)


def _threshold(value: Any) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidRequest(f"score_threshold must be a number from 0 to 1, got {value!r}")
    return float(value)
