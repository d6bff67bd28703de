"""TLS of a connection: the system's trust where none is named, and an error that names the connection."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from context_engine.adapters.http.transport import tls_context
from context_engine.errors import ConfigError
from context_engine.settings.connections import Connection


def test_without_a_bundle_certificates_are_checked_all_the_same() -> None:
    context = tls_context(Connection(base_url="https://dify.example/v1", api_key="k"))
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_a_bundle_that_cannot_be_used_is_said_with_its_connection(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("no certificate")
    with pytest.raises(ConfigError, match=r"https://dify\.example/v1 cannot be used \(SSLError\)"):
        tls_context(Connection(base_url="https://dify.example/v1", api_key="k", ca_bundle=bundle))
