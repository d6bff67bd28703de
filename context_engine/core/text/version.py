"""The version of a document as one text, however it is written: "3.2", "v3.2" and "Version 3.2" are one."""

from __future__ import annotations

import re
from typing import Final

_PREFIX: Final = re.compile(r"^(?:version|ver|v)[.:]?\s*(?=\d)", re.IGNORECASE)


def bare_version(version: str) -> str:
    """Return a version without the word or letter for it before its number, and without white space around it.

    >>> bare_version("v3.2"), bare_version(" Version 3.2"), bare_version("vendor draft")
    ('3.2', '3.2', 'vendor draft')
    """
    return _PREFIX.sub("", version.strip())
