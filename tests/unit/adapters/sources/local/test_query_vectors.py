"""The vector of a question: in time or not at all; the search by text never waits for it in vain."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from context_engine.adapters.embedders.local import Encoder, LocalEmbedder
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.stores.query_vectors import QueryVectors
from context_engine.core.engine import Engine, SystemClock
from context_engine.core.models import Chunk, SearchRequest, SourceQuery
from context_engine.errors import EmbedderError
from context_engine.testing.fakes import FakeEmbedder


class Clock:
    """Stands until it is moved."""

    seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 3, 2, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


class Model(FakeEmbedder):
    """Fails while it is broken, each time after so many seconds; hangs while it is held."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(8)
        self.clock, self.broken, self.takes, self.calls = clock, False, 0.0, 0
        self.go = threading.Event()
        self.go.set()

    def embed_query(self, text: str) -> Sequence[float]:
        self.calls += 1
        assert self.go.wait(20)
        self.clock.seconds += self.takes
        if self.broken:
            raise EmbedderError("the model is away")
        return super().embed_query(text)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def model(clock: Clock) -> Iterator[Model]:
    model = Model(clock)
    yield model
    model.go.set()


def test_it_is_the_models_vector(clock: Clock, model: Model) -> None:
    assert list(QueryVectors(model, clock).ask("limit", 5.0)) == list(FakeEmbedder(8).embed_query("limit"))


def test_a_failure_that_took_long_is_not_waited_for_again_within_half_a_minute(clock: Clock, model: Model) -> None:
    vectors = QueryVectors(model, clock)
    model.broken, model.takes = True, 2.0
    with pytest.raises(EmbedderError, match="the model is away"):
        vectors.ask("limit", 5.0)
    clock.seconds = 31.0  # it failed at 2
    with pytest.raises(EmbedderError, match="failed a moment ago and is asked again in 1 s: the model is away"):
        vectors.ask("limit", 5.0)
    assert model.calls == 1
    clock.seconds, model.broken = 32.0, False
    assert len(vectors.ask("limit", 5.0)) == 8


def test_a_failure_that_was_quick_costs_the_next_question_nothing(clock: Clock, model: Model) -> None:
    vectors = QueryVectors(model, clock)
    model.broken = True
    with pytest.raises(EmbedderError, match="away"):
        vectors.ask("limit", 5.0)
    model.broken = False
    assert len(vectors.ask("limit", 5.0)) == 8


def test_a_flaw_in_a_model_is_a_failure_of_the_model(clock: Clock) -> None:
    class Flawed(FakeEmbedder):
        def embed_query(self, text: str) -> Sequence[float]:
            raise ZeroDivisionError("secret")

    with pytest.raises(EmbedderError, match="failed with ZeroDivisionError") as caught:
        QueryVectors(Flawed(8), clock).ask("limit", 5.0)
    assert "secret" not in str(caught.value)


class Cold(FakeEmbedder):
    """Takes its time for the first text."""

    def __init__(self) -> None:
        super().__init__(8)
        self.takes = 0.0
        self.asked: list[str] = []

    def embed_query(self, text: str) -> Sequence[float]:
        self.asked.append(text)
        takes, self.takes = self.takes, 0.0
        time.sleep(takes)
        return super().embed_query(text)


@pytest.mark.slow
@pytest.mark.parametrize(("deadline_s", "with_vectors"), [(10.0, True), (0.4, False)])
def test_a_model_is_loaded_in_the_time_of_the_search_and_not_in_that_of_the_source(
    make_engine: Callable[..., Engine], tmp_path: Path, deadline_s: float, with_vectors: bool
) -> None:
    model = Cold()
    with LocalBase.open(tmp_path / "base", create=True, embedder=model) as base:
        with base.writer() as writer:
            writer.put("t2", "d", "", "h", [Chunk(content="The limit is 5 %.", chunk_id="a")])
        model.takes, model.asked = 0.6, []
        engine = make_engine([(2, LocalSource(base, "t2"))])
        settings = {"source_timeout_s": 0.3, "deadline_s": deadline_s}
        result = engine.search(SearchRequest(query="limit", domain="NPA", overrides=settings))
    (source,) = result.sources
    assert (source.embedding is not None, source.state) == ((True, "ok") if with_vectors else (False, "partial"))
    assert model.asked == ["limit"]


def test_it_is_prepared_once_and_a_failure_says_why_afterwards(clock: Clock, model: Model) -> None:
    vectors = QueryVectors(model, clock)
    model.broken, model.takes = True, 2.0
    for _ in range(2):
        vectors.prepare("limit", 5.0)
    assert model.calls == 1
    with pytest.raises(EmbedderError, match="asked again in 30 s: the model is away"):
        vectors.ask("limit", 5.0)


