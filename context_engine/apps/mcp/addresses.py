"""Checks the Host and Origin headers of requests, against DNS rebinding.

A hostile page can make its own domain name resolve to this machine and then send requests to it. Such a request carries
that name as its Host, which is not one of ours.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from context_engine.errors import NotPermitted

_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.%]+\]|[^:\[\]/@\s]+)(?::\d{1,5})?")


def check_host(host: str | None, allowed: Sequence[str], local_address: str | None) -> None:
    """Let a request go on if it was sent to a name of this service.

    Args:
        host: the header, NAME or NAME:PORT; a port may be any.
        allowed: the names that are right, with a port where only that one is; empty: those of this machine.
        local_address: where the connection came in.

    Raises:
        NotPermitted: to another name, or to none.
    """
    match = _HOST.fullmatch(host or "")
    name = match["name"].casefold() if match else ""
    names = [name.casefold() for name in allowed]
    right = (name in names or (host or "").casefold() in names) if names else name in _own_names(local_address)
    if not match or not right:
        raise NotPermitted(
            "the request was sent to a name (Host) that is none of this service: use one of its own, or have its "
            "operator add the name to server_allowed_hosts"
        )


def check_origin(origin: str | None, allowed: Sequence[str]) -> None:
    """Let a request go on if no page of a browser sends it, or one that may.

    Args:
        origin: the header, SCHEME://HOST[:PORT]; None where no page sends it.
        allowed: the pages; empty: those of this machine.

    Raises:
        NotPermitted: another page.
    """
    if origin is None:
        return
    right = origin.casefold() in [page.casefold().rstrip("/") for page in allowed] if allowed else _is_local(origin)
    if not right:
        raise NotPermitted(
            "the request comes from a web page (Origin) that may not ask here: its operator has to add the page to "
            "server_allowed_origins"
        )


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
