"""Certificates out of a form field that keeps no line breaks."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest

from context_engine.apps.dify.certificate import read_certificates
from context_engine.errors import ConfigError


@pytest.fixture(scope="module")
def pem() -> str:
    """Any certificate will do: the first of the machine's own, or of certifi's."""
    import certifi

    text = Path(certifi.where()).read_text("utf-8")
    start = text.index("-----BEGIN CERTIFICATE-----")
    end = text.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")
    return text[start:end] + "\n"


def test_the_same_certificate_in_every_dress(pem: str) -> None:
    der = ssl.PEM_cert_to_DER_cert(pem)
    dresses = (
        pem,
        pem.replace("\n", ""),
        pem.replace("\n", " "),
        pem.replace("\n", "\\n"),
        pem.replace("\n", "\\r\\n"),
        base64.b64encode(pem.encode()).decode(),
        base64.b64encode(der).decode(),
        f"# Meridian Harbour Root\n{pem}",
    )
    for dress in dresses:
        assert ssl.PEM_cert_to_DER_cert(read_certificates(dress)) == der


def test_a_chain_keeps_its_order(pem: str) -> None:
    assert read_certificates((pem + pem).replace("\n", "")) == read_certificates(pem) * 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no pem!", "ca_certificate: is neither PEM nor base64"),
        (base64.b64encode(b"hello").decode(), "holds no certificate"),
        ("-----BEGIN CERTIFICATE-----AAAA-----END CERTIFICATE-----", "was it pasted whole"),
        ("-----BEGIN CERTIFICATE-----AAAA", "holds no certificate"),
        ("-----BEGIN RSA PRIVATE KEY-----AAAA-----END RSA PRIVATE KEY-----", "holds a private key"),
        ("A" * 300_000, "too long"),
    ],
)
def test_what_is_no_certificate_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_certificates(text)
