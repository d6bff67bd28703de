"""Answers from the cache: equal to those of the sources, as long as nothing has changed that they depend on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from context_engine.adapters.result_caches import MemoryCache
from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.engine.events import SearchCounts
from context_engine.core.models import (
    Caller,
    Chunk,
    Classification,
    Condition,
    Notice,
    NoticeCode,
    Principal,
    SearchRequest,
    SearchResult,
    SourceAnswer,
    SourceQuery,
)
from context_engine.core.policy.access import ManifestPolicy
from context_engine.errors import RerankerError, SourceUnavailable, StoreError
from context_engine.testing.fakes import FakeReranker, ScriptedSource

MORNING = datetime(2026, 3, 2, 10, tzinfo=UTC)
TIMELESS = {"search_id", "request_id", "caller", "now", "notices", "warnings", "stages", "sources", "chunks"}


class MovingClock:
    def __init__(self) -> None:
        self.moment = MORNING

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


class Store(ScriptedSource):
    """A source that tells its version, which `write` changes."""

    number = 1
    notes: tuple[Notice, ...] = ()

    def write(self, *chunks: Chunk) -> None:
        self._chunks = chunks
        self.number += 1

    def version(self, access: Any, timeout_s: float) -> str:
        return f"{self.source_id}-{self.number}"

    def search(self, query: SourceQuery) -> SourceAnswer:
        return replace(super().search(query), notes=self.notes)


class World:
    """An engine with a cache over one store, and a clock that moves."""

    def __init__(self, make_engine: Any, chunks: Sequence[Chunk], *, source: Any = None, **options: Any) -> None:
        self.clock, self.store = MovingClock(), source or Store("t1", chunks)
        options.setdefault("cache", MemoryCache(2**20))
        self.engine = make_engine([(options.pop("spec", 1), self.store)], clock=self.clock, **options)

    def ask(self, query: str = "approval rule", **given: Any) -> SearchResult:
        fields = {key: given.pop(key) for key in list(given) if key in SearchRequest.__dataclass_fields__}
        settings = {"cache_ttl_s": 60.0, **given}
        return self.engine.search(SearchRequest(query=query, domain="NPA", overrides=settings, **fields))

    @property
    def calls(self) -> int:
        return len(self.store.queries)

    @property
    def counts(self) -> SearchCounts:
        return self.engine.tally.read()


@pytest.fixture
def world(make_engine, chunk_of):
    return World(make_engine, [chunk_of("a", 0.9), chunk_of("b", 0.5)])


def published(result: SearchResult) -> dict[str, Any]:
    return {name: value for name, value in result.to_dict().items() if name not in TIMELESS}


def test_an_equal_search_is_answered_again_under_an_id_of_its_own(world):
    first = world.ask(request_id="r1", caller=Caller(app="desk"))
    world.clock.wait(12.4)
    second = world.ask(request_id="r2", caller=Caller(app="lobby"))
    assert world.calls == 1
    assert published(second) == published(first)
    assert [chunk.content for chunk in second.chunks] == [chunk.content for chunk in first.chunks]
    assert (second.request_id, second.caller.app, second.now) == ("r2", "lobby", MORNING + timedelta(seconds=12.4))
    assert second.search_id != first.search_id
    assert {chunk.provenance.extra["search_id"] for chunk in second.chunks} == {second.search_id}
    assert (first.cache_age_s, second.cache_age_s) == (None, 12)
    assert [(notice.code, notice.detail) for notice in second.notices] == [(NoticeCode.FROM_CACHE, {"age_s": 12})]
    assert sum(stage.elapsed_ms for stage in second.stages) + second.sources[0].elapsed_ms == 0


def test_hits_and_misses_are_counted_and_a_hit_calls_no_source(world):
    world.ask()
    world.ask()
    world.ask(cache_ttl_s=0.0)
    assert world.counts.cache == {("NPA", "miss"): 1, ("NPA", "hit"): 1}
    assert world.counts.calls == {("NPA", "t1", "ok"): 2}
    assert world.counts.searches == {("NPA", "complete", "answered"): 3}


def test_an_answer_from_the_cache_can_be_computed_again(world):
    world.ask()
    result = world.ask()
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_nothing_is_kept_unless_a_lifetime_is_set_and_no_longer_than_that(world):
    world.ask(cache_ttl_s=0.0)
    world.ask(cache_ttl_s=0.0)
    assert world.calls == 2 and world.counts.cache == {}
    world.ask()
    world.clock.wait(59.9)
    assert world.ask().cache_age_s == 59
    world.clock.wait(0.1)
    assert world.ask().cache_age_s is None


def test_an_answer_from_before_the_clock_was_set_back_is_not_used(world):
    world.ask()
    world.clock.wait(-1)
    assert world.ask().cache_age_s is None


@pytest.mark.parametrize(
    "other",
    [
        {"query": "approval  rule"},
        {"as_of": date(2026, 3, 2)},
        {"filters": Condition("title", "eq", "x")},
        {"require_tiers": (2,)},
        {"require_sources": ("t1",)},
        {"top_k": 1},
        {"min_relevance_score": 0.3},
        {"cache_ttl_s": 61.0},
    ],
)
def test_whatever_else_is_asked_is_another_search(world, other):
    world.ask()
    assert world.ask(**other).cache_age_s is None
    assert world.ask(**other).cache_age_s == 0
    assert world.ask().cache_age_s == 0


def test_a_write_takes_effect_at_once(world, chunk_of):
    world.ask()
    world.store.write(chunk_of("c", 0.7))
    assert [chunk.chunk_id for chunk in world.ask().chunks] == ["c"]
    world.store.write()
    assert world.ask().chunks == ()


def test_an_answer_made_during_a_write_is_not_kept(world, chunk_of):
    search = world.store.search

    def with_a_write(query: SourceQuery) -> SourceAnswer:
        answer = search(query)
        world.store.write(chunk_of("c", 0.7))
        return answer

    world.store.search = with_a_write
    world.ask()
    world.store.search, world.store.number = search, 1
    assert world.ask().cache_age_s is None


def test_an_answer_does_not_outlive_the_moment_at_which_a_candidate_expires(make_engine, chunk_of):
    fetched = MORNING - timedelta(seconds=80)
    chunks = [chunk_of("a", 0.9, fetched_at=fetched, ttl_seconds=100), chunk_of("b", 0.5)]
    world = World(make_engine, chunks)
    world.ask(expired="refuse")
    world.clock.wait(19)
    assert world.ask(expired="refuse").cache_age_s == 19
    world.clock.wait(1.5)
    assert [chunk.chunk_id for chunk in world.ask(expired="refuse").chunks] == ["b"]
    world.clock.wait(59)
    assert world.ask(expired="refuse").cache_age_s == 59, "what has expired already limits nothing"


def test_the_next_day_is_asked_anew(make_engine, chunk_of):
    world = World(
        make_engine, [chunk_of("a", 0.9, effective_to=date(2026, 3, 3))], domain_fields={"timezone": "Asia/Singapore"}
    )
    world.clock.moment = datetime(2026, 3, 2, 15, 59, 50, tzinfo=UTC)  # ten seconds before midnight there
    assert len(world.ask().chunks) == 1
    world.clock.wait(9)
    assert world.ask().cache_age_s == 9
    world.clock.wait(1)
    assert world.ask().chunks == ()


def test_a_source_that_cannot_tell_its_version_needs_a_lifetime_of_its_own(make_engine, chunk_of):
    world = World(make_engine, [], source=ScriptedSource("t1", [chunk_of("a", 0.9)]))
    world.ask()
    assert world.ask().cache_age_s is None and world.counts.cache == {}
    world.ask(cache_unversioned_ttl_s=5.0)
    world.clock.wait(4)
    assert world.ask(cache_unversioned_ttl_s=5.0).cache_age_s == 4
    other = world.ask(cache_unversioned_ttl_s=5.0, caller=Caller(principal="someone else"))
    assert other.cache_age_s is None, "an adapter of others may answer according to who asks"
    world.clock.wait(1)
    assert world.ask(cache_unversioned_ttl_s=5.0).cache_age_s is None


def test_a_source_whose_version_cannot_be_read_is_asked(world):
    world.ask()

    def unreadable(access: Any, timeout_s: float) -> str:
        raise StoreError("the disk is gone")

    world.store.version = unreadable
    assert world.ask().cache_age_s is None and world.calls == 2


@pytest.mark.parametrize("notes", [(Notice(NoticeCode.INDEX_LAG, "t1", "lag"),), ("a remark",)])
def test_an_answer_with_a_notice_of_a_source_is_not_kept(world, notes):
    world.store.notes = notes
    world.ask()
    assert world.ask().cache_age_s is None


def test_a_degraded_answer_is_not_kept(make_engine, chunk_of):
    broken = ScriptedSource("t2", error=SourceUnavailable("HTTP 503"))
    cache = MemoryCache(2**20)
    engine = make_engine([(1, [chunk_of("a", 0.9)]), (2, broken)], cache=cache)
    request = SearchRequest(
        query="rule", domain="NPA", overrides={"cache_ttl_s": 60.0, "cache_unversioned_ttl_s": 60.0}
    )
    for _ in range(2):
        assert engine.search(request).cache_age_s is None


def test_an_answer_whose_reranker_failed_is_not_kept(make_engine, chunk_of):
    class Tired:
        name, calls = "tired", 0

        def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float]:
            self.calls += 1
            if self.calls == 1:
                raise RerankerError("tired")
            return [0.5 for _ in chunks]

    world = World(make_engine, [chunk_of("a", 0.9)], reranker=Tired())
    assert world.ask().cache_age_s is None
    result = world.ask()
    assert result.cache_age_s is None and result.rerank_scores
    again = world.ask()
    assert again.cache_age_s == 0 and again.rerank_scores == result.rerank_scores


def test_callers_with_other_rights_never_share_an_answer(make_engine, chunk_of, spec_of):
    spec = spec_of(1, access={"roles": ["analyst"], "clearance": "internal"}, classification="internal")
    chunks = [chunk_of("a", 0.9), chunk_of("b", 0.8, classification=Classification.CONFIDENTIAL)]
    people = {
        name: Principal(id=name, roles=["analyst"], clearance=clearance)
        for name, clearance in (("ana", "internal"), ("ben", "internal"), ("chris", "confidential"))
    }
    plain = make_engine([(spec, Store("t1", chunks))])
    policy = ManifestPolicy(plain.registry.domains)
    recorder = Records()
    world = World(make_engine, chunks, spec=spec, access=policy, recorder=recorder)
    asked = {name: world.ask(principal=person) for name, person in people.items()}
    assert [asked[name].cache_age_s for name in people] == [None, 0, None]
    assert {name: [chunk.chunk_id for chunk in asked[name].chunks] for name in people} == {
        "ana": ["a"],
        "ben": ["a"],
        "chris": ["a", "b"],
    }
    withheld = [[chunk.chunk_id for chunk in access.withheld] for access in recorder.accesses]
    assert withheld == [["b"], ["b"], []], "the record of a hit says what was withheld, as any other does"
    assert [access.principal.id for access in recorder.accesses] == list(people)


class Records:
    def __init__(self) -> None:
        self.accesses: list[Any] = []

    def record(self, result: SearchResult, access: Any) -> None:
        self.accesses.append(access)


def test_a_change_of_the_rules_takes_effect_at_once(make_engine, chunk_of):
    class Rules(ManifestPolicy):
        version = 1

        @property
        def policy_hash(self) -> str:
            return str(self.version)

        @policy_hash.setter
        def policy_hash(self, value: str) -> None:
            pass

    registry = make_engine([(1, [])]).registry
    rules = Rules(registry.domains)
    world = World(make_engine, [chunk_of("a", 0.9)], access=rules)
    world.ask()
    assert world.ask().cache_age_s == 0
    rules.version = 2
    assert world.ask().cache_age_s is None


@pytest.mark.parametrize(
    "other", [{"domain_fields": {"glossary": {"SOP": ["procedure"]}}}, {"reranker": FakeReranker({})}]
)
def test_engines_that_share_a_cache_share_no_answer_across_domains_and_models(make_engine, chunk_of, other):
    cache, chunks = MemoryCache(2**20), [chunk_of("a", 0.9)]
    World(make_engine, chunks, cache=cache).ask()
    assert World(make_engine, chunks, cache=cache).ask().cache_age_s == 0
    assert World(make_engine, chunks, cache=cache, **other).ask().cache_age_s is None


def test_a_result_from_a_cache_of_others_that_is_too_old_is_not_used(world):
    class Old:
        def __init__(self) -> None:
            self.kept: Any = None

        def get(self, key: str) -> Any:
            return self.kept

        def put(self, key: str, kept: Any) -> None:
            self.kept = kept._replace(until=MORNING)

        def close(self) -> None:
            pass

    world.engine._cache._store = Old()
    world.ask()
    assert world.ask().cache_age_s is None


class Erased(MemoryCache):
    """A store that something may be erased from."""

    mark: str | None = ""

    def epoch(self) -> str | None:
        return self.mark


def test_nothing_kept_before_an_erasure_is_given_again(make_engine, chunk_of):
    store = Erased(2**20)
    world = World(make_engine, [chunk_of("a", 0.9)], cache=store)
    world.ask()
    assert world.ask().cache_age_s == 0
    store.mark = "erased"
    assert world.ask().cache_age_s is None
    assert world.ask().cache_age_s == 0
    store.mark = None
    assert world.ask().cache_age_s is None, "whether something was erased cannot be told"


def test_an_answer_made_during_an_erasure_is_not_kept(make_engine, chunk_of):
    store = Erased(2**20)
    world = World(make_engine, [chunk_of("a", 0.9)], cache=store)
    search = world.store.search

    def with_an_erasure(query: SourceQuery) -> SourceAnswer:
        store.mark = "erased"
        return search(query)

    world.store.search = with_an_erasure
    world.ask()
    store.mark = ""
    assert world.ask().cache_age_s is None
