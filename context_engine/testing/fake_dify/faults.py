"""Faults that can occur between a client and Dify, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from context_engine.testing.fake_dify.app import AppResponse, Route, json_answer
from context_engine.testing.fake_dify.refusals import RATE_LIMITED, DifyRefusal

Endpoint: TypeAlias = Literal[
    "list", "get", "metadata", "retrieve", "create_dataset", "create_field", "create_by_text", "documents",
    "assign_metadata", "indexing_status", "delete_document", "document", "segments",
    "create_segments",
]  # fmt: skip
Wire: TypeAlias = Literal[
    "whole", "truncated", "dropped", "reset", "slow_head", "slow_body", "huge", "huge_chunked", "gzip_bomb"
]

_HTML: Final = (("Content-Type", "text/html"),)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault of the server.

    Attributes:
        answer: replaces Dify's answer; None: Dify answers.
        change: turns the body of Dify's answer (a parsed JSON value) into the body to send.
        delay_s: seconds to wait before sending; with a slow wire, before each byte.
        wire: how the answer is sent. "truncated" ends in the middle, "dropped" closes before the first byte, "reset"
            resets the connection; "huge", "huge_chunked" and "gzip_bomb" add 32 MiB of blanks: with a length, in
            chunks without a length, and compressed.
        each_leg: whether each leg of a hybrid search reports the error; the messages are joined as in Dify.
    """

    answer: AppResponse | None = None
    change: Callable[[Any], Any] | None = None
    delay_s: float = 0.0
    wire: Wire = "whole"
    each_leg: bool = False

    def apply(self, genuine: Callable[[], AppResponse], *, hybrid: bool = False) -> AppResponse:
        """Return the answer to send; `genuine` (Dify's answer) is called only if the fault needs it."""
        if self.answer is not None:
            return _twice(self.answer) if self.each_leg and hybrid else self.answer
        answer = genuine()
        if self.change is None or answer.status != 200:
            return answer
        changed = self.change(json.loads(answer.body))
        return answer._replace(body=changed if isinstance(changed, bytes) else json.dumps(changed).encode())


@dataclass
class Injection:
    """A fault and the calls it applies to; `seen` counts those calls."""

    fault: Fault
    dataset_id: str | None
    endpoint: Endpoint | None
    calls: Collection[int] | None
    seen: int = 0

    def strikes(self, route: Route | None) -> bool:
        """Count a call, and return whether the fault applies to it."""
        if self.dataset_id is not None and (route is None or route.dataset_id != self.dataset_id):
            return False
        if self.endpoint is not None and (route is None or route.name != self.endpoint):
            return False
        self.seen += 1
        return self.calls is None or self.seen in self.calls


def _twice(answer: AppResponse) -> AppResponse:
    body = json.loads(answer.body)
    return answer._replace(body=json.dumps({**body, "message": ";\n".join([body["message"]] * 2)}).encode())


def _outage(message: str) -> Fault:
    return Fault(answer=_refusal(400, "invalid_param", message).answer, each_leg=True)


def _refusal(status: int, code: str, message: str) -> Fault:
    return Fault(answer=json_answer(status, DifyRefusal(status, code, message).body()))


def _proxy(status: int, reason: str, *headers: tuple[str, str]) -> Fault:
    page = (
        f"<html>\r\n<head><title>{status} {reason}</title></head>\r\n<body><h1>{status} {reason}</h1></body>\r\n</html>"
    )
    return Fault(answer=AppResponse(status, page.encode(), (*_HTML, *headers)))


def _records(value: Any) -> Fault:
    return _records_by(lambda records: value)


def _records_by(change: Callable[[list[dict[str, Any]]], Any]) -> Fault:
    """Return a fault that changes the records of an answer."""
    return Fault(change=lambda body: {**body, "records": change(body["records"])} if "records" in body else body)


def _each(change: Callable[[dict[str, Any]], Any]) -> Fault:
    """Return a fault that changes every record."""
    return _records_by(lambda records: [change(record) for record in records])


def _in_segment(**fields: Any) -> Fault:
    return _each(lambda record: {**record, "segment": {**record["segment"], **fields}})


def _in_document(**fields: Any) -> Fault:
    def change(record: dict[str, Any]) -> dict[str, Any]:
        segment = record["segment"]
        return {**record, "segment": {**segment, "document": {**segment["document"], **fields}}}

    return _each(change)


_DAEMON_DOWN: Final = (
    "Failed to request plugin daemon, url: plugin/00000000-0000-4000-8000-000000000002/management/models"
)
_STORE_DOWN: Final = "Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?\n"

FAULTS: Final[Mapping[str, Fault]] = {
    "delay": Fault(delay_s=1.0),
    "status_500": _refusal(
        500, "internal_server_error", "(psycopg2.OperationalError) could not connect to db.internal"
    ),
    "status_502": _proxy(502, "Bad Gateway"),
    "status_503": _proxy(503, "Service Temporarily Unavailable"),
    "status_504": _proxy(504, "Gateway Time-out"),
    "status_429": _proxy(429, "Too Many Requests", ("Retry-After", "1")),
    "rate_limited": _refusal(403, "forbidden", RATE_LIMITED),
    "forbidden": _refusal(403, "forbidden", "Dataset api access is not enabled."),
    "unauthorized": _refusal(401, "unauthorized", "Access token is invalid"),
    "not_found": _refusal(404, "not_found", "Dataset not found."),
    "bad_request": _refusal(400, "invalid_param", "Invalid parameter"),
    "plugin_daemon_down": _outage(_DAEMON_DOWN),
    "vector_store_down": _outage(_STORE_DOWN),
    "redirect": Fault(answer=AppResponse(302, b"", (("Location", "/v1/datasets"), *_HTML))),
    "html": Fault(answer=AppResponse(200, b"<!doctype html><html><body>Sign in</body></html>", _HTML)),
    "empty_body": Fault(answer=AppResponse(200, b"")),
    "not_utf8": Fault(answer=AppResponse(200, b'{"records": [{"segment": "\xff\xfe"}]}')),
    "broken_json": Fault(change=lambda body: json.dumps(body).encode()[:-9]),
    "null_body": Fault(answer=AppResponse(200, b"null")),
    "list_body": Fault(answer=AppResponse(200, b"[]")),
    "records_missing": Fault(answer=AppResponse(200, b'{"query": {"content": "x"}}')),
    "records_null": _records(None),
    "records_text": _records("none"),
    "records_numbers": _records([1, 2]),
    "segment_null": _each(lambda record: {**record, "segment": None}),
    "content_number": _in_segment(content=5),
    "content_null": _in_segment(content=None),
    "document_null": _in_segment(document=None),
    "metadata_list": _in_document(doc_metadata=["a"]),
    "score_text": _each(lambda record: {**record, "score": "high"}),
    "score_null": _each(lambda record: {**record, "score": None}),
    "score_nan": _each(lambda record: {**record, "score": float("nan")}),
    "children_text": _each(lambda record: {**record, "child_chunks": "none"}),
    "gzip_bomb": Fault(wire="gzip_bomb"),
    "huge": Fault(wire="huge"),
    "huge_chunked": Fault(wire="huge_chunked"),
    "truncated": Fault(wire="truncated"),
    "dropped": Fault(wire="dropped"),
    "reset": Fault(wire="reset"),
    "slow_head": Fault(wire="slow_head", delay_s=0.05),
    "slow_body": Fault(wire="slow_body", delay_s=0.05),
}
"""Every fault by name."""
