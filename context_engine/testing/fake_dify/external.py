"""Dify's side of an External Knowledge API: registration, calls, and use of the answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx

_PROBE: Final = {"knowledge_id": "", "query": "", "retrieval_setting": {"top_k": 1, "score_threshold": 0.0}}
_ASKED_AGAIN: Final = (429, 500, 502, 503, 504)
_PAUSES_S: Final = (0.5, 1.0, 2.0)
_TIMEOUT_S: Final = 5.0
_RETRIES_USED: Final = "Reached maximum retries (3) for URL"
_OWN: Final[dict[str, Any]] = {"files": None, "summary": None}
_OF_SEGMENT: Final[dict[str, Any]] = {
    "child_chunks": [],
    "segment_hit_count": 0,
    "segment_id": None,
    "segment_index_node_hash": None,
    "segment_position": 0,
    "segment_word_count": 0,
}
"""Fields of a passage that has no segment."""


class RegistrationRefused(Exception):
    """Dify refuses to register the endpoint; the text is the console's message."""


class Dataset(NamedTuple):
    """An external knowledge base of Dify."""

    id: str
    name: str


def register_external(
    endpoint: str, api_key: str, *, modern: bool = False, pause: Callable[[float], object] = lambda _seconds: None
) -> int:
    """Probe an endpoint as Dify does on registration, and return the status of the accepted answer.

    Refused are 403, 404, a status that is still 429, 500, 502, 503 or 504 after all retries, and no answer at all. Any
    other status registers, even 400 or 401.

    Args:
        endpoint: the URL to which "/retrieval" is appended.
        modern: whether the probe has a JSON body, as in newer versions.
        pause: waits for some seconds between tries.

    Raises:
        RegistrationRefused: Dify refuses the endpoint.
    """
    if not endpoint or not api_key:
        raise RegistrationRefused(f"{'api_key' if endpoint else 'endpoint'} is required")
    url = f"{endpoint}/retrieval"
    parts = urlsplit(url)
    if not (parts.scheme and parts.netloc):
        raise RegistrationRefused(f"invalid endpoint: {url}")
    body: dict[str, Any] = {"json": _PROBE} if modern else {}
    status = _sent(url, {"Authorization": f"Bearer {api_key}"}, body, pause).status_code
    problem = {
        403: f"Forbidden: Authorization failed with api_key: {api_key}",
        404: f"Not Found: failed to connect to the endpoint: {url}",
        502: f"Bad Gateway: failed to connect to the endpoint: {url}",
    }
    if status in problem:
        raise RegistrationRefused(problem[status])
    return status


def ask_external(
    endpoint: str, api_key: str, request: Mapping[str, Any], *, pause: Callable[[float], object] = lambda _seconds: None
) -> tuple[int, bytes]:
    """Call an endpoint as Dify does for one retrieval, with three retries if it is busy or does not answer.

    Args:
        endpoint, api_key, pause: see `register_external`.
        request: knowledge_id, query, retrieval_setting, metadata_condition.

    Returns:
        Status and body of the answer; 503 without a body if all tries failed.
    """
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {api_key}"}
    body = {"content": json.dumps(dict(request))}  # other scripts escaped, as Dify writes them
    try:
        answer = _sent(f"{endpoint}/retrieval", headers, body, pause)
    except RegistrationRefused:
        return 503, b""
    return answer.status_code, answer.content


def node_result(
    status: int, body: bytes, dataset: Dataset, *, top_k: int = 4, modern: bool = False
) -> list[dict[str, Any]]:
    """Return the `result` of a Knowledge Retrieval node; empty for any status but 200, although the node succeeds.

    Since 1.16 the node fails if `node_error` gives a reason. A record whose metadata is not an object is dropped; the
    others are sorted by score and cut at the node's `top_k`.

    Args:
        modern: whether a passage has all fields of Dify's own, as in 1.14.
    """
    records = _records(body) if status == 200 else None
    kept = [record for record in records or () if isinstance(record.get("metadata"), dict)]
    kept.sort(key=lambda record: record.get("score") or 0.0, reverse=True)
    passages = [_passage(record, place, dataset) for place, record in enumerate(kept[:top_k], start=1)]
    return [
        _OWN | passage | {"metadata": _OF_SEGMENT | passage["metadata"]} if modern else passage for passage in passages
    ]


def node_error(status: int, body: bytes) -> str | None:
    """Return why a Knowledge Retrieval node of 1.16 fails, or None if it succeeds."""
    if status in _ASKED_AGAIN:
        return _RETRIES_USED
    if status != 200:
        return body.decode("utf-8", "replace")
    records = _records(body)
    if records is None:
        return "invalid external knowledge response"
    if all(isinstance(record.get("metadata"), dict) for record in records):
        return None
    return "1 validation error for Document\nmetadata\n  Input should be a valid dictionary"


def console_result(status: int, body: bytes) -> tuple[int, Any]:
    """Return status and records of the console's retrieval test, or the whole body for any status but 200."""
    text = body.decode("utf-8", "replace")
    if status in _ASKED_AGAIN:
        return 500, _RETRIES_USED
    if status != 200:
        return 500, text
    records = _records(body)
    if records is None:
        return 500, "Expecting value: line 1 column 1 (char 0)"
    names = ("content", "title", "score", "metadata")
    return 200, [{name: record.get(name) for name in names} for record in records]


def _records(body: bytes) -> list[dict[str, Any]] | None:
    """Return the records of an answer, [] without that key, None if it is not JSON."""
    try:
        return list(json.loads(body).get("records") or ())
    except (ValueError, AttributeError):
        return None


def _passage(record: Mapping[str, Any], place: int, dataset: Dataset) -> dict[str, Any]:
    """Return a record in the node's form; score, title and dataset override those in its metadata."""
    title, score, own = record.get("title"), record.get("score"), record["metadata"]
    of_dataset = {"dataset_id": dataset.id, "dataset_name": dataset.name}
    metadata = {
        "_source": "knowledge",
        "data_source_type": "external",
        **of_dataset,
        "doc_metadata": {**own, **of_dataset, "score": score, "title": title},
        "document_id": own.get("document_id") or title,
        "document_name": title,
        "position": place,
        "retriever_from": "workflow",
        "score": score,
    }
    return {"content": record.get("content"), "metadata": metadata, "title": title}


def _sent(url: str, headers: dict[str, str], body: dict[str, Any], pause: Callable[[float], object]) -> httpx.Response:
    """Return the first answer that is not retried; four tries at most."""
    answer: httpx.Response | None
    for seconds in (*_PAUSES_S, None):
        try:
            answer = httpx.post(
                url, headers=headers, timeout=_TIMEOUT_S, follow_redirects=True, trust_env=False, **body
            )
        except httpx.HTTPError:
            answer = None
        if answer is not None and answer.status_code not in _ASKED_AGAIN:
            return answer
        if seconds is not None:
            pause(seconds)
    raise RegistrationRefused(f"failed to connect to the endpoint: {url}")
