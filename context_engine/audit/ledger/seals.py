"""Row MACs: a keyed hash of each row, which reveals an edit before the next checkpoint and names the row."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, NamedTuple

from context_engine.audit.formats.keys import Keyring


class Seal(NamedTuple):
    """A row's MAC and the id of its key; both None without a key."""

    mac: bytes | None
    key_id: str | None


NO_SEAL: Final = Seal(None, None)


class Seals:
    """Makes and checks the MACs of rows; without a keyring rows have none."""

    def __init__(self, keyring: Keyring | None) -> None:
        self._keyring = keyring
        self._key_id = None if keyring is None else keyring.key_id
        self._key = None if keyring is None or self._key_id is None else keyring.mac_key(self._key_id)

    def pending(self, leaf: bytes) -> Seal:
        """Return the MAC of a pending record."""
        return NO_SEAL if self._key is None else Seal(pending_mac(self._key, leaf), self._key_id)

    def row(self, index: int, leaf: bytes) -> Seal:
        """Return the MAC of a record in the log."""
        return NO_SEAL if self._key is None else Seal(row_mac(self._key, index, leaf), self._key_id)

    def vouches(self, leaf: bytes, seal: Seal) -> bool:
        """Return whether the MAC of a pending record is valid under a known key."""
        if self._keyring is None or seal.mac is None or seal.key_id is None:
            return False
        key = self._keyring.mac_key(seal.key_id)
        return key is not None and hmac.compare_digest(pending_mac(key, leaf), seal.mac)


def row_mac(key: bytes, index: int, leaf: bytes) -> bytes:
    """Return HMAC-SHA256(key, index as 8 bytes, big-endian || leaf)."""
    return hmac.digest(key, index.to_bytes(8, "big") + leaf, "sha256")


def pending_mac(key: bytes, leaf: bytes) -> bytes:
    """Return HMAC-SHA256(key, "pending" || leaf), for a row without an index yet."""
    return hmac.digest(key, b"pending" + leaf, "sha256")


_BLOCK_BYTES: Final = 64  # of SHA-256 (RFC 2104)
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))  # the table of XOR with ipad
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))  # the table of XOR with opad


def row_macs(key: bytes) -> Callable[[int, bytes], bytes]:
    """Return a function of (index, leaf) equal to `row_mac` under the key, in a third of the time.

    Args:
        key: at most 64 bytes, which RFC 2104 uses without hashing.
    """
    block = key.ljust(_BLOCK_BYTES, b"\x00")
    inner, outer = hashlib.sha256(block.translate(_INNER)), hashlib.sha256(block.translate(_OUTER))

    def mac(index: int, leaf: bytes) -> bytes:
        inside, outside = inner.copy(), outer.copy()
        inside.update(index.to_bytes(8, "big") + leaf)
        outside.update(inside.digest())
        return outside.digest()

    return mac
