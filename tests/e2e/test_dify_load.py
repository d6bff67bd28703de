"""Many different searches at once over five datasets: all that can be served are, the others are told at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.fair_queue import shared_queue
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.engine import Engine
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import DomainSpec, Registry, SearchRequest, SearchResult, SourceSpec, Status
from context_engine.errors import AllSourcesFailed
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, FakeDocument
from context_engine.testing.fake_dify import Fault

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon")
SECONDS = (0.2, 0.4, 0.6, 0.8, 1.0)
MANY = 20
SETTINGS = {"deadline_s": 60.0, "source_timeout_s": 30.0, "min_relevance_score": 0.0}


class StandingClock(SystemClock):
    """Time does not pass, so that what is in time does not hang on the machine."""

    def monotonic(self) -> float:
        return 1000.0


class Held:
    """A server whose answers to searches wait until `release`, or until so many are waiting."""

    def __init__(self, dify: FakeDify, until: int | None = None) -> None:
        self.dify, self.until, self.waiting = dify, until, 0
        self.open, self.lock = threading.Event(), threading.Lock()
        self.release = self.open.set
        dify.inject(Fault(change=self._hold), endpoint="retrieve")

    def _hold(self, body: Any) -> Any:
        with self.lock:
            self.waiting += 1
            if self.waiting == self.until:
                self.open.set()
        self.open.wait(30)
        return body


@pytest.fixture
def dify() -> Iterator[FakeDify]:
    datasets = [FakeDataset(name, documents=[FakeDocument(name, [f"Records of {name}: 7 years."])]) for name in NAMES]
    with FakeDify(datasets) as running:
        yield running


def engine_of(dify: FakeDify, connections: int, clock: Any, cache_ttl_s: float = 0.0) -> Engine:
    connection = Connection(base_url=dify.base_url, api_key=dify.api_key, max_connections=connections, timeout_s=60.0)
    spec = SourceSpec(
        id="sops", type="bank_sop", adapter="dify", connection="dify", settings={"cache_ttl_s": cache_ttl_s},
        timeout_s=10.0, dataset_ids=tuple(dify.dataset_id(name) for name in NAMES),
    )  # fmt: skip
    workspace = Workspace(lambda: connection, clock)
    domain = DomainSpec(version=1, domain="NPA", sources=(spec,))
    return Engine(Registry(domains={"NPA": domain}), lambda _domain, one: DifySource(one, workspace, clock))


class Searches:
    """Searches in threads, each for something else."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.done: dict[int, SearchResult | AllSourcesFailed] = {}
        self.threads: list[threading.Thread] = []

    def start(self, number: int) -> None:
        thread = threading.Thread(target=self._run, args=(number,), daemon=True)
        self.threads.append(thread)
        thread.start()

    def _run(self, number: int) -> None:
        try:
            self.done[number] = self.ask(f"Records for {number} years")
        except AllSourcesFailed as error:
            self.done[number] = error

    def ask(self, query: str) -> SearchResult:
        return self.engine.search(SearchRequest(query=query, domain="NPA", overrides=SETTINGS))

    def join(self) -> None:
        for thread in self.threads:
            thread.join(60)


def until(reached: Any) -> None:
    due = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < due, "it never came to that"
        time.sleep(0.001)


@pytest.mark.slow
def test_sixty_connections_are_used_and_twenty_searches_complete(dify: FakeDify) -> None:
    with engine_of(dify, 60, SystemClock()) as engine:
        searches = Searches(engine)
        searches.ask("Records for 99 years")  # the datasets are looked up
        Held(dify, until=60)  # nobody is answered before sixty are asked: with fewer at a time all would hang
        for number in range(MANY):
            searches.start(number)
        searches.join()
    assert {one.status for one in searches.done.values()} == {Status.COMPLETE}
    assert len(searches.done) == MANY
    assert dify.most_busy == 60


@pytest.mark.slow
def test_four_connections_serve_whom_they_can_in_time_and_tell_the_others_at_once(dify: FakeDify) -> None:
    with engine_of(dify, 4, StandingClock()) as engine:
        searches, queue = Searches(engine), shared_queue(dify.base_url)
        searches.ask("Records for 99 years")
        for _ in range(50):
            for name, seconds in zip(NAMES, SECONDS, strict=True):
                queue.measured(dify.dataset_id(name), seconds)
        held = Held(dify)
        for number in range(MANY):  # one after the other, each refused or with all its calls in line before the next
            searches.start(number)
            until(lambda started=number + 1: in_line(queue) == 4 * (started - len(searches.done)))
        told = dict(searches.done)  # before anybody was answered
        held.release()
        searches.join()
    # a search is 0.2 + 0.4 + 0.6 + 0.8 + 1.0 = 3.0 s, and there are 4 connections for 9.5 s: 38 s, or 12 searches
    assert len(told) == MANY - 12
    for error in told.values():
        assert isinstance(error, AllSourcesFailed)
        assert error.statuses[0].error["code"] == "busy"
        assert "max_connections" in str(error)
    served = [one for number, one in searches.done.items() if number not in told]
    assert [one.status for one in served] == [Status.COMPLETE] * 12
    assert dify.most_busy == 4


def in_line(queue: Any) -> int:
    with queue._lock:
        return len(queue._running) + sum(map(len, queue._waiting.values()))


def test_equal_searches_at_once_ask_dify_once(dify: FakeDify) -> None:
    with engine_of(dify, 60, SystemClock(), cache_ttl_s=60.0) as engine:  # whoever comes last finds it in the cache
        searches = Searches(engine)
        searches.ask("Records for 99 years")
        asked = len(dify.requests)
        held = Held(dify)
        for _ in range(MANY):
            searches.start(7)
        bulkhead = engine._pool._opened[("NPA", "sops")]._bulkhead
        until(lambda: held.waiting == len(NAMES) and len(bulkhead._under_way) == MANY)
        held.release()
        searches.join()
        assert isinstance(searches.done[7], SearchResult)
        assert searches.done[7].status is Status.COMPLETE
    assert len(dify.requests) - asked == len(NAMES)
