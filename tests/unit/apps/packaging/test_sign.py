"""Signing with a key of one's own, and what verification notices."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_engine.apps.packaging import PackOptions, pack
from context_engine.apps.packaging.files import write_archive
from context_engine.apps.packaging.sign import BadSignature, sign, verify
from context_engine.errors import ConfigError, MissingExtra

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

FILES = {"main.py": b"x = 1\n", "a/b.txt": b"text"}
AT = 1_767_225_600  # 2026-01-01 00:00:00 UTC

PKCS1, PKCS8 = serialization.PrivateFormat.TraditionalOpenSSL, serialization.PrivateFormat.PKCS8


def private_pem(key: Any, form: Any = PKCS8, passphrase: bytes | None = None) -> bytes:
    locked = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    pem: bytes = key.private_bytes(serialization.Encoding.PEM, form, locked)
    return pem


def public_pem(key: Any, form: Any = serialization.PublicFormat.PKCS1) -> bytes:
    pem: bytes = key.public_key().public_bytes(serialization.Encoding.PEM, form)
    return pem


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    """A key of 4096 bits that is no secret: to look for other primes than the two largest would take seconds."""
    p, q, e = 2**2048 - 1557, 2**2048 - 2543, 65537
    d = pow(e, -1, (p - 1) * (q - 1))
    coefficients = (rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q))
    return rsa.RSAPrivateNumbers(p, q, d, *coefficients, rsa.RSAPublicNumbers(e, p * q)).private_key()


@pytest.mark.slow
@pytest.mark.parametrize("form", [PKCS1, PKCS8])
def test_a_signed_package_is_verified_with_the_public_key(key: rsa.RSAPrivateKey, form: Any) -> None:
    signed = sign(FILES, private_pem(key, form), at=AT)
    for public in (public_pem(key), public_pem(key, serialization.PublicFormat.SubjectPublicKeyInfo)):
        assert verify(signed, public) == datetime(2026, 1, 1, tzinfo=UTC)
    assert verify(signed, private_pem(key)) == datetime(2026, 1, 1, tzinfo=UTC)


def test_what_is_signed_is_the_digests_in_the_archives_order_and_the_time(key: rsa.RSAPrivateKey) -> None:
    with zipfile.ZipFile(io.BytesIO(sign(FILES, private_pem(key), at=AT))) as archive:
        assert archive.namelist() == ["a/b.txt", "main.py", ".verification.dify.json"]
        contents = [archive.read(name) for name in archive.namelist()]
        comment = json.loads(archive.comment)
    assert json.loads(contents[-1]) == {"authorized_category": "community"}
    assert comment["time"] == AT
    text = b"".join(hashlib.sha256(content).digest() for content in contents) + b"1767225600"
    key.public_key().verify(base64.b64decode(comment["signature"]), text, padding.PKCS1v15(), hashes.SHA256())


@pytest.mark.slow
def test_the_same_key_and_time_sign_to_the_same_bytes(key: rsa.RSAPrivateKey) -> None:
    assert sign(FILES, private_pem(key), at=AT) == sign(dict(reversed(FILES.items())), private_pem(key, PKCS1), at=AT)


def test_a_changed_package_is_noticed(key: rsa.RSAPrivateKey) -> None:
    signed = sign(FILES, private_pem(key), at=AT)
    with zipfile.ZipFile(io.BytesIO(signed)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
        comment = archive.comment
    last = (".verification.dify.json",)
    assert verify(write_archive(files, comment=comment, last=last), public_pem(key))
    later = comment.replace(b"1767225600", b"1767225601")
    for changed, said in (
        ({**files, "main.py": b"x = 2\n"}, comment),
        ({**files, "more.py": b""}, comment),
        (files, later),
    ):
        with pytest.raises(BadSignature, match="changed since"):
            verify(write_archive(changed, comment=said, last=last), public_pem(key))


@pytest.mark.slow
def test_an_unsigned_package_and_another_key_are_refused(key: rsa.RSAPrivateKey) -> None:
    with pytest.raises(BadSignature, match="is not signed"):
        verify(write_archive(FILES), public_pem(key))
    other = rsa.generate_private_key(public_exponent=65537, key_size=4096)
    with pytest.raises(BadSignature, match="another key"):
        verify(sign(FILES, private_pem(key), at=AT), public_pem(other))


def test_keys_that_cannot_be_used_are_refused(key: rsa.RSAPrivateKey) -> None:
    small = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for pem, said in (
        (private_pem(small), "has 2048 bits"),
        (private_pem(ec.generate_private_key(ec.SECP256R1())), "must be an RSA key"),
        (private_pem(key, passphrase=b"secret"), "has a passphrase"),
        (b"no key", "is not a private key in PEM form"),
    ):
        with pytest.raises(ConfigError, match=said):
            sign(FILES, pem, at=AT)
    with pytest.raises(ConfigError, match="is not a public key in PEM form"):
        verify(write_archive(FILES), b"no key")


@pytest.mark.slow
def test_a_packed_and_signed_plugin_verifies(key: rsa.RSAPrivateKey, plugin_dir: Path, tmp_path: Path) -> None:
    options = PackOptions(key=private_pem(key))
    first = pack(plugin_dir, tmp_path / "a", options, env={"SOURCE_DATE_EPOCH": str(AT)})
    second = pack(plugin_dir, tmp_path / "b", options, env={"SOURCE_DATE_EPOCH": str(AT)})
    assert verify(first.path.read_bytes(), public_pem(key)) == datetime(2026, 1, 1, tzinfo=UTC)
    assert first.signed
    assert first.path.read_bytes() == second.path.read_bytes()
    assert ".verification.dify.json" in first.files


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(MissingExtra, match=r"context-engine\[plugin\]"):
        sign(FILES, b"", at=AT)
