"""Passages that say something other than they show: encoded, spelt apart, run together, reversed or invisible."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_MOST_DECODED: Final = 20_000
"""Maximum number of characters decoded of one passage."""

_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}+(?:\r?\n[A-Za-z0-9+/_-]{20,}+)*+={0,2}")
_HEX: Final = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}:?){12,10000}(?![0-9A-Fa-f])")
_LEAST_ENCODED: Final = 20
_LEAST_APART: Final = 15
_LEAST_SPELT: Final = 8
_REVERSED: Final = re.compile("[\u202e\u2067]([^\u202c\u2069\u202a-\u202e\n]{4,20000})")
_TAGS: Final = re.compile("[\U000e0020-\U000e007e]{8,20000}")
_FLAG: Final = "\U0001f3f4"  # a black flag before tags: the flag of a region
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{8,20000}")
_SPELT: Final = re.compile(r"(?<![^\W_])[^\W_](?:[\W_]{1,4}[^\W_](?![^\W_])){7,2000}")
_RUN_TOGETHER: Final = re.compile(r"[a-z0-9]{18,}+")


class HiddenPassage(NamedTuple):
    """A passage [start, end) of a text, and what it says."""

    start: int
    end: int
    says: str


def encoded(text: str) -> Iterator[HiddenPassage]:
    """Yield the passages in Base64 or hexadecimal digits that decode to words."""
    if _longest(text) < _LEAST_ENCODED:
        return
    for match in _BASE64.finditer(text):
        yield from _decoded(match, _from_base64("".join(match[0].split()).rstrip("=")))
    for match in _HEX.finditer(text):
        yield from _decoded(match, _from_hex(match[0]))


def _from_base64(letters: str) -> bytes:
    letters = letters[:_MOST_DECODED].replace("-", "+").replace("_", "/")
    if len(letters) % 4 == 1:
        letters = letters[:-1]  # no octet ends there
    return base64.b64decode(letters + "==")


def _from_hex(digits: str) -> bytes:
    return bytes.fromhex(digits.replace(":", " "))


def _decoded(match: re.Match[str], octets: bytes) -> Iterator[HiddenPassage]:
    try:
        says = octets.decode()
    except UnicodeDecodeError as error:
        says = octets[: error.start].decode()
    if len(says) >= 8 and " ".join(says.split()).isprintable():
        yield HiddenPassage(match.start(), match.end(), says)


def _longest(text: str) -> int:
    return max(map(len, text.split()), default=0)


def invisible(text: str) -> Iterator[HiddenPassage]:
    """Yield the passages written in invisible characters: tags, and bytes as variation selectors."""
    if text.isascii():
        return
    for match in _TAGS.finditer(text):
        if text[max(0, match.start() - 1) : match.start()] != _FLAG:
            yield HiddenPassage(match.start(), match.end(), "".join(chr(ord(char) - 0xE0000) for char in match[0]))
    for match in _SELECTORS.finditer(text):
        octets = bytes(ord(char) - (0xFE00 if char <= "\ufe0f" else 0xE0100 - 16) for char in match[0])
        yield HiddenPassage(match.start(), match.end(), octets.decode("utf-8", "replace"))


def reversed_text(text: str) -> Iterator[HiddenPassage]:
    """Yield the passages forced to display from right to left, in the order in which they display."""
    for match in _REVERSED.finditer(text):
        yield HiddenPassage(match.start(), match.end(), match[1][::-1])


def apart(folded: str) -> Iterator[HiddenPassage]:
    """Yield letters spelt one by one, and words run together, in a folded text; the passages' words have no blanks."""
    lengths = list(map(len, folded.split()))
    long = max(lengths, default=0) >= _LEAST_APART
    if long or lengths.count(1) >= _LEAST_SPELT or 2 * lengths.count(2) > len(lengths):
        for match in _SPELT.finditer(folded):
            yield HiddenPassage(*match.span(), re.sub(r"[\W_]", "", match[0]))
    if long:
        for match in _RUN_TOGETHER.finditer(folded):
            yield HiddenPassage(*match.span(), match[0])
