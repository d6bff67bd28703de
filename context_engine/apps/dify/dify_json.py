"""Plain JSON values of a size that Dify's plugin daemon accepts."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final, NamedTuple

DEEPEST: Final = 50
"""Most levels of nested objects and lists."""

_MOST_BITS: Final = 64
_MOST_DIGITS_BITS: Final = 13_000  # below the 4300 digits that Python writes out


def plain(value: Any) -> Any:
    """Return a value reduced to valid JSON.

    A lone surrogate becomes "?", NaN and infinity become None, an integer of more than 64 bits becomes text.

    >>> plain({"a": [float("nan"), -0.0, 2**70, "\\ud800x"]})
    {'a': [None, -0.0, '1180591620717411303424', '?x']}
    """
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > _MOST_BITS:
        return str(value)
    if isinstance(value, Mapping):
        return {plain_text(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def plain_text(text: str) -> str:
    """Return a text that can be written as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def unusable(value: Any, depth: int = 0) -> str | None:
    """Return why a JSON value cannot be processed, or None if it can."""
    if depth > DEEPEST:
        return f"is nested more than {DEEPEST} levels deep"
    if isinstance(value, int) and value.bit_length() > _MOST_DIGITS_BITS:
        return "holds a number of thousands of digits"
    parts: Any = ()
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, list | tuple):
        parts = value
    return next((problem for part in parts if (problem := unusable(part, depth + 1)) is not None), None)


MOST_BYTES: Final = 1024 * 1024
_FENCE_END: Final = re.compile(r"\n[A-Za-z0-9_-]{6,64}>>>\Z")
_LONGEST_END: Final = 68
"""A line break, the longest nonce and its brackets: a fenced text that is cut stays closed."""

_Step = tuple[int, int | None]

_STEPS: Final[Sequence[_Step]] = (
    *((2**power, None) for power in range(18, 11, -1)),
    *((2**12, most_items) for most_items in (2000, 500)),
    *((2**power, 500) for power in (11, 10)),
    *((2**power, 100) for power in (9, 8)),
    *((2**power, 20) for power in (7, 6)),
    (2**6, 5),
)
"""Most characters of a text and most entries of a list; each step cuts more than the previous one."""


class Fitted(NamedTuple):
    """A value that fits, and a sentence about the cuts, or None."""

    value: Any
    cut: str | None


class _Cuts:
    """Cuts values, and counts the cuts."""

    def __init__(self, most_text: int, most_items: int | None) -> None:
        self.most_text, self.most_items = most_text, most_items
        self.texts = self.lists = 0

    def apply(self, value: Any) -> Any:
        if isinstance(value, str) and len(value) > self.most_text:
            self.texts += 1
            closing = _FENCE_END.search(value, max(0, len(value) - _LONGEST_END))
            end = closing[0] if closing else ""
            return f"{value[: self.most_text]} … [cut: {len(value)} characters in all]{end}"
        if isinstance(value, Mapping):
            return {key: self.apply(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            if self.most_items is not None and len(value) > self.most_items:
                self.lists += 1
                value = value[: self.most_items]
            return [self.apply(item) for item in value]
        return value

    def sentence(self, name: str, limit: int) -> str:
        cut = [f"{self.texts} text(s) at {self.most_text} characters"] if self.texts else []
        cut += [f"{self.lists} list(s) at {self.most_items} entries"] if self.lists else []
        return f"{name} was cut to stay below {limit // 1024} KiB: {' and '.join(cut)}"


def json_size(value: Any) -> int:
    """Return an upper bound of a value's size as JSON in bytes, with any escaping of its characters."""
    return len(json.dumps(value, default=str))


def fitted(name: str, value: Any, *, limit: int = MOST_BYTES) -> Fitted:
    """Return a JSON value of at most `limit` bytes; very long texts are cut first, then long lists, then more.

    Args:
        name: of the value, for the sentence about the cut.
        value: never changed.
        limit: bytes; at least a few KiB.
    """
    if json_size(value) <= limit:
        return Fitted(value, None)
    place = bisect_left(_STEPS, True, key=lambda step: _enough(value, step, limit))
    if place == len(_STEPS):
        return Fitted(None, f"{name} was left out: it cannot be cut to stay below {limit // 1024} KiB")
    cuts = _Cuts(*_STEPS[place])
    return Fitted(cuts.apply(value), cuts.sentence(name, limit))


def _enough(value: Any, step: _Step, limit: int) -> bool:
    return json_size(_Cuts(*step).apply(value)) <= limit
