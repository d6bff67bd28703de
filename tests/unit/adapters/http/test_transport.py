"""TLS of a connection: the system's trust where none is named, and an error that names the connection."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from context_engine.adapters.http.transport import make_client, tls_context
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", "ftp://user:secret@proxy.example:21"),
        ("ALL_PROXY", "socks5://user:secret@proxy.example:1080"),
        ("NO_PROXY", "localhost,[::1]"),
    ],
)
def test_a_proxy_of_the_environment_that_cannot_be_used_is_said(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=name) as raised:
        make_client(Connection(base_url="https://dify.example/v1", api_key="k"))
    assert "secret" not in str(raised.value) and raised.value.__context__ is None


def test_the_file_of_the_environment_that_cannot_be_used_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    with pytest.raises(ConfigError, match="SSL_CERT_FILE"):
        tls_context(Connection(base_url="https://dify.example/v1", api_key="k"))
