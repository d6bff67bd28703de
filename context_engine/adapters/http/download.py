"""Download a file once from a secret address: whoever has the address may read the file.

The address appears only on the wire: the client's log shows its origin alone, and no error contains it. No redirect is
followed, no cookie kept, no key sent. For an address
that a stranger may have chosen, the caller can require a host outside the bank's network.
"""

from __future__ import annotations

import ssl
import time
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, BinaryIO, Final

import httpx

from context_engine.adapters.http.deadline import TimeLimit, keep_deadlines
from context_engine.errors import (
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceTimeout,
    SourceUnavailable,
)

_CONNECT_S: Final = 5.0
_SILENCE_S: Final = 20.0
_HEADERS: Final = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "context-engine"}


class TooLarge(SourceProtocolError):
    """The file exceeds the size limit."""


class Untrusted(SourceUnavailable):
    """The server's certificate is not signed by a trusted authority."""


class InsideAddress(SourceUnavailable):
    """The host lies inside the network, and only outside hosts are allowed."""


def download(
    address: str,
    target: BinaryIO,
    *,
    most_bytes: int,
    seconds: float,
    authorities: str | None = None,
    outside_only: bool = False,
) -> None:
    """Write the content of an address to an open file.

    Args:
        address: http or https URL.
        seconds: time limit to the last byte.
        authorities: PEM certificates to trust in addition to the usual ones. A proxy of the environment is used.
        outside_only: refuses a host with a private or link-local address; the address of a proxy does not matter.

    Raises:
        InsideAddress: the host has such an address.
        TooLarge: the file has more than `most_bytes` bytes.
        SourceError: the file could not be fetched; the message does not contain the address.
    """
    problem = _fetched(address, target, most_bytes, seconds, authorities, outside_only)
    if problem is not None:
        raise problem  # here, because the transport's error and its frames hold the address


def _fetched(
    address: str, target: BinaryIO, most_bytes: int, seconds: float, authorities: str | None, outside_only: bool
) -> SourceError | None:
    end = time.monotonic() + seconds
    limit = TimeLimit(_SILENCE_S, lambda: end - time.monotonic())
    try:
        with httpx.Client(verify=_trusting(authorities), follow_redirects=False) as client:
            keep_deadlines(client)
            if outside_only:
                _keep_outside(client)
            response = client.send(_request(address, limit), stream=True)
            try:
                return _refused(response) or _written(response, target, most_bytes, limit)
            finally:
                response.close()
    except InsideAddress as error:
        return InsideAddress(str(error))
    except (httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:  # the last: no thread left
        return _failure(error, limit)


@lru_cache(maxsize=4)
def _trusting(authorities: str | None) -> ssl.SSLContext:
    context = httpx.create_ssl_context()
    if authorities is not None:
        context.load_verify_locations(cadata=authorities)
    return context


def _keep_outside(client: httpx.Client) -> None:
    """Make a client refuse connections to inside hosts; connections through a proxy are not affected."""
    transport: Any = client._transport
    transport._pool._network_backend = _Outside(transport._pool._network_backend)


class _Outside:
    """Opens connections to outside hosts; an httpcore network backend."""

    def __init__(self, network: Any) -> None:
        self._network = network

    def connect_tcp(self, *where: Any, **options: Any) -> Any:
        """Connect, and close the connection before a byte is sent if the host turns out to be inside."""
        stream = self._network.connect_tcp(*where, **options)
        peer = ip_address(stream.get_extra_info("server_addr")[0].partition("%")[0])
        peer = getattr(peer, "ipv4_mapped", None) or peer
        if peer.is_global or peer.is_loopback:  # loopback is only the caller's own container
            return stream
        stream.close()
        raise InsideAddress("its host has an address inside of the network")


def _request(address: str, limit: TimeLimit) -> httpx.Request:
    """Return the request: its URL is the origin alone, and the real path and query are set as its target."""
    url = httpx.URL(address)
    timeout = {"connect": TimeLimit(_CONNECT_S, limit.left), "read": limit, "write": limit, "pool": limit}
    extensions = {"timeout": timeout, "target": url.raw_path}
    return httpx.Request("GET", url.copy_with(raw_path=b"/"), headers=_HEADERS, extensions=extensions)


def _refused(response: httpx.Response) -> SourceError | None:
    status = response.status_code
    if response.is_redirect:
        return SourceProtocolError(f"it answers with a redirect ({status}), which is not followed")
    if status in (401, 403):
        return SourceForbidden(f"access was refused ({status})")
    if status in (404, 410):
        return SourceNotFound(f"there is no such file ({status})")
    if status != 200:
        return SourceUnavailable(f"it answers with status {status}", retryable=status >= 500)
    if response.headers.get("content-encoding", "identity") != "identity":
        return SourceProtocolError("the file came compressed, which was not asked for: a proxy in between changes it")
    return None


def _written(response: httpx.Response, target: BinaryIO, most_bytes: int, limit: TimeLimit) -> SourceError | None:
    length = response.headers.get("content-length", "")
    expected = int(length) if length.isdecimal() and len(length) < 20 else None
    size = 0
    if expected is not None and expected > most_bytes:
        return TooLarge(f"has {expected:,} bytes")
    for part in response.iter_raw():
        size += len(part)
        if size > most_bytes:
            return TooLarge(f"has more than {most_bytes:,} bytes")
        if limit.left() <= 0:
            return _late()
        target.write(part)
    return None


def _failure(error: Exception, limit: TimeLimit) -> SourceError:
    kind = type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Untrusted(f"its certificate is not trusted ({cause.verify_message})")
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError | httpx.ProxyError):
        return SourceUnavailable(f"it could not be reached ({kind})", retryable=True)
    if isinstance(error, httpx.TimeoutException):
        return _late() if limit.left() <= 0 else SourceTimeout(f"it was silent for {limit:g} s", retryable=True)
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return SourceUnavailable("its address cannot be asked")
    return SourceUnavailable(f"the connection broke ({kind})", retryable=True)


def _late() -> SourceTimeout:
    return SourceTimeout("the file was not all there in time", retryable=True)
