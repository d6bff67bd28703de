"""The labels that an answer cites."""

from __future__ import annotations

import re
from typing import Final

_GROUP: Final = re.compile(r"\[\s*(\d{1,4}(?:\s*[,;]\s*\d{1,4})*)\s*\](?!\()")
_NUMBER: Final = re.compile(r"\d+")


def cited_labels(text: str) -> list[str]:
    """Return the labels in a text, each once, in its order; "[1, 3]" names two. A link's "[1](address)" is none.

    >>> cited_labels("Within a day [2][1]; the chair first [1, 3].")
    ['[2]', '[1]', '[3]']
    """
    numbers = (number for group in _GROUP.finditer(text) for number in _NUMBER.findall(group[1]))
    return list(dict.fromkeys(f"[{int(number)}]" for number in numbers))
