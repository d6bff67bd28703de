"""The ASGI middleware around every request and answer."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Final, Protocol
from uuid import uuid4

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from context_engine.apps.dify.external import has_bearer
from context_engine.apps.mcp.addresses import check_host
from context_engine.apps.server.body import check_json, read_body
from context_engine.apps.server.metrics import PATH
from context_engine.apps.server.problems import HttpProblem, ProblemForm, problem_answer, problem_of
from context_engine.apps.server.service import Service
from context_engine.core.models import Authenticated
from context_engine.core.tracing import HttpAnswered, Step, current_span, span
from context_engine.errors import NotAuthenticated

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)
_SECURITY: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_ONCE: Final = (b"authorization", b"content-type", b"origin")
"""Header fields that must occur once; of two, one reader takes the first and another the last."""

_DIFY: Final = ("/retrieval", "//retrieval")
_COUNTED: Final = ("/api", "/mcp", "/v1")
_TRACED: Final = (*_COUNTED, *_DIFY)
_PARENT: Final = ("traceparent", "tracestate")
_OPENED: Final = (*_COUNTED, *_DIFY, PATH)
_CHECKED: Final = ("/api", "/v1", *_DIFY)
_CUT_OFF: Final = "the service is stopping and cut off this request: send it again"
_LEFT: Final = 499  # the caller left without an answer
_MOST_NAMED: Final = 600
_LONG: Final = 65_536
"""Body size in bytes from which it is checked in a thread."""

_JSON: Final = re.compile(r"application/(?:[\w.+-]+\+)?json\s*(?:;\s*charset=\"?utf-8\"?\s*)?", re.IGNORECASE)
Headers = Mapping[bytes, bytes]


class Pages(Protocol):
    """The pages of a service, whose callers are known by a cookie."""

    def covers(self, path: str) -> bool:
        """Return whether the address is a page for a caller who is signed in."""
        ...

    def authorization(self, headers: Headers) -> str | None:
        """Return the Authorization field of the caller's session; None without one."""
        ...

    def check_origin(self, method: str, headers: Headers) -> None:
        """Check that a request that changes something comes from a page of this service.

        Raises:
            HttpProblem: it comes from elsewhere.
        """
        ...


