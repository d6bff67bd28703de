"""What unit tests share: a certificate of their own."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest


@pytest.fixture
def own_ca(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate that nobody but its own bundle vouches for, and a server's context with it."""
    from tests.certificate import write_certificate

    write_certificate(tmp_path / "ca.pem", tmp_path / "key.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")
    return tmp_path / "ca.pem", context
