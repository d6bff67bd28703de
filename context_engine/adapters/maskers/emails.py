"""E-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from context_engine.adapters.maskers.plain_text import PlainText
from context_engine.core.protocols import PersonalData

__all__ = ["EMAIL", "find_emails"]

EMAIL: Final = "EMAIL"

_LOCAL: Final = r"[\w!#$%&'*+/=?^`{|}~-]"
_ADDRESS: Final = re.compile(
    rf"(?<![\w.+%-])[\w+%](?:{_LOCAL}|\.(?!\.)){{0,63}}(?<!\.)@(?:[^\W_](?:[\w-]{{0,61}}[^\W_])?\.){{1,8}}[^\W\d_]{{2,24}}(?![\w-])"
)


def find_emails(plain: PlainText) -> Iterator[PersonalData]:
    """Yield the addresses of a text; the value is the address in small letters."""
    if "@" not in plain.text:
        return
    for found in _ADDRESS.finditer(plain.text):
        yield PersonalData(*plain.span(found.start(), found.end()), EMAIL, found[0].casefold())
