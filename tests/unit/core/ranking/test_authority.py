"""The formula of the final score, with the arithmetic written out."""

import pytest

from context_engine.core.models import Settings
from context_engine.core.ranking.authority import final_score, overturnable_gap


@pytest.mark.parametrize(
    ("relevance", "tier", "expected"),
    [
        (1.0, 1, 0.6 * 1.0 + 0.4 * 0.4),
        (0.9, 2, 0.6 * 0.9 + 0.4 * 0.3),
        (0.5, 3, 0.6 * 0.5 + 0.4 * 0.2),
        (0.0, 4, 0.6 * 0.0 + 0.4 * 0.1),
        (0.0, 5, 0.0),
    ],
)
def test_final_score(relevance, tier, expected):
    settings = Settings()
    assert final_score(relevance, settings.authority_boosts.of(tier), settings) == expected


def test_no_final_score_is_above_076():
    settings = Settings()
    assert max(final_score(1.0, settings.authority_boosts.of(tier), settings) for tier in range(1, 6)) == 0.76


@pytest.mark.parametrize(
    ("higher", "lower", "expected"),
    [(1, 2, 0.1 * 0.4 / 0.6), (1, 3, 0.4 / 3), (1, 5, 0.8 / 3), (2, 3, 0.2 / 3), (4, 4, 0.0)],
)
def test_overturnable_gap(higher, lower, expected):
    """Tier 1 over tier 3: (0.4 - 0.2) * 0.4 / 0.6 = 0.133..."""
    assert overturnable_gap(higher, lower, Settings()) == pytest.approx(expected, abs=1e-12)


def test_without_weight_on_relevance_any_gap_is_overturned():
    assert overturnable_gap(1, 5, Settings(relevance_weight=0.0)) == 1.0
