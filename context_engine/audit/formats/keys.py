"""Keys that checkpoints are signed with, as C2SP signed notes write them, and what is derived from them."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from context_engine.audit.formats.strict import FormatError, checked_name, from_base64, to_base64
from context_engine.secrecy import keep_secret

ED25519: Final = 0x01
COSIGNATURE: Final = 0x04
_PRIVATE: Final = "PRIVATE+KEY+"
_KEY_BYTES: Final = 32
_ID_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """The public half of a key; its text is `<name>+<id in hex>+<base64 of type and key>`.

    Attributes:
        name: of who signs; for a log, its origin.
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
        """`id_bytes` in hex: what a row of the ledger names its key by."""
        return self.id_bytes.hex()

    @property
    def text(self) -> str:
        """What is given to those who verify."""
        return f"{self.name}+{self.key_id}+{to_base64(bytes([self.kind]) + self.public)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key of a text.

        Raises:
            FormatError: it is no verifier key, of another type than those above, or was altered.
        """
        parts = text.strip().split("+", 2)
        if len(parts) != 3:
            raise FormatError("a verifier key is written NAME+ID+KEY")
        name, key_id, material = checked_name(parts[0]), parts[1], from_base64(parts[2], "the verifier key")
        if len(material) != 1 + _KEY_BYTES or material[0] not in (ED25519, COSIGNATURE):
            raise FormatError("the verifier key is not an Ed25519 key of a log or a witness")
        key = cls(name, material[1:], material[0])
        if key.key_id != key_id:
            raise FormatError("the verifier key was altered: its id does not fit it")
        return key

    def accepts(self, signature: bytes, message: bytes) -> bool:
        """Whether the key made an Ed25519 signature over a message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key that signs; its text is `PRIVATE+KEY+<name>+<id in hex>+<base64 of type and seed>`.

    Attributes:
        name: of the log, its origin.
        seed: 32 bytes, of which RFC 8032 makes the key pair.
    """

    name: str
    seed: bytes = field(repr=False)

    @classmethod
    def generate(cls, name: str) -> Self:
        """Return a new key.

        Raises:
            FormatError: the name holds a space or a plus sign.
        """
        return cls(checked_name(name), secrets.token_bytes(_KEY_BYTES))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key of a text, whose secret part is kept out of logs and errors from now on.

        Raises:
            FormatError: it is no signing key, or was altered; the text is not in the error.
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
            raise FormatError("the signing key was altered: its id does not fit it")
        return key

    @property
    def text(self) -> str:
        """The secret."""
        return f"{_PRIVATE}{self.name}+{self.verifier.key_id}+{to_base64(bytes([ED25519]) + self.seed)}"

    @property
    def verifier(self) -> VerifierKey:
        """The public half, of a log."""
        return VerifierKey(self.name, self._pair.public_key().public_bytes_raw())

    @property
    def key_id(self) -> str:
        """That of the verifier key."""
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
    """The key in force and those that were in force before it.

    Attributes:
        current: signs from now on.
        former: newest first; what they made can be checked.
    """

    current: SigningKey
    former: tuple[SigningKey, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Self | None:
        """Return the keyring of signing keys as they are written, the one in force first; None where there is none.

        Raises:
            FormatError: one of them is no signing key.
        """
        keys = [SigningKey.parse(text) for text in texts]
        return cls(keys[0], tuple(keys[1:])) if keys else None

    @property
    def all(self) -> tuple[SigningKey, ...]:
        """The key in force, then the former ones."""
        return (self.current, *self.former)

    @cached_property
    def verifiers(self) -> tuple[VerifierKey, ...]:
        """The public halves, that of the key in force first."""
        return tuple(key.verifier for key in self.all)

    @cached_property
    def key_id(self) -> str:
        """Of the key in force: what new rows name."""
        return self.current.key_id

    def mac_key(self, key_id: str) -> bytes | None:
        """Return the key of the row MACs made under a key; None where that key is not here."""
        return self._macs.get(key_id)

    @cached_property
    def _macs(self) -> dict[str, bytes]:
        return {key.key_id: key.derived("mac") for key in self.all}

    @cached_property
    def pseudonym_key(self) -> bytes:
        """What pseudonyms are made with from now on."""
        return self.current.derived("pseudonym")

    @cached_property
    def pseudonym_keys(self) -> tuple[bytes, ...]:
        """What pseudonyms were made with, newest first: a caller had another one under each key."""
        return tuple(key.derived("pseudonym") for key in self.all)
