"""A Neo4j server of its own for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.certificate import write_certificate
from tests.java_server import JavaServer

PASSWORD: Final = "not-a-secret-of-anybody"


class Neo4jServer(JavaServer):
    """A server; its user is `neo4j`. It speaks with and without TLS."""

    name, heap_mb, longest_start_s = "neo4j", 512, 600.0

    def arguments(self) -> list[str]:
        """Return the password of the server's user; the launcher needs a certificate."""
        if not self.certificate.exists():
            self.certificate.parent.mkdir()
            write_certificate(self.certificate, self.certificate.with_name("private.key"))
        return [PASSWORD]

    def answers(self) -> bool:
        """Return whether the launcher has said so."""
        return "READY" in self.log.read_text()

    @property
    def certificate(self) -> Path:
        """The file of its certificate, which is its own authority."""
        return self._folder / "tls/public.crt"

    @property
    def url(self) -> str:
        """The server's address."""
        return f"bolt://127.0.0.1:{self.port}"
