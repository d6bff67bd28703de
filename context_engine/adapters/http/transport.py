"""One HTTP call: no cookies kept, no redirect followed, time and size bounded, failures in our own errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import httpx

from context_engine.adapters.http.keys import ApiKey
from context_engine.adapters.http.tls import tls_context
from context_engine.errors import SourceError, SourceProtocolError, SourceTimeout, SourceUnavailable
from context_engine.settings.connections import Connection

__all__ = ["MOST_BYTES", "Call", "Response", "make_client", "send"]

MOST_BYTES: Final = 16 * 1024 * 1024
_CONNECT_S: Final = 5.0
_KEEP_ALIVE_S: Final = 5.0
_MOST_IDLE: Final = 32
"""Every call looks at every idle connection."""

_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "context-engine"}


class Call(NamedTuple):
    """What is asked: a method, a path below the base URL, a JSON body or none."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None


class Response(NamedTuple):
    """What came back; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

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
            f"the answer is not JSON ({kind}, {len(self.body)} bytes): check that the connection's base_url is Dify's "
            "API and that no proxy or sign-in page answers in its place"
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


def make_client(connection: Connection) -> httpx.Client:
    """Return a client for a connection; the key is not in it, and how many calls run at once is not its business.

    Raises:
        ConfigError: a certificate file that cannot be used.
    """
    return _Client(
        base_url=f"{connection.base_url.removesuffix('/v1')}/v1",
        verify=tls_context(connection),
        proxy=connection.proxy.get_secret_value() if connection.proxy else None,
        limits=httpx.Limits(
            max_connections=None,
            max_keepalive_connections=min(connection.max_connections, _MOST_IDLE),
            keepalive_expiry=_KEEP_ALIVE_S,
        ),
        follow_redirects=False,
    )


def send(client: httpx.Client, call: Call, key: ApiKey, left: Callable[[], float], most_s: float) -> Response:
    """Make one call and return the answer, whatever its status.

    Args:
        client: from `make_client`.
        call: what is asked.
        key: goes on the request.
        left: seconds until the answer is of no use any more.
        most_s: longest silence borne.

    Raises:
        SourceTimeout, SourceUnavailable: no answer.
        SourceProtocolError: a redirect, a compressed or an overlong answer.
    """
    patience = min(left(), most_s)
    if patience <= 0:
        raise SourceTimeout("no time was left to ask", retryable=True)
    timeout = {"timeout": httpx.Timeout(patience, connect=min(patience, _CONNECT_S)).as_dict()}
    url = _url(str(client.base_url), call.path)
    failure: SourceError
    try:
        request = httpx.Request(call.method, url, headers=_HEADERS, json=call.body, extensions=timeout)
        response = client.send(request, stream=True, auth=key)
        try:
            return _read(response, left)
        finally:
            response.close()
    except (httpx.TimeoutException, httpx.TransportError, httpx.InvalidURL, httpx.StreamError) as error:
        failure = _failure(error)
    raise failure  # outside the except: the transport's error holds the request, and with it the key


@lru_cache(maxsize=1024)
def _url(base: str, path: str) -> httpx.URL:
    """Return the whole URL; reading one takes a tenth of a call."""
    return httpx.URL(f"{base}{path}")


def _failure(error: Exception) -> SourceError:
    name = type(error).__name__
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError | httpx.ProxyError):
        return SourceUnavailable(
            f"Dify could not be reached ({name}): check base_url, proxy and network", retryable=True
        )
    if isinstance(error, httpx.TimeoutException):
        return SourceTimeout(f"Dify did not answer in time ({name})", retryable=True)
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return SourceUnavailable("the connection's base_url cannot be asked: correct it")
    return SourceUnavailable(f"the connection to Dify broke ({name})", retryable=True)


def _read(response: httpx.Response, left: Callable[[], float]) -> Response:
    headers = {name.lower(): value for name, value in response.headers.items()}
    if response.is_redirect:
        raise SourceProtocolError("Dify answers with a redirect, which is not followed: correct base_url")
    if headers.get("content-encoding", "identity") != "identity":
        raise SourceProtocolError("the answer is compressed, which was not asked for: a proxy in between changes it")
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > MOST_BYTES:
        raise _too_long()
    body = bytearray()
    for part in response.iter_raw():
        body += part
        if len(body) > MOST_BYTES:
            raise _too_long()
        if left() <= 0:
            raise SourceTimeout("the answer did not arrive in time", retryable=True)
    return Response(response.status_code, headers, bytes(body))


def _too_long() -> SourceProtocolError:
    return SourceProtocolError(f"the answer is longer than {MOST_BYTES // 1024 // 1024} MiB")