class Gate:
    """Gives each request an id, authenticates the caller, limits the rate, and reads and checks the JSON body.

    Under `/api`, `/v1`, `/mcp` and `/retrieval` a request without a valid token is refused before its body is read.
    The rate limit applies under `/api`, `/v1` and `/mcp`. Unexpected errors of routes become an answer and a log
    line here.

    Args:
        app: the app with the routes.
        service: authenticates the callers.
        forms: the problem formats of addresses with their own.
        pages: authenticate by a cookie and are counted too; None: there are none.
    """

    def __init__(
        self, app: ASGIApp, service: Service, forms: Mapping[str, ProblemForm], pages: Pages | None = None
    ) -> None:
        self._app, self._service, self._forms, self._pages = app, service, forms, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and show those that may search in a trace."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        tracer, path = self._service.live.current.engine.tracer, scope["path"]
        if tracer is None or not (_is_in(path, _TRACED) or (self._pages is not None and self._pages.covers(path))):
            await self._answer(scope, receive, send)
            return
        headers: Headers = dict(scope["headers"])
        parent = {name: text for name in _PARENT if (text := _text(headers, name.encode())) is not None}
        with span(Step.REQUEST, scope["method"], tracer, parent):
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":  # as GET (RFC 9110, 9.3.2); the server leaves the body out
            scope = {**scope, "method": "GET"}
        headers: Headers = dict(scope["headers"])
        answer = _OutgoingAnswer(send, _request_id(headers), closing=self._service.readiness.draining)
        state, begun = scope.setdefault("state", {}), time.monotonic()
        state["request_id"] = answer.request_id
        try:
            _check_framing(scope, headers)
            _check_address(scope)
            _check_once(scope)
            settings = self._service.settings
            if self._service.own_names_only or (settings.server_allowed_hosts and _is_in(scope["path"], _OPENED)):
                here = (scope.get("server") or (None,))[0]
                check_host(_text(headers, b"host"), settings, here)
            path, counted, caller = scope["path"], None, None
            is_page = self._pages is not None and self._pages.covers(path)
            if is_page or _is_in(path, _OPENED):
                caller = self._authenticated(path, self._authorization(scope, headers, is_page=is_page))
                state["caller"] = caller
                counted = caller.principal.id if is_page or _is_in(path, _COUNTED) else None
                if counted is not None and not caller.gateway:
                    self._count(counted, answer)
            receive, body = await self._with_body(path, headers, receive)
            if counted is not None and caller is not None and caller.gateway:  # its callers are counted apart
                self._count(f"{counted} {_forwarded(body)}", answer)
            await self._app(scope, receive, answer.send)
        except _CallerGone:
            return
        except Exception as error:  # the caller always gets an answer, and the log the error
            if answer.started:
                raise
            await self._tell(error, answer, scope, receive)
        except asyncio.CancelledError:
            if answer.started or not self._service.readiness.draining:
                raise
            await self._tell(HttpProblem("not_ready", _CUT_OFF, headers={"Retry-After": "5"}), answer, scope, receive)
        finally:
            method, route = self._service.metrics.answered(scope, answer.status, time.monotonic() - begun)
            current_span().tell(HttpAnswered(method, route, answer.status, answer.request_id))

    async def _tell(self, error: Exception, answer: _OutgoingAnswer, scope: Scope, receive: Receive) -> None:
        response = told(self._forms, scope, error, answer.request_id)
        await response(scope, receive, answer.send)

    def _authorization(self, scope: Scope, headers: Headers, *, is_page: bool) -> str | None:
        sent = _text(headers, b"authorization")
        if self._pages is None or not is_page:
            return sent
        self._pages.check_origin(scope["method"], headers)
        return sent or self._pages.authorization(headers)

    def _authenticated(self, path: str, authorization: str | None) -> Authenticated:
        try:
            return self._service.authenticator.authenticate(authorization)
        except NotAuthenticated as error:
            if _is_in(path, _DIFY) and not has_bearer(authorization):
                raise HttpProblem("no_token", str(error)) from None
            raise

    def _count(self, caller: str, answer: _OutgoingAnswer) -> None:
        settings = self._service.settings
        allowance = self._service.rates.take(caller, settings)
        if allowance is None:
            return
        answer.headers += allowance.headers()
        if not allowance.granted:
            most = settings.server_rate_burst
            problem = f"{allowance.per_minute} requests a minute are allowed, {most} at once: the limit is reached"
            raise HttpProblem("rate_exceeded", problem, headers={"Retry-After": str(allowance.wait_s)})

    async def _with_body(self, path: str, headers: Headers, receive: Receive) -> tuple[Receive, bytes]:
        """Return an ASGI `receive` that replays the checked body, and the body."""
        if b"content-length" not in headers and b"transfer-encoding" not in headers:
            return receive, b""
        body = await read_body(receive, headers, self._service.settings.server_max_body_bytes)
        if body is None:
            raise _CallerGone
        if body and _is_in(path, _CHECKED):
            _check_type(_text(headers, b"content-type"))
            _check_coding(_text(headers, b"content-encoding"))
            problem = check_json(body) if len(body) < _LONG else await asyncio.to_thread(check_json, body)
            if problem is not None:
                raise HttpProblem("malformed_request", problem)
        return _again(body, receive), body


class _CallerGone(Exception):
    """The caller disconnected before the request was complete."""


