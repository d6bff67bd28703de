"""A witness on loopback that does what C2SP tlog-witness asks of one: it verifies, remembers, cosigns or refuses."""

from __future__ import annotations

import base64
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from context_engine.audit.formats.checkpoint import cosign, parse_checkpoint, parse_note, verify_note
from context_engine.audit.formats.keys import COSIGNATURE, SigningKey, VerifierKey
from context_engine.audit.formats.merkle import verify_consistency
from context_engine.audit.formats.strict import FormatError

NAME = "witness.example/w1"


class WitnessServer:
    """Runs until it is left.

    Attributes:
        seen: {origin: (size, root) of what it cosigned last}.
        asked: (old size, status of the answer) of every request.
        silent: it cuts every connection.
    """

    def __init__(self, seed: bytes = b"w" * 32) -> None:
        self.key = SigningKey(NAME, seed)
        self.vkey = VerifierKey(NAME, self.key.verifier.public, COSIGNATURE).text
        self.trusted: dict[str, VerifierKey] = {}
        self.seen: dict[str, tuple[int, bytes]] = {}
        self.asked: list[tuple[int, int]] = []
        self.silent = False
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"witness": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: str) -> tuple[int, str]:
        """Return status and text for a request."""
        head, _, note = body.partition("\n\n")
        first, *lines = head.split("\n")
        old = int(first.removeprefix("old "))
        with self._lock:
            status, text = self._judged(old, [base64.b64decode(line) for line in lines], note)
            self.asked.append((old, status))
        return status, text

    def _judged(self, old: int, proof: list[bytes], note: str) -> tuple[int, str]:
        parsed = parse_note(note)
        new = parse_checkpoint(parsed)
        key = self.trusted.get(new.origin)
        if key is None:
            return 404, "unknown log"
        try:
            if not verify_note(parsed, (key,)):
                return 403, "not signed"
        except FormatError:
            return 403, "signature does not fit"
        if old > new.size:
            return 400, "old size above the checkpoint's"
        size, root = self.seen.get(new.origin, (0, b""))
        if old != size:
            return 409, f"{size}\n"
        if size and not verify_consistency(size, root, new.size, new.root, proof):
            return 422, "inconsistent"
        self.seen[new.origin] = (new.size, new.root)
        both = cosign(parsed, self.key, 1_700_000_000 + new.size)
        return 200, both.signatures[-1].line


class _Handler(BaseHTTPRequestHandler):
    witness: WitnessServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.witness.silent or self.path != "/add-checkpoint":
            self.close_connection = True
            return
        status, text = self.witness.answer(body)
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/x.tlog.size" if status == 409 else "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""
