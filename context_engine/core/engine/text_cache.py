"""A cache of analysed texts, because popular chunks are candidates in many searches."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Final

from cachetools import LRUCache

from context_engine.core.concurrency.forking import Lock, forget_in_child
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.text import has_cjk

_MOST_BYTES: Final = 32 * 2**20
_FIXED: Final = 300
_PER_CHARACTER: Final = 2
_PER_CJK_CHARACTER: Final = 230
"""Bytes of an analysis per character. Measured with the text: 0.5 kB for 116 characters, 1.4 kB for 383, 2.4 kB for
761; up to 69 kB for 297 Chinese characters, each pair of which is a separate string."""


class TextCache:
    """Keeps analysed texts by the text itself; the least recently used ones are dropped. Safe for many threads.

    Each engine has its own cache.

    Args:
        most_bytes: limit for the sum of the estimated sizes; 0 keeps nothing.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = Lock()
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Drop everything: at a fork another thread may have been changing the cache."""
        self._kept: LRUCache[str, AnalysedText] = LRUCache(self._most_bytes, getsizeof=_bytes)

    def analysed(self, text: str) -> AnalysedText:
        """Return the text with its analysis, from the cache if possible."""
        with self._lock:
            kept = self._kept.get(text)
            if kept is None:
                kept = AnalysedText(text)
                with suppress(ValueError):  # it is larger than the whole cache
                    self._kept[text] = kept
            return kept

    @property
    def bytes(self) -> int:
        """The estimated size of the cache."""
        return int(self._kept.currsize)


def _bytes(analysed: AnalysedText) -> int:
    """Estimate the size of a text with its whole analysis."""
    each = _PER_CJK_CHARACTER if has_cjk(analysed.text) else _PER_CHARACTER
    return _FIXED + sys.getsizeof(analysed.text) + each * len(analysed.text)
