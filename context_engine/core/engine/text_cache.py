"""Texts analysed once for many searches: popular chunks come again, question after question."""

from __future__ import annotations

import sys
from typing import Final

from cachetools import LRUCache

from context_engine.core.concurrency.forking import Lock, forget_in_child
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.text import has_cjk

__all__ = ["TextCache"]

_MOST_BYTES: Final = 32 * 2**20
_FIXED: Final = 1_000
_PER_CHARACTER: Final = 10
_PER_CJK_CHARACTER: Final = 150
"""Estimates of what a text and its analysis hold, a little above what was measured: see `_bytes`."""


class TextCache:
    """Keeps analysed texts by the text itself, at most so many bytes of them, the least used dropped first.

    An engine owns one, so nothing is shared beyond it; safe for many threads.

    Args:
        most_bytes: bound of the estimated sizes' sum; 0 keeps nothing.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = Lock()
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Be empty: at a fork another thread may just have been changing what is kept."""
        self._kept: LRUCache[str, AnalysedText] = LRUCache(self._most_bytes, getsizeof=_bytes)

    def analysed(self, text: str) -> AnalysedText:
        """Return the text with its analysis, the one that is kept where there is one."""
        with self._lock:
            found = self._kept.get(text)
            if found is None:
                found = AnalysedText(text)
                if _bytes(found) <= self._most_bytes:
                    self._kept[text] = found
            return found

    @property
    def bytes(self) -> int:
        """The estimated size of what is kept."""
        return int(self._kept.currsize)


def _bytes(one: AnalysedText) -> int:
    """Return about what a text holds once all its parts are made: the strings of CJK characters are not shared."""
    each = _PER_CJK_CHARACTER if has_cjk(one.text) else _PER_CHARACTER
    return _FIXED + sys.getsizeof(one.text) + each * len(one.text)
