"""Metadata keys of a chunk that say how it was cut, not what it is about."""

from __future__ import annotations

from typing import Final

BOOKKEEPING_KEYS: Final = frozenset(
    (
        *("token_count", "content_sha256", "previous_chunk_id", "next_chunk_id", "page", "page_end"),
        *("line", "row", "chunk_index", "created_at"),
    )
)
"""Not for searching: the id of the next chunk would make a chunk answer for its neighbour's number."""
