"""No text is embedded twice, and a cache changes no result."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from array import array
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.adapters.embedders import CachedEmbedder, CacheOptions, CacheStats, VectorFile, cached
from context_engine.adapters.model_access import ModelContext
from context_engine.core.protocols import Embedder, TokenEmbedder
from context_engine.errors import EmbedderError
from context_engine.testing import FakeEmbedder


class Counting(FakeEmbedder):
    """Remembers what it was asked."""

    def __init__(self, model_id: str = "counting") -> None:
        super().__init__(8)
        self.model_id = model_id
        self.asked: list[str] = []

    def embed_query(self, text: str) -> Sequence[float]:
        self.asked.append(text)
        return super().embed_query(text)


def test_a_query_asked_again_is_not_embedded_again() -> None:
    inner = Counting()
    embedder = CachedEmbedder(inner, queries=2)

    first = embedder.embed_query("capital")
    again = embedder.embed_query("capital")

    assert first == again
    assert inner.asked == ["capital"]
    assert embedder.stats == CacheStats(query_hits=1, query_misses=1)


def test_the_query_used_longest_ago_is_forgotten_first() -> None:
    inner = Counting()
    embedder = CachedEmbedder(inner, queries=2)

    for query in ("a1", "b2", "a1", "c3", "a1", "b2"):
        embedder.embed_query(query)

    assert inner.asked == ["a1", "b2", "c3", "b2"]


class Slow(Counting):
    """Answers when it is let go."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.started, self.go, self.error = threading.Event(), threading.Event(), error

    def embed_query(self, text: str) -> Sequence[float]:
        self.started.set()
        assert self.go.wait(20)
        vector = super().embed_query(text)
        if self.error is not None:
            raise self.error
        return vector


def at_once(embedder: CachedEmbedder, inner: Slow, many: int) -> list[Future[Sequence[float]]]:
    """Have so many threads ask the same question while the first waits for its answer."""
    with ThreadPoolExecutor(many) as pool:
        asked = [pool.submit(embedder.embed_query, "capital")]
        assert inner.started.wait(20)
        asked += [pool.submit(embedder.embed_query, "capital") for _ in range(many - 1)]
        while embedder.stats.query_hits < many - 1:
            time.sleep(0.001)
        inner.go.set()
    return asked


def test_a_query_asked_by_several_at_once_is_embedded_once() -> None:
    inner = Slow()
    embedder = CachedEmbedder(inner)

    asked = at_once(embedder, inner, 5)

    assert [one.result() for one in asked] == [embedder.embed_query("capital")] * 5
    assert inner.asked == ["capital"]
    assert embedder.stats == CacheStats(query_hits=5, query_misses=1)


def test_a_failure_is_told_to_all_who_wait_and_is_not_kept() -> None:
    inner = Slow(EmbedderError("away"))
    embedder = CachedEmbedder(inner)

    asked = at_once(embedder, inner, 3)

    assert [str(one.exception()) for one in asked] == ["away"] * 3
    inner.error = None
    assert len(embedder.embed_query("capital")) == 8


def test_what_a_caller_does_to_a_vector_stays_with_the_caller() -> None:
    embedder = CachedEmbedder(Counting())
    vector = embedder.embed_query("capital")
    assert isinstance(vector, list)
    kept = list(vector)
    vector[0] = 99.0

    assert embedder.embed_query("capital") == kept


