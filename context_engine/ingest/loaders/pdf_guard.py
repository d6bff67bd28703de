"""What is refused before a PDF is opened: a stream that unpacks to far more than a page can hold."""

from __future__ import annotations

import re
import zlib
from typing import Final

_STREAM: Final = re.compile(rb"stream\r?\n")
_TWICE: Final = re.compile(rb"/(?:Filter|F)\s*\[\s*/(?:FlateDecode|Fl)\s*/(?:FlateDecode|Fl)\b")
_MOST: Final = 256 << 20  # a page of A4 in colour at 600 dots an inch has 104 MB
_MOST_RATIO: Final = 1032  # of deflate: a shorter stream cannot reach the limit
_BLOCK: Final = 1 << 20
_DICTIONARY: Final = 600  # bytes before a stream in which its filter is named
_MOST_TIMES: Final = 2  # the bytes of a file are unpacked; streams that lie in one another would take its square


def is_bomb(data: bytes) -> bool:
    """Whether a stream of a PDF is packed twice, or unpacks to over 256 MB; it is unpacked in blocks to be counted.

    So is a file of streams that begin within one another, over and over: its time would grow with its square.
    """
    if _TWICE.search(data):
        return True
    left = len(data) * _MOST_TIMES + _BLOCK
    end = 0
    for match in _STREAM.finditer(data):
        if data.startswith(b"end", max(0, match.start() - 3)):
            continue
        if end < match.end():
            found = data.find(b"endstream", match.end())
            end = found if found >= 0 else len(data)
        head = data[max(0, match.start() - _DICTIONARY) : match.start()]
        if b"/Fl" in head and (end - match.end()) * _MOST_RATIO > _MOST:
            over, used = _unpacks_over(memoryview(data)[match.end() : end])
            left -= used
            if over or left < 0:
                return True
    return False


def _unpacks_over(packed: memoryview) -> tuple[bool, int]:
    """Return whether a stream unpacks to more than is let through, and how many of its bytes were looked at."""
    inflate = zlib.decompressobj()
    total = start = 0
    try:
        for start in range(0, len(packed), _BLOCK):
            rest: bytes | memoryview = packed[start : start + _BLOCK]
            while rest and not inflate.eof:  # what follows the end of a stream stays in the tail for ever
                total += len(inflate.decompress(rest, _BLOCK))
                if total > _MOST:
                    return True, start + _BLOCK
                rest = inflate.unconsumed_tail
            if inflate.eof:
                break
    except zlib.error:
        pass
    return False, min(start + _BLOCK, len(packed))
