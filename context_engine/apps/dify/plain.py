"""Values as every JSON reader takes them: Dify's plugin daemon drops a line that holds anything else."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

DEEPEST: Final = 50
"""Most objects and lists that stand in one another."""

_MOST_BITS: Final = 64
_MOST_DIGITS_BITS: Final = 13_000  # below the 4300 digits that Python writes out


def plain(value: Any) -> Any:
    """Return a value with nothing in it that JSON cannot say.

    A lone surrogate becomes "?", a number that is none becomes None, an integer of more than 64 bits becomes text.

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
        return {plain_text(str(key)): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def plain_text(text: str) -> str:
    """Return a text that can be written as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def unusable(value: Any, depth: int = 0) -> str | None:
    """Return what keeps a JSON value from being worked with, in words; None where nothing does."""
    if depth > DEEPEST:
        return f"is nested more than {DEEPEST} levels deep"
    if isinstance(value, int) and value.bit_length() > _MOST_DIGITS_BITS:
        return "holds a number of thousands of digits"
    parts: Any = ()
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, list | tuple):
        parts = value
    return next((found for one in parts if (found := unusable(one, depth + 1)) is not None), None)
