"""A document's own words on one line."""

from __future__ import annotations

import unicodedata
from typing import Any, Final

from context_engine.core.context.fence import neutralise
from context_engine.core.context.inert import inert_line

_LONGEST: Final = 160
# Brackets would fake a label, a middle dot another field.
_PLAIN: Final = str.maketrans("[]［］【】·", "()()()-")
_INVISIBLE: Final = frozenset(("Cc", "Cf", "Cs"))


def one_line(value: Any, nonce: str) -> str:
    """Return a document's own words as one plain line that can fake no structure, at most 160 characters."""
    text = " ".join(str(value).split())
    if not text.isprintable():
        text = "".join(char for char in text if unicodedata.category(char) not in _INVISIBLE)
    text = text.translate(_PLAIN)
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1].rstrip() + "…"
    return neutralise(text, nonce, inert_line)
