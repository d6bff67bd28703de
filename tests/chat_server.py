"""A server of chat models on loopback that does what it is told: streams, stalls, breaks off, refuses, lies."""

from __future__ import annotations

import json
import select
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

STALL = "stall"
"""Send nothing until the client or the server goes."""

CUT = "cut"
"""Close the connection in the middle of the answer."""

FOR_EVER = "for ever"
"""Repeat the piece before until the client goes."""

Piece = bytes | float | str


class Request(NamedTuple):
    """What the server was asked; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    """An answer: pieces of bytes, pauses in seconds, STALL, CUT or FOR_EVER."""

    pieces: Sequence[Piece]
    status: int = 200
    kind: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict)


def as_json(value: Any, status: int = 200, **headers: str) -> Answer:
    """An answer that comes at once."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer([json.dumps(value).encode()], status, "application/json", named)


def event(value: Any, name: str = "") -> bytes:
    """A server-sent event."""
    data = value if isinstance(value, str) else json.dumps(value)
    return (f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode()


def openai_chunk(text: str | None = None, finish: str | None = None, **more: Any) -> bytes:
    """A chunk of the OpenAI chat API."""
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice], "usage": None, **more})


def openai_stream(*texts: str, finish: str = "stop", usage: Any = (10, 5), done: bool = True) -> list[Piece]:
    """The pieces of an answer of the OpenAI chat API."""
    counts = (
        dict(zip(("prompt_tokens", "completion_tokens"), usage, strict=True)) if isinstance(usage, tuple) else usage
    )
    last = event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": counts})
    end = [openai_chunk(finish=finish), *([last] if usage is not None else []), *([event("[DONE]")] if done else [])]
    return [openai_chunk(""), *map(openai_chunk, texts), *end]


def openai_whole(text: str, finish: str = "stop", usage: Any = (10, 5)) -> Answer:
    """An answer of the OpenAI chat API that comes at once."""
    counts = (
        dict(zip(("prompt_tokens", "completion_tokens"), usage, strict=True)) if isinstance(usage, tuple) else usage
    )
    message = {"role": "assistant", "content": text}
    return as_json({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": counts})


def anthropic_event(kind: str, **fields: Any) -> bytes:
    """An event of the Anthropic messages API."""
    return event({"type": kind, **fields}, kind)


def anthropic_stream(*texts: str, stop: str = "end_turn", usage: Any = (10, 5), done: bool = True) -> list[Piece]:
    """The pieces of an answer of the Anthropic messages API."""
    start, final = {"input_tokens": usage[0], "output_tokens": 1}, {"output_tokens": usage[1]}
    deltas = [
        anthropic_event("content_block_delta", index=0, delta={"type": "text_delta", "text": text}) for text in texts
    ]
    return [
        anthropic_event("message_start", message={"id": "msg_1", "role": "assistant", "content": [], "usage": start}),
        anthropic_event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        anthropic_event("ping"),
        *deltas,
        anthropic_event("content_block_stop", index=0),
        anthropic_event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=final),
        *([anthropic_event("message_stop")] if done else []),
    ]


class ChatServer:
    """Gives the answers of `will` one after the other, the last one from then on.

    Attributes:
        requests: what was asked.
        left: how many clients went away before the end of an answer.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.left = threading.Semaphore(0)
        self._answers: list[Answer] = []
        self._ended = threading.Event()
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"chat": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def will(self, *answers: Answer | list[Piece]) -> None:
        """Say what the next calls are answered with."""
        self._answers = [answer if isinstance(answer, Answer) else Answer(answer) for answer in answers]

    def next(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def waits(self, seconds: float) -> bool:
        """Wait; False if the server ends meanwhile."""
        return not self._ended.wait(seconds)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    chat: ChatServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        is_json = headers.get("content-type", "").startswith("application/json")
        answer = self.chat.next(Request(self.path, headers, json.loads(text) if is_json else text.decode()))
        self.send_response(answer.status)
        for name, value in {"Content-Type": answer.kind, "Transfer-Encoding": "chunked", **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for piece in self._sent(answer.pieces):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if not self.close_connection:
                self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
            self.chat.left.release()

    def _sent(self, pieces: Sequence[Piece]) -> Iterator[bytes]:
        before = b""
        for piece in pieces:
            if isinstance(piece, float):
                time.sleep(piece)
            elif piece == CUT:
                self.close_connection = True
                return
            elif piece == STALL:
                self._stall()
            elif piece == FOR_EVER:
                while True:
                    yield before
            else:
                assert isinstance(piece, bytes)
                before = piece
                yield piece

    def _stall(self) -> None:
        """Wait until the client closes its end."""
        while self.chat.waits(0.0):
            if select.select([self.connection], [], [], 0.02)[0]:
                raise ConnectionError
        self.close_connection = True

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
