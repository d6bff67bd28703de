"""What is refused before a PDF is opened: a stream that unpacks to far more than a page can hold."""

from __future__ import annotations

import re
import zlib
from typing import Final

__all__ = ["is_bomb"]

_STREAM: Final = re.compile(rb"stream\r?\n")
_TWICE: Final = re.compile(rb"/(?:Filter|F)\s*\[\s*/(?:FlateDecode|Fl)\s*/(?:FlateDecode|Fl)\b")
_MOST: Final = 256 << 20  # a page of A4 in colour at 600 dots an inch has 104 MB
_MOST_RATIO: Final = 1032  # of deflate: a shorter stream cannot reach the limit
_BLOCK: Final = 1 << 20
_DICTIONARY: Final = 600  # bytes before a stream in which its filter is named


def is_bomb(data: bytes) -> bool:
    """Whether a stream of a PDF is packed twice, or unpacks to over 256 MB; it is unpacked in blocks to be counted."""
    if _TWICE.search(data):
        return True
    for match in _STREAM.finditer(data):
        head = data[max(0, match.start() - _DICTIONARY) : match.start()]
        end = data.find(b"endstream", match.end())
        packed = memoryview(data)[match.end() : end if end >= 0 else len(data)]
        if b"/Fl" in head and len(packed) * _MOST_RATIO > _MOST and _unpacks_over(packed):
            return True
    return False


def _unpacks_over(packed: memoryview) -> bool:
    inflate = zlib.decompressobj()
    total = 0
    try:
        for start in range(0, len(packed), _BLOCK):
            rest: bytes | memoryview = packed[start : start + _BLOCK]
            while rest and not inflate.eof:  # what follows the end of a stream stays in the tail for ever
                total += len(inflate.decompress(rest, _BLOCK))
                if total > _MOST:
                    return True
                rest = inflate.unconsumed_tail
    except zlib.error:
        return False
    return False
