"""What a chunk counts for: its effective authority, its dates, newer versions and freshness.

The manifest limits the authority that a document may claim for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final, Literal, NamedTuple

from context_engine.core.models import (
    TIER_OF,
    Chunk,
    Classification,
    FetchedAtBasis,
    SourceSpec,
    SourceType,
    TrustClass,
    default_trust,
)

_TYPE_OF: Final = {tier: kind for kind, tier in TIER_OF.items()}


class EffectiveAuthority(NamedTuple):
    """A chunk's authority after the ceiling.

    Attributes:
        claimed: refused claims of the document, e.g. {"authority_tier": 1}.
        defaulted: names of the parts that neither the document nor a trusted manifest gave.
    """

    source_type: SourceType
    tier: int
    trust: TrustClass
    classification: Classification
    claimed: dict[str, int | str]
    defaulted: tuple[str, ...]


def declared_authority(spec: SourceSpec) -> EffectiveAuthority:
    """Return the authority that the manifest declares; a chunk without claims has this authority."""
    defaulted = ("source_type", "authority_tier", "trust_class") if spec.trust_document_metadata else ()
    return EffectiveAuthority(spec.type, spec.tier, spec.trust, spec.classification, {}, defaulted)


def effective_authority(
    chunk: Chunk, spec: SourceSpec, declared: EffectiveAuthority | None = None
) -> EffectiveAuthority:
    """Return the authority, trust and classification of a chunk.

    A document may lower its authority or raise its classification. It may raise its authority where the source sets
    `trust_document_metadata`, and never lower its classification; a refused claim is kept in `claimed`. A type and a
    tier that disagree count as the lower of the two.

    Args:
        spec: its source.
        declared: `declared_authority(spec)`, if already computed.
    """
    if (
        chunk.authority_tier is None
        and chunk.source_type is None
        and chunk.trust_class is None
        and chunk.classification is None
    ):
        return declared or declared_authority(spec)
    claimed: dict[str, int | str] = {}
    tier = _tier(chunk, spec, claimed)
    return EffectiveAuthority(
        source_type=_TYPE_OF[tier],
        tier=tier,
        trust=_trust(chunk, spec, tier, claimed),
        classification=_classification(chunk, spec, claimed),
        claimed=claimed,
        defaulted=_defaulted(chunk, spec),
    )


def ranking_tier(authority: EffectiveAuthority) -> int:
    """Return the tier by which a chunk ranks: its own, or 5 if it is not trusted."""
    return authority.tier if authority.trust is TrustClass.TRUSTED else 5


def _tier(chunk: Chunk, spec: SourceSpec, claimed: dict[str, int | str]) -> int:
    claims = [tier for tier in (chunk.authority_tier, chunk.source_type and TIER_OF[chunk.source_type]) if tier]
    if not claims:
        return spec.tier
    wanted = max(claims)
    if wanted >= spec.tier or spec.trust_document_metadata:
        return wanted
    claimed["authority_tier"] = wanted
    return spec.tier


def _trust(chunk: Chunk, spec: SourceSpec, tier: int, claimed: dict[str, int | str]) -> TrustClass:
    ceiling = spec.trust
    if tier != spec.tier and spec.trust is default_trust(spec.tier):
        ceiling = default_trust(tier)
    wanted = chunk.trust_class
    if wanted is None or wanted is ceiling:
        return ceiling
    if wanted is TrustClass.UNTRUSTED or spec.trust_document_metadata:
        return wanted
    claimed["trust_class"] = str(wanted)
    return ceiling


def _classification(chunk: Chunk, spec: SourceSpec, claimed: dict[str, int | str]) -> Classification:
    wanted = chunk.classification
    if wanted is None:
        return spec.classification
    if wanted.rank >= spec.classification.rank:
        return wanted
    claimed["classification"] = str(wanted)
    return spec.classification


def _defaulted(chunk: Chunk, spec: SourceSpec) -> tuple[str, ...]:
    if not spec.trust_document_metadata:
        return ()
    absent = []
    if chunk.source_type is None:
        absent.append("source_type")
    if chunk.authority_tier is None:
        absent.append("authority_tier")
    if chunk.trust_class is None:
        absent.append("trust_class")
    return tuple(absent)


class Removal(NamedTuple):
    """Why a chunk does not count on the requested day."""

    reason: str
    value: str
    limit: str


def in_force(chunk: Chunk, as_of: date) -> Removal | None:
    """Return why a chunk is not in force on a day, or None. From is inclusive, to exclusive; without dates it is in
    force."""
    if chunk.effective_from is not None and as_of < chunk.effective_from:
        return Removal("not_yet_effective", chunk.effective_from.isoformat(), as_of.isoformat())
    if chunk.effective_to is not None and as_of >= chunk.effective_to:
        return Removal("no_longer_effective", chunk.effective_to.isoformat(), as_of.isoformat())
    return None


def superseded(chunks: Sequence[tuple[str, Chunk]], *, today: bool) -> dict[int, Removal]:
    """Return {index: removal} for the (source_id, chunk) pairs that a newer version has replaced.

    All must be in force by their dates. Of two versions of one document in a source, the one that came into force last
    is current. A chunk that names its successor (`superseded_by`) and has no end date is removed if the question is
    about today; on an earlier day it may still have been in force, and only a newer version in the pool removes it.

    Args:
        chunks: the pool, in any order.
        today: whether the requested day is today or later.
    """
    newest: dict[tuple[str, str], tuple[date, str]] = {}
    for source_id, chunk in chunks:
        if chunk.document_id and chunk.document_version and chunk.effective_from:
            key = (source_id, chunk.document_id)
            entry = (chunk.effective_from, chunk.document_version)
            newest[key] = max(newest.get(key, entry), entry)
    removed: dict[int, Removal] = {}
    for index, (source_id, chunk) in enumerate(chunks):
        removal = _replaced(chunk, newest.get((source_id, chunk.document_id or "")), today=today)
        if removal is not None:
            removed[index] = removal
    return removed


def _replaced(chunk: Chunk, newest: tuple[date, str] | None, *, today: bool) -> Removal | None:
    version = chunk.document_version or ""
    if newest is not None and version and version != newest[1] and (chunk.effective_from or date.min) < newest[0]:
        return Removal("superseded", version, newest[1])
    if chunk.superseded_by and today and chunk.effective_to is None:
        return Removal("superseded", version, chunk.superseded_by)
    return None


class Freshness(NamedTuple):
    """When the content left its origin, and whether it has outlived its TTL.

    Attributes:
        basis: origin (the content's own time), indexed (when it was indexed here), retrieved (when the source
            answered).
        state: unknown if the basis is `retrieved`, because the time of the answer says nothing about the content's age.
    """

    fetched_at: datetime
    basis: FetchedAtBasis
    ttl_seconds: int
    state: Literal["fresh", "expired", "unknown"]


def freshness(chunk: Chunk, spec: SourceSpec, *, now: datetime, retrieved_at: datetime) -> Freshness:
    """Return a chunk's freshness at `now`; it expires just after fetched_at + ttl."""
    ttl = spec.ttl_seconds if chunk.ttl_seconds is None else chunk.ttl_seconds
    if chunk.fetched_at is None:
        return Freshness(retrieved_at, FetchedAtBasis.RETRIEVED, ttl, "unknown")
    basis = chunk.fetched_at_basis or FetchedAtBasis.ORIGIN
    if basis is FetchedAtBasis.RETRIEVED:
        return Freshness(chunk.fetched_at, basis, ttl, "unknown")
    return Freshness(chunk.fetched_at, basis, ttl, "expired" if is_expired(chunk, spec, now=now) else "fresh")


def is_expired(chunk: Chunk, spec: SourceSpec, *, now: datetime) -> bool:
    """Return whether a chunk is expired at `now`."""
    if chunk.fetched_at is None or chunk.fetched_at_basis is FetchedAtBasis.RETRIEVED:
        return False
    ttl = spec.ttl_seconds if chunk.ttl_seconds is None else chunk.ttl_seconds
    return (now - chunk.fetched_at).total_seconds() > ttl
