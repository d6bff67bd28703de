"""Signing a package with one's own key, and verifying it as Dify does.

The signed text is the concatenated SHA-256 of every file in the archive's order, then the time in seconds as digits;
the signature is RSA, PKCS #1 v1.5, SHA-256. Signature and time are in the archive's comment.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from context_engine.apps.packaging.files import Files, write_archive
from context_engine.errors import ConfigError, ContextEngineError, MissingExtra

VERIFICATION: Final = ".verification.dify.json"
_VERIFICATION_TEXT: Final = b'{"authorized_category":"community"}'
_KEY_BITS: Final = 4096


class BadSignature(ContextEngineError):
    """A package is unsigned, signed with another key, or was changed afterwards."""

    code: ClassVar[str] = "bad_signature"


def sign(files: Files, key: bytes, *, at: int) -> bytes:
    """Return the signed archive of a package.

    Args:
        key: RSA private key of at least 4096 bits, PEM (PKCS #1 or PKCS #8), without a passphrase.
        at: the time of signing, seconds since 1970.

    Raises:
        MissingExtra: `cryptography` is not installed.
        ConfigError: an unusable key.
    """
    private = _private_key(key)
    _, hashes, padding, _ = _library()
    signed = {**{path: files[path] for path in sorted(files) if path != VERIFICATION}, VERIFICATION: _VERIFICATION_TEXT}
    signature = private.sign(_digest(signed.values(), at), padding.PKCS1v15(), hashes.SHA256())
    comment = {"signature": base64.b64encode(signature).decode(), "time": at}
    return write_archive(signed, comment=json.dumps(comment, separators=(",", ":")).encode(), last=(VERIFICATION,))


def verify(package: bytes, key: bytes) -> datetime:
    """Check a package's signature and return when it was signed.

    Args:
        key: the public key, PEM (PKCS #1 or X.509), or the private one.

    Raises:
        MissingExtra: `cryptography` is not installed.
        ConfigError: an unreadable key or package.
        BadSignature: not signed, signed with another key, or changed since.
    """
    public = _public_key(key)
    invalid, hashes, padding, _ = _library()
    try:
        with zipfile.ZipFile(io.BytesIO(package)) as archive:
            comment = archive.comment
            contents = [archive.read(entry) for entry in archive.infolist() if not entry.is_dir()]
    except zipfile.BadZipFile as error:
        raise ConfigError(f"is not a plugin package: {error}") from None
    try:
        stated = json.loads(comment)
        signature, at = base64.b64decode(stated["signature"], validate=True), int(stated["time"])
    except (ValueError, KeyError, TypeError):
        raise BadSignature("the package is not signed") from None
    try:
        public.verify(signature, _digest(contents, at), padding.PKCS1v15(), hashes.SHA256())
    except invalid:
        raise BadSignature("the package was signed with another key, or changed since it was signed") from None
    return datetime.fromtimestamp(at, UTC)


def _digest(contents: Iterable[bytes], at: int) -> bytes:
    return b"".join(hashlib.sha256(content).digest() for content in contents) + str(at).encode()


def _library() -> tuple[Any, Any, Any, Any]:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import padding
    except ImportError as error:
        raise MissingExtra("signing a plugin", "plugin") from error
    return InvalidSignature, hashes, padding, serialization


def _private_key(pem: bytes) -> Any:
    serialization = _library()[3]
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise ConfigError("the key has a passphrase: give one without, e.g. from a pipe", key="--sign") from None
    except ValueError:
        raise ConfigError("is not a private key in PEM form (PKCS #1 or PKCS #8)", key="--sign") from None
    return _checked(key, "--sign")


def _public_key(pem: bytes) -> Any:
    if b"PRIVATE KEY" in pem:
        return _private_key(pem).public_key()
    try:
        return _checked(_library()[3].load_pem_public_key(pem), "--key")
    except ValueError:
        raise ConfigError("is not a public key in PEM form", key="--key") from None


def _checked(key: Any, option: str) -> Any:
    from cryptography.hazmat.primitives.asymmetric import rsa

    if not isinstance(key, rsa.RSAPrivateKey | rsa.RSAPublicKey):
        raise ConfigError("must be an RSA key", key=option)
    if key.key_size < _KEY_BITS:
        raise ConfigError(f"has {key.key_size} bits: Dify's scheme is RSA with {_KEY_BITS}", key=option)
    return key
