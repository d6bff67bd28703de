"""The body of a request, read whole within a length and a time, before anything else is held for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from starlette.types import Receive

from context_engine.apps.server.problems import HttpProblem

_BODY_S: Final = 30.0


async def read_body(
    receive: Receive, headers: Mapping[bytes, bytes], most: int, seconds: float = _BODY_S
) -> bytes | None:
    """Return the body; None where the caller went before it was whole.

    Args:
        headers: of the request; a length that they state is checked before anything is read.
        most: bytes.
        seconds: until the whole must be there.

    Raises:
        HttpProblem: it is too long, or too slow.
    """
    stated = headers.get(b"content-length", b"")
    if stated.isdigit() and int(stated) > most:
        raise _too_large(most)
    parts: list[bytes] = []
    length = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                part = message.get("body", b"")
                length += len(part)
                if length > most:
                    raise _too_large(most)
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise HttpProblem("body_timeout", f"the body was not whole after {seconds:g} s") from None


def _too_large(most: int) -> HttpProblem:
    return HttpProblem("body_too_large", f"the body is longer than {most} bytes, the most that is taken")
