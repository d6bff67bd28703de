"""How much a source's authority counts (seed 000, Scoring)."""

from __future__ import annotations

from context_engine.models import Settings

__all__ = ["final_score", "overturnable_gap"]


def final_score(relevance: float, boost: float, settings: Settings) -> float:
    """Return relevance_weight * relevance + authority_weight * boost; at most 0.6 + 0.4 * 0.4 = 0.76 by default.

    Args:
        relevance: [0, 1].
        boost: of the chunk's tier, [0, 1].
    """
    return settings.relevance_weight * relevance + settings.authority_weight * boost


def overturnable_gap(higher_tier: int, lower_tier: int, settings: Settings) -> float:
    """Return the relevance gap that a higher tier can make up against a lower one.

    (b_high - b_low) * authority_weight / relevance_weight: 0.133 for tier 1 over tier 3 with the defaults.
    """
    boosts = settings.authority_boosts
    difference = boosts.of(higher_tier) - boosts.of(lower_tier)
    return difference * settings.authority_weight / settings.relevance_weight if settings.relevance_weight else 1.0
