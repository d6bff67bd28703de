r"""File names as text that is valid, safe to show, and can be turned back into the file's own bytes.

A file system's names are bytes. What is read from them is UTF-8; every byte that is no UTF-8, and every byte of a
control, line-breaking or direction character, is written `\xHH` in lower case. A backslash that already stands before
such a form is written `\x5c`, so no two names are shown alike. Other names stay as they are: upper and lower case, and
the composed and decomposed forms of a letter, are different names here as they are on the disk.
"""

from __future__ import annotations

import os
import re
from typing import Final

_HIDDEN: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
    r"|\\(?=x[0-9a-f]{2})"
)
_ESCAPED: Final = re.compile(rb"\\x([0-9a-f]{2})")


def shown_name(name: str | os.PathLike[str]) -> str:
    r"""Return a file's name or path, as Python's own functions give it, as text that every output can hold.

    >>> shown_name("Gesch\udce4ftsbericht.md"), shown_name("Bericht.md")
    ('Gesch\\xe4ftsbericht.md', 'Bericht.md')
    """
    text = os.fspath(name)
    if text.isascii() and text.isprintable() and "\\x" not in text:
        return text
    return _HIDDEN.sub(_escaped, _bytes(text).decode("utf-8", "surrogateescape"))


def original_name(shown: str) -> bytes:
    r"""Return the bytes of the name that `shown_name` gave this text for.

    >>> original_name("Gesch\\xe4ftsbericht.md")
    b'Gesch\xe4ftsbericht.md'
    """
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), shown.encode("utf-8"))


def _bytes(text: str) -> bytes:
    """Return a name's bytes whatever the locale; half a pair of UTF-16, which Windows allows, as its three."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", "surrogateescape"))
