"""E-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from context_engine.adapters.maskers.plain_text import PlainText
from context_engine.core.protocols import PersonalData

EMAIL: Final = "EMAIL"

_LONGEST_NAME: Final = 64
_NAME: Final = re.compile(r"(?<![\w.+%'~-])[\w+%~](?:[\w+%'~-]|\.(?!\.)){0,63}(?<![.'])$")
_DOMAIN: Final = re.compile(r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?![\w-])")


def find_emails(plain: PlainText) -> Iterator[PersonalData]:
    """Yield the addresses of a text; the value is the address in small letters."""
    at = plain.text.find("@")
    while at >= 0:
        first = max(0, at - _LONGEST_NAME - 1)
        domain = _DOMAIN.match(plain.text, at + 1)
        name = _NAME.search(plain.text[first:at]) if domain else None
        if name and domain:
            start, end = first + name.start(), domain.end()
            yield PersonalData(*plain.span(start, end), EMAIL, plain.text[start:end].casefold())
        at = plain.text.find("@", at + 1)
