"""What rerankers are opened with, and a tiny cross-encoder in ONNX form whose logits are known by arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import respx

from context_engine.adapters.model_access import ModelContext
from context_engine.core.models import Chunk, Score, ScoreKind
from context_engine.settings.connections import Connection
from context_engine.testing import FakeEmbedder, FixedClock

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


@pytest.fixture
def context(tmp_path: Path) -> ModelContext:
    """Its connection leads to https://models.example; its embedder is the fake one."""
    return ModelContext(
        connection=lambda _name: Connection.model_validate(
            {"base_url": "https://models.example", "api_key": "sk-very-secret"}
        ),
        clock=FixedClock(),
        data_dir=lambda: tmp_path,
        embedder=lambda: FakeEmbedder(256),
    )


@pytest.fixture
def api() -> Iterator[respx.MockRouter]:
    with respx.mock(assert_all_called=False) as router:
        yield router


@pytest.fixture
def chunks() -> Callable[..., list[Chunk]]:
    """Chunks of texts; with numbers, each carries one as a cosine of the index."""

    def made(*texts: str, cosines: tuple[float, ...] = ()) -> list[Chunk]:
        scores = [(Score(ScoreKind.COSINE, value, "index"),) for value in cosines] or [()] * len(texts)
        return [
            Chunk(content=text, chunk_id=str(place), scores=one)
            for place, (text, one) in enumerate(zip(texts, scores, strict=True))
        ]

    return made


@pytest.fixture
def make_cross_encoder(tmp_path: Path) -> Callable[..., Path]:
    """Writes a model whose logit is the sum of the weights of the passage's words, those of the question left out."""

    def make(weights: Mapping[str, float], *, outputs: int = 1, name: str = "cross") -> Path:
        import numpy as np
        import onnx
        import tokenizers
        from onnx import TensorProto, helper, numpy_helper
        from tokenizers import models, pre_tokenizers, processors

        folder = tmp_path / name
        folder.mkdir()
        vocabulary = {word: number for number, word in enumerate((*MARKS, *weights))}
        tokenizer = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        marks: Any = [(mark, vocabulary[mark]) for mark in ("[CLS]", "[SEP]")]
        pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
        tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", pair, special_tokens=marks)
        tokenizer.save(str(folder / "tokenizer.json"))
        table = np.array([[0.0] * outputs] * len(MARKS) + [[value] * outputs for value in weights.values()], np.float32)
        nodes = [
            helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
            helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["types", "last"], ["column"]),
            helper.make_node("Mul", ["rows", "column"], ["counted"]),
            helper.make_node("ReduceSum", ["counted", "tokens_axis"], ["logits"], keepdims=0),
        ]
        graph = helper.make_graph(
            nodes,
            "tiny",
            [
                helper.make_tensor_value_info(one, TensorProto.INT64, ["pairs", "tokens"])
                for one in ("input_ids", "token_type_ids")
            ],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["pairs", outputs])],
            [
                numpy_helper.from_array(table, "table"),
                numpy_helper.from_array(np.array([-1], np.int64), "last"),
                numpy_helper.from_array(np.array([1], np.int64), "tokens_axis"),
            ],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(made, str(folder / "model.onnx"))
        return folder

    return make