def test_a_passage_is_embedded_once_in_a_call_and_once_over_two_runs(tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    file = VectorFile(tmp_path / "deep" / "vectors.sqlite")
    before = CachedEmbedder(first, file=file).embed_documents(["one", "two", "one"])
    file.close()

    embedder = CachedEmbedder(second, file=VectorFile(tmp_path / "deep" / "vectors.sqlite"))
    after = embedder.embed_documents(["two", "three", "one"])

    assert first.asked == ["one", "two"]
    assert second.asked == ["three"]
    assert (after[0], after[2]) == (before[1], before[0])
    assert before[0] == before[2]
    assert embedder.stats == CacheStats(document_hits=2, document_misses=1)


def test_another_model_does_not_find_this_ones_vectors(tmp_path: Path) -> None:
    file, other = VectorFile(tmp_path / "vectors.sqlite"), Counting("other")
    CachedEmbedder(Counting(), file=file).embed_documents(["one"])

    CachedEmbedder(other, file=file).embed_documents(["one"])

    assert other.asked == ["one"]


def test_more_passages_than_one_statement_takes(tmp_path: Path) -> None:
    texts = [f"passage {number}" for number in range(1203)]
    file, inner = VectorFile(tmp_path / "vectors.sqlite"), Counting()
    embedder = CachedEmbedder(inner, file=file)

    assert embedder.embed_documents(texts) == embedder.embed_documents(texts)
    assert len(inner.asked) == 1203


def test_a_cache_that_cannot_be_read_is_said_once_and_goes_unused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "vectors.sqlite"
    path.write_bytes(b"this is no database" * 100)
    inner = Counting()
    embedder = CachedEmbedder(inner, file=VectorFile(path))

    with caplog.at_level(logging.WARNING):
        vectors = [embedder.embed_documents(["one"]) for _ in range(2)]

    assert vectors[0] == vectors[1] == [array("f", inner.embed_query("one")).tolist()]
    assert len(caplog.records) == 1
    assert "vectors.sqlite is not used" in caplog.text


def test_vectors_lie_in_the_data_folder_unless_the_options_say_otherwise(tmp_path: Path, context: ModelContext) -> None:
    for options in (CacheOptions(), CacheOptions(cache_file=tmp_path / "mine.sqlite"), CacheOptions(cache=False)):
        cached(Counting(), options, context).embed_documents(["one"])

    assert (tmp_path / "data" / "embeddings.sqlite").is_file()
    with sqlite3.connect(tmp_path / "mine.sqlite") as database:
        assert database.execute("SELECT count(*), length(key), length(vector) FROM vectors").fetchone() == (1, 32, 32)


def test_many_questions_are_kept_in_the_file_apart_from_passages_of_the_same_text(tmp_path: Path) -> None:
    inner = _Both()
    embedder = CachedEmbedder(inner, file=VectorFile(tmp_path / "vectors.sqlite"))

    assert embedder.embed_documents(["limit"]) == [[0.0, 1.0]]
    assert embedder.embed_queries(["limit", "risk", "limit"]) == [[1.0, 0.0]] * 3
    assert CachedEmbedder(inner, file=VectorFile(tmp_path / "vectors.sqlite")).embed_queries(["risk"]) == [[1.0, 0.0]]
    assert embedder.embed_documents(["query\0limit"]) == [[0.0, 1.0]], "no text of a passage is taken for a question"
    assert inner.batches == [["limit", "risk"]]
    assert embedder.stats == CacheStats(document_misses=2)


class _Both(Counting):
    """Embeds a question otherwise than a passage, and many at once."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[0.0, 1.0] for _ in texts]

    def embed_queries(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.batches.append(list(texts))
        return [[1.0, 0.0] for _ in texts]


class _Plain:
    """An embedder without token vectors."""

    model_id, dimension = "plain", 1

    def embed_query(self, text: str) -> Sequence[float]:
        return [1.0]

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[1.0] for _ in texts]


def test_token_vectors_are_there_where_the_model_has_them(context: ModelContext) -> None:
    with_tokens = cached(Counting(), CacheOptions(), context)
    assert isinstance(with_tokens, TokenEmbedder)
    assert [list(one.tokens) for one in with_tokens.embed_tokens(["capital ratio"])] == [["capit", "ratio"]]

    plain = cached(_Plain(), CacheOptions(), context)
    assert isinstance(plain, Embedder)
    assert not isinstance(plain, TokenEmbedder)
    assert plain.embed_queries(["one", "two"]) == [[1.0], [1.0]]


@given(st.lists(st.lists(st.text(max_size=6), max_size=6), max_size=5))
def test_a_cache_changes_no_result(tmp_path_factory: pytest.TempPathFactory, calls: list[list[str]]) -> None:
    file = VectorFile(tmp_path_factory.mktemp("cache") / "vectors.sqlite")
    kept, fresh = CachedEmbedder(FakeEmbedder(8), file=file), CachedEmbedder(FakeEmbedder(8), queries=0)

    for texts in calls:
        assert kept.embed_documents(texts) == fresh.embed_documents(texts)
        assert [kept.embed_query(text) for text in texts] == [fresh.embed_query(text) for text in texts]
    file.close()
