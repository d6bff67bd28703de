"""`doctor --external` against the plugin's real process, behind HTTP as Dify's plugin daemon puts it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main

pytestmark = pytest.mark.slow

TOKEN = "endpoint-token-0123456789abcdefghij"
QUESTION = "What are the NPA classification criteria?"


@pytest.fixture
def address(plugin: Any, credentials: Any) -> Iterator[str]:
    """Where the endpoint listens, with the bank of a Dify behind it."""
    settings = {**credentials, "access_token": TOKEN}

    class Daemon(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {
                name: self.headers[name] for name in self.headers if name.lower() not in ("content-length", "host")
            }
            status, answer = plugin.endpoint(settings, body, headers, self.path)
            raw = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is written."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Daemon)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.fixture
def doctor(address: str, tmp_path: Path) -> Any:
    def run(*more: str, token: str = TOKEN) -> Result:
        (tmp_path / "token").write_text(token)
        arguments = ["--external", address, "--token-file", str(tmp_path / "token"), "--query", QUESTION]
        return CliRunner().invoke(main, ["doctor", *arguments, *more])

    return run


def test_it_registers_and_finds(doctor: Any) -> None:
    result = doctor("--domain", "NPA")
    assert result.exit_code == 0 and "the node gets 4 records" in result.output


def test_a_wrong_token_is_refused(doctor: Any) -> None:
    result = doctor("--domain", "NPA", token="wrong" * 10)
    assert result.exit_code == 1 and result.output.count("(403, ") == 3


def test_what_fails_is_a_notice(doctor: Any, dify: Any) -> None:
    result = doctor("--domain", "NPX")
    assert result.exit_code == 1 and "the node gets a notice: Knowledge incomplete" in result.output
    dify.inject("status_503", endpoint="retrieve")
    result = doctor("--domain", "NPA")
    assert result.exit_code == 1 and "no source of domain 'NPA' answered" in " ".join(result.output.split())