class _OutgoingAnswer:
    """Wraps ASGI `send` to add the common headers."""

    def __init__(self, send: Send, request_id: str, *, closing: bool) -> None:
        self._send, self.request_id, self.started, self.status = send, request_id, False, _LEFT
        self.headers: list[tuple[bytes, bytes]] = [(b"x-request-id", request_id.encode())]
        if closing:  # the port closes soon: the next request must connect to another instance
            self.headers.append((b"connection", b"close"))

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started, self.status = True, int(message["status"])
            headers_sent = message.get("headers", [])
            names = {name for name, _ in headers_sent}
            usual = [header for header in _SECURITY if header[0] not in names]
            message = {**message, "headers": [*headers_sent, *usual, *self.headers]}
        await self._send(message)


def told(forms: Mapping[str, ProblemForm], scope: Scope, error: Exception, request_id: str) -> Response:
    """Return the answer for an error at an address: problem+json, or the address's own format."""
    problem, headers = problem_of(error, request_id)
    path = scope["path"]
    form = next((form for prefix, form in forms.items() if _is_below(path, prefix)), problem_answer)
    answer = form(problem, headers, scope)
    if answer.status_code == problem.status:
        for name, value in headers.items():
            answer.headers[name] = value
    return answer


def _is_below(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", "/")


def _is_in(path: str, prefixes: Sequence[str]) -> bool:
    return any(_is_below(path, prefix) for prefix in prefixes)


def _request_id(headers: Headers) -> str:
    sent = _text(headers, b"x-request-id")
    return sent if sent and _REQUEST_ID.fullmatch(sent) else uuid4().hex


def _text(headers: Headers, name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")


def _forwarded(body: bytes) -> str:
    """Return the app and the user that a gateway's call names."""
    try:
        call = json.loads(body)
        return f"{call.get('app_id')} {call.get('user_id')}"[:_MOST_NAMED]
    except (ValueError, AttributeError, RecursionError):
        return ""


def _check_address(scope: Scope) -> None:
    if b"%00" in scope.get("raw_path", b"") or b"%00" in scope["query_string"]:
        raise HttpProblem("malformed_request", "the address holds the character NUL (%00): leave it out")


def _check_framing(scope: Scope, headers: Headers) -> None:
    """Refuse a request whose end another reader may see elsewhere (RFC 9112, 6.1), and close the connection."""
    version, coded = scope.get("http_version", "1.1"), b"transfer-encoding" in headers
    problem = ""
    if version not in ("1.0", "1.1"):
        problem = f"the request is HTTP/{version[:10]}: send HTTP/1.1"
    elif coded and b"content-length" in headers:
        problem = "the request has both Content-Length and Transfer-Encoding: send one of them"
    elif coded and version == "1.0":
        problem = "the request is HTTP/1.0 and has a Transfer-Encoding: send HTTP/1.1, or a Content-Length"
    if problem:
        raise HttpProblem("malformed_request", problem, headers={"Connection": "close"})


def _check_once(scope: Scope) -> None:
    names = [name for name, _ in scope["headers"]]
    twice = next((name for name in _ONCE if names.count(name) > 1), None)
    if twice is not None:
        raise HttpProblem("malformed_request", f"the field {twice.decode()} occurs twice in the headers: send it once")


def _check_type(content_type: str | None) -> None:
    if content_type is None or not _JSON.fullmatch(content_type.strip()):
        problem = (
            "the body has no Content-Type" if content_type is None else f"the body is said to be {content_type[:100]!r}"
        )
        raise HttpProblem("unsupported_media_type", f"{problem}: send JSON in UTF-8 as 'application/json'")


def _check_coding(coding: str | None) -> None:
    if coding is not None and coding.strip().lower() not in ("", "identity"):
        problem = f"the body is compressed ({coding[:100]!r}): send it as it is, without Content-Encoding"
        raise HttpProblem("unsupported_media_type", problem, headers={"Accept-Encoding": "identity"})


def _again(body: bytes, receive: Receive) -> Receive:
    seen = False

    async def once_more() -> Message:
        nonlocal seen
        if seen:
            return await receive()
        seen = True
        return {"type": "http.request", "body": body, "more_body": False}

    return once_more
