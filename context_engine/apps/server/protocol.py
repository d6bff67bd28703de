"""HTTP/1.1 as uvicorn speaks it, with problem details for what is no HTTP."""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import uuid4

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from context_engine.apps.server.problems import PROBLEM_JSON, HttpProblem, problem_of

_HEAD_S: Final = 20.0
"""Seconds for the head of a request, and for the rest of a body that was answered before it was whole."""

_READ_S: Final = 60.0
"""Seconds in which a caller reads what stands ready for it; after them it is dropped, with the connection."""


class ProblemProtocol(H11Protocol):
    """Answers bytes that are no request as every other error is answered, and waits for none without an end."""

    _slow: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give the first request its time."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read on; what has begun and is not whole keeps the time that it was given."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        super().connection_lost(exc)
        self._unwatch()
        self._was_read()

    def on_response_complete(self) -> None:
        """Wait for the rest of a body that nobody wants no longer than for a head."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._watch()

    def pause_writing(self) -> None:
        """Give the caller its time to read."""
        super().pause_writing()
        self._unread = self.loop.call_later(_READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on."""
        super().resume_writing()
        self._was_read()

    def _was_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _watch(self) -> None:
        unwanted = self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY
        if self.conn.their_state is not h11.IDLE and not unwanted:
            self._unwatch()
        elif self._slow is None:
            self._slow = self.loop.call_later(_HEAD_S, self.transport.close)

    def _unwatch(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def send_400_response(self, msg: str) -> None:
        """Answer 400 and close the connection."""
        request_id = uuid4().hex
        problem, _ = problem_of(HttpProblem("malformed_request", "the connection sent no sound HTTP/1.1"), request_id)
        body = problem.model_dump_json().encode()
        headers = [
            (b"content-type", PROBLEM_JSON.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"x-request-id", request_id.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
            (b"connection", b"close"),
        ]
        if self.conn.our_state is h11.IDLE or self.conn.our_state is h11.SEND_RESPONSE:
            self.transport.write(self.conn.send(h11.Response(status_code=400, headers=headers, reason=b"Bad Request")))
            self.transport.write(self.conn.send(h11.Data(data=body)))
            self.transport.write(self.conn.send(h11.EndOfMessage()))
        self.transport.close()
