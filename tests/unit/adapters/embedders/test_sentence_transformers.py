"""Loading through sentence-transformers: what shows without torch, and, by hand where torch is, a real tiny model.

pytest -n 0 -m benchmark tests/unit/adapters/embedders/test_sentence_transformers.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.embedders.prefixes import Prefixes, known_prefixes
from context_engine.adapters.embedders.sentence_transformers import open_sentence_transformers
from context_engine.adapters.model_access import ModelContext
from context_engine.adapters.model_access.local_models import as_folder, how_to_get, model_name
from context_engine.adapters.rerankers.cross_encoder import open_cross_encoder
from context_engine.core.models import Chunk
from context_engine.core.protocols import TokenEmbedder
from context_engine.errors import ConfigError, EmbedderError, MissingExtra


def test_without_the_extra_its_name_is_said_at_first_use(
    context: ModelContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    embedder = open_sentence_transformers({}, context)

    assert isinstance(embedder, TokenEmbedder)
    with pytest.raises(MissingExtra, match=r"pip install 'dify-context-engine\[embed\]'"):
        embedder.embed_query("limit")


@pytest.mark.parametrize(
    ("model", "prefixes"),
    [
        ("BAAI/bge-small-en-v1.5", Prefixes("Represent this sentence for searching relevant passages: ", "")),
        ("intfloat/multilingual-e5-large", Prefixes("query: ", "passage: ")),
        ("/models/multilingual-e5-large/", Prefixes("query: ", "passage: ")),
        ("sentence-transformers/all-MiniLM-L6-v2", Prefixes()),
        ("house/own-model", Prefixes()),
    ],
)
def test_a_known_model_has_its_prefixes(model: str, prefixes: Prefixes) -> None:
    assert known_prefixes(model) == prefixes


def test_the_id_says_all_that_changes_vectors(context: ModelContext) -> None:
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"model": "intfloat/multilingual-e5-large"},
        {"revision": "5c38ec7"},
        {"max_tokens": 128},
        {"query_prefix": ""},
    )
    ids = [open_sentence_transformers(change, context).model_id for change in changes]

    assert len(set(ids)) == len(changes)
    assert ids[0].startswith("BAAI/bge-small-en-v1.5+")
    assert ids[4] == "BAAI/bge-small-en-v1.5"
    assert open_sentence_transformers({"batch_size": 7, "device": "cpu", "threads": 2}, context).model_id == ids[0]


def test_a_path_is_known_by_its_form_or_because_it_is_there(tmp_path: Path) -> None:
    assert as_folder(str(tmp_path)) == tmp_path
    assert as_folder("./models/x") == Path("models/x")
    assert as_folder("BAAI/bge-small-en-v1.5") is None
    assert "hf download BAAI/bge-small-en-v1.5 --local-dir" in how_to_get("BAAI/bge-small-en-v1.5")
    assert how_to_get("/models/x").startswith("there is no model in /models/x")


def test_two_folders_of_one_name_are_two_models(tmp_path: Path) -> None:
    for place, weights in (("a", b"x" * 3_000_000), ("b", b"x" * 2_999_999 + b"y")):
        (tmp_path / place / "model").mkdir(parents=True)
        (tmp_path / place / "model" / "model.safetensors").write_bytes(weights)
    one, other = (model_name(str(tmp_path / place / "model")) for place in "ab")

    assert one != other
    assert one.startswith("model#")
    assert model_name("owner/model", "main") == "owner/model@main"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_without_a_model_has_no_name(tmp_path: Path, is_there: bool) -> None:
    folder = tmp_path / "model"
    if is_there:
        folder.mkdir()
    with pytest.raises(EmbedderError, match="there is no model in"):
        model_name(str(folder))


def test_options_are_read_strictly(context: ModelContext) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'device'"):
        open_sentence_transformers({"devise": "cuda"}, context)


def _need_torch() -> None:
    for module in ("torch", "transformers", "sentence_transformers"):
        pytest.importorskip(module, reason=f"{module} is missing: pip install 'dify-context-engine[embed]'")


@pytest.fixture
def tiny_bert(tmp_path: Path) -> Path:
    """A BERT of two layers with random weights, its tokenizer made here; kept as safetensors."""
    _need_torch()
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "limit", "risk", "loan", "query", "passage", ":"]
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks: Any = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=marks
    )
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    config.num_labels = 1
    folder = tmp_path / "tiny-bert"
    BertForSequenceClassification(config).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    return folder


@pytest.mark.benchmark
def test_a_real_tiny_model_gives_unit_vectors_whatever_stands_beside(tiny_bert: Path, context: ModelContext) -> None:
    embedder = open_sentence_transformers({"model": str(tiny_bert), "device": "cpu", "cache": False}, context)

    alone = embedder.embed_documents(["limit risk"])[0]
    beside = embedder.embed_documents(["loan " * 30, "limit risk"])[1]

    assert embedder.dimension == len(alone) == 16
    assert sum(value * value for value in alone) == pytest.approx(1.0, abs=1e-5)
    assert beside == pytest.approx(alone, abs=1e-5)
    assert embedder.embed_query("limit risk") == pytest.approx(alone, abs=1e-5)


@pytest.mark.benchmark
def test_a_real_tiny_model_gives_token_vectors(tiny_bert: Path, context: ModelContext) -> None:
    embedder = open_sentence_transformers({"model": str(tiny_bert), "device": "cpu"}, context)

    assert isinstance(embedder, TokenEmbedder)
    short, long = embedder.embed_tokens(["risk", "limit risk loan"])
    assert (list(short.tokens), list(long.tokens)) == (["risk"], ["limit", "risk", "loan"])
    assert [sum(float(value) ** 2 for value in vector) for vector in long.vectors] == pytest.approx([1.0] * 3, abs=1e-4)


@pytest.mark.benchmark
def test_a_real_tiny_cross_encoder_gives_scores(tiny_bert: Path, context: ModelContext) -> None:
    reranker = open_cross_encoder({"model": str(tiny_bert), "device": "cpu", "batch_size": 2}, context)
    chunks = [Chunk(content=text) for text in ("limit risk", "loan", "risk risk risk")]

    scores = reranker.rerank("limit", chunks)

    assert scores is not None and len(scores) == 3
    assert all(0.0 < score < 1.0 for score in scores)
    assert reranker.rerank("limit", chunks[::-1]) == pytest.approx(list(scores)[::-1], abs=1e-5)


@pytest.mark.benchmark
def test_a_model_that_is_not_here_is_not_fetched(context: ModelContext, monkeypatch: pytest.MonkeyPatch) -> None:
    _need_torch()
    import socket

    def refuse(*_arguments: Any, **_options: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    embedder = open_sentence_transformers({"model": "owner/no-such-model"}, context)

    with pytest.raises(EmbedderError, match="hf download owner/no-such-model --local-dir"):
        embedder.embed_query("limit")
