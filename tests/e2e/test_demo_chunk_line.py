"""The demo's questions through datasets that a knowledge pipeline filled: nothing but the chunks says what they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import pytest
import yaml

from context_engine import Engine, Registry, SearchRequest, SearchResult, demo
from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.chunking.chunk_line import line_of, with_line
from context_engine.core.engine import SystemClock
from context_engine.core.models import Chunk, DomainSpec
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, FakeDocument, FakeSegment

pytestmark = pytest.mark.slow
KEY = "dataset-pipelinesecret1"
Documents = Mapping[tuple[str, str, str], Sequence[Chunk]]
NAMES = ("NPA", "ORM", "DCE", "DESK")


def filled(name: str, dify: FakeDify, documents: Documents) -> DomainSpec:
    """Return a domain over datasets of its documents: no metadata, numbers for names, a line before each chunk."""
    raw: Any = yaml.safe_load((demo.MANIFESTS / f"{name.lower()}.yaml").read_text("utf-8"))
    for source in raw["sources"]:
        held = [
            FakeDocument(f"{number}.docx", [FakeSegment(with_line(line_of(chunk), chunk.content)) for chunk in chunks])
            for number, (key, chunks) in enumerate(documents.items())
            if key[0] == source["id"] and chunks
        ]
        dify.put(FakeDataset(source["id"], documents=held))
        source |= {"adapter": "dify", "connection": "dify", "dataset_ids": [dify.dataset_id(source["id"])]}
        source["settings"] = {"chunk_line": True, "vector_store": "pgvector"}
    return DomainSpec.model_validate(raw)


@pytest.fixture(scope="module")
def speaking(demo_bank: Any, documents: Documents) -> Iterator[Engine]:
    with FakeDify(api_key=KEY) as dify:
        connection = Connection(base_url=dify.base_url, api_key=KEY, max_connections=8)
        workspace = Workspace(lambda: connection, SystemClock())
        registry = Registry(domains={name: filled(name, dify, documents) for name in NAMES})
        clock = demo_bank.engine._clock
        with Engine(registry, lambda _domain, spec: DifySource(spec, workspace, clock), clock=clock) as engine:
            yield engine


@pytest.fixture(scope="module")
def told(speaking: Engine, questions: Any) -> dict[str, SearchResult]:
    return {one["id"]: asked(speaking, one) for one in questions if one["domain"] in NAMES}


def asked(engine: Engine, question: Mapping[str, Any]) -> SearchResult:
    as_of = date.fromisoformat(question["as_of"]) if question.get("as_of") else None
    return engine.search(SearchRequest(query=question["query"], domain=question["domain"], as_of=as_of))


def test_the_questions_find_within_two_of_what_the_embedded_base_finds(
    told: Any, questions: Any, answers: Any, first_ranks: Any
) -> None:
    counts = {name: {"answered": 0, "at the top": 0, "gold sections": 0} for name in ("speaking", "base")}
    for question in (one for one in questions if one["answers"] and one["id"] in told):
        for name, result in (("speaking", told[question["id"]]), ("base", answers[question["id"]])):
            ranks = [rank for rank in first_ranks(result, question["answers"]) if rank is not None]
            counts[name]["answered"] += bool(ranks)
            counts[name]["at the top"] += 1 in ranks
            counts[name]["gold sections"] += len(ranks)
    print("\n" + json.dumps(counts))
    for what, of_base in counts["base"].items():
        assert counts["speaking"][what] >= of_base - 2, what


def test_what_is_concluded_is_what_the_embedded_base_concludes(told: Any, answers: Any) -> None:
    other = {one: (result.decision, answers[one].decision) for one, result in told.items()}
    other = {one: pair for one, pair in other.items() if pair[0] != pair[1]}
    print("\n", other)
    assert len(other) <= 2


def test_a_chunk_stands_where_it_stands_in_the_embedded_base(told: Any, answers: Any) -> None:
    def place(chunk: Chunk) -> Any:
        dates = (chunk.effective_from, chunk.effective_to)
        return chunk.heading_path, chunk.section, chunk.page, chunk.metadata.get("reference"), chunk.title, dates

    compared = 0
    for one, result in told.items():
        base = {(at.chunk.document_id, at.chunk.document_version, at.content): at.chunk for at in answers[one].chunks}
        for found in result.chunks:
            key = (found.chunk.document_id, found.chunk.document_version, found.content)
            if key in base:
                assert place(found.chunk) == place(base[key])
                compared += 1
    assert compared >= 150
