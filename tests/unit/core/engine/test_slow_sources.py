"""A source that is slow and fails is left alone for a while; a soft deadline does not wait for late sources."""

import threading
import time

import pytest

from context_engine.core.engine import recall
from context_engine.core.models import Classification, Decision, SearchRequest, SourceQuery, Status
from context_engine.errors import SourceBusy, SourceUnavailable
from context_engine.testing.fakes import FixedClock


class MovedClock(FixedClock):
    """Its seconds go on when they are moved, so that no test depends on the speed of the machine."""

    seconds = 0.0

    def monotonic(self):
        return self.seconds


class Scripted:
    """A source whose calls take some seconds of its clock and raise, until it is well."""

    score_kinds = frozenset()

    def __init__(self, chunks, seconds, source_id="t2", error=None):
        self.source_id, self.calls, self.well, self.clock = source_id, 0, threading.Event(), MovedClock()
        self._chunks, self._seconds = chunks, seconds
        self._error = error or SourceUnavailable("connection reset", retryable=True)

    def search(self, query):
        self.calls += 1
        if self.well.is_set():
            return recall.SourceAnswer(chunks=tuple(self._chunks))
        self.clock.seconds += self._seconds
        raise self._error

    def close(self):
        pass


def request(**overrides):
    return SearchRequest(query="approval rule", domain="NPA", overrides=overrides)


def status(result):
    return next(source for source in result.sources if source.source_id == "t2")


@pytest.fixture
def good(spec_of):
    """A source whose own limit outlasts every move of the other's clock."""
    return spec_of(1, timeout_s=50.0)


@pytest.fixture
def ask(make_engine, good, spec_of, chunk_of):
    """Searches a good source and one that is given, which may take 20 s; returns the status of the latter."""

    def over(source):
        engine = make_engine([(good, [chunk_of("a", 0.9)]), (spec_of(2, timeout_s=20.0), source)], clock=source.clock)

        def run():
            result = engine.search(request(deadline_s=60.0))
            assert (result.status, result.decision) == (Status.DEGRADED, Decision.ANSWERED)
            return status(result)

        return run

    return over


def test_after_three_slow_failures_a_source_is_not_called(ask, chunk_of):
    source = Scripted([], seconds=12.0)  # more than half of its 20 s
    run = ask(source)
    assert [run().error["code"] for _ in range(3)] == ["unavailable"] * 3
    told = run()
    assert source.calls == 3
    assert told.error["message"].startswith("source 't2': was too slow 3 times in a row and is not called for another")
    assert 0 < told.error["retry_after_s"] <= recall._PAUSE_S
    assert told.elapsed_ms == 0.0


def test_a_long_wait_behind_others_is_no_reason(ask):
    """A source that is busy for 12 of its 20 s is called again: it may answer the next search."""
    source = Scripted([], seconds=12.0, error=SourceBusy("no connection was free", retryable=True))
    run = ask(source)
    assert [run().error["code"] for _ in range(5)] == ["busy"] * 5
    assert source.calls == 5


def test_quick_failures_are_no_reason(ask):
    source = Scripted([], seconds=0.0)
    run = ask(source)
    for _ in range(6):
        assert run().problem == "connection reset"
    assert source.calls == 6


def test_a_caller_in_a_hurry_makes_no_source_slow_for_others(make_engine, chunk_of):
    source = Scripted([chunk_of("b", 0.9)], seconds=8.0)  # more than half of 10 s, less than half of 60 s
    engine = make_engine([(1, [chunk_of("a", 0.9)]), (2, source)], clock=source.clock)
    source.well.set()
    assert status(engine.search(request(source_timeout_s=60.0, deadline_s=90.0))).state == "ok"
    source.well.clear()
    for _ in range(5):
        assert status(engine.search(request(source_timeout_s=10.0, deadline_s=90.0))).problem == "connection reset"
    assert source.calls == 6


def test_after_the_pause_it_is_tried_in_the_background(make_engine, good, spec_of, chunk_of):
    source = Scripted([chunk_of("b", 0.9)], seconds=12.0)
    engine = make_engine([(good, [chunk_of("a", 0.9)]), (spec_of(2, timeout_s=20.0), source)], clock=source.clock)
    for _ in range(3):
        engine.search(request(deadline_s=60.0))
    source.clock.seconds += recall._PAUSE_S
    told = status(engine.search(request(deadline_s=60.0)))
    assert told.problem == "was too slow 3 times in a row and is being tried in the background"
    assert told.elapsed_ms == 0.0, "the search did not wait for the call"
    source.well.set()
    for _ in range(600):
        source.clock.seconds += recall._PAUSE_S
        if status(result := engine.search(request(deadline_s=60.0))).state == "ok":
            break
        time.sleep(0.05)
    assert [chunk.chunk_id for chunk in result.chunks] == ["a", "b"]


def test_a_soft_deadline_does_not_wait_for_a_late_source(make_engine, spec_of, chunk_of):
    release = threading.Event()
    late = Scripted([chunk_of("b", 0.9)], seconds=0.0)
    late.search = lambda _query: release.wait(30)
    engine = make_engine([(1, [chunk_of("a", 0.9)]), (spec_of(2, timeout_s=30.0), late)], clock=FixedClock())
    result = engine.search(request(soft_deadline_s=0.1, stage2_top_k=1, source_timeout_s=30.0, deadline_s=60.0))
    release.set()
    assert [chunk.chunk_id for chunk in result.chunks] == ["a"]
    assert status(result).error["message"] == "source 't2': no answer within 0.1 s"
    assert result.status is Status.DEGRADED


def test_a_soft_deadline_waits_if_the_others_gave_too_little(make_engine, spec_of, chunk_of):
    def slow(_query, _domain, _top_k):
        time.sleep(0.3)
        return [chunk_of("b", 0.9)]

    engine = make_engine([(1, [chunk_of("a", 0.9)]), (spec_of(2, timeout_s=30.0), slow)], clock=FixedClock())
    result = engine.search(request(soft_deadline_s=0.05, stage2_top_k=2, source_timeout_s=30.0, deadline_s=60.0))
    assert [chunk.chunk_id for chunk in result.chunks] == ["a", "b"]
    assert result.status is Status.COMPLETE


def test_with_every_source_in_time_a_soft_deadline_changes_nothing(make_engine, chunk_of):
    engine = make_engine([(1, [chunk_of("a", 0.9)]), (2, [chunk_of("b", 0.9)])])
    result = engine.search(request(soft_deadline_s=5.0, stage2_top_k=1))
    assert result.status is Status.COMPLETE


class Gated(Scripted):
    """A source that fails when its gate is opened."""

    def __init__(self):
        super().__init__([], seconds=0.0)
        self.gate = threading.Event()

    def search(self, query):
        self.calls += 1
        self.gate.wait(30)
        raise self._error


@pytest.mark.parametrize(("failures", "waiting"), [(0, 4), (1, 2), (2, 1), (3, 0)])
def test_fewer_searches_wait_for_a_source_the_closer_it_is_to_being_left_alone(failures, waiting):
    source = Gated()
    bulkhead = recall.SourceBulkhead("t2", source, FixedClock(), Classification.PUBLIC)
    for _ in range(failures):
        bulkhead._breaker.note(time.monotonic(), failed=True)
    query = SourceQuery(text="rule", domain="NPA", top_k=5, timeout_s=30.0)
    replies = [bulkhead.submit(query, lambda: 30.0, 4) for _ in range(6)]
    try:
        assert sum(not reply.done() for reply in replies) == waiting
    finally:
        source.gate.set()
