from __future__ import annotations

import json
from pathlib import Path

import pytest

from context_engine.adapters.embedders.prefixes import Prefixes, chosen_prefixes, known_model, known_prefixes

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


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, Prefixes()),
        ({"config.json": {"_name_or_path": "intfloat/multilingual-e5-small"}}, E5),
        ({"config.json": {"_name_or_path": "house/own"}}, Prefixes()),
        (
            {"config_sentence_transformers.json": {"prompts": {"query": "Q: ", "passage": "P: "}}},
            Prefixes("Q: ", "P: "),
        ),
        ({"config_sentence_transformers.json": {"prompts": {"query": "Q: ", "document": ""}}}, Prefixes("Q: ")),
        (
            {
                "config_sentence_transformers.json": {"prompts": {"query": "", "Clustering": "C: "}},
                "config.json": {"_name_or_path": "intfloat/e5-base-v2"},
            },
            E5,
        ),
        (
            {
                "config_sentence_transformers.json": {"prompts": {"query": "Q: "}},
                "config.json": {"_name_or_path": "intfloat/e5-base-v2"},
            },
            Prefixes("Q: "),
        ),
        ({"config_sentence_transformers.json": {"prompts": ["query: "]}, "config.json": []}, Prefixes()),
    ],
)
def test_what_a_folder_of_any_name_says_of_its_model(
    tmp_path: Path, files: dict[str, object], expected: Prefixes
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name, held in files.items():
        (folder / name).write_text(json.dumps(held), "utf-8")
    assert chosen_prefixes(str(folder), None, None, folder=folder) == expected
    assert chosen_prefixes(str(folder), "", None, folder=folder).query == ""


def test_a_known_name_is_not_taken_for_the_model_that_it_was_made_from(tmp_path: Path) -> None:
    folder = tmp_path / "bge-small-en-v1.5"
    folder.mkdir()
    (folder / "config.json").write_text('{"_name_or_path": "intfloat/e5-base-v2"}', "utf-8")
    assert chosen_prefixes(str(folder), None, None, folder=folder) == known_prefixes("bge-small-en-v1.5")
    (folder / "config.json").write_text("no JSON", "utf-8")
    assert chosen_prefixes(str(folder), None, None, folder=folder) == known_prefixes("bge-small-en-v1.5")


def test_what_is_given_goes_before_what_is_known_also_where_it_is_empty() -> None:
    folder = "/models/multilingual-e5-large/onnx"

    assert chosen_prefixes(folder, None, None) == E5
    assert chosen_prefixes(folder, "", None) == Prefixes("", "passage: ")
    assert chosen_prefixes(folder, None, "text: ") == Prefixes("query: ", "text: ")


@pytest.mark.parametrize(
    ("model", "query", "document", "shortest"),
    [
        ("BAAI/bge-large-en", "Represent this sentence for searching relevant passages: ", "", 0),
        ("BAAI/bge-base-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", "", 0),
        ("BAAI/bge-m3", "", "", 0),
        ("intfloat/e5-small-v2", "query: ", "passage: ", 0),
        (
            "intfloat/multilingual-e5-large-instruct",
            "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ",
            "",
            0,
        ),
        ("Alibaba-NLP/gte-large-en-v1.5", "", "", 0),
        ("Alibaba-NLP/gte-multilingual-base", "", "", 128),
        (
            "Alibaba-NLP/gte-Qwen2-1.5B-instruct",
            "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ",
            "",
            0,
        ),
        (
            "Qwen/Qwen3-Embedding-0.6B",
            "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
            "",
            32,
        ),
        ("google/embeddinggemma-300m", "task: search result | query: ", "title: none | text: ", 128),
        ("nomic-ai/nomic-embed-text-v1", "search_query: ", "search_document: ", 0),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: ", 64),
        ("nomic-ai/nomic-embed-text-v2-moe", "search_query: ", "search_document: ", 256),
        ("Snowflake/snowflake-arctic-embed-s", "Represent this sentence for searching relevant passages: ", "", 0),
        (
            "Snowflake/snowflake-arctic-embed-m-v1.5",
            "Represent this sentence for searching relevant passages: ",
            "",
            256,
        ),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", "", 256),
        (
            "mixedbread-ai/mxbai-embed-large-v1",
            "Represent this sentence for searching relevant passages: ",
            "",
            512,
        ),
        ("jinaai/jina-embeddings-v2-base-en", "", "", 0),
        ("jinaai/jina-embeddings-v3", "", "", 32),
        (
            "NovaSearch/stella_en_400M_v5",
            "Instruct: Given a web search query, retrieve relevant passages that answer the query.\nQuery: ",
            "",
            0,
        ),
        ("text-embedding-3-large", "", "", 256),
        ("sentence-transformers/all-MiniLM-L6-v2", "", "", 0),
    ],
)
def test_what_each_maker_says_of_its_model(model: str, query: str, document: str, shortest: int) -> None:
    assert known_model(model)[:2] == (Prefixes(query, document), shortest)


@pytest.mark.parametrize(
    ("copy", "model"),
    [
        (f"/hub/models--Qwen--Qwen3-Embedding-0.6B/snapshots/{SHA}", "Qwen/Qwen3-Embedding-0.6B"),
        ("onnx-community/embeddinggemma-300m-ONNX", "google/embeddinggemma-300m"),
        ("embeddinggemma:300m", "google/embeddinggemma-300m"),
        ("Qwen/Qwen3-Embedding-8B-GGUF", "Qwen/Qwen3-Embedding-8B"),
        ("qwen3-embedding:4b", "Qwen/Qwen3-Embedding-4B"),
        ("nomic-embed-text", "nomic-ai/nomic-embed-text-v1.5"),
        ("nomic-embed-text:latest", "nomic-ai/nomic-embed-text-v1.5"),
        ("snowflake-arctic-embed2:568m", "Snowflake/snowflake-arctic-embed-l-v2.0"),
        ("C:\\models\\mxbai-embed-large-v1-onnx\\onnx", "mixedbread-ai/mxbai-embed-large-v1"),
    ],
)
def test_a_copy_is_known_as_its_model(copy: str, model: str) -> None:
    assert known_model(copy) == known_model(model) != known_model("")


def test_prefixes_mark_the_id_of_a_model_each_in_its_own_way() -> None:
    marks = [one.mark for one in (Prefixes(), E5, BGE, Prefixes("query: ", ""), Prefixes("", "query: "))]

    assert marks[0] == ""
    assert len(set(marks)) == 5
    assert E5.mark == "+f1529947"
