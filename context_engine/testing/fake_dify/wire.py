"""Answers on the socket, whole or damaged."""

from __future__ import annotations

import gzip
import os
import socket
import struct
from collections.abc import Callable, Iterator
from functools import cache
from http import HTTPStatus
from typing import Final

from context_engine.testing.fake_dify.app import AppResponse
from context_engine.testing.fake_dify.faults import Wire

_MIB: Final = 1024 * 1024
_BLANKS: Final = b" " * _MIB
_HUGE_MIB: Final = 32


def send(
    connection: socket.socket,
    answer: AppResponse,
    *,
    wire: Wire,
    pause: Callable[[], object],
    headers: tuple[tuple[str, str], ...],
) -> bool:
    """Send an answer and return whether the connection can go on.

    Args:
        wire: how it is damaged.
        pause: called before each byte of a slow part.
        headers: what every answer has.
    """
    if wire == "dropped":
        return False
    if wire == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(connection.detach())  # at once: an orderly shutdown first would say goodbye
        return False
    if wire == "gzip_bomb":
        answer = AppResponse(answer.status, _bomb(), (*answer.headers, ("Content-Encoding", "gzip")))
    head = _head(answer, headers, wire)
    for piece in _pieces(head, answer.body, wire, pause):
        connection.sendall(piece)
    return wire in ("whole", "slow_head", "slow_body", "gzip_bomb")


def _head(answer: AppResponse, headers: tuple[tuple[str, str], ...], wire: Wire) -> bytes:
    size = len(answer.body) + _HUGE_MIB * _MIB * (wire == "huge")
    length = ("Transfer-Encoding", "chunked") if wire == "huge_chunked" else ("Content-Length", str(size))
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase.upper()}"]
    lines += [f"{name}: {value}" for name, value in (*headers, *answer.headers, length)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _pieces(head: bytes, body: bytes, wire: Wire, pause: Callable[[], object]) -> Iterator[bytes]:
    if wire == "huge_chunked":
        yield head
        for piece in (body, *[_BLANKS] * _HUGE_MIB):
            yield f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
    elif wire == "huge":
        yield head + body
        yield from [_BLANKS] * _HUGE_MIB
    elif wire == "truncated":
        yield head + body[: len(body) // 2]
    else:
        slow = {"slow_head": head, "slow_body": body}.get(wire, b"")
        yield head if wire == "slow_body" else b""
        for byte in slow:
            pause()
            yield bytes([byte])
        yield {"slow_head": body, "slow_body": b""}.get(wire, head + body)


@cache
def _bomb() -> bytes:
    return gzip.compress(b"{}" + _BLANKS * _HUGE_MIB, mtime=0)
