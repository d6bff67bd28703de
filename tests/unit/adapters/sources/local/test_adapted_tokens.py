"""Max-sim compares tokens under the adapter of a base for who may read what it was learnt from, as long as it is in
force."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="the extra 'vectors'")

from context_engine.adapters.rerankers.max_sim import MaxSimReranker  # noqa: E402
from context_engine.adapters.sources.domain_adapter import DomainAdapter  # noqa: E402
from context_engine.adapters.sources.local import LocalBase, LocalSource, SearchOptions  # noqa: E402
from context_engine.adapters.sources.stores.chunk_rows import places  # noqa: E402
from context_engine.adapters.sources.stores.scope import Scope  # noqa: E402
from context_engine.core.engine import Engine, recompute, stage_two_bytes  # noqa: E402
from context_engine.core.models import (  # noqa: E402
    NOBODY,
    AccessRule,
    AccessScope,
    Chunk,
    Classification,
    DomainSpec,
    Key,
    Principal,
    Registry,
    SearchRequest,
    SearchResult,
    SourceSpec,
    SourceType,
)
from context_engine.core.policy.access import ManifestPolicy  # noqa: E402
from context_engine.testing.fakes import FakeEmbedder  # noqa: E402
from tests.unit.adapters.sources.local.conftest import RULES  # noqa: E402

SOP = SourceSpec(id="sop", type=SourceType.BANK_SOP)
BOARD = SourceSpec(id="board", type=SourceType.BANK_SOP, access=AccessRule(roles=("board",)))
DOMAIN = DomainSpec(version=1, domain="HOUSE", sources=(SOP, BOARD))
POLICY = ManifestPolicy({"HOUSE": DOMAIN})
MEMBER = Principal(id="member", roles=frozenset({"board"}), clearance=Classification.RESTRICTED)
MODEL = FakeEmbedder(16)
QUESTION = "the limit of the lending desk for a rival"

EVERYTHING = {"min_relevance_score": 0.0, "scope_threshold": 0.0, "dedup_method": "off"}


@pytest.fixture
def house(folder: Path) -> Iterator[LocalBase]:
    """A base of two partitions: six open documents, three of the board."""
    place = places(DOMAIN.sources, POLICY.rules_of)
    with LocalBase.open(folder, create=True, embedder=MODEL, place=place) as base:
        with base.writer() as writer:
            for number, rule in enumerate(RULES):
                writer.put("sop", str(number), "", "1", [Chunk(content=rule.format("lending"))])
            for number in range(3):
                writer.put("board", str(number), "", "1", [Chunk(content=f"Bid {number} for a rival of the desk.")])
        yield base


def keep(base: LocalBase, seed: int, access: AccessScope | None = None) -> str:
    """Put an adapter in force that was learnt from what may be read; return its id."""
    maps = np.eye(16) + 0.4 * np.random.default_rng(seed).standard_normal((2, 16, 16))
    origin = base.held_vectors(["sop", "board"], access=access).origin
    kept = base.keep_adapter("HOUSE", DomainAdapter(MODEL.model_id, *maps), {}, origin)
    base.use_adapter("HOUSE", kept.adapter_id)
    return kept.adapter_id


def asked(base: LocalBase, principal: Principal) -> SearchResult:
    registry = Registry(domains={"HOUSE": DOMAIN})
    with Engine(
        registry, lambda _domain, spec: LocalSource(base, spec.id), reranker=MaxSimReranker(MODEL), access=POLICY
    ) as engine:
        return engine.search(SearchRequest(query=QUESTION, domain="HOUSE", principal=principal, overrides=EVERYTHING))


def scores(result: SearchResult) -> dict[Key, float]:
    return dict(result.rerank_scores)


def test_it_is_that_of_what_the_caller_may_read(house: LocalBase) -> None:
    plain = asked(house, NOBODY)
    hidden = keep(house, 1)
    assert (asked(house, MEMBER).rerank_adapter, asked(house, NOBODY).rerank_adapter) == (hidden, None)
    assert scores(asked(house, NOBODY)) == scores(plain), "it was learnt from what the board alone may read"

    everybody = keep(house, 2, POLICY.decide(NOBODY, DOMAIN).scope)
    found = asked(house, NOBODY)
    assert found.rerank_adapter == everybody
    assert scores(found) != scores(plain) and scores(found).keys() == scores(plain).keys()


def test_undone_it_compares_no_more_and_what_was_answered_is_computed_again(house: LocalBase) -> None:
    plain = asked(house, MEMBER)
    name = keep(house, 1)
    adapted = asked(house, MEMBER)
    house.undo_adapter("HOUSE")
    again = asked(house, MEMBER)
    assert (adapted.rerank_adapter, again.rerank_adapter) == (name, None)
    assert scores(again) == scores(plain) != scores(adapted)
    assert stage_two_bytes(recompute(adapted)) == stage_two_bytes(adapted)


def test_the_setting_off_is_heeded(house: LocalBase) -> None:
    keep(house, 1)
    with LocalBase(house.path, embedder=MODEL, options=SearchOptions(adapter="off")) as without:
        assert asked(without, MEMBER).rerank_adapter is None


def test_where_fewer_numbers_are_kept_than_tokens_have_they_are_compared_as_they_are(folder: Path) -> None:
    options = SearchOptions(vector_dimensions=8)
    with LocalBase.open(folder, create=True, embedder=MODEL, options=options) as base:
        with base.writer() as writer:
            writer.put("sop", "1", "", "1", [Chunk(content="The limit of the desk.")])
        origin = base.held_vectors(["sop"]).origin
        adapter = DomainAdapter(base.model_id, np.eye(8)[::-1], np.eye(8))
        base.use_adapter("HOUSE", base.keep_adapter("HOUSE", adapter, {}, origin).adapter_id)
        found = asked(base, NOBODY)
        assert (
            base.answer(
                QUESTION, top_k=1, scope=Scope(source_id="sop", constants={"domain": "HOUSE"})
            ).embedding.adapter
            is not None
        )  # type: ignore[union-attr]
        assert found.rerank_adapter is None and found.rerank_scores
