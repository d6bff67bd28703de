"""Entries by which the ledger speaks of itself: something was erased, records were removed, its key changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from context_engine.audit.values import Composed, Draft
from context_engine.core.engine.clock import TimeSortedIds
from context_engine.core.models import utc_text
from context_engine.errors import InvalidRequest

STATEMENTS: Final = frozenset({"erasure", "pruning", "key", "loss"})
"""The kinds of entries that are about no search."""

_VERSION: Final = 1
_MOST_WORDS: Final = 200


def statement(kind: str, record_id: str, now: datetime, fields: Mapping[str, Any]) -> Draft:
    """Return an entry of the ledger about itself.

    Args:
        kind: one of `STATEMENTS`.
        record_id: its id; unique in the ledger.
        now: when it is made.
        fields: what it says.
    """
    said = {"v": _VERSION, "kind": kind, "id": record_id, "time": utc_text(now), **fields}
    entry = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
    return Draft(record_id=record_id, contents=(), compose=_composed(entry))


def statement_id(kind: str, now: datetime) -> str:
    """Return a new id that sorts by time and says what it is of."""
    return f"{kind}-{TimeSortedIds().new(now)}"


def own_words(name: str, text: str) -> str:
    """Return what an operator says of himself and his reason, which stands in the log for ever.

    Raises:
        InvalidRequest: it is empty, longer than 200 characters, or holds control characters.
    """
    words = " ".join(text.split())
    if not words or len(words) > _MOST_WORDS or not words.isprintable():
        raise InvalidRequest(f"{name}: give 1 to {_MOST_WORDS} printable characters; they stand in the log for ever")
    return words


def _composed(entry: bytes) -> Callable[[Mapping[bytes, bytes]], Composed]:
    return lambda _digests: Composed(entry)
