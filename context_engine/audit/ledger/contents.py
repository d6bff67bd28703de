"""What the addendum `candidates` of a record names: the texts and cards that it shares with other records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from context_engine.audit.record.candidates import content_digests, read_candidates
from context_engine.audit.record.exact import Unreadable
from context_engine.errors import LedgerCorrupt


class ContentPair(NamedTuple):
    """The digests of what is kept of one chunk.

    Attributes:
        text: of its text.
        card: of what else is known of it.
    """

    text: bytes
    card: bytes


def named_contents(candidates: bytes) -> list[bytes]:
    """Return the digests of all contents that a record names.

    Args:
        candidates: data of the addendum.

    Raises:
        LedgerCorrupt: it cannot be read.
    """
    try:
        return content_digests(candidates)
    except Unreadable as error:
        raise _unreadable(error) from None


def content_pairs(candidates: bytes) -> set[ContentPair]:
    """Return text and card of every chunk that a record names, candidates and what was made of several.

    Args:
        candidates: data of the addendum.

    Raises:
        LedgerCorrupt: it cannot be read.
    """
    digests = named_contents(candidates)
    try:
        read = read_candidates(candidates)
        return {
            ContentPair(digests[text], digests[card])
            for columns in _columns(read)
            for text, card in zip(columns["text"], columns["card"], strict=True)
        }
    except (Unreadable, IndexError, TypeError, ValueError) as error:
        raise _unreadable(error) from None


def _columns(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the columns of chunks, wherever they stand: in each answer, and beside what was joined of several."""
    if isinstance(value, Mapping):
        if isinstance(value.get("text"), list) and isinstance(value.get("card"), list):
            yield value
        else:
            for one in value.values():
                yield from _columns(one)
    elif isinstance(value, list):
        for one in value:
            yield from _columns(one)


def _unreadable(error: Exception) -> LedgerCorrupt:
    return LedgerCorrupt(f"the candidates of a record cannot be read ({error}): run 'context-engine audit verify'")