def test_a_model_that_is_loaded_too_slowly_names_the_setting(clock: Clock, model: Model) -> None:
    vectors = QueryVectors(model, clock)
    model.broken, model.takes = True, 6.0
    vectors.prepare("limit", 5.0)
    with pytest.raises(EmbedderError, match="the first question of a process loads the model, in half of deadline_s"):
        vectors.ask("limit", 5.0)


@pytest.mark.slow
def test_a_model_that_is_still_being_loaded_holds_up_no_search_by_text() -> None:
    """Who asks for its name waits for the lock under which it is loaded."""
    loading, go = threading.Event(), threading.Event()

    def load() -> Encoder:
        loading.set()
        assert go.wait(20)
        raise EmbedderError("the model is away")

    embedder = LocalEmbedder(lambda: "mini", load)
    vectors = QueryVectors(embedder, SystemClock())
    vectors.prepare("limit", 1.1)
    try:
        assert loading.is_set()
        with ThreadPoolExecutor(1) as threads:
            failed = threads.submit(vectors.ask, "limit", 1.0).exception(5.0)
    finally:
        go.set()
    assert "mini failed a moment ago" in str(failed)


def test_a_model_that_hangs_leaves_the_search_by_text(tmp_path: Path, clock: Clock, model: Model) -> None:
    with LocalBase.open(tmp_path / "base", create=True, embedder=model) as base:
        with base.writer() as writer:
            writer.put("sop", "d", "", "h", [Chunk(content="The limit is 5 %.", chunk_id="a")])
        source = LocalSource(base, "sop")
        model.go.clear()
        late, busy = (source.search(SourceQuery(text="limit", domain="NPA", top_k=3, timeout_s=0.1)) for _ in range(2))
        model.go.set()
    assert [[chunk.chunk_id for chunk in answer.chunks] for answer in (late, busy)] == [["a"], ["a"]]
    assert "gave no vector within 0.08 s" in str(late.failures[0])
    assert "still busy with an overdue call" in str(busy.failures[0])


def test_what_was_prepared_serves_one_question_and_that_one_alone(clock: Clock, model: Model) -> None:
    """The prepared vector is not kept: the model may be another one by the time the question comes again."""
    vectors = QueryVectors(model, clock)
    vectors.prepare("limit", 5.0)
    assert list(vectors.ask("ratio", 5.0)) == list(FakeEmbedder(8).embed_query("ratio"))
    assert model.calls == 2
    for calls in (2, 3):
        assert list(vectors.ask("limit", 5.0)) == list(FakeEmbedder(8).embed_query("limit"))
        assert model.calls == calls


def test_a_vector_comes_with_its_model_and_the_milliseconds_it_took(clock: Clock, model: Model) -> None:
    model.takes = 0.25
    _, embedding = QueryVectors(model, clock).timed("limit", 5.0)
    assert embedding[:2] == (model.model_id, 0.25 * 1000)


@pytest.mark.parametrize(("takes", "paused"), [(1.0, True), (0.9, False)])
def test_a_failure_that_took_a_second_is_slow(clock: Clock, model: Model, takes: float, paused: bool) -> None:
    vectors = QueryVectors(model, clock)
    model.broken, model.takes = True, takes
    for _ in range(2):
        with pytest.raises(EmbedderError, match="the model is away"):
            vectors.ask("limit", 5.0)
    assert model.calls == (1 if paused else 2)


@pytest.mark.parametrize(("takes", "named"), [(5.0, True), (4.9, False)])
def test_the_setting_is_named_if_all_of_the_time_was_taken(
    clock: Clock, model: Model, takes: float, named: bool
) -> None:
    vectors = QueryVectors(model, clock)
    model.broken, model.takes = True, takes
    vectors.prepare("limit", 5.0)
    with pytest.raises(EmbedderError) as raised:
        vectors.ask("limit", 5.0)
    assert ("deadline_s" in str(raised.value)) is named


def test_a_prepared_vector_is_for_the_next_question_of_the_same_text_alone(clock: Clock, model: Model) -> None:
    vectors = QueryVectors(model, clock)
    vectors.prepare("limit", 5.0)
    vectors.ask("fee", 5.0)
    assert model.calls == 2
    vectors.ask("limit", 5.0)
    assert model.calls == 2
    vectors.ask("limit", 5.0)
    assert model.calls == 3


def test_the_time_of_an_embedding_is_told_in_milliseconds(clock: Clock, model: Model) -> None:
    model.takes = 0.25
    vector, embedding = QueryVectors(model, clock).timed("limit", 5.0)
    assert (len(vector), embedding.model, embedding.elapsed_ms) == (8, "fake-8", 250.0)
