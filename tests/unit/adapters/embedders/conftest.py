"""A tiny embedding model in ONNX form, made here: every word has the vector that its row says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.model_access import ModelContext
from context_engine.settings.connections import Connection
from context_engine.testing import FixedClock

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")

MakeModel = Callable[..., Path]


@pytest.fixture
def make_model(tmp_path: Path) -> MakeModel:
    """Writes a model whose marks have all-zero vectors into a folder, and returns the folder."""

    def make(
        rows: Mapping[str, Sequence[float]],
        *,
        name: str = "tiny",
        output: str = "last_hidden_state",
        marks: Sequence[float] | None = None,
        pooling: str | None = None,
    ) -> Path:
        import numpy as np
        import onnx
        import tokenizers
        from onnx import TensorProto, helper, numpy_helper
        from tokenizers import models, pre_tokenizers, processors

        size = len(next(iter(rows.values())))
        folder = tmp_path / name
        folder.mkdir()
        vocabulary = {word: number for number, word in enumerate((*MARKS, *rows))}
        tokenizer = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        pair = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
        tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=pair)
        tokenizer.save(str(folder / "tokenizer.json"))
        table = np.array([*([list(marks or [0.0] * size)] * len(MARKS)), *rows.values()], np.float32)
        graph = helper.make_graph(
            [helper.make_node("Gather", ["table", "input_ids"], [output])],
            "tiny",
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "tokens"])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["texts", "tokens", size])],
            [numpy_helper.from_array(table, "table")],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(made, str(folder / "model.onnx"))
        if pooling:
            (folder / "1_Pooling").mkdir()
            (folder / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{pooling}": True}))
        return folder

    return make


@pytest.fixture
def context(tmp_path: Path) -> ModelContext:
    """What adapters are opened with; its connection "models" leads to https://models.example."""
    return ModelContext(connection=lambda _name: connection(), clock=FixedClock(), data_dir=lambda: tmp_path / "data")


def connection(**fields: Any) -> Connection:
    return Connection.model_validate({"base_url": "https://models.example", "api_key": "sk-very-secret", **fields})
