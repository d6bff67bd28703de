"""Entry bundles (C2SP tlog-tiles): the entries of a tile, each behind its length."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_LENGTH: Final = 2  # bytes, big-endian


def pack_entries(entries: Iterable[bytes]) -> bytes:
    """Return a bundle.

    Raises:
        OverflowError: an entry has more than 65,535 bytes.
    """
    return b"".join(part for entry in entries for part in (len(entry).to_bytes(_LENGTH, "big"), entry))


def unpack_entries(bundle: bytes) -> list[bytes]:
    """Return the entries of a bundle.

    Raises:
        ValueError: it ends in the middle of one.
    """
    entries, at = [], 0
    while at < len(bundle):
        start = at + _LENGTH
        at = start + int.from_bytes(bundle[at:start], "big")
        if start > len(bundle) or at > len(bundle):
            raise ValueError("the bundle ends in the middle of an entry")
        entries.append(bundle[start:at])
    return entries
