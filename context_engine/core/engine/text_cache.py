"""Texts analysed once for many searches: popular chunks come again, question after question."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Final

from context_engine.core.concurrency.forking import Lock, forget_in_child
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.text import has_cjk

_MOST_BYTES: Final = 32 * 2**20
_FIXED: Final = 300
_PER_CHARACTER: Final = 2
_PER_CJK_CHARACTER: Final = 230
"""Bytes of an analysis beside its text. Measured in all: 1.4 kB a passage of 383 characters, 2.4 kB of 761, .5 kB a
label of 116; in Chinese, whose pairs of characters are strings of their own, up to 69 kB of 297."""


class _KeptText:
    """A text that is kept, and whether it was asked for again since its turn to go."""

    __slots__ = ("again", "text")

    def __init__(self, text: AnalysedText) -> None:
        self.text, self.again = text, False


class TextCache:
    """Keeps analysed texts by the text itself, at most so many bytes of them.

    Where room is needed the oldest goes, unless it was asked for again: that one has another turn (the clock algorithm;
    it drops about what was used least lately, and what is found needs no lock). An engine owns one, so nothing is
    shared beyond it; safe for many threads.

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
        self._kept: OrderedDict[str, _KeptText] = OrderedDict()
        self._bytes = 0

    def analysed(self, text: str) -> AnalysedText:
        """Return the text with its analysis, the one that is kept where there is one."""
        kept = self._kept.get(text)
        if kept is None:
            return self._keep(AnalysedText(text))
        kept.again = True
        return kept.text

    def _keep(self, fresh: AnalysedText) -> AnalysedText:
        """Keep a text unless it is larger than the whole cache; others make room for it."""
        size = _bytes(fresh)
        if size > self._most_bytes:
            return fresh
        with self._lock:
            kept = self._kept.setdefault(fresh.text, _KeptText(fresh))
            if kept.text is not fresh:
                return kept.text
            self._bytes += size
            while self._bytes > self._most_bytes:
                self._make_room()
        return fresh

    def _make_room(self) -> None:
        """Drop the oldest text, or give it another turn."""
        name, oldest = self._kept.popitem(last=False)
        if oldest.again:
            oldest.again = False
            self._kept[name] = oldest
        else:
            self._bytes -= _bytes(oldest.text)

    @property
    def bytes(self) -> int:
        """The estimated size of what is kept."""
        return self._bytes


def _bytes(analysed: AnalysedText) -> int:
    """Return about what a text holds once all its parts are made."""
    each = _PER_CJK_CHARACTER if has_cjk(analysed.text) else _PER_CHARACTER
    return _FIXED + sys.getsizeof(analysed.text) + each * len(analysed.text)
