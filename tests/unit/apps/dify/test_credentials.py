"""The form: what counts as empty, what tells two forms apart, and what must never be shown."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest

from context_engine.apps.dify.credentials import Credentials, Redactor, read_certificates, read_flag
from context_engine.errors import ConfigError

FORM = {
    "dify_base_url": " https://dify.example/v1 ",
    "dify_api_key": "dataset-key-1",
    "proxy": "http://user:pass-word@proxy.example:3128",
    "variables": '{"KB_KEY": "kb-secret", "PORT": 8080}',
    "access_token": "t" * 32,
}


def test_fields_are_trimmed_and_empty_ones_absent() -> None:
    read = Credentials.read({**FORM, "domains": "  ", "ca_certificate": None})
    assert (read.base_url, read.domains, read.ca_certificate) == ("https://dify.example/v1", None, None)
    assert dict(read.variables) == {"KB_KEY": "kb-secret", "PORT": "8080"}
    assert Credentials.read({}) == Credentials()


@pytest.mark.parametrize(
    ("value", "ticked"),
    [(True, True), ("true", True), (1, True), ("1", True), (1.0, True), (False, False), ("false", False), ("0", False)],
)
def test_a_box_is_ticked_in_any_form(value: object, ticked: bool) -> None:
    assert read_flag(value, not ticked) is ticked
    assert Credentials.read({"demo_bank": value}).demo_bank is ticked


@pytest.mark.parametrize(
    ("given", "read"), [("60", 60), (" 60 ", 60), (60, 60), (60.0, 60), ("1000", 1000), ("", None), (None, None)]
)
def test_a_number_of_connections_in_any_form(given: object, read: int | None) -> None:
    assert Credentials.read({"max_connections": given}).max_connections == read


@pytest.mark.parametrize("given", ["0", "-4", "4.5", "four", "1001", "99999999999", True, "٤٠٠٠", "nan", ["4"]])
def test_what_is_no_number_of_connections_is_refused_by_the_fields_name(given: object) -> None:
    with pytest.raises(ConfigError, match="max_connections: must be a whole number from 1 to 1000"):
        Credentials.read({"max_connections": given})


def test_a_box_nobody_touched_has_its_default() -> None:
    assert read_flag(None, True) and read_flag("", True) and not read_flag(None, False)


def test_each_field_changes_the_fingerprint_but_the_token() -> None:
    base = Credentials.read(FORM).fingerprint
    for name in ("dify_base_url", "dify_api_key", "proxy"):
        assert Credentials.read({**FORM, name: "other"}).fingerprint != base
    assert Credentials.read({**FORM, "variables": '{"KB_KEY": "other"}'}).fingerprint != base
    assert Credentials.read({**FORM, "demo_bank": True}).fingerprint != base
    assert Credentials.read({**FORM, "max_connections": "8"}).fingerprint != base
    assert Credentials.read({**FORM, "access_token": "u" * 32}).fingerprint == base
    assert Credentials.read(dict(reversed(FORM.items()))).fingerprint == base


def test_nothing_secret_shows() -> None:
    read = Credentials.read(FORM)
    for secret in ("dataset-key-1", "kb-secret", "pass-word", "t" * 32):
        assert secret not in repr(read) and secret not in repr(read.redactor)
        assert secret not in read.redactor.hide(f"a message with {secret} in it")
    assert read.redactor.hide("nothing here") == "nothing here"


def test_the_longest_secret_goes_first_and_short_ones_are_no_secrets() -> None:
    assert Redactor(("abcd", "abcdefgh", "a", None)).hide("abcdefgh a") == "******** a"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "variables: is not a JSON object"),
        ("{", "variables: is not a JSON object"),
        ('{"A": []}', "variables.A: must be"),
    ],
)
def test_variables_must_be_names_and_texts(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as raised:
        Credentials.read({"variables": text})
    assert text not in str(raised.value) or text in "{[]"


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
