"""One HTTP call: no cookies kept, no redirect followed, time and size bounded, failures in our own errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import httpx

from context_engine.adapters.http.deadline import TimeLimit, keep_deadlines
from context_engine.adapters.http.keys import ApiKey
from context_engine.adapters.http.tls import tls_context
from context_engine.errors import SourceError, SourceProtocolError, SourceTimeout, SourceUnavailable
from context_engine.settings.connections import Connection

__all__ = ["HttpAnswer", "HttpCall", "make_client", "send"]

_CONNECT_S: Final = 5.0
_KEEP_ALIVE_S: Final = 5.0
_MOST_IDLE: Final = 32
"""Every call goes through every idle connection."""

_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "context-engine"}


class HttpCall(NamedTuple):
    """What is asked: a method, a path below the API's root, a JSON body or none."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None


class HttpAnswer(NamedTuple):
    """What came back; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        """Return no word of it: a server may repeat the key."""
        return f"HttpAnswer({self.status}, {len(self.body)} bytes)"

    def json(self) -> Any:
        """Return the parsed body.

        Raises:
            SourceProtocolError: it is not JSON.
        """
        value: Any = None
        try:
            value = json.loads(self.body)
            readable = True
        except (ValueError, RecursionError):
            readable = False
        if readable:
            return value
        kind = self.headers.get("content-type", "").partition(";")[0] or "nothing"
        raise SourceProtocolError(
            f"the answer is not JSON ({kind}, {len(self.body)} bytes): check that the connection's base_url is the "
            "API's and that no proxy or sign-in page answers in its place"
        )


class _NoCookies(httpx.Cookies):
    """Stays empty."""

    def extract_cookies(self, response: httpx.Response) -> None:
        """Keep nothing of a response."""


class _Client(httpx.Client):
    """A client that keeps no cookies."""

    @property
    def cookies(self) -> httpx.Cookies:
        """None, always."""
        return _NO_COOKIES

    @cookies.setter
    def cookies(self, cookies: Any) -> None:
        raise TypeError("this client keeps no cookies")


_NO_COOKIES: Final = _NoCookies()


def make_client(connection: Connection, *, most_at_once: int | None = None) -> httpx.Client:
    """Return a client for a connection; the key is not in it.

    Args:
        connection: its certificates and its proxy.
        most_at_once: parallel calls; None where something else bounds them.

    Raises:
        ConfigError: a certificate file that cannot be used.
    """
    client = _Client(
        verify=tls_context(connection),
        proxy=connection.proxy.get_secret_value() if connection.proxy else None,
        limits=httpx.Limits(
            max_connections=most_at_once,
            max_keepalive_connections=min(connection.max_connections, _MOST_IDLE),
            keepalive_expiry=_KEEP_ALIVE_S,
        ),
        follow_redirects=False,
    )
    keep_deadlines(client)
    return client


def send(
    client: httpx.Client,
    url: str,
    call: HttpCall,
    key: ApiKey | None,
    *,
    left: Callable[[], float],
    silence_s: float,
    most_bytes: int,
    name: str,
) -> HttpAnswer:
    """Make one call and return the answer, whatever its status.

    Args:
        client: from `make_client`.
        url: below which the call's path lies.
        call: what is asked.
        key: goes on the request.
        left: seconds until the answer is of no use any more, to its last byte.
        silence_s: longest silence borne.
        most_bytes: longest answer that is read.
        name: what messages call the server.

    Raises:
        SourceTimeout, SourceUnavailable: no answer.
        SourceProtocolError: a redirect, a compressed or an overlong answer.
    """
    if min(left(), silence_s) <= 0:
        raise SourceTimeout("no time was left to ask", retryable=True)
    answer = _exchanged(client, url, call, key, left, silence_s, most_bytes, name)
    if isinstance(answer, SourceError):
        raise answer  # not where it was found: the transport's error and its frames hold the request, and so the key
    return answer


def _exchanged(
    client: httpx.Client,
    url: str,
    call: HttpCall,
    key: ApiKey | None,
    left: Callable[[], float],
    silence_s: float,
    most_bytes: int,
    name: str,
) -> HttpAnswer | SourceError:
    limits = {part: TimeLimit(silence_s, left) for part in ("read", "write")}
    limits["connect"] = TimeLimit(min(silence_s, _CONNECT_S), left)
    timeout = {**limits, "pool": max(min(silence_s, left()), 0.0)}
    try:
        whole = _url(f"{url}/{call.path}")
        request = httpx.Request(call.method, whole, headers=_HEADERS, json=call.body, extensions={"timeout": timeout})
        response = client.send(request, stream=True, auth=key)
        try:
            return _read(response, left, most_bytes, name)
        finally:
            response.close()
    except (httpx.TransportError, httpx.InvalidURL, httpx.StreamError) as error:
        return _failure(error, name, silence_s, left)


@lru_cache(maxsize=1024)
def _url(text: str) -> httpx.URL:
    """Return the whole URL; reading one takes a tenth of a call."""
    return httpx.URL(text)


def _failure(error: Exception, name: str, silence_s: float, left: Callable[[], float]) -> SourceError:
    kind = type(error).__name__
    if isinstance(error, httpx.PoolTimeout):
        problem = "all connections to {name} were in use: raise max_connections of the connection, or lower the load"
        return SourceTimeout(problem.replace("{name}", name), retryable=True)
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError | httpx.ProxyError):
        return SourceUnavailable(
            f"{name} could not be reached ({kind}): check base_url, proxy and network", retryable=True
        )
    if isinstance(error, httpx.TimeoutException):
        how = "the answer was not all there" if left() <= 0 else f"it was silent for {silence_s:g} s (timeout_s)"
        return SourceTimeout(f"{name} did not answer in time ({kind}): {how}", retryable=True)
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return SourceUnavailable("the connection's base_url cannot be asked: correct it")
    return SourceUnavailable(f"the connection to {name} broke ({kind})", retryable=True)


def _read(
    response: httpx.Response, left: Callable[[], float], most_bytes: int, name: str
) -> HttpAnswer | SourceProtocolError | SourceTimeout:
    headers = {name.lower(): value for name, value in response.headers.items()}
    if response.is_redirect:
        return SourceProtocolError(f"{name} answers with a redirect, which is not followed: correct base_url")
    if headers.get("content-encoding", "identity") != "identity":
        return SourceProtocolError("the answer is compressed, which was not asked for: a proxy in between changes it")
    too_long = SourceProtocolError(f"the answer is longer than {most_bytes // 1024 // 1024} MiB: ask for less at once")
    length = headers.get("content-length", "")
    if length.isdecimal() and float(length) > most_bytes:
        return too_long
    body = bytearray()
    for part in response.iter_raw():
        body += part
        if len(body) > most_bytes:
            return too_long
        if left() <= 0:
            return SourceTimeout(f"{name} did not answer in time: the answer was not all there", retryable=True)
    return HttpAnswer(response.status_code, headers, bytes(body))
