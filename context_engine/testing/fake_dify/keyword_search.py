"""The search of an economy dataset: ranked only to be cut, answered in an order that means nothing."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from context_engine.testing.fake_dify.keywords import keywords_of
from context_engine.testing.fake_dify.refusals import invalid_param
from context_engine.testing.fake_dify.stored import StoredDataset, StoredSegment


def keyword_search(stored: StoredDataset, query: str, top_k: Any, seed: int) -> list[StoredSegment]:
    """Return the chunks that share most keywords with the query.

    Among chunks with equally many keywords the seed decides who is cut, as the hash seed of Dify's process does.

    Args:
        top_k: as in the request; Python's slice rules hold, as they do in Dify: -1 leaves one out, null takes all.
    """
    wanted = set(keywords_of(query))
    counts = [(len(wanted.intersection(segment.keywords or ())), segment) for segment in stored.segments]
    ranked = sorted((pair for pair in counts if pair[0]), key=lambda pair: (-pair[0], _shuffled(seed, "cut", pair[1])))
    try:
        kept = ranked[:top_k]
    except TypeError as error:
        raise invalid_param(str(error)) from None
    found = [segment for _, segment in kept if segment.searchable]
    return sorted(found, key=lambda segment: _shuffled(seed, "order", segment))


def _shuffled(seed: int, use: str, segment: StoredSegment) -> bytes:
    return blake2b(f"{seed}:{use}:{segment.id}".encode(), digest_size=8).digest()
