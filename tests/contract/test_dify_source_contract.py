"""The shipped conformance suite against Dify sources: economy, high quality, reranked, two legs, several datasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import SourceSpec
from context_engine.core.protocols import Source
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, FakeDocument, SourceContract

TEXTS = [f"The approval limit of level {level} is {level} million. Rule {level}." for level in range(1, 8)]
RERANKER = ("acme/rank", "rank-1")
DOCUMENTS = [FakeDocument("Limits", TEXTS, {"authority_tier": "tier2", "year": 2025})]
DATASETS = (
    FakeDataset("economy", "economy", DOCUMENTS),
    FakeDataset("semantic", documents=DOCUMENTS),
    FakeDataset("reranked", documents=DOCUMENTS, reranker=RERANKER),
    FakeDataset(
        "more", documents=[FakeDocument("More", ["An approval limit that is not used.", "Approval of staff."])]
    ),
)


@pytest.fixture(scope="module")
def dify() -> Iterator[FakeDify]:
    with FakeDify(DATASETS, seed=7) as server:
        yield server


class DifyContract(SourceContract):
    question = "approval limit"
    datasets: ClassVar[tuple[str, ...]] = ()
    settings: ClassVar[dict[str, Any]] = {"cache_ttl_s": 0}

    @pytest.fixture(autouse=True)
    def running(self, dify: FakeDify) -> None:
        self.dify = dify

    def make_source(self) -> Source:
        connection = Connection(base_url=self.dify.base_url, api_key=self.dify.api_key, max_connections=16)
        spec = SourceSpec(
            id="limits", type="bank_sop", adapter="dify", connection="dify", settings=self.settings,
            dataset_ids=tuple(self.dify.dataset_id(name) for name in self.datasets),
        )  # fmt: skip
        return DifySource(spec, Workspace(lambda: connection, SystemClock()), SystemClock())


class TestEconomy(DifyContract):
    datasets = ("economy",)


class TestSemantic(DifyContract):
    datasets = ("semantic",)
    settings: ClassVar = {"vector_store": "pgvector", "cache_ttl_s": 0}


class TestReranked(DifyContract):
    datasets = ("reranked",)


class TestTwoLegs(DifyContract):
    datasets = ("semantic",)
    settings: ClassVar = {"legs": ["semantic", "full_text"], "cache_ttl_s": 0}


class TestSeveralWithOneModel(DifyContract):
    datasets = ("semantic", "more")


class TestCached(DifyContract):
    datasets = ("reranked",)
    settings: ClassVar = {"cache_ttl_s": 60}
