"""The keys of signed notes (C2SP), and secrets derived from them."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from context_engine.audit.formats.strict import FormatError, checked_name, from_base64, to_base64
from context_engine.core.concurrency.forking import cached_property
from context_engine.secrecy import keep_secret

ED25519: Final = 0x01
COSIGNATURE: Final = 0x04
_PRIVATE: Final = "PRIVATE+KEY+"
_KEY_BYTES: Final = 32
_ID_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key; its text is `<name>+<id in hex>+<base64 of type and key>`.

    Attributes:
        name: name of the signer; of a log, its origin.
        public: Ed25519 public key, 32 bytes.
        kind: signature type: `ED25519` of a log, or `COSIGNATURE` of a witness.
    """

    name: str
    public: bytes
    kind: int = ED25519

    @property
    def id_bytes(self) -> bytes:
        """The first four bytes of SHA-256(name || 0x0A || type || public key)."""
        named = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return hashlib.sha256(named).digest()[:_ID_BYTES]

    @property
    def key_id(self) -> str:
        """`id_bytes` in hex; names the key in the rows of a ledger."""
        return self.id_bytes.hex()

    @property
    def text(self) -> str:
        """The text given to those who verify."""
        return f"{self.name}+{self.key_id}+{to_base64(bytes([self.kind]) + self.public)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a key.

        Raises:
            FormatError: it is not a verifier key of these types, or was altered.
        """
        parts = text.strip().split("+", 2)
        if len(parts) != 3:
            raise FormatError("a verifier key is written NAME+ID+KEY")
        name, key_id, material = checked_name(parts[0]), parts[1], from_base64(parts[2], "the verifier key")
        if len(material) != 1 + _KEY_BYTES or material[0] not in (ED25519, COSIGNATURE):
            raise FormatError("the verifier key is not an Ed25519 key of a log or a witness")
        key = cls(name, material[1:], material[0])
        if key.key_id != key_id:
            raise FormatError("the verifier key was altered: its id does not match")
        return key

    def accepts(self, signature: bytes, message: bytes) -> bool:
        """Whether an Ed25519 signature over a message is by this key."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key; its text is `PRIVATE+KEY+<name>+<id in hex>+<base64 of type and seed>`.

    Attributes:
        name: origin of the log.
        seed: 32 bytes, from which RFC 8032 derives the key pair.
    """

    name: str
    seed: bytes = field(repr=False)

    @classmethod
    def generate(cls, name: str) -> Self:
        """Return a new key.

        Raises:
            FormatError: the name contains a space or a plus sign.
        """
        return cls(checked_name(name), secrets.token_bytes(_KEY_BYTES))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a key, and keep its secret part out of logs and errors from now on.

        Raises:
            FormatError: it is not a signing key, or was altered; the error does not quote it.
        """
        text = text.strip()
        name, key_id, material = [*text.removeprefix(_PRIVATE).split("+", 2), "", ""][:3]
        if not text.startswith(_PRIVATE) or not material:
            raise FormatError("a signing key is written PRIVATE+KEY+NAME+ID+KEY")
        keep_secret(material)
        data = from_base64(material, "the signing key")
        if len(data) != 1 + _KEY_BYTES or data[0] != ED25519:
            raise FormatError("the signing key is not an Ed25519 key")
        key = cls(checked_name(name), data[1:])
        if key.verifier.key_id != key_id:
            raise FormatError("the signing key was altered: its id does not match")
        return key

    @property
    def text(self) -> str:
        """The secret text."""
        return f"{_PRIVATE}{self.name}+{self.verifier.key_id}+{to_base64(bytes([ED25519]) + self.seed)}"

    @property
    def verifier(self) -> VerifierKey:
        """The public key."""
        return VerifierKey(self.name, self._pair.public_key().public_bytes_raw())

    @property
    def key_id(self) -> str:
        """The id of the public key."""
        return self.verifier.key_id

    @property
    def _pair(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature over a message, 64 bytes."""
        return self._pair.sign(message)

    def derived(self, purpose: str) -> bytes:
        """Return a secret of 32 bytes for one purpose: HKDF-SHA256 of the seed (RFC 5869), without a salt."""
        info = f"context-engine audit {purpose} v1".encode()
        return HKDF(SHA256(), _KEY_BYTES, None, info).derive(self.seed)


@dataclass(frozen=True)
class Keyring:
    """The current key, which signs, and the former ones, newest first, whose signatures can still be checked."""

    current: SigningKey
    former: tuple[SigningKey, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Self | None:
        """Parse signing keys, the current one first; None without any.

        Raises:
            FormatError: one of them is not a signing key.
        """
        keys = [SigningKey.parse(text) for text in texts]
        return cls(keys[0], tuple(keys[1:])) if keys else None

    @property
    def all(self) -> tuple[SigningKey, ...]:
        """The current key, then the former ones."""
        return (self.current, *self.former)

    @cached_property
    def verifiers(self) -> tuple[VerifierKey, ...]:
        """The public keys, the current one first."""
        return tuple(key.verifier for key in self.all)

    @cached_property
    def key_id(self) -> str:
        """The id of the current key, for new rows."""
        return self.current.key_id

    def mac_key(self, key_id: str) -> bytes | None:
        """Return the MAC key that is derived from the key with this id; None if the key is unknown."""
        return self._macs.get(key_id)

    @cached_property
    def _macs(self) -> dict[str, bytes]:
        return {key.key_id: key.derived("mac") for key in self.all}

    @cached_property
    def pseudonym_key(self) -> bytes:
        """The secret of new pseudonyms."""
        return self.current.derived("pseudonym")

    @cached_property
    def pseudonym_keys(self) -> tuple[bytes, ...]:
        """The secrets of the pseudonyms, newest first. A caller has a different pseudonym under each key."""
        return tuple(key.derived("pseudonym") for key in self.all)
