"""Reads a request body completely, within limits of size and time, as strict JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final

from starlette.types import Receive

from context_engine.apps.server.problems import HttpProblem
from context_engine.core.text.strict_json import RefusedJson, read_strict

_BODY_S: Final = 30.0


async def read_body(
    receive: Receive, headers: Mapping[bytes, bytes], most: int, seconds: float = _BODY_S
) -> bytes | None:
    """Return the body; None if the caller disconnected first.

    Args:
        headers: the request's headers; a stated length is checked before reading.
        most: most bytes.
        seconds: time limit for the whole body.

    Raises:
        HttpProblem: too long or too slow.
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
    return HttpProblem("body_too_large", f"the body is longer than the limit of {most} bytes")


_DEEPEST: Final = 64
_LARGEST: Final = 2**63
_LONGEST: Final = 20
"""Most characters of a whole number: 19 digits and a sign."""


def check_json(body: bytes) -> str | None:
    """Return why a body is refused, or None.

    Refused are: invalid UTF-8 or JSON; NaN and infinite numbers; whole numbers of more than 64 bits; duplicate keys;
    nesting of more than 64 levels; half a surrogate pair; the character NUL.

    >>> check_json(b'{"top_k": 8}') is None
    True
    >>> check_json(b'{"top_k": 8, "top_k": 9}')
    "the key 'top_k' appears twice: keep one"
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"byte {error.start} of the body is not UTF-8: send JSON as UTF-8"
    try:
        value = read_strict(text, whole=_whole, real=_finite)
        if body.count(b"[") + body.count(b"{") > _DEEPEST or b"\\u" in body:
            _check_inside(value)
    except RefusedJson as refused:
        return str(refused)
    except json.JSONDecodeError as error:
        return f"the body is not JSON: {error.msg} at character {error.pos}"
    except RecursionError:
        return _too_deep()
    return None


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise RefusedJson("a number is too large: send a finite one")
    return value


def _whole(text: str) -> int:
    if len(text) > _LONGEST or not -_LARGEST <= (value := int(text)) < _LARGEST:
        raise RefusedJson("a whole number has more than 64 bits: send a smaller one, or text")
    return value


def _check_inside(value: Any) -> None:
    level: list[Any] = [value]
    for _ in range(_DEEPEST + 1):
        if not level:
            return
        for container in level:
            for text in _texts(container):
                _check_text(text)
        level = [part for container in level for part in _parts(container)]
    raise RefusedJson(_too_deep())


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        return value
    return (value,) if isinstance(value, str) else ()


def _check_text(text: str) -> None:
    if "\0" in text:
        raise RefusedJson("a text holds the character NUL: leave it out")
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise RefusedJson("a text holds half a surrogate pair: send whole characters")


def _too_deep() -> str:
    return f"the body is nested more than {_DEEPEST} levels deep: send a flatter one"
