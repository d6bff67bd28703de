"""Names of documents as people read them: without the key that older versions of this package put behind them."""

from __future__ import annotations

import re
from typing import Any, Final

_KEY: Final = re.compile(r"\s*\[ce-[0-9a-f]{12}(?:\.\d+)?\]\s*$")


def readable_name(value: Any) -> str | None:
    """Return a document's name without its key; None for what is no text, or holds nothing else.

    >>> readable_name("NPA-SOP-001 3.2 New products [ce-4c52b60fa1e9]"), readable_name("[ce-4c52b60fa1e9.2]")
    ('NPA-SOP-001 3.2 New products', None)
    """
    return _KEY.sub("", value) or None if isinstance(value, str) else None
