from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from context_engine.core.models import Chunk, RankingSettings, ScopeCalibration, SearchResult
from context_engine.core.ranking.confidence import confidence_of
from context_engine.core.ranking.scope import scope_threshold


@pytest.mark.parametrize(
    ("absolute", "word"),
    [(1.00, "strong"), (0.60, "strong"), (0.59, "fair"), (0.40, "fair"), (0.39, "weak"), (0.30, "weak"), (0.0, "weak")],
)
def test_the_word_follows_from_the_absolute_signal_and_the_calibration(absolute: float, word: str) -> None:
    """Weak is below .3 + (.6 - .3) / 3 = .4."""
    base = ScopeCalibration(threshold=0.3, strong=0.6, signal="1")
    for setting in ("auto", 0.0, 0.55, None):
        assert confidence_of(absolute, scope_threshold(RankingSettings(scope_threshold=setting), [base])) == word


def test_a_perfect_hit_and_a_poor_one_that_rank_alike_are_told_apart(
    ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]
) -> None:
    """Relevance is spread over the pool, so the best of any question has the same final score."""
    perfect, poor = (
        ask(
            [(1, [Chunk(content=text, chunk_id="a"), Chunk(content="The cafeteria opens at noon.", chunk_id="b")])],
            query,
            scope_threshold=0.0,
            min_relevance_score=0.0,
        )
        for query, text in (
            ("approval rule", "The approval rule."),
            ("approval rule for dough in ovens", "The approval of stones takes three days and a stamp."),
        )
    )
    scores: list[tuple[float, str]] = [(one.chunks[0].final, one.chunks[0].confidence) for one in (perfect, poor)]
    assert scores[0][0] == scores[1][0]
    assert scores[0][1] == "strong"
    assert scores[1][1] != "strong"


def test_the_result_says_it_for_each_chunk(ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]) -> None:
    result = ask([(2, [chunk_of("a", 0.9, "The approval rule."), chunk_of("b", 0.16, "A note.")])])
    published: list[dict[str, Any]] = result.to_dict()["chunks"]
    assert [(one["chunk_id"], one["confidence"]) for one in published] == [("a", "strong"), ("b", "weak")]
