"""Checks the Host and Origin headers of requests, against DNS rebinding.

A hostile page can make its domain name resolve to this machine and then send requests to it. Such a request has that
name as its Host, which is not a name of this service.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from context_engine.core.models import Settings
from context_engine.errors import NotPermitted

_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.%]+\]|[^:\[\]/@\s]+)(?::\d{1,5})?")


def check_host(host: str | None, settings: Settings, local_address: str | None) -> None:
    """Accept a request only if it was sent to a name of this service.

    The service has the name in `server_public_url` and those in `server_allowed_hosts`, or those of this machine if
    none are listed. A listed NAME holds for any port, NAME:PORT for that port alone.

    Args:
        host: the header, NAME or NAME:PORT, with any port.
        settings: those in force.
        local_address: the address at which the request arrived.

    Raises:
        NotPermitted: the name is missing or not allowed.
    """
    name, public = _name(host or ""), urlsplit(settings.server_public_url or "").netloc
    names = {allowed.casefold() for allowed in settings.server_allowed_hosts or _own_names(local_address)}
    if not name or not {name, (host or "").casefold()} & {*names, _name(public)}:
        raise NotPermitted(
            "the request was sent to a name (Host) that is not one of this service: use one that is, or have the "
            "operator add the name to server_allowed_hosts"
        )


def check_origin(origin: str | None, allowed: Sequence[str]) -> None:
    """Accept a request only if no web page sent it, or an allowed one.

    Args:
        origin: the header, SCHEME://HOST[:PORT]; None unless a page sent the request.
        allowed: the pages; empty: those of this machine.

    Raises:
        NotPermitted: the page is not allowed.
    """
    if origin is None:
        return
    right = origin.casefold() in [page.casefold().rstrip("/") for page in allowed] if allowed else _is_local(origin)
    if not right:
        raise NotPermitted(
            "the request comes from a web page (Origin) that is not allowed: the operator has to add the page to "
            "server_allowed_origins"
        )


def _name(host: str) -> str:
    """Return NAME of a well-formed NAME or NAME:PORT; empty for anything else."""
    match = _HOST.fullmatch(host)
    return match["name"].casefold() if match else ""


def _own_names(local_address: str | None) -> tuple[str, ...]:
    address = () if not local_address else (f"[{local_address}]" if ":" in local_address else local_address,)
    return (*_LOOPBACK, *address, _machine())


@cache
def _machine() -> str:
    return socket.gethostname().casefold()


def _is_local(origin: str) -> bool:
    try:
        parts = urlsplit(origin)
        name = parts.hostname or ""
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and (f"[{name}]" if ":" in name else name) in _LOOPBACK
