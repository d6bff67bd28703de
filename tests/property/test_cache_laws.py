"""Law of the cache: whatever happens between searches, an engine with a cache answers as one without."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from context_engine.adapters.result_caches import MemoryCache
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.core.engine import Engine, recompute, stage_two_bytes
from context_engine.core.models import (
    AccessRule,
    Chunk,
    Classification,
    DomainSpec,
    NoticeCode,
    Principal,
    Registry,
    ScopeCalibration,
    SearchRequest,
    SearchResult,
    SourceSpec,
    SourceType,
)
from context_engine.core.policy.access import ManifestPolicy
from context_engine.core.ranking.scope import SIGNAL_VERSION

pytestmark = pytest.mark.slow

START = datetime(2026, 3, 2, 22, tzinfo=UTC)
SOURCES = st.sampled_from(["sop", "members"])
DOCUMENTS = st.sampled_from(["d1", "d2", "d3"])
TEXTS = ("The limit of the desk is five million.", "A new product needs approval.", "The limit needs approval.")
QUESTIONS = st.sampled_from(["limit of the desk", "approval", "aproval of a produkt"])
PEOPLE = {
    "ana": Principal(id="ana", clearance=Classification.INTERNAL),
    "ben": Principal(id="ben", roles=["member"], clearance=Classification.INTERNAL),
    "carl": Principal(id="carl", roles=["member", "auditor"], clearance=Classification.RESTRICTED),
}
OPTIONS = st.sampled_from(
    [{"min_relevance_score": 0.15}, {"stage2_top_k": 1}, {"expired": "refuse"}, {}, {"sources": ("sop",)}]
)
DAYS = st.sampled_from([None, date(2026, 3, 2), date(2026, 3, 4)])


@dataclass
class MovingClock:
    moment: datetime = START
    seconds: float = 0.0

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.seconds


class Ids:
    def __init__(self) -> None:
        self._last = 0

    def new(self, now: datetime) -> str:
        self._last += 1
        return f"s-{self._last}"


def domain(role: str) -> DomainSpec:
    access = {"sop": None, "members": AccessRule(roles=(role,))}
    sources = (
        SourceSpec(id=name, type=SourceType.BANK_SOP, access=rules, classification="internal")
        for name, rules in access.items()
    )
    return DomainSpec(version=1, domain="NPA", sources=tuple(sources), timezone="Asia/Singapore")


class CachedAgainstUncached(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder, self.clock, self.cache = tempfile.TemporaryDirectory(), MovingClock(), MemoryCache(2**24)
        self.role, self.requests = "member", deque[SearchRequest](maxlen=4)
        self._configure()

    def _configure(self) -> None:
        """Open two engines under the rules in force, which keep the cache that was there."""
        registry = Registry(domains={"NPA": domain(self.role)})
        policy = ManifestPolicy(registry.domains)

        def place(source_id: str) -> SourcePlace:
            return SourcePlace(rules=policy.rules_of(source_id), classification=Classification.INTERNAL)

        self.base = LocalBase.open(Path(self.folder.name), create=True, now=self.clock.now, place=place)
        self.base.repartition()

        def engine(cache: MemoryCache | None) -> Engine:
            return Engine(
                registry,
                lambda _domain, spec: LocalSource(self.base, spec.id, spec=spec, place=place(spec.id)),
                clock=self.clock,
                ids=Ids(),
                access=policy,
                cache=cache,
            )

        self.cached, self.plain = engine(self.cache), engine(None)

    @rule(source=SOURCES, document=DOCUMENTS, text=st.sampled_from(TEXTS), days=st.integers(0, 2), raised=st.booleans())
    def write(self, source: str, document: str, text: str, days: int, raised: bool) -> None:
        chunk = Chunk(
            content=text,
            chunk_id=f"{document}#1",
            fetched_at=self.clock.now(),
            ttl_seconds=30,
            effective_from=START.date() + timedelta(days=days),
            classification=Classification.CONFIDENTIAL if raised else None,
        )
        with self.base.writer() as writer:
            writer.put(source, document, "", f"{text}{days}{raised}{self.clock.now()}", [chunk])

    @initialize()
    def begin(self) -> None:
        for source in ("sop", "members"):
            self.write(source, "d1", TEXTS[0], 0, False)
            self.write(source, "d2", TEXTS[1], 0, source == "sop")

    @rule(source=SOURCES, document=DOCUMENTS)
    def delete(self, source: str, document: str) -> None:
        with self.base.writer() as writer:
            writer.delete(source, document, "")

    @rule(threshold=st.sampled_from([0.0, 0.5, 0.9]))
    def calibrate(self, threshold: float) -> None:
        plan = self.base.calibration_plan("NPA", ["sop", "members"], anew=True)
        known = ScopeCalibration(threshold=threshold, strong=1.0, signal=SIGNAL_VERSION, chunks=9)
        self.base.keep_calibrations("NPA", plan, [(part, known) for part in plan.parts])

    @rule(role=st.sampled_from(["member", "auditor"]))
    def change_the_rules(self, role: str) -> None:
        self.role = role
        self._configure()

    @rule(seconds=st.sampled_from([1, 20, 40, 70, 3600, 7200]))
    def wait(self, seconds: int) -> None:
        self.clock.moment += timedelta(seconds=seconds)

    @rule()
    def rebuild(self) -> None:
        self.base.rebuild()

    @rule(query=QUESTIONS, person=st.sampled_from(sorted(PEOPLE)), options=OPTIONS, day=DAYS)
    def ask(self, query: str, person: str, options: Mapping[str, Any], day: date | None) -> None:
        overrides = {"cache_ttl_s": 60.0, "min_relevance_score": 0.0, "scope_threshold": 0.0, **options}
        self.requests.append(
            SearchRequest(
                query=query, domain="NPA", principal=PEOPLE[person], overrides=overrides, as_of=day, request_id=person
            )
        )

    @invariant()
    def the_last_requests_are_answered_as_without_a_cache(self) -> None:
        for request in self.requests:
            assert outcome(self.cached, request) == outcome(self.plain, request)

    def teardown(self) -> None:
        self.base.close()
        self.folder.cleanup()


def outcome(engine: Engine, request: SearchRequest) -> Any:
    """What a search returns or raises, without ids, times and the remark that it came from the cache."""
    try:
        result = engine.search(request)
    except Exception as error:  # both engines must fail alike
        return type(error).__name__
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)
    return timeless(result)


def timeless(result: SearchResult) -> dict[str, Any]:
    out = result.to_dict()
    for name in ("search_id", "warnings", "stages"):
        del out[name]
    out["notices"] = [notice for notice in out["notices"] if notice["code"] != NoticeCode.FROM_CACHE]
    out["sources"] = [{**source, "elapsed_ms": 0} for source in out["sources"]]
    for chunk in out["chunks"]:
        for name in ("search_id", "retrieved_at"):
            del chunk["_provenance"]["extra"][name]
    return out


CachedAgainstUncached.TestCase.settings = settings(max_examples=15, stateful_step_count=25)
TestCachedAgainstUncached = CachedAgainstUncached.TestCase
