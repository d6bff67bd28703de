"""What an engine counts: seconds of stages, chunks by tier and age, durations of calls, watched recall."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from context_engine.adapters.sources.callable import CallableSource
from context_engine.core.engine import Engine
from context_engine.core.engine.events import SECONDS, SearchTally
from context_engine.core.models import Chunk, SearchRequest, SearchResult

REQUEST = SearchRequest(query="approval", domain="NPA")


class WatchedSource(CallableSource):
    """A source whose store watches its recall."""

    def __init__(self, chunks: list[Chunk], source_id: str, recall: float | None) -> None:
        super().__init__(lambda _query, _domain, _top_k: list(chunks), source_id)
        self.store = SimpleNamespace(watched_recall=lambda: recall)


def test_durations_are_counted_by_class(ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]) -> None:
    result, tally = ask([(2, [chunk_of("a", 0.9)])]), SearchTally()
    for elapsed_ms in (250.0, 40_000.0):
        tally.note(replace(result, sources=(replace(result.sources[0], elapsed_ms=elapsed_ms),)))
    durations = tally.read().durations["NPA", "t2"]
    assert durations.seconds == 0.25 + 40.0
    assert {place: count for place, count in enumerate(durations.counts) if count} == {
        SECONDS.index(0.25): 1,  # a bound belongs to the class below it
        len(SECONDS): 1,
    }


def test_stages_and_chunks_are_counted(make_engine: Callable[..., Engine], chunk_of: Callable[..., Chunk]) -> None:
    with make_engine([(1, [chunk_of("a", 0.9)]), (5, [chunk_of("b", 0.8, "Another rule.")])]) as engine:
        results = [engine.search(REQUEST), engine.search(REQUEST)]
    counts = engine.tally.read()
    assert counts.chunks == {("NPA", "1", "unknown"): 2, ("NPA", "5", "unknown"): 2}
    for stage in results[0].stages:
        both = sum(each.elapsed_ms for result in results for each in result.stages if each.name == stage.name)
        assert counts.stages["NPA", stage.name] == pytest.approx(both / 1000.0)


def test_recall_is_that_of_stores_that_watch_it(
    make_engine: Callable[..., Engine], chunk_of: Callable[..., Chunk]
) -> None:
    chunks = [chunk_of("a", 0.9)]
    watched, unmeasured = WatchedSource(chunks, "t1", 0.97), WatchedSource(chunks, "t2", None)
    with make_engine([(1, watched), (2, unmeasured), (3, chunks)]) as engine:
        assert engine.watched_recall() == {}
        engine.search(REQUEST)
        assert engine.watched_recall() == {("NPA", "t1"): 0.97}
