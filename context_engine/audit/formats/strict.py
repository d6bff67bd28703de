"""Read numbers, names and bytes in the texts of a transparency log; each value has exactly one accepted spelling."""

from __future__ import annotations

import base64
import binascii

from context_engine.audit.formats.merkle import HASH_BYTES

_MOST_DIGITS = 20  # of 2**64


class FormatError(ValueError):
    """A malformed text, or an invalid signature."""


def to_base64(data: bytes) -> str:
    """Return standard base64 (RFC 4648), padded."""
    return base64.b64encode(data).decode("ascii")


def from_base64(text: str, name: str) -> bytes:
    """Decode base64 as `to_base64` writes it; `name` names the text in the error.

    Raises:
        FormatError: it is not.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = None
    if data is None or to_base64(data) != text:
        raise FormatError(f"{name} is not base64")
    return data


def hash_from_base64(text: str, name: str) -> bytes:
    """Decode the base64 of a hash.

    Raises:
        FormatError: it is not the base64 of 32 bytes.
    """
    data = from_base64(text, name)
    if len(data) != HASH_BYTES:
        raise FormatError(f"{name} has {len(data)} bytes instead of {HASH_BYTES}")
    return data


def number_from(text: str, name: str) -> int:
    """Parse a number >= 0 without leading zeros.

    Raises:
        FormatError: it is not.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS or (text[0] == "0" and text != "0"):
        raise FormatError(f"{name} is not a number in its only accepted form")
    return int(text)


def checked_name(name: str) -> str:
    """Return the name of a key: printable, without spaces and plus signs.

    Raises:
        FormatError: it is not.
    """
    if not name or not name.isprintable() or " " in name or "+" in name:
        raise FormatError("the name of a key is empty or contains a space, a plus sign or a control character")
    return name
