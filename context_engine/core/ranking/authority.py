"""How much a source's authority counts."""

from __future__ import annotations

from collections.abc import Sequence

from context_engine.core.models import Settings


def final_score(relevance: float, boost: float, settings: Settings) -> float:
    """Return relevance_weight * relevance + authority_weight * boost; at most 0.6 + 0.4 * 0.4 = 0.76 by default.

    Args:
        relevance: [0, 1].
        boost: of the chunk's tier, [0, 1].
    """
    return final_scores([relevance], [boost], settings)[0]


def final_scores(relevance: Sequence[float], boosts: Sequence[float], settings: Settings) -> list[float]:
    """Return the final score of each row (see `final_score`)."""
    weight, authority_weight = settings.relevance_weight, settings.authority_weight
    return [weight * value + authority_weight * boost for value, boost in zip(relevance, boosts, strict=True)]


def overturnable_gap(higher_tier: int, lower_tier: int, settings: Settings) -> float:
    """Return the relevance gap that a higher tier can make up against a lower one.

    (b_high - b_low) * authority_weight / relevance_weight: 0.133 for tier 1 over tier 3 with the defaults.
    """
    boosts = settings.authority_boosts
    difference = boosts.of(higher_tier) - boosts.of(lower_tier)
    return difference * settings.authority_weight / settings.relevance_weight if settings.relevance_weight else 1.0
