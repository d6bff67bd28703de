"""Whether a content is still fresh: fetched_at + ttl against the clock."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from context_engine.core.models import Chunk, FetchedAtBasis, SourceSpec


class Freshness(NamedTuple):
    """When a content left its origin and whether it has outlived its TTL.

    Attributes:
        basis: origin (the content's own time), indexed (when we took it in), retrieved (when the source answered).
        state: unknown on basis retrieved, because the answer's time says nothing about the content's age.
    """

    fetched_at: datetime
    basis: FetchedAtBasis
    ttl_seconds: int
    state: Literal["fresh", "expired", "unknown"]


def freshness(chunk: Chunk, spec: SourceSpec, *, now: datetime, retrieved_at: datetime) -> Freshness:
    """Return a chunk's freshness at `now`; expired from the first moment after fetched_at + ttl."""
    ttl = spec.ttl_seconds if chunk.ttl_seconds is None else chunk.ttl_seconds
    if chunk.fetched_at is None:
        return Freshness(retrieved_at, FetchedAtBasis.RETRIEVED, ttl, "unknown")
    basis = chunk.fetched_at_basis or FetchedAtBasis.ORIGIN
    if basis is FetchedAtBasis.RETRIEVED:
        return Freshness(chunk.fetched_at, basis, ttl, "unknown")
    return Freshness(chunk.fetched_at, basis, ttl, "expired" if is_expired(chunk, spec, now=now) else "fresh")


def is_expired(chunk: Chunk, spec: SourceSpec, *, now: datetime) -> bool:
    """Return whether the state of a chunk's freshness is "expired"."""
    if chunk.fetched_at is None or chunk.fetched_at_basis is FetchedAtBasis.RETRIEVED:
        return False
    ttl = spec.ttl_seconds if chunk.ttl_seconds is None else chunk.ttl_seconds
    return (now - chunk.fetched_at).total_seconds() > ttl
