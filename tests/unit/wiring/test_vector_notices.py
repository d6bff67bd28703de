"""Vectors cut shorter than their model was trained for."""

from __future__ import annotations

from typing import Any

import pytest

from context_engine.core.models import ModelSettings, NoticeCode
from context_engine.wiring.check import vector_notices


def settings(count: int | None, embedder: str | None = "onnx", **options: Any) -> ModelSettings:
    return ModelSettings(embedder=embedder, embedder_options=options, vector_dimensions=count)


@pytest.mark.parametrize(
    ("given", "shortest"),
    [
        (settings(256, folder="/models/all-MiniLM-L6-v2"), 0),
        (settings(64, folder="/models/embeddinggemma-300m-onnx"), 128),
        (settings(256, "openai", model="text-embedding-3-small"), 512),
        (settings(256, "acme"), 0),
    ],
)
def test_what_a_model_is_not_trained_for_is_said(given: ModelSettings, shortest: int) -> None:
    (notice,) = vector_notices(given)
    assert (notice.code, notice.subject) == (NoticeCode.VECTORS_CUT, "vector_dimensions")
    assert notice.detail == {"dimensions": given.vector_dimensions, "shortest": shortest}


@pytest.mark.parametrize(
    "given",
    [
        settings(None, folder="/models/all-MiniLM-L6-v2"),
        settings(256, None),
        settings(128, folder="/models/embeddinggemma-300m"),
        settings(512, "openai", model="text-embedding-3-small"),
    ],
)
def test_nothing_is_said_of_what_it_is_trained_for(given: ModelSettings) -> None:
    assert list(vector_notices(given)) == []
