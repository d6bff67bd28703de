"""A rerank model of Dify as a reranker."""

from __future__ import annotations

from math import exp
from typing import Any

import pytest

from context_engine.apps.dify.reranking import ModelChoice, ModelReranker, read_model
from context_engine.core.models import Chunk
from context_engine.errors import InvalidRequest, RerankerError

MODEL = ModelChoice("langgenius/cohere/cohere", "rerank-v3.5")

CHUNKS = [Chunk(content="one"), Chunk(content="two")]


def scored(*pairs: tuple[int, float]) -> ModelReranker:
    return ModelReranker(MODEL, lambda _model, _query, _texts: pairs)


def test_scores_stand_in_the_order_of_the_chunks() -> None:
    asked: list[Any] = []

    def ask(*given: Any) -> list[tuple[int, float]]:
        asked.append(given)
        return [(1, 0.9), (0, 0.2)]

    reranker = ModelReranker(MODEL, ask)
    assert reranker.rerank("q", CHUNKS) == [0.2, 0.9]
    assert (asked, reranker.name) == ([(MODEL, "q", ["one", "two"])], "rerank-v3.5")


def test_logits_become_scores_all_of_them() -> None:
    assert scored((0, 0.5), (1, -3.0)).rerank("q", CHUNKS) == [1 / (1 + exp(-0.5)), 1 / (1 + exp(3.0))]
    assert scored((0, -1e9), (1, 1e9)).rerank("q", CHUNKS)[1] == 1.0


@pytest.mark.parametrize("pairs", [((0, 0.5),), (), ((0, 0.5), (2, 0.5)), ((0, 0.5), (1, float("nan")))])
def test_a_chunk_without_a_score_is_an_error(pairs: Any) -> None:
    with pytest.raises(RerankerError, match=r"scored .* of 2 passages"):
        scored(*pairs).rerank("q", CHUNKS)


def test_a_model_that_cannot_be_asked() -> None:
    def ask(*_: Any) -> Any:
        raise RuntimeError("secret words")

    with pytest.raises(RerankerError, match=r"could not be called \(RuntimeError\)") as raised:
        ModelReranker(MODEL, ask).rerank("q", CHUNKS)
    assert raised.value.__context__ is None and "secret" not in str(raised.value)


def test_what_a_selector_gives() -> None:
    assert read_model({"provider": MODEL.provider, "model": MODEL.model, "model_type": "rerank"}) == MODEL
    assert read_model(None) is read_model("") is read_model({}) is None
    for wrong in ("cohere", {"provider": "x"}, {"model": "y"}, [1]):
        with pytest.raises(InvalidRequest, match="rerank_model must name a provider and a model"):
            read_model(wrong)
