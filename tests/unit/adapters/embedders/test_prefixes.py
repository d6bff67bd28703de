from __future__ import annotations

import pytest

from context_engine.adapters.embedders.prefixes import Prefixes, chosen_prefixes, known_prefixes

BGE = Prefixes("Represent this sentence for searching relevant passages: ", "")
E5 = Prefixes("query: ", "passage: ")
SHA = "0" * 40


@pytest.mark.parametrize(
    ("model", "prefixes"),
    [
        (f"/home/x/hub/models--intfloat--multilingual-e5-large/snapshots/{SHA}", E5),
        (f"/home/x/hub/models--BAAI--bge-small-en-v1.5/snapshots/{SHA}/onnx", BGE),
        (f"C:\\hub\\models--intfloat--e5-base-v2\\snapshots\\{SHA}\\", E5),
        ("models--intfloat--multilingual-e5-large", E5),
        ("/models/multilingual-e5-large/onnx", E5),
        ("/models/multilingual-e5-large/onnx/model.onnx", E5),
        ("/models/bge-small-en-v1.5-onnx", BGE),
        ("models/BGE-Small-EN-v1.5_ONNX/", BGE),
        ("Xenova/multilingual-e5-small-onnx", E5),
        ("/models/bge-small-en/multilingual-e5-small", E5),
        ("/models/multilingual-e5-small/bge-small-en", BGE),
    ],
)
def test_a_model_is_known_wherever_it_stands_in_a_path(model: str, prefixes: Prefixes) -> None:
    assert known_prefixes(model) == prefixes


@pytest.mark.parametrize(
    "model",
    ["", "/", "onnx", "models--", "/models/onnx", "house/own-e5-large", "house/e5-large-tuned", "models--house--own"],
)
def test_a_name_that_only_resembles_a_known_one_is_not_known(model: str) -> None:
    assert known_prefixes(model) == Prefixes()


def test_what_is_given_goes_before_what_is_known_also_where_it_is_empty() -> None:
    folder = "/models/multilingual-e5-large/onnx"

    assert chosen_prefixes(folder, None, None) == E5
    assert chosen_prefixes(folder, "", None) == Prefixes("", "passage: ")
    assert chosen_prefixes(folder, None, "text: ") == Prefixes("query: ", "text: ")
