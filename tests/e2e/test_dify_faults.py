"""Five datasets, one of which goes wrong in every way, at every place: the other four arrive, and it shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.engine import Engine
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import Decision, DomainSpec, Registry, SearchRequest, SearchResult, SourceSpec, Status
from context_engine.errors import AllSourcesFailed
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, FakeDocument
from context_engine.testing.fake_dify import FAULTS

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon")
DATASETS = [
    FakeDataset(
        name, "economy" if number % 2 else "high_quality", [FakeDocument(name, [f"Records of {name}: 7 years."])]
    )
    for number, name in enumerate(NAMES)
]
HARMLESS = {"delay", "score_null", "score_nan"}
CODES = {
    **dict.fromkeys(("status_500", "status_502", "status_503", "status_504", "reset", "dropped"), "unavailable"),
    **dict.fromkeys(("plugin_daemon_down", "vector_store_down", "truncated"), "unavailable"),
    **dict.fromkeys(("status_429", "rate_limited"), "rate_limited"),
    **dict.fromkeys(("slow_head", "slow_body"), "timeout"),
    "forbidden": "forbidden",
    "unauthorized": "auth",
    "not_found": "not_found",
}
"""The other faults are answers that do not keep the contract: "protocol"."""

FEW = {"status_500", "rate_limited", "unauthorized", "html", "dropped", "score_null"}
"""One of each kind; CI tries them all."""

SETTINGS = {"attempts": 1, "cache_ttl_s": 0}


def each(faults: set[str]) -> list[Any]:
    return [pytest.param(fault, marks=() if fault in FEW else pytest.mark.slow) for fault in sorted(faults)]


def engine_of(dify: FakeDify, connections: int = 4, **settings: Any) -> Engine:
    connection = Connection(base_url=dify.base_url, api_key=dify.api_key, max_connections=connections)
    spec = SourceSpec(
        id="sops", type="bank_sop", adapter="dify", connection="dify", settings={**SETTINGS, **settings},
        dataset_ids=tuple(dify.dataset_id(name) for name in NAMES),
    )  # fmt: skip
    domain = DomainSpec(version=1, domain="NPA", sources=(spec,))
    clock = SystemClock()
    workspace = Workspace(lambda: connection, clock)
    return Engine(Registry(domains={"NPA": domain}), lambda _domain, one: DifySource(one, workspace, clock))


def search(engine: Engine, timeout_s: float = 60.0) -> SearchResult:
    overrides = {"source_timeout_s": timeout_s, "deadline_s": 90.0, "stage2_top_k": 20}
    overrides |= {"min_relevance_score": 0.0, "dedup_method": "off"}
    return engine.search(SearchRequest(query="Records for 7 years", domain="NPA", overrides=overrides))


def titles(result: SearchResult) -> set[str | None]:
    return {chunk.chunk.title for chunk in result.chunks}


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[FakeDify, Engine]]]:
    opened: list[Any] = []

    def run(**settings: Any) -> tuple[FakeDify, Engine]:
        dify = FakeDify(DATASETS).start()
        engine = engine_of(dify, **settings)
        opened.extend((engine.close, dify.stop))
        return dify, engine

    yield run
    for close in opened:
        close()


PLACES = [pytest.param(fault, place, marks=pytest.mark.slow) for fault in sorted(FEW) for place in (1, 2, 3, 4)]
"""The place of the dataset that goes wrong; it does not depend on the fault, so that one of each kind is enough."""


@pytest.mark.parametrize("fault", each(set(FAULTS)))
def test_the_first_dataset_of_five_goes_wrong(fault: str, start: Any) -> None:
    goes_wrong(fault, 0, start)


@pytest.mark.parametrize(("fault", "place"), PLACES)
def test_another_dataset_of_five_goes_wrong(fault: str, place: int, start: Any) -> None:
    goes_wrong(fault, place, start)


def goes_wrong(fault: str, place: int, start: Any) -> None:
    dify, engine = start()
    broken = NAMES[place]
    slow = fault.startswith("slow")
    dify.inject(fault, dataset=broken, endpoint="retrieve", delay_s=0.2 if slow or fault == "delay" else None)
    result = search(engine, timeout_s=3.0 if slow else 60.0)
    (source,) = result.sources
    if fault in HARMLESS:
        assert (titles(result), result.status, source.state) == (set(NAMES), Status.COMPLETE, "ok")
        return
    assert titles(result) == set(NAMES) - {broken}
    assert (result.status, source.state) == (Status.DEGRADED, "partial")
    assert source.error is not None
    assert source.error["code"] == CODES.get(fault, "protocol")
    assert dify.dataset_id(broken) in source.error["message"]
    assert result.decision is Decision.ANSWERED


@pytest.mark.parametrize("fault", each(set(FAULTS) - HARMLESS - {"slow_head", "slow_body"}))
def test_no_answer_is_silently_empty(fault: str, start: Any) -> None:
    dify, engine = start()
    dify.inject(fault, endpoint="retrieve")
    with pytest.raises(AllSourcesFailed) as raised:
        search(engine)
    (source,) = raised.value.result.sources
    assert (source.state, source.chunks) == ("failed", 0)
    assert source.error["code"] == CODES.get(fault, "protocol")


@pytest.mark.parametrize(
    "fault", ["status_500", "html", "dropped", "plugin_daemon_down", "vector_store_down", "null_body"]
)
def test_a_lookup_that_fails_is_told_and_the_manifest_stands_in(fault: str, start: Any) -> None:
    dify, engine = start(indexing_technique="economy")
    dify.inject(fault, dataset="beta", endpoint="get")
    result = search(engine)
    assert titles(result) >= {"beta"}
    assert ("dataset_not_described", "manifest") in {(one.code, one.detail.get("used")) for one in result.notices}


@pytest.mark.parametrize("fault", ["status_500", "plugin_daemon_down", "html"])
def test_a_lookup_that_fails_with_nothing_to_stand_in_is_a_failure(fault: str, start: Any) -> None:
    dify, engine = start()
    dify.inject(fault, dataset="beta", endpoint="get")
    result = search(engine)
    assert titles(result) == set(NAMES) - {"beta"}
    assert result.sources[0].state == "partial"


@pytest.mark.slow
def test_what_dify_said_last_stands_in_for_what_it_does_not_say(start: Any) -> None:
    dify, engine = start(lookup_ttl_s=1.0)
    assert titles(search(engine)) == set(NAMES)
    dify.inject("plugin_daemon_down", endpoint="get")
    time.sleep(1.1)
    result = search(engine)
    assert (titles(result), result.status) == (set(NAMES), Status.COMPLETE)
    assert ("dataset_not_described", "cache") in {(one.code, one.detail.get("used")) for one in result.notices}


@pytest.mark.slow
def test_a_dataset_that_hangs_does_not_hold_a_connection_for_the_next_searches(start: Any) -> None:
    dify, engine = start(connections=2)
    assert titles(search(engine)) == set(NAMES)  # the lookups are made
    dify.inject("slow_head", dataset="alpha", endpoint="retrieve", delay_s=0.2)
    for _ in range(3):  # one more than there are connections
        assert titles(search(engine, timeout_s=2.0)) == set(NAMES) - {"alpha"}


def test_a_fault_that_passes_is_not_seen(start: Any) -> None:
    dify, engine = start(attempts=3)
    dify.inject("status_503", dataset="alpha", endpoint="retrieve", calls={1})
    dify.inject("dropped", dataset="beta", endpoint="retrieve", calls={1})
    result = search(engine)
    assert (titles(result), result.status, result.warnings) == (set(NAMES), Status.COMPLETE, ())


def test_a_rate_limit_is_waited_out_in_silence(start: Any) -> None:
    dify, engine = start(attempts=3)
    dify.inject("rate_limited", endpoint="retrieve", calls={1})
    assert search(engine).sources[0].state == "partial"
    asked = len(dify.requests)
    with pytest.raises(AllSourcesFailed, match="budget of calls"):
        search(engine)
    assert len(dify.requests) == asked


def test_all_sources_failed_leaves_no_text_of_dify(start: Any) -> None:
    dify, engine = start()
    dify.inject("status_500", endpoint="retrieve")
    with pytest.raises(AllSourcesFailed) as raised:
        search(engine)
    assert "psycopg2" not in repr(raised.value) + str(raised.value.result.to_dict())
