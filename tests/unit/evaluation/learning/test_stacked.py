"""What is found under the adapter of a fold stands for what the adapter of all questions will find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="the extra 'vectors'")

from context_engine.adapters.sources.domain_adapter import DomainAdapter  # noqa: E402
from context_engine.core.engine import with_settings  # noqa: E402
from context_engine.core.models import SearchResult  # noqa: E402
from context_engine.evaluation.learning.blend_lessons import (  # noqa: E402
    BlendLesson,
    JudgedPool,
    Scorers,
)
from context_engine.evaluation.learning.stacked import standing_for  # noqa: E402

OF_ALL = DomainAdapter("mini", np.eye(2), np.eye(2))
TEACHES = JudgedPool({"stage1": [1.0, 0.5]}, [True, False])


@pytest.fixture
def result(ask: Callable[..., SearchResult], chunk_of: Any) -> SearchResult:
    return with_settings(ask([(2, [chunk_of("a", 0.9), chunk_of("b", 0.5)])]), reranker="max_sim")


def lesson(result: SearchResult, fold: str | None, reranker: str | None) -> BlendLesson:
    """A question found under the adapter of a fold; None: learning nothing was best there."""
    cosine = f"mini+{fold}" if fold else "mini"
    under = fold if reranker and "+" in reranker else None
    return BlendLesson(
        replace(result, rerank_adapter=under), Scorers("weighted", cosine, reranker), TEACHES, frozenset()
    )


def test_a_reranker_that_compares_under_it_is_that_of_the_adapter_of_all(result: SearchResult) -> None:
    found = {
        "q1": lesson(result, "aaaa", "max_sim+aaaa"),
        "q2": lesson(result, "bbbb", "max_sim+bbbb"),
        "q3": lesson(result, None, "max_sim"),
        "q4": lesson(result, "bbbb", None),
    }
    lessons = standing_for(OF_ALL, "NPA", found, ())
    whole = Scorers("weighted", OF_ALL.scorer_id, f"max_sim+{OF_ALL.adapter_id}")
    assert lessons.scorers == whole and lessons.taught == ("q1", "q2", "q3")
    assert [one.own for one in lessons.of.values()] == [one.scorers for one in found.values()]


def test_a_reranker_that_reads_texts_keeps_its_name(result: SearchResult) -> None:
    lessons = standing_for(OF_ALL, "NPA", {"q1": lesson(result, "aaaa", "cross_encoder small")}, ())
    assert lessons.scorers == Scorers("weighted", OF_ALL.scorer_id, "cross_encoder small")
