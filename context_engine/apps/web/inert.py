"""Text of others as inert text and HTML: it runs nothing, loads nothing and steers no terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from html import escape
from typing import Final

from context_engine.secrecy import hide

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_STEERS_TEXT: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def clean(text: str) -> str:
    """Return text without secrets that cannot control a terminal: control and direction characters become spaces.

    Bytes of a file name that are not UTF-8 are shown as in `ingest`.
    """
    text = hide(text)
    if text.isprintable():
        return text
    return "".join(" " if _steers(char) else char for char in encodable(text))


def _steers(char: str) -> bool:
    return char not in "\n" and (unicodedata.category(char) == "Cc" or char in _STEERS_TEXT)


def encodable(text: str, backslash: str = "\\") -> str:
    """Return text that can be encoded: lone surrogates become the bytes they stand for, or U+FFFD."""
    return _SURROGATE.sub(lambda match: _byte(match[0], backslash), text)


def _byte(surrogate: str, backslash: str) -> str:
    code = ord(surrogate) - 0xDC00
    return f"{backslash}x{code:02x}" if 0x80 <= code <= 0xFF else "\ufffd"


def html_text(value: str) -> str:
    """Return a text as inert HTML on one line."""
    return escape(clean(" ".join(value.split())))


def html_table(columns: Iterable[str], rows: Iterable[str]) -> str:
    """Return a table of HTML.

    Args:
        columns: HTML of the headings.
        rows: HTML of the cells of each row, their tags included.
    """
    head = "".join(f"<th scope=col>{name}</th>" for name in columns)
    body = "".join(f"<tr>{cells}</tr>" for cells in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>\n"
