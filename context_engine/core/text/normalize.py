"""One spelling for texts that read the same."""

from __future__ import annotations

import hashlib
import unicodedata


def normalize(text: str) -> str:
    """Return the text in NFKC, casefolded, with each run of white space as one space and none at the ends.

    >>> normalize("  The Limit\\u00a0is\\n5 %")
    'the limit is 5 %'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


def content_sha256(text: str) -> str:
    """Return the SHA-256 of the text's UTF-8 bytes, in hex: the identity of exactly these characters."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
