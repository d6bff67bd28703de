"""Real loading code over a tiny cross-encoder made in the test."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Any

import pytest

from context_engine.adapters.model_access import ModelContext
from context_engine.adapters.rerankers.cross_encoder import CrossEncoderReranker, open_cross_encoder
from context_engine.core.protocols import Reranker
from context_engine.errors import ConfigError, EmbedderError, MissingExtra, RerankerError

WEIGHTS = {"limit": 2.0, "risk": -1.0, "cake": -3.0}


def logistic(value: float) -> float:
    return 1.0 / (1.0 + exp(-value))


def test_the_score_is_the_sigmoid_of_the_models_logit(
    make_cross_encoder: Any, context: ModelContext, chunks: Any
) -> None:
    folder = make_cross_encoder(WEIGHTS)
    reranker = open_cross_encoder({"model": str(folder), "runtime": "onnx", "batch_size": 2}, context)

    scores = reranker.rerank("cake", chunks("limit risk", "cake", "limit limit", "unheard of", "risk"))

    assert isinstance(reranker, Reranker)
    assert reranker.name == str(folder)
    assert scores == pytest.approx([logistic(2.0 - 1.0), logistic(-3.0), logistic(4.0), 0.5, logistic(-1.0)])


def test_question_and_passage_are_cut_together(make_cross_encoder: Any, context: ModelContext, chunks: Any) -> None:
    folder = make_cross_encoder(WEIGHTS)
    reranker = open_cross_encoder({"model": str(folder), "runtime": "onnx", "max_tokens": 16}, context)

    # Sixteen tokens: three marks, one word of the question, twelve of the passage.
    assert reranker.rerank("cake", chunks("risk " * 12 + "limit " * 20)) == pytest.approx([logistic(-12.0)])


def test_a_model_of_several_outputs_is_no_reranker(make_cross_encoder: Any, context: ModelContext, chunks: Any) -> None:
    folder = make_cross_encoder(WEIGHTS, outputs=3)
    reranker = open_cross_encoder({"model": str(folder), "runtime": "onnx"}, context)

    with pytest.raises(RerankerError, match=r"gives \(2, 3\) for 2 pairs"):
        reranker.rerank("cake", chunks("limit", "risk"))


def test_a_folder_without_a_model_is_said_at_first_use(context: ModelContext, tmp_path: Any, chunks: Any) -> None:
    reranker = open_cross_encoder({"model": str(tmp_path), "runtime": "onnx"}, context)

    with pytest.raises(RerankerError, match=r"there is no model in .*tokenizer\.json"):
        reranker.rerank("q", chunks("a"))


def test_pairs_are_read_in_batches_of_like_length_and_scored_in_the_order_given(chunks: Any) -> None:
    read: list[list[str]] = []

    def logits(pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        read.append([passage for _, passage in pairs])
        assert all(question == "q" for question, _ in pairs)
        return [float(len(passage)) for _, passage in pairs]

    reranker = CrossEncoderReranker("lengths", lambda: logits, batch_size=2)

    assert reranker.rerank("q", chunks("ccc", "a", "bb")) == [logistic(3.0), logistic(1.0), logistic(2.0)]
    assert read == [["a", "bb"], ["ccc"]]
    assert reranker.rerank("q", []) == []


def test_a_model_is_loaded_once_and_again_only_after_a_failure(chunks: Any) -> None:
    outcomes: list[Any] = [EmbedderError("no files"), lambda pairs: [0.0] * len(pairs)]
    loads: list[int] = []

    def load() -> Any:
        loads.append(1)
        found = outcomes[len(loads) - 1]
        if isinstance(found, Exception):
            raise found
        return found

    reranker = CrossEncoderReranker("late", load)

    with pytest.raises(RerankerError, match="no files"):
        reranker.rerank("q", chunks("a"))
    assert reranker.rerank("q", chunks("a")) == reranker.rerank("q", chunks("b")) == [0.5]
    assert len(loads) == 2


def test_without_the_extra_its_name_is_said(
    context: ModelContext, chunks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    for options, extra in (({}, "embed"), ({"runtime": "onnx"}, "onnx")):
        with pytest.raises(RerankerError, match=rf"context-engine\[{extra}\]") as found:
            open_cross_encoder(options, context).rerank("q", chunks("a"))
        assert isinstance(found.value.__cause__, MissingExtra)


def test_options_are_read_strictly(context: ModelContext) -> None:
    with pytest.raises(ConfigError, match="must be one of torch, onnx") as found:
        open_cross_encoder({"runtime": "jax"}, context)
    assert found.value.key == "runtime"
