"""Sources of one store are searched in one call; what comes of it is each one's own."""

import threading

import pytest

from context_engine.core.models import ScoreKind, SearchRequest, SourceAnswer
from context_engine.core.protocols import JointlySearchable
from context_engine.errors import SourceAuthError, SourceBusy


class Store:
    """Counts what its sources are asked; `together` gives the outcome of each, by its id."""

    def __init__(self, together):
        self.joint, self.single, self.together = [], [], together


class Held:
    """A source of a store."""

    score_kinds = frozenset(ScoreKind)

    def __init__(self, source_id, store, chunks):
        self.source_id, self.store, self.chunks = source_id, store, chunks

    def search(self, query):
        self.store.single.append(self.source_id)
        return SourceAnswer(chunks=self.chunks)

    def search_together(self, sources, query):
        self.store.joint.append([one.source_id for one in sources])
        return [self.store.together(one) for one in sources]

    def close(self):
        pass


def answered(source):
    return SourceAnswer(chunks=source.chunks)


@pytest.fixture
def engine_over(make_engine, chunk_of):
    """Makes an engine over t1, t2 and t5 in one store and t3 outside of it, and calls of it with settings."""

    def make(together, **timeouts):
        store = Store(together)
        held = {tier: Held(f"t{tier}", store, [chunk_of(f"c{tier}", 0.9)]) for tier in (1, 2, 5)}
        engine = make_engine([*held.items(), (3, [chunk_of("other", 0.9)])])

        def ask(**overrides):
            return engine.search(SearchRequest(query="approval rule", domain="NPA", overrides=overrides))

        return store, ask

    return make


def states(result):
    return {one.source_id: (one.state, one.chunks) for one in result.sources}


def test_the_sources_of_a_store_are_asked_once_and_others_by_themselves(engine_over):
    store, ask = engine_over(answered)
    assert isinstance(Held("t1", store, []), JointlySearchable)
    assert states(ask()) == dict.fromkeys(("t1", "t2", "t3", "t5"), ("ok", 1))
    assert (store.joint, store.single) == ([["t1", "t2", "t5"]], [])


def test_one_source_of_a_store_is_searched_by_itself(engine_over):
    store, ask = engine_over(answered)
    ask(sources=["t2", "t3"])
    assert (store.joint, store.single) == ([], ["t2"])


def test_the_failure_of_one_is_its_own(engine_over):
    store, ask = engine_over(lambda one: SourceAuthError("no") if one.source_id == "t2" else answered(one))
    result = ask()
    assert states(result) == {"t1": ("ok", 1), "t2": ("failed", 0), "t3": ("ok", 1), "t5": ("ok", 1)}
    failed = next(one for one in result.sources if one.source_id == "t2")
    assert failed.error["message"] == "source 't2': no"
    assert store.single == []


def test_what_cannot_be_searched_together_is_searched_one_by_one(engine_over):
    def broken(_source):
        raise RuntimeError("of all")

    store, ask = engine_over(broken)
    assert states(ask()) == dict.fromkeys(("t1", "t2", "t3", "t5"), ("ok", 1))
    assert store.single == ["t1", "t2", "t5"]


def test_a_store_that_is_busy_is_not_asked_again_for_each(engine_over):
    """Each would wait for the same lock once more, past the time of the search."""

    def locked(_source):
        raise SourceBusy("another process holds a lock on 'chunks': ask again", retryable=True)

    store, ask = engine_over(locked)
    errors = {one.source_id: one.error for one in ask().sources if one.error}
    assert {name: (error["code"], error["message"]) for name, error in errors.items()} == {
        name: ("busy", f"source '{name}': another process holds a lock on 'chunks': ask again")
        for name in ("t1", "t2", "t5")
    }
    assert (len(store.joint), store.single) == (1, [])


def test_a_joint_call_that_never_returns_is_overdue_for_each_and_no_other_source_waits(engine_over):
    release = threading.Event()
    store, ask = engine_over(lambda one: release.wait(30) and answered(one))
    try:
        late = ask(source_timeout_s=0.1)
        assert {one.source_id: one.error["code"] for one in late.sources if one.error} == dict.fromkeys(
            ("t1", "t2", "t5"), "timeout"
        )
        again = ask(source_timeout_s=600.0, deadline_s=600.0)
        assert {one.source_id: one.error["code"] for one in again.sources if one.error} == dict.fromkeys(
            ("t1", "t2", "t5"), "busy"
        )
        assert [chunk.chunk_id for chunk in again.chunks] == ["other"]
        assert len(store.joint) == 1
    finally:
        release.set()


def test_sources_with_limits_of_their_own_are_not_held_to_those_of_others(make_engine, spec_of, chunk_of):
    store = Store(answered)
    rows = [(spec_of(tier, timeout_s=limit), tier) for tier, limit in ((1, 5.0), (2, 7.0), (5, 5.0))]
    engine = make_engine([(spec, Held(spec.id, store, [chunk_of(f"c{tier}", 0.9)])) for spec, tier in rows])
    engine.search(SearchRequest(query="approval rule", domain="NPA"))
    assert (store.joint, store.single) == ([["t1", "t5"]], ["t2"])
