"""Effective authority: the manifest limits the authority that a document may claim for itself."""

from __future__ import annotations

from typing import Final, NamedTuple

from context_engine.core.models import TIER_OF, Chunk, Classification, SourceSpec, SourceType, TrustClass, default_trust

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
