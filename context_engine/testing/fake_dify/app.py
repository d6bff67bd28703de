"""The Service API without the network: turns a request into a response."""

from __future__ import annotations

import hmac
import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from context_engine.testing.fake_dify.data import FakeDocument
from context_engine.testing.fake_dify.describe import BUILT_IN_FIELDS, dataset_page, describe, metadata_fields
from context_engine.testing.fake_dify.documents import document_alone, document_page, segment_page
from context_engine.testing.fake_dify.refusals import NOT_FOUND_PAGE, RATE_LIMITED, DifyRefusal
from context_engine.testing.fake_dify.retrieve import Behaviour, retrieve
from context_engine.testing.fake_dify.search import WorkspaceModels
from context_engine.testing.fake_dify.stored import HeldDataset
from context_engine.testing.fake_dify.writes import DatasetWriter, WriteResponse

_UUID: Final = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_SET: Final = f"/v1/datasets/({_UUID})"
_ROUTES: Final[Sequence[tuple[str, str, re.Pattern[str]]]] = [
    (name, method, re.compile(pattern))
    for name, method, pattern in (
        ("list", "GET", "/v1/datasets"),
        ("create_dataset", "POST", "/v1/datasets"),
        ("get", "GET", _SET),
        ("delete_dataset", "DELETE", _SET),
        ("metadata", "GET", f"{_SET}/metadata"),
        ("create_field", "POST", f"{_SET}/metadata"),
        ("built_in", "GET", f"{_SET}/metadata/built-in"),
        ("set_built_in", "POST", f"{_SET}/metadata/built-in/(enable|disable)"),
        ("retrieve", "POST", f"{_SET}/(?:retrieve|hit-testing)"),
        ("create_by_text", "POST", f"{_SET}/document/create[-_]by[-_]text"),
        ("documents", "GET", f"{_SET}/documents"),
        ("assign_metadata", "POST", f"{_SET}/documents/metadata"),
        ("document_status", "PATCH", f"{_SET}/documents/status/([^/]+)"),
        ("indexing_status", "GET", f"{_SET}/documents/([^/]+)/indexing-status"),
        ("document", "GET", f"{_SET}/documents/({_UUID})"),
        ("delete_document", "DELETE", f"{_SET}/documents/({_UUID})"),
        ("update_by_text", "POST", f"{_SET}/documents/({_UUID})/update[-_]by[-_]text"),
        ("segments", "GET", f"{_SET}/documents/({_UUID})/segments"),
        ("create_segments", "POST", f"{_SET}/documents/({_UUID})/segments"),
        ("update_segment", "POST", f"{_SET}/documents/({_UUID})/segments/({_UUID})"),
        ("delete_segment", "DELETE", f"{_SET}/documents/({_UUID})/segments/({_UUID})"),
    )
]
_IN_DOCUMENT: Final = (
    "document",
    "delete_document",
    "update_by_text",
    "segments",
    "create_segments",
    "update_segment",
    "delete_segment",
)
_OF_THE_DATASET: Final = (
    "get",
    "retrieve",
    "delete_dataset",
    "metadata",
    "create_field",
    "built_in",
    "set_built_in",
    "assign_metadata",
)
_BAD_JSON: Final = "The browser (or proxy) sent a request that this server could not understand."
_NO_JSON: Final = "Did not attempt to load JSON data because the request Content-Type was not 'application/json'."


class AppRequest(NamedTuple):
    """A request; the names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class AppResponse(NamedTuple):
    """A response without the headers that every response has."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)


class Route(NamedTuple):
    """The endpoint of a call: name, method, dataset id in lower case, further parts of the path."""

    name: str
    method: str
    dataset_id: str | None
    parts: tuple[str, ...] = ()


def json_answer(status: int, value: Any) -> AppResponse:
    """Return an answer with a JSON body."""
    return AppResponse(status, json.dumps(value).encode())


def route_of(target: str, method: str) -> Route | None:
    """Return the route of a call; None for an unknown path, a malformed id or a trailing slash.

    For a method that the path does not have, the route of another method is returned (the caller answers 405).
    """
    path, other = urlsplit(target).path, None
    for name, wanted, pattern in _ROUTES:
        if match := pattern.fullmatch(path):
            groups = match.groups()
            route = Route(name, wanted, groups[0].lower() if groups else None, groups[1:])
            if wanted == method:
                return route
            other = other or route
    return other


class RateWindow:
    """Dify's limit of calls per minute; refused calls count too.

    Args:
        limit: calls in 60 s; None: no limit, as on a self-hosted Dify.
        clock: monotonic seconds.
    """

    def __init__(self, limit: int | None, clock: Callable[[], float]) -> None:
        self._limit, self._clock = limit, clock
        self._calls: deque[float] = deque()

    def admit(self) -> None:
        """Count a call.

        Raises:
            DifyRefusal: 403, more than `limit` calls in the last 60 s.
        """
        if self._limit is None:
            return
        now = self._clock()
        self._calls.append(now)
        while self._calls and self._calls[0] <= now - 60:
            self._calls.popleft()
        if len(self._calls) > self._limit:
            raise DifyRefusal(403, "forbidden", RATE_LIMITED)


