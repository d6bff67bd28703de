"""How a base searches: the weights of its parts, and how two rankings become one.

The defaults were measured on 2 788 questions over 13 012 passages of financial regulation, R@10 / MAP@10 (see
tests/benchmarks/bench_quality.py; bench_collections.py for other kinds of text): the text alone .802 / .671, of which
siblings are about +.003 / +.003; merged by weight with the vectors of a small model .813 / .691. Neutral there:
neighbours, windows of long texts, headings put before a text that is embedded. A boost of titles costs .005.
"""

from __future__ import annotations

from typing import Any

from context_engine.core.models import ScoringSettings, Settings, VectorSettings
from context_engine.errors import ConfigError


class SearchOptions(VectorSettings, ScoringSettings):
    """How one base searches and keeps vectors; the same for all its sources, so that their scores are comparable.

    Attributes:
        depth: candidates taken from each of text and vectors before they are merged, at least.
        approximate_from: vectors from which a search without a selective filter looks at the nearest cells only.
        probe: share of the vectors that such a search looks at, (0, 1].
    """

    depth: int = 60
    approximate_from: int = 200_000
    probe: float = 0.1

    def model_post_init(self, _context: Any) -> None:
        """Refuse weights that merge nothing."""
        if not self.keyword_weight + self.vector_weight > 0.0:
            raise ConfigError("keyword_weight and vector_weight are both 0: give one of them a weight")

    @classmethod
    def of(cls, settings: Settings) -> SearchOptions:
        """Return what the settings say."""
        groups = (settings.group(ScoringSettings), settings.group(VectorSettings))
        return cls(**{key: value for group in groups for key, value in group.model_dump().items()})
