"""A server on loopback that gives files as Dify does, by an address that carries its signature."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

SIGNATURE = "kQ7-signature-zR2"


class FileServer:
    """Gives what was put there; `requests` are the paths that were asked for."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.files: dict[str, tuple[int, dict[str, str | None], bytes, float]] = {}
        self.requests: list[str] = []
        files, requests = self.files, self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                requests.append(self.path)
                status, headers, body, pause_s = files.get(urlsplit(self.path).path, (404, {}, b"", 0.0))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    if value is not None:
                        self.send_header(name, value)
                self.end_headers()
                with suppress(OSError):  # whoever asked has gone
                    for start in range(0, len(body), 1 << 16):
                        time.sleep(pause_s)
                        self.wfile.write(body[start : start + (1 << 16)])

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((host, 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.origin = f"http://{host}:{self._server.server_address[1]}"

    def put(self, name: str, body: bytes, *, status: int = 200, pause_s: float = 0.0, **headers: str) -> dict[str, Any]:
        """Put a file there and return it as Dify hands it to a tool."""
        path = f"/files/{len(self.files):08d}-0000-4000-8000-000000000000/file-preview"
        self.files[path] = (status, {key.replace("_", "-"): value for key, value in headers.items()}, body, pause_s)
        return {
            "dify_model_identity": "__dify__file__",
            "url": f"{self.origin}{path}?timestamp=1767225600&nonce=ab12&sign={SIGNATURE}",
            "filename": name,
            "extension": f".{name.rpartition('.')[2]}",
            "mime_type": "application/octet-stream",
            "size": len(body),
            "type": "document",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
