"""What a file is by its first bytes, so that a PDF named .docx is told from a broken DOCX."""

from __future__ import annotations

import re
from typing import Final

EMPTY: Final = "is empty"
"""Of a file without a byte: it was read, and there is nothing in it."""


_ZIP: Final = frozenset((".docx", ".odt", ".pptx", ".xlsx"))
_OLD: Final = {".doc": ".docx", ".ppt": ".pptx", ".xls": ".xlsx"}
_SIGNS: Final[tuple[tuple[bytes, str, frozenset[str]], ...]] = (
    (b"PK\x05\x06", "an empty zip archive", frozenset()),
    (b"\x89PNG", "a PNG image", frozenset()),
    (b"\xff\xd8\xff", "a JPEG image", frozenset()),
    (b"GIF8", "a GIF image", frozenset()),
    (b"\x1f\x8b", "a gzip archive", frozenset()),
    (b"SQLite format 3", "an SQLite file", frozenset()),
)
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BEFORE_OLE: Final = (
    b"\x09\x00",
    b"\x09\x02",
    b"\x09\x04",
    b"\x09\x08",
    b"\xdb\xa5",
    b"\x9b\xa5",
    b"\x31\xbe",
    b"<?xml",
)
_RTF: Final = b"{\\rtf"
_PDF: Final = re.compile(rb"\s*%PDF-")
_HTML: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL
)
_TEXT: Final = (".htm", ".html", ".md", ".markdown", ".txt", ".eml", ".erb", ".tmpl")


def mismatch(start: bytes, suffix: str) -> str | None:
    """Return why a file cannot be what its suffix says, None where its first bytes do not speak against it.

    Args:
        start: the first bytes, 1024 or more where the file has them.
        suffix: in lower case, with its dot.
    """
    if not start:
        return EMPTY
    if start.startswith(_OLE):
        return _old_office(suffix)
    if _PDF.match(start):
        return None if suffix == ".pdf" else f"is a PDF, not {suffix}: rename it"
    if start.startswith(b"PK\x03\x04"):
        return _zipped(suffix)
    if start.lstrip().startswith(_RTF):
        return None if suffix == ".rtf" else f"is RTF, not {suffix}: rename it to .rtf"
    for sign, kind, suffixes in _SIGNS:
        if start.startswith(sign):
            return None if suffix in suffixes else f"is {kind}, not {suffix}"
    if _HTML.match(start) and suffix not in _TEXT:
        return f"is HTML, not {suffix}: rename it"
    return _no_sign(start, suffix)


def _old_office(suffix: str) -> str | None:
    if suffix in _OLD:
        return None
    if suffix in _ZIP:
        return f"is an old Office file, or one with a password: save it as {suffix} without a password"
    return f"is an old Office file, not {suffix}"


def _zipped(suffix: str) -> str | None:
    if suffix in _ZIP:
        return None
    if suffix in _OLD:
        return f"is a zip archive, as {_OLD[suffix]} files are, not {suffix}: rename it to {_OLD[suffix]}"
    return f"is a zip archive (DOCX, XLSX), not {suffix}"


def _no_sign(start: bytes, suffix: str) -> str | None:
    """Return why a file that begins like no other kind is not what its suffix says."""
    if suffix == ".xls" and not start.startswith(_BEFORE_OLE):
        return "is no .xls file: it does not begin as one; if it is a table as text, rename it to .csv"
    if suffix == ".doc" and not start.startswith(_BEFORE_OLE):
        return "is no .doc file: it does not begin as one; if it is text, rename it to .txt"
    if suffix in _ZIP or suffix in (".rtf", ".ppt"):
        return f"is no {suffix} file: it does not begin as one"
    if suffix == ".pdf" and b"%PDF-" not in start[:1024]:
        return "is no PDF: it does not begin as one"
    return None
