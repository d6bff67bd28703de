"""What a file is by its first bytes, so that a PDF named .docx is told from a broken DOCX."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["mismatch"]

_ZIP: Final = frozenset((".docx", ".xlsx"))
_SIGNS: Final[tuple[tuple[bytes, str, frozenset[str]], ...]] = (
    (b"PK\x03\x04", "a zip archive (DOCX, XLSX)", _ZIP),
    (b"PK\x05\x06", "an empty zip archive", frozenset()),
    (b"\x89PNG", "a PNG image", frozenset()),
    (b"\xff\xd8\xff", "a JPEG image", frozenset()),
    (b"GIF8", "a GIF image", frozenset()),
    (b"\x1f\x8b", "a gzip archive", frozenset()),
    (b"{\\rtf", "RTF", frozenset()),
    (b"SQLite format 3", "an SQLite file", frozenset()),
)
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PDF: Final = re.compile(rb"\s*%PDF-")
_HTML: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL
)


def mismatch(start: bytes, suffix: str) -> str | None:
    """Return why a file cannot be what its suffix says, None where its first bytes do not speak against it.

    Args:
        start: the first bytes, 1024 or more where the file has them.
        suffix: in lower case, with its dot.
    """
    if not start:
        return "is empty"
    if start.startswith(_OLE):
        return (
            f"is an old Office file, or one with a password: save it as {suffix} without a password"
            if suffix in _ZIP
            else f"is an old Office file, not {suffix}"
        )
    if _PDF.match(start):
        return None if suffix == ".pdf" else f"is a PDF, not {suffix}: rename it"
    for sign, kind, suffixes in _SIGNS:
        if start.startswith(sign):
            return None if suffix in suffixes else f"is {kind}, not {suffix}"
    if _HTML.match(start) and suffix not in (".htm", ".html", ".md", ".markdown", ".txt"):
        return f"is HTML, not {suffix}: rename it"
    if suffix in _ZIP:
        return f"is no {suffix} file: it does not begin as one"
    if suffix == ".pdf" and b"%PDF-" not in start[:1024]:
        return "is no PDF: it does not begin as one"
    return None