@dataclass
class DifyApp:
    """Answers calls; `datasets` by id, in the order of creation."""

    datasets: dict[str, HeldDataset]
    api_key: str
    how: Behaviour
    models: WorkspaceModels
    window: RateWindow
    writer: DatasetWriter

    def answer(self, call: AppRequest) -> AppResponse:
        """Return Dify's response.

        Checked in this order: route, dataset, its API switch, key, rate limit, body. Since 1.14 the key comes before
        the dataset.
        """
        route = route_of(call.target, call.method)
        if route is None:
            return AppResponse(404, NOT_FOUND_PAGE.encode(), (("Content-Type", "text/html; charset=utf-8"),))
        try:
            value = self._value(route, call)
        except DifyRefusal as refusal:
            answer = json_answer(refusal.status, refusal.body())
            if refusal.status == 401:
                answer = answer._replace(headers=(*answer.headers, ("WWW-Authenticate", 'Bearer realm="api"')))
            return answer
        status, body = value if isinstance(value, WriteResponse) else (200, value)
        return AppResponse(status, b"") if status == 204 else json_answer(status, body)

    def _value(self, route: Route, call: AppRequest) -> Any:
        if call.method != route.method:
            raise DifyRefusal(405, "method_not_allowed", "The method is not allowed for the requested URL.")
        key = call.headers.get("authorization", "")
        if self.how.modern:
            self._authorise(key)
        dataset = self._dataset(route)
        self._authorise(key)
        if dataset is not None and dataset.dataset.foreign:
            raise _foreign(route)
        query = parse_qs(urlsplit(call.target).query)
        if route.method == "GET":
            return self._read(route, dataset, query)
        self.window.admit()
        if dataset is None:
            return self.writer.create_dataset(_parsed(call))
        if route.name == "retrieve":
            return retrieve(dataset.stored, _parsed(call), self.how, self.models)
        return self._write(route, dataset, call)

    def _read(self, route: Route, dataset: HeldDataset | None, query: Mapping[str, Sequence[str]]) -> Any:
        if dataset is None:
            own = [held_dataset.stored for held_dataset in self.datasets.values() if not held_dataset.dataset.foreign]
            return dataset_page(own, query, exact=self.how.modern)
        stored = dataset.stored
        if route.name == "metadata":
            return metadata_fields(stored)
        if route.name == "built_in":
            return {"fields": [{"name": name, "type": kind} for name, kind in BUILT_IN_FIELDS.items()]}
        if route.name == "documents":
            return document_page(stored, query)
        if route.name == "indexing_status":
            return self.writer.indexing_status(dataset, route.parts[0])
        if route.name in ("segments", "document"):
            identity = _document(dataset, route).id
            document = next(row for row in stored.documents if row.id == identity)
            return (
                segment_page(stored, document, query) if route.name == "segments" else document_alone(stored, document)
            )
        return describe(stored, alone=True)

    def _write(self, route: Route, dataset: HeldDataset, call: AppRequest) -> WriteResponse:
        """Call the writer's method that has the route's name."""
        change = getattr(self.writer, "built_in_fields" if route.name == "set_built_in" else route.name)
        if route.name == "delete_dataset":
            return _written(change(dataset))
        arguments: list[Any] = [_document(dataset, route)] if route.name in _IN_DOCUMENT else []
        arguments += route.parts[1:] if route.name in _IN_DOCUMENT else route.parts
        if route.method != "DELETE" and route.name != "set_built_in":
            arguments.append(_parsed(call))
        return _written(change(dataset, *arguments))

    def _dataset(self, route: Route) -> HeldDataset | None:
        if route.dataset_id is None:
            return None
        dataset = self.datasets.get(route.dataset_id)
        if dataset is None:
            raise DifyRefusal(404, "not_found", "Dataset not found.")
        if not dataset.dataset.enable_api:
            raise DifyRefusal(403, "forbidden", "Dataset api access is not enabled.")
        return dataset

    def knows_key(self, header: str) -> bool:
        """Whether an Authorization header carries the key."""
        try:
            self._authorise(header)
        except DifyRefusal:
            return False
        return True

    def _authorise(self, header: str) -> None:
        scheme, space, token = header.partition(" ")
        if not space:
            raise DifyRefusal(401, "unauthorized", "Authorization header must be provided and start with 'Bearer'")
        if scheme.lower() != "bearer":
            raise DifyRefusal(401, "unauthorized", "Authorization scheme must be 'Bearer'")
        if not hmac.compare_digest(token.strip().encode(), self.api_key.encode()):
            raise DifyRefusal(401, "unauthorized", "Access token is invalid")


def _foreign(route: Route) -> DifyRefusal:
    """Return the refusal for a dataset of another workspace: 404 for its documents, 403 for the dataset itself."""
    if route.name in _OF_THE_DATASET:
        return DifyRefusal(403, "forbidden", "You do not have permission to access this dataset.")
    return DifyRefusal(404, "not_found", "Dataset not found.")


def _document(dataset: HeldDataset, route: Route) -> FakeDocument:
    document = dataset.document(route.parts[0].lower())
    if document is None:
        raise DifyRefusal(404, "not_found", "Document not found.")
    return document


def _written(value: Any) -> WriteResponse:
    assert isinstance(value, WriteResponse)
    return value


def _parsed(call: AppRequest) -> Any:
    kind = call.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not re.fullmatch(r"application/.+\+json", kind):
        raise DifyRefusal(415, "unsupported_media_type", _NO_JSON)
    try:
        return json.loads(call.body)
    except ValueError:
        raise DifyRefusal(400, "bad_request", _BAD_JSON) from None
