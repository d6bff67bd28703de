"""One HTTP call: no cookies, no redirects, bounded time and size, failures as errors of this package."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import httpx

from context_engine.adapters.http.deadline import PartLimit, TimeLimit, keep_deadlines
from context_engine.adapters.http.keys import ApiKey
from context_engine.core.tracing import current_span
from context_engine.errors import ConfigError, SourceError, SourceProtocolError, SourceTimeout, SourceUnavailable
from context_engine.settings.connections import Connection


def tls_context(connection: Connection) -> ssl.SSLContext:
    """Return the TLS context of a connection's CA bundle and client certificate.

    Raises:
        ConfigError: one of the files cannot be used.
    """
    try:
        if connection.ca_bundle is None:
            context = httpx.create_ssl_context()
        else:
            context = ssl.create_default_context(cafile=str(connection.ca_bundle))
        if connection.client_certificate is not None:
            context.load_cert_chain(connection.client_certificate, connection.client_key)
        return context
    except (OSError, ssl.SSLError) as error:
        reason = type(error).__name__
    named = connection.ca_bundle or connection.client_certificate
    file = "a certificate file of" if named else "the file that SSL_CERT_FILE names for"
    raise ConfigError(f"{file} the connection to {connection.shown_url} cannot be used ({reason})")


_CONNECT_S: Final = 5.0
_KEEP_ALIVE_S: Final = 5.0
_MOST_IDLE: Final = 32  # httpx goes through every idle connection on each call
_NO_PROXY: Final = (
    "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY or NO_PROXY cannot be used: a proxy is an http or https URL, and NO_PROXY "
    "lists names and addresses, IPv6 without brackets"
)
_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "context-engine"}


class HttpCall(NamedTuple):
    """A method and a path below the API's root; the body is JSON, plain text or none.

    Attributes:
        headers: instead of, or in addition to, the usual ones; never a key.
    """

    method: str
    path: str
    body: Mapping[str, Any] | str | None = None
    headers: Mapping[str, str] = MappingProxyType({})


class HttpAnswer(NamedTuple):
    """A server's answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        """Show nothing of the body: a server may repeat the key."""
        return f"HttpAnswer({self.status}, {len(self.body)} bytes)"

    def json(self) -> Any:
        """Return the parsed body.

        Raises:
            SourceProtocolError: it is not JSON.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            pass  # raised below, because the parser's error holds the body
        raise SourceProtocolError(self._no_json())

    def _no_json(self) -> str:
        kind = self.headers.get("content-type", "").partition(";")[0] or "nothing"
        return (
            f"the answer is not JSON ({kind}, {len(self.body)} bytes): check that the connection's base_url is the "
            "API's and that no proxy or sign-in page answers in its place"
        )


class _NoCookies(httpx.Cookies):
    def extract_cookies(self, response: httpx.Response) -> None:
        """Store nothing."""


class _Client(httpx.Client):
    @property
    def cookies(self) -> httpx.Cookies:
        """Always empty."""
        return _NO_COOKIES

    @cookies.setter
    def cookies(self, cookies: Any) -> None:
        raise TypeError("this client keeps no cookies")


_NO_COOKIES: Final = _NoCookies()


def make_client(connection: Connection, *, max_connections: int | None = None) -> httpx.Client:
    """Return a client with a connection's certificates and proxy, without its key.

    Args:
        max_connections: parallel calls; None if something else bounds them.

    Raises:
        ConfigError: a certificate file cannot be used, or a proxy that the environment names.
    """
    context = tls_context(connection)
    try:
        client = _Client(
            verify=context,
            proxy=connection.proxy.get_secret_value() if connection.proxy else None,
            limits=httpx.Limits(
                max_connections=max_connections,
                max_keepalive_connections=min(connection.max_connections, _MOST_IDLE),
                keepalive_expiry=_KEEP_ALIVE_S,
            ),
            follow_redirects=False,
        )
    except (ValueError, ImportError, httpx.InvalidURL):  # raised below, because a URL may hold a password
        client = None
    if client is None:
        raise ConfigError(_NO_PROXY)
    keep_deadlines(client)
    return client


_BROKEN: Final = (httpx.HTTPError, httpx.InvalidURL, RuntimeError)
"""Errors of the transport; the last: the client was closed meanwhile, or no thread is left."""


class HttpStream:
    """An answer that is read while it comes; to be closed, which ends the call.

    Attributes:
        status: of the answer.
        headers: their names are in lower case.
    """

    __slots__ = ("_limit", "_max_bytes", "_name", "_response", "headers", "status")

    def __init__(self, response: httpx.Response, limit: TimeLimit, max_bytes: int, name: str) -> None:
        self.status = response.status_code
        self.headers = {header.lower(): value for header, value in response.headers.items()}
        self._response, self._limit, self._max_bytes, self._name = response, limit, max_bytes, name

    def parts(self) -> Iterator[bytes]:
        """Yield the body as it comes.

        Raises:
            SourceTimeout, SourceUnavailable: it broke off or came too slowly.
            SourceProtocolError: it is too long.
        """
        incoming, length = self._response.iter_raw(), 0
        while isinstance(part := self._next(incoming, length), bytes):
            length += len(part)
            yield part
        if part is not None:
            raise part

    def answer(self) -> HttpAnswer:
        """Return the whole answer; raises as `parts` does."""
        return HttpAnswer(self.status, self.headers, b"".join(self.parts()))

    def close(self) -> None:
        """End the call; a connection with an unread rest is closed too."""
        with suppress(*_BROKEN):
            self._response.close()

    def _next(self, incoming: Iterator[bytes], length: int) -> bytes | SourceError | None:
        """Return the next part; None at the end."""
        try:
            part = next(incoming, None)
        except _BROKEN as error:
            return _failure(error, self._name, self._limit)
        if part is None:
            return None
        if isinstance(self._limit, PartLimit):
            self._limit.came()
        if length + len(part) > self._max_bytes:
            return _too_long(self._max_bytes)
        return _late(self._name) if self._limit.left() <= 0 else part


def send(
    client: httpx.Client, url: str, call: HttpCall, key: ApiKey | None, *, limit: TimeLimit, max_bytes: int, name: str
) -> HttpAnswer:
    """Make one call and return the answer, whatever its status; arguments and errors are those of `open_stream`."""
    stream = open_stream(client, url, call, key, limit=limit, max_bytes=max_bytes, name=name)
    with closing(stream):
        return stream.answer()


def open_stream(
    client: httpx.Client, url: str, call: HttpCall, key: ApiKey | None, *, limit: TimeLimit, max_bytes: int, name: str
) -> HttpStream:
    """Make one call and return its answer as soon as its headers are there, whatever its status.

    Args:
        url: the API's root.
        limit: the longest silence allowed, and the time until the last byte.
        max_bytes: longest answer that is read.
        name: the server's name in messages.

    Raises:
        SourceTimeout, SourceUnavailable: no answer.
        SourceProtocolError: a redirect, a compressed answer or one that is too long.
    """
    if limit.next_s() <= 0:
        raise SourceTimeout("no time was left to ask", retryable=True)
    stream = _opened(client, url, call, key, limit, max_bytes, name)
    if isinstance(stream, SourceError):
        raise stream  # here, because the transport's error and its frames hold the request with the key
    return stream


def _opened(
    client: httpx.Client, url: str, call: HttpCall, key: ApiKey | None, limit: TimeLimit, max_bytes: int, name: str
) -> HttpStream | SourceError:
    connect, pool = TimeLimit(min(limit, _CONNECT_S), limit.left), max(limit.next_s(), 0.0)
    timeout = {"connect": connect, "read": limit, "write": limit, "pool": pool}
    try:
        request = _request(call, _url(f"{url}/{call.path}"), {"timeout": timeout})
        response = client.send(request, stream=True, auth=key)
    except _BROKEN as error:
        return _failure(error, name, limit)
    stream = HttpStream(response, limit, max_bytes, name)
    problem = _unusable(response.is_redirect, stream.headers, max_bytes, name)
    if problem is None:
        return stream
    stream.close()
    return problem


def _unusable(redirects: bool, headers: Mapping[str, str], max_bytes: int, name: str) -> SourceError | None:
    """Return why an answer is not read, by its headers."""
    if redirects:
        return SourceProtocolError(f"{name} answers with a redirect, which is not followed: correct base_url")
    if headers.get("content-encoding", "identity") != "identity":
        return SourceProtocolError("the answer is compressed, which was not asked for: a proxy in between changes it")
    length = headers.get("content-length", "")
    return _too_long(max_bytes) if length.isdecimal() and float(length) > max_bytes else None


def _too_long(max_bytes: int) -> SourceError:
    return SourceProtocolError(f"the answer is longer than {max_bytes // 1024 // 1024} MiB: ask for less at once")


def _request(call: HttpCall, url: httpx.URL, extensions: Mapping[str, Any]) -> httpx.Request:
    usual = {**_HEADERS, **current_span().headers()}
    if isinstance(call.body, str):
        headers = {**usual, "Accept": "*/*", "Content-Type": "text/plain; charset=utf-8", **call.headers}
        return httpx.Request(call.method, url, headers=headers, content=call.body.encode(), extensions=extensions)
    headers = {**usual, **call.headers}
    return httpx.Request(call.method, url, headers=headers, json=call.body, extensions=extensions)


@lru_cache(maxsize=1024)
def _url(text: str) -> httpx.URL:
    """Parse a URL; this takes a tenth of a call, so results are cached."""
    return httpx.URL(text)


def _failure(error: Exception, name: str, limit: TimeLimit) -> SourceError:
    kind = type(error).__name__
    if isinstance(error, httpx.PoolTimeout):
        return SourceTimeout(
            f"all connections to {name} were in use: raise max_connections, or lower the load", retryable=True
        )
    if (untrusted := _tls_problem(error)) is not None:
        return SourceUnavailable(f"{name} could not be reached: {untrusted}")
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError | httpx.ProxyError):
        return SourceUnavailable(
            f"{name} could not be reached ({kind}): check base_url, proxy and network", retryable=True
        )
    if isinstance(error, httpx.TimeoutException):
        if limit.left() <= 0:
            return _late(name)
        problem = f"{name} was silent for {limit.silence_s:g} s ({kind}): lower its load, or raise "
        return SourceTimeout(problem + limit.raised_by, retryable=True)
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return SourceUnavailable("the connection's base_url cannot be asked: correct it")
    return SourceUnavailable(f"the connection to {name} broke ({kind})", retryable=True)


def _tls_problem(error: BaseException | None) -> str | None:
    """Return the TLS problem behind a transport error, None if there is none."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({error.verify_message}): give its authority as ca_bundle"
        if isinstance(error, ssl.SSLError):
            return f"TLS failed ({error.reason or type(error).__name__}): check the scheme and the port of base_url"
        error = error.__cause__ or error.__context__
    return None


def _late(name: str) -> SourceTimeout:
    return SourceTimeout(f"{name} did not answer in time: the answer was not all there", retryable=True)
