"""Numbers, names and bytes in the texts of a transparency log: each has one spelling, and no other is read."""

from __future__ import annotations

import base64
import binascii

from context_engine.audit.formats.merkle import HASH_BYTES

_MOST_DIGITS = 20  # of 2**64


class FormatError(ValueError):
    """A text that has not the form it should have, or a signature that does not fit it."""


def to_base64(data: bytes) -> str:
    """Return bytes in the standard alphabet of RFC 4648, padded."""
    return base64.b64encode(data).decode("ascii")


def from_base64(text: str, name: str) -> bytes:
    """Return the bytes of a base64 text.

    Args:
        what: the text is, for the error.

    Raises:
        FormatError: it is no base64, or not as `to_base64` writes it.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = None
    if data is None or to_base64(data) != text:
        raise FormatError(f"{name} is no base64")
    return data


def hash_from_base64(text: str, name: str) -> bytes:
    """Return the 32 bytes of a hash.

    Raises:
        FormatError: the text is not the base64 of 32 bytes.
    """
    data = from_base64(text, name)
    if len(data) != HASH_BYTES:
        raise FormatError(f"{name} has {len(data)} bytes instead of {HASH_BYTES}")
    return data


def number_from(text: str, name: str) -> int:
    """Return a number >= 0 that is written without leading zeroes.

    Raises:
        FormatError: it is not.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS or (text[0] == "0" and text != "0"):
        raise FormatError(f"{name} is no number as it should be written")
    return int(text)


def checked_name(name: str) -> str:
    """Return the name of a key: printable, without spaces and plus signs.

    Raises:
        FormatError: it is not.
    """
    if not name or not name.isprintable() or " " in name or "+" in name:
        raise FormatError("the name of a key is empty or holds a space, a plus sign or a control character")
    return name
