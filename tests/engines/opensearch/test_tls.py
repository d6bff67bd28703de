"""A node behind TLS, which a proxy of this test ends, as a balancer does: the node of the tests speaks none itself."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import SourceUnavailable
from tests.certificate import write_certificate
from tests.engines.opensearch.test_faults import QUESTION, error_of, found, write

pytestmark = pytest.mark.slow


class _Passing(BaseHTTPRequestHandler):
    """Passes each request on to the node, whose port is that of the server."""

    protocol_version = "HTTP/1.1"
    server: _Proxy

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.node_port, timeout=60)) as node:
            kind = self.headers.get("Content-Type")
            node.request(self.command, self.path, body, {"Content-Type": kind} if kind else {})
            answer = node.getresponse()
            content = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.getheader("Content-Type", ""))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = _pass  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, node_port: int, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.node_port = node_port
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, *_: Any) -> None:
        """Say nothing of callers who do not trust it."""


@pytest.fixture
def encrypted(node: Any, tmp_path: Path) -> Iterator[int]:
    """The port of the node's proxy, whose certificate is `ca.pem`."""
    write_certificate(tmp_path / "ca.pem", tmp_path / "key.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")
    with _Proxy(node.port, context) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield proxy.server_port
        proxy.shutdown()


def test_the_certificate_of_the_server_is_checked(encrypted: int, store: Any, tmp_path: Path) -> None:
    own, other = tmp_path / "ca.pem", tmp_path / "other.pem"
    write_certificate(other, tmp_path / "other.key")
    plain = store.connection

    def with_bundle(bundle: Path | None, host: str = "127.0.0.1") -> None:
        store.connection = plain.model_copy(update={"base_url": f"https://{host}:{encrypted}", "ca_bundle": bundle})

    with_bundle(own)
    write(store, "a")
    assert found(store) == {"a"}
    for bundle, host in ((other, "127.0.0.1"), (None, "127.0.0.1"), (own, "localhost")):
        with_bundle(bundle, host)
        error = error_of(lambda: store.source().search(QUESTION))
        assert isinstance(error, SourceUnavailable)
        assert "certificate" in str(error) and "ca_bundle" in str(error), (bundle, host)
