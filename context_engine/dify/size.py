"""Keeping an output small enough: Dify kills a plugin that writes a line of more than 5 MiB."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

__all__ = ["MOST_BYTES", "Fitted", "fitted", "json_size"]

MOST_BYTES: Final = 1024 * 1024
_TEXT_STEPS: Final = tuple(2**power for power in range(18, 5, -1))
_LIST_STEPS: Final = (2000, 500, 100, 20, 5)


class Fitted(NamedTuple):
    """A value that fits, and what was cut from it to make it fit, in a sentence; None where nothing was."""

    value: Any
    cut: str | None


class _Cuts:
    """Counts what is cut."""

    def __init__(self, most_text: int, most_items: int | None) -> None:
        self.most_text, self.most_items = most_text, most_items
        self.texts = self.lists = 0

    def apply(self, value: Any) -> Any:
        if isinstance(value, str) and len(value) > self.most_text:
            self.texts += 1
            return f"{value[: self.most_text]} … [cut: {len(value)} characters in all]"
        if isinstance(value, Mapping):
            return {key: self.apply(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            if self.most_items is not None and len(value) > self.most_items:
                self.lists += 1
                value = value[: self.most_items]
            return [self.apply(one) for one in value]
        return value

    def sentence(self, name: str, limit: int) -> str:
        cut = [f"{self.texts} text(s) at {self.most_text} characters"] if self.texts else []
        cut += [f"{self.lists} list(s) at {self.most_items} entries"] if self.lists else []
        return f"{name} was cut to stay below {limit // 1024} KiB: {' and '.join(cut)}"


def json_size(value: Any) -> int:
    """Return the most bytes a value takes as JSON, however its characters are escaped."""
    return len(json.dumps(value, default=str))


def fitted(name: str, value: Any, *, limit: int = MOST_BYTES) -> Fitted:
    """Return a JSON value of at most `limit` bytes; the longest texts are cut first, then the longest lists.

    Args:
        name: what it is called in the sentence about the cut.
        value: never changed.
        limit: bytes; at least a few KiB.
    """
    if json_size(value) <= limit:
        return Fitted(value, None)
    cuts = _Cuts(_TEXT_STEPS[-1], None)
    for most_text, most_items in (*((step, None) for step in _TEXT_STEPS), *((64, step) for step in _LIST_STEPS)):
        cuts = _Cuts(most_text, most_items)
        smaller = cuts.apply(value)
        if json_size(smaller) <= limit:
            return Fitted(smaller, cuts.sentence(name, limit))
    return Fitted(None, f"{name} was left out: it cannot be cut to stay below {limit // 1024} KiB")
