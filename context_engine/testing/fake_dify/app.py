"""The Service API without the network: from a call to an answer."""

from __future__ import annotations

import hmac
import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from context_engine.testing.fake_dify.describe import BUILT_IN_FIELDS, dataset_page, describe, metadata_fields
from context_engine.testing.fake_dify.refusals import NOT_FOUND_PAGE, RATE_LIMITED, Refusal
from context_engine.testing.fake_dify.retrieve import Behaviour, retrieve
from context_engine.testing.fake_dify.stored import StoredDataset
from context_engine.testing.fake_dify.vector_search import Models

__all__ = ["Answer", "Call", "DifyApp", "RateWindow", "Route", "json_answer", "route_of"]

_UUID: Final = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_ROUTES: Final[Sequence[tuple[str, str, re.Pattern[str]]]] = [
    ("list", "GET", re.compile("/v1/datasets")),
    ("get", "GET", re.compile(f"/v1/datasets/({_UUID})")),
    ("metadata", "GET", re.compile(f"/v1/datasets/({_UUID})/metadata")),
    ("built_in", "GET", re.compile(f"/v1/datasets/({_UUID})/metadata/built-in")),
    ("retrieve", "POST", re.compile(f"/v1/datasets/({_UUID})/(?:retrieve|hit-testing)")),
]
_BAD_JSON: Final = "The browser (or proxy) sent a request that this server could not understand."
_NO_JSON: Final = "Did not attempt to load JSON data because the request Content-Type was not 'application/json'."


class Call(NamedTuple):
    """A request; the names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    """A response without the headers that every response has."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)


class Route(NamedTuple):
    """Where a call goes: the endpoint's name, its method, the dataset's id in lower case if there is one."""

    name: str
    method: str
    dataset_id: str | None


def json_answer(status: int, value: Any) -> Answer:
    """Return an answer with a JSON body."""
    return Answer(status, json.dumps(value).encode())


def route_of(target: str) -> Route | None:
    """Return where a call goes, None where nothing answers: an unknown path, a malformed id, a trailing slash."""
    path = urlsplit(target).path
    for name, method, pattern in _ROUTES:
        if match := pattern.fullmatch(path):
            return Route(name, method, match[1].lower() if match.groups() else None)
    return None


class RateWindow:
    """Dify's limit of retrieve calls a minute; what it refuses counts too.

    Args:
        limit: calls in 60 s; None for no limit, as on a Dify of one's own.
        clock: seconds that only grow.
    """

    def __init__(self, limit: int | None, clock: Callable[[], float]) -> None:
        self._limit, self._clock = limit, clock
        self._calls: deque[float] = deque()

    def admit(self) -> None:
        """Count a call.

        Raises:
            Refusal: 403, there were more than `limit` in the last 60 s.
        """
        if self._limit is None:
            return
        now = self._clock()
        self._calls.append(now)
        while self._calls and self._calls[0] <= now - 60:
            self._calls.popleft()
        if len(self._calls) > self._limit:
            raise Refusal(403, "forbidden", RATE_LIMITED)


@dataclass
class DifyApp:
    """Answers calls; `datasets` by id, in the order of creation."""

    datasets: dict[str, StoredDataset]
    api_key: str
    how: Behaviour
    models: Models
    window: RateWindow

    def answer(self, call: Call) -> Answer:
        """Return Dify's answer: first the route, then dataset, its API switch, the key, the rate limit, the body."""
        route = route_of(call.target)
        if route is None:
            return Answer(404, NOT_FOUND_PAGE.encode(), (("Content-Type", "text/html; charset=utf-8"),))
        try:
            return json_answer(200, self._value(route, call))
        except Refusal as refusal:
            answer = json_answer(refusal.status, refusal.body())
            if refusal.status == 401:
                answer = answer._replace(headers=(*answer.headers, ("WWW-Authenticate", 'Bearer realm="api"')))
            return answer

    def _value(self, route: Route, call: Call) -> Any:
        if call.method != route.method:
            raise Refusal(405, "method_not_allowed", "The method is not allowed for the requested URL.")
        stored = self._dataset(route)
        self._authorise(call.headers.get("authorization", ""))
        if stored is None:
            return dataset_page(
                list(self.datasets.values()), parse_qs(urlsplit(call.target).query), exact=self.how.typed
            )
        if route.name == "get":
            return describe(stored, alone=True)
        if route.name == "metadata":
            return metadata_fields(stored)
        if route.name == "built_in":
            return {"fields": [{"name": name, "type": kind} for name, kind in BUILT_IN_FIELDS.items()]}
        self.window.admit()
        return retrieve(stored, _parsed(call), self.how, self.models)

    def _dataset(self, route: Route) -> StoredDataset | None:
        if route.dataset_id is None:
            return None
        stored = self.datasets.get(route.dataset_id)
        if stored is None:
            raise Refusal(404, "not_found", "Dataset not found.")
        if not stored.dataset.enable_api:
            raise Refusal(403, "forbidden", "Dataset api access is not enabled.")
        return stored

    def knows_key(self, header: str) -> bool:
        """Whether an Authorization header carries the key."""
        try:
            self._authorise(header)
        except Refusal:
            return False
        return True

    def _authorise(self, header: str) -> None:
        scheme, space, token = header.partition(" ")
        if not space:
            raise Refusal(401, "unauthorized", "Authorization header must be provided and start with 'Bearer'")
        if scheme.lower() != "bearer":
            raise Refusal(401, "unauthorized", "Authorization scheme must be 'Bearer'")
        if not hmac.compare_digest(token.strip().encode(), self.api_key.encode()):
            raise Refusal(401, "unauthorized", "Access token is invalid")


def _parsed(call: Call) -> Any:
    kind = call.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not re.fullmatch(r"application/.+\+json", kind):
        raise Refusal(415, "unsupported_media_type", _NO_JSON)
    try:
        return json.loads(call.body)
    except ValueError:
        raise Refusal(400, "bad_request", _BAD_JSON) from None
