"""Real loading code over tiny models made in the test; the vectors are known by arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.embedders.onnx import open_onnx
from context_engine.adapters.model_access import ModelContext
from context_engine.core.protocols import Embedder, QueryBatchEmbedder, TokenEmbedder
from context_engine.errors import ConfigError, EmbedderError

ROWS = {"limit": [3.0, 0.0], "risk": [0.0, 4.0], "loan": [5.0, 0.0], "query": [0.0, 1.0], ":": [0.0, 0.0]}


def opened(folder: Path, context: ModelContext, **options: Any) -> Any:
    return open_onnx({"folder": str(folder), **options}, context)


def test_the_vector_of_a_text_is_the_unit_mean_of_its_tokens(make_model: Any, context: ModelContext) -> None:
    embedder = opened(make_model(ROWS), context)

    assert isinstance(embedder, Embedder)
    assert embedder.dimension == 2
    assert embedder.embed_query("limit risk") == pytest.approx([3 / 5, 4 / 5])
    assert [list(map(float, one)) for one in embedder.embed_documents(["risk", "limit", "loan loan limit"])] == [
        [0.0, 1.0],
        [1.0, 0.0],
        [1.0, 0.0],
    ]


def test_padding_beside_a_longer_text_changes_nothing(make_model: Any, context: ModelContext) -> None:
    embedder = opened(make_model(ROWS, marks=[1.0, 1.0]), context, cache=False, query_cache=0)

    alone = embedder.embed_documents(["limit risk"])[0]
    beside = embedder.embed_documents(["limit risk", "loan loan loan loan loan loan"])[0]

    # [CLS] (1, 1) + (3, 0) + (0, 4) + [SEP] (1, 1) = (5, 6)
    assert alone == pytest.approx([5 / 61**0.5, 6 / 61**0.5])
    assert beside == pytest.approx(alone)


def test_a_model_that_pools_its_first_token_is_pooled_so(make_model: Any, context: ModelContext) -> None:
    folder = make_model(ROWS, marks=[0.0, 2.0], pooling="cls_token")

    assert opened(folder, context).embed_query("limit limit") == pytest.approx([0.0, 1.0])
    assert opened(folder, context, pooling="mean").embed_query("limit limit") == pytest.approx(
        [6 / 52**0.5, 4 / 52**0.5]
    )


def test_a_text_of_no_known_word_is_all_zeros(make_model: Any, context: ModelContext) -> None:
    assert list(opened(make_model(ROWS), context).embed_query("???")) == [0.0, 0.0]


def test_each_token_has_a_unit_vector_and_the_models_own_marks_have_none(
    make_model: Any, context: ModelContext
) -> None:
    embedder = opened(make_model(ROWS, marks=[1.0, 1.0], output="token_embeddings"), context)

    assert isinstance(embedder, TokenEmbedder)
    short, long = embedder.embed_tokens(["risk", "limit risk loan"])
    assert list(short.tokens) == ["risk"]
    assert [list(map(float, vector)) for vector in short.vectors] == [[0.0, 1.0]]
    assert list(long.tokens) == ["limit", "risk", "loan"]
    assert [list(map(float, vector)) for vector in long.vectors] == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]


def test_the_prefixes_of_a_known_model_stand_before_its_texts(make_model: Any, context: ModelContext) -> None:
    folder = make_model(ROWS, name="multilingual-e5-large")

    # "query: limit" is (0, 1) + (3, 0)
    assert opened(folder, context).embed_query("limit") == pytest.approx([3 / 10**0.5, 1 / 10**0.5])
    assert opened(folder, context, query_prefix="").embed_query("limit") == pytest.approx([1.0, 0.0])


def test_many_questions_have_the_vectors_they_have_alone(make_model: Any, context: ModelContext) -> None:
    embedder = opened(make_model(ROWS, name="multilingual-e5-large"), context, cache=False)

    assert isinstance(embedder, QueryBatchEmbedder)
    found = embedder.embed_queries(["limit", "risk"])
    assert list(found[0]) == pytest.approx(embedder.embed_query("limit"))
    assert list(found[1]) == pytest.approx(embedder.embed_query("risk"))
    assert list(found[0]) != pytest.approx(list(embedder.embed_documents(["limit"])[0]))


def test_a_text_is_cut_at_max_tokens(make_model: Any, context: ModelContext) -> None:
    embedder = opened(make_model(ROWS), context, max_tokens=8)

    # Eight tokens with both marks: six words.
    assert embedder.embed_query("limit " * 6 + "risk " * 20) == pytest.approx([1.0, 0.0])


def test_models_whose_vectors_differ_have_other_ids(make_model: Any, context: ModelContext) -> None:
    one = make_model(ROWS, name="one")
    other = make_model({**ROWS, "limit": [1.0, 1.0]}, name="other")
    (other.parent / "deeper").mkdir()
    other = other.rename(other.parent / "deeper" / "one")

    ids = {opened(one, context).model_id, opened(other, context).model_id, opened(one, context, max_tokens=16).model_id}
    ids |= {opened(one, context, pooling="cls").model_id, opened(one, context, query_prefix="q ").model_id}

    assert len(ids) == 5
    assert all(name.startswith("one#") for name in ids)
    assert opened(one, context).model_id == opened(one, context).model_id


def test_nothing_is_loaded_before_it_is_needed(context: ModelContext, tmp_path: Path) -> None:
    embedder = opened(tmp_path / "nowhere", context)

    with pytest.raises(EmbedderError, match=r"there is no model in .*nowhere: it must hold model.onnx"):
        embedder.embed_query("limit")


def test_a_file_that_is_no_model_is_named(make_model: Any, context: ModelContext) -> None:
    folder = make_model(ROWS)
    (folder / "model.onnx").write_bytes(b"not a model")

    with pytest.raises(EmbedderError, match=r"the model in .*tiny cannot be read"):
        opened(folder, context).embed_query("limit")


def test_an_option_that_is_not_known_names_the_nearest(context: ModelContext) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'folder'") as found:
        open_onnx({"folder": "x", "foldr": "y"}, context)
    assert found.value.key == "foldr"
