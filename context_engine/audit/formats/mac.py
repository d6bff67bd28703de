"""Row MACs: a keyed hash of each row, which shows an edit before the next checkpoint and names the row."""

from __future__ import annotations

import hmac


def row_mac(key: bytes, index: int, leaf: bytes) -> bytes:
    """Return HMAC-SHA256(key, index as 8 bytes, big-endian || leaf).

    Args:
        key: `SigningKey.mac_key`.
        index: of the entry in the log.
        leaf: its leaf hash, 32 bytes.
    """
    return hmac.digest(key, index.to_bytes(8, "big") + leaf, "sha256")


def pending_mac(key: bytes, leaf: bytes) -> bytes:
    """Return HMAC-SHA256(key, "pending" || leaf), of a row that has no index yet."""
    return hmac.digest(key, b"pending" + leaf, "sha256")
