"""Chunks of a Dify source by their ids: as a search gives them, and nothing that a search would not find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from context_engine.core.models import AccessScope, Chunk, Classification, FetchRequest, SourceQuery
from context_engine.errors import SourceError, SourceForbidden, SourceNotFound, SourceUnavailable
from context_engine.testing import FakeDataset, FakeDify, FakeDocument, FakeSegment

FACTS = {"authority_tier": "tier2", "year": 2025, "reviewed": 1_767_225_600, "rate": 0.25, "version": "v3.2"}
LIMITS = FakeDocument("Limits", ["The approval limit is 5 million.", "The limit is reviewed in May."], FACTS)
BOARD = FakeDocument("Board", ["The approval limit of the board."], {"secrecy": "restricted"})
MARKS = {"ce_source": "sops", "ce_document_id": "SOP-1", "ce_version": "3.2", "ce_title": "Rules", "ce_hash": "ab"}
OURS = FakeDocument("Rules (SOP-1 3.2)", ["› Rules › 4 Limits\n\nThe approval limit is 7 million."], MARKS)
QA = FakeDocument("Questions", [FakeSegment("What is the approval limit?", answer="5 million.")])
PARENTS = FakeDocument(
    "Parents",
    [FakeSegment("The approval limit is 5 million. It is reviewed.", children=["The approval limit is 5 million."])],
)
DATASETS = (
    FakeDataset("limits", documents=[LIMITS], built_in_fields=True, fields={"reviewed": "time"}),
    FakeDataset("board", documents=[BOARD, LIMITS]),
    FakeDataset("ours", documents=[OURS]),
    FakeDataset("qa", documents=[QA], doc_form="qa_model"),
    FakeDataset("parents", documents=[PARENTS], doc_form="hierarchical_model"),
    FakeDataset("outside", indexing_technique=None, provider="external"),
    FakeDataset("closed", documents=[LIMITS], enable_api=False),
)
NAMED: dict[str, Any] = {"metadata": {"classification": "secrecy", "document_version": "version"}}


@pytest.fixture(params=["1.12.1", "1.14.2"])
def dify(request: pytest.FixtureRequest) -> Iterator[FakeDify]:
    with FakeDify(DATASETS, version=request.param) as server:
        yield server


@pytest.fixture
def source(dify: FakeDify, make_source: Any) -> Callable[..., Any]:
    def make(*names: str, **settings: Any) -> Any:
        ids = [dify.dataset_id(name) for name in names]
        settings = {"cache_ttl_s": 0, "attempts": 1, **NAMED, **settings}
        return make_source(dify.base_url, *ids, connection={"api_key": dify.api_key}, **settings)

    return make


def found(source: Any, text: str = "approval limit") -> list[Chunk]:
    return list(source.search(SourceQuery(text=text, domain="NPA", top_k=10)).chunks)


def fetch(
    source: Any, *chunk_ids: str, documents: Sequence[str] = (), access: AccessScope | None = None
) -> list[Chunk]:
    wanted = FetchRequest(domain="NPA", chunk_ids=chunk_ids, document_ids=tuple(documents), access=access)
    return list(source.fetch(wanted))


@pytest.mark.parametrize("name", ["limits", "ours", "qa", "parents"])
def test_a_fetched_chunk_is_the_chunk_of_a_search_but_for_scores(name: str, source: Callable[..., Any]) -> None:
    asked = source(name)
    for chunk in found(asked):
        extra = {key: value for key, value in chunk.extra.items() if key != "matched_spans"}
        known = chunk._replace(scores=(), extra=extra)
        for fetched in (fetch(asked, chunk.chunk_id), fetch(asked, documents=[str(chunk.document_id)])):
            same = next(one for one in fetched if one.chunk_id == chunk.chunk_id)
            assert same._replace(extra=dict(same.extra)) == known


def test_metadata_have_the_types_of_a_search(source: Callable[..., Any]) -> None:
    asked = source("limits")
    (chunk,) = [one for one in fetch(asked, documents=[str(found(asked)[0].document_id)]) if one.position == 0]
    assert {name: chunk.metadata[name] for name in FACTS} == FACTS
    assert chunk.metadata["upload_date"] == 1_767_225_600.0 and chunk.document_version == "v3.2"


def test_a_document_this_package_wrote_is_known_by_its_own_id(source: Callable[..., Any]) -> None:
    (chunk,) = fetch(source("ours"), documents=["SOP-1"])
    assert (chunk.document_id, chunk.title, chunk.heading_path) == ("SOP-1", "Rules", ("4 Limits",))
    assert chunk.content == "The approval limit is 7 million."


def test_an_edited_chunk_comes_as_it_is_now_and_a_deleted_one_not_at_all(
    dify: FakeDify, source: Callable[..., Any]
) -> None:
    asked = source("limits")
    first, second = sorted(found(asked, "limit"), key=lambda chunk: chunk.position)
    dify.put(replace(DATASETS[0], documents=[replace(LIMITS, segments=["The approval limit is 6 million."])]))
    assert [chunk.content for chunk in fetch(asked, first.chunk_id, second.chunk_id)] == [
        "The approval limit is 6 million."
    ]


@pytest.mark.parametrize("change", [{"enabled": False}, {"archived": True}, {"indexing_status": "indexing"}])
def test_a_document_that_no_search_finds_is_not_there(
    change: dict[str, Any], dify: FakeDify, source: Callable[..., Any]
) -> None:
    asked = source("limits")
    chunk = found(asked)[0]
    dify.put(replace(DATASETS[0], documents=[replace(LIMITS, **change)]))
    assert fetch(asked, chunk.chunk_id, documents=[str(chunk.document_id)]) == []


def test_a_disabled_chunk_is_not_there(dify: FakeDify, source: Callable[..., Any]) -> None:
    asked = source("limits")
    document = str(found(asked)[0].document_id)
    segments = [FakeSegment(str(LIMITS.segments[0]), enabled=False), LIMITS.segments[1]]
    dify.put(replace(DATASETS[0], documents=[replace(LIMITS, segments=segments)]))
    assert [chunk.content for chunk in fetch(asked, documents=[document])] == ["The limit is reviewed in May."]


def test_a_deleted_document_is_not_there(dify: FakeDify, source: Callable[..., Any]) -> None:
    asked = source("limits")
    chunk = found(asked)[0]
    dify.put(replace(DATASETS[0], documents=[]))
    assert fetch(asked, chunk.chunk_id, documents=[str(chunk.document_id)]) == []


def test_what_is_raised_above_the_caller_is_as_if_it_were_not_there(source: Callable[..., Any]) -> None:
    asked = source("board")
    wanted = [str(chunk.document_id) for chunk in found(asked)]
    clerk, head = AccessScope(), AccessScope(clearance=Classification.RESTRICTED)
    assert {chunk.title for chunk in fetch(asked, documents=wanted, access=clerk)} == {"Limits"}
    assert {chunk.title for chunk in fetch(asked, documents=wanted, access=head)} == {"Limits", "Board"}
    secret = next(chunk.chunk_id for chunk in found(asked) if chunk.title == "Board")
    assert fetch(asked, secret, access=clerk) == []


@pytest.mark.parametrize("name", ["outside", "closed"])
def test_a_dataset_that_cannot_be_read_through_the_api_says_so(name: str, source: Callable[..., Any]) -> None:
    chunk_id = found(source("limits"))[0].chunk_id
    with pytest.raises(SourceForbidden):
        fetch(source(name), chunk_id)


def test_one_dataset_that_fails_counts_unless_another_has_everything(
    dify: FakeDify, source: Callable[..., Any]
) -> None:
    asked = source("limits", "closed")
    chunk = found(source("limits"))[0]
    assert [one.chunk_id for one in fetch(asked, chunk.chunk_id)] == [chunk.chunk_id]
    with pytest.raises(SourceError, match=dify.dataset_id("closed")):
        fetch(asked, chunk.chunk_id, "00000000-0000-4000-8000-00000000dead")
    with pytest.raises(SourceError, match=dify.dataset_id("closed")):
        fetch(asked, documents=[str(chunk.document_id)])


def test_a_dataset_that_is_gone_is_told_from_a_chunk_that_is_gone(make_source: Any, dify: FakeDify) -> None:
    gone = make_source(dify.base_url, "00000000-0000-4000-8000-00000000dead", connection={"api_key": dify.api_key})
    with pytest.raises(SourceNotFound):
        fetch(gone, documents=["SOP-1"])


def test_reading_costs_nothing_of_the_rate_limit(make_source: Any) -> None:
    with FakeDify(DATASETS, rate_limit=1) as dify:
        asked = make_source(dify.base_url, dify.dataset_id("limits"), connection={"api_key": dify.api_key})
        chunk = found(asked)[0]
        for _ in range(5):
            assert fetch(asked, documents=[str(chunk.document_id)])


def test_an_outage_is_no_missing_chunk(dify: FakeDify, source: Callable[..., Any]) -> None:
    asked = source("limits")
    chunk = found(asked)[0]
    dify.inject("plugin_daemon_down", endpoint="segments")
    with pytest.raises(SourceUnavailable):
        fetch(asked, documents=[str(chunk.document_id)])


def test_chunk_ids_alone_are_looked_for_in_a_dataset_of_bounded_size(make_source: Any) -> None:
    many = FakeDataset("many", documents=[FakeDocument(f"D{n:03}", [f"Rule {n}."]) for n in range(201)])
    with FakeDify([many]) as dify:
        asked = make_source(dify.base_url, dify.dataset_id("many"), connection={"api_key": dify.api_key}, attempts=1)
        with pytest.raises(SourceUnavailable, match="has 201 documents"):
            fetch(asked, "00000000-0000-4000-8000-00000000dead")
        calls = len(dify.requests)
        assert fetch(asked, "no uuid at all") == [] and len(dify.requests) <= calls + 4


def test_long_documents_are_read_page_by_page(make_source: Any) -> None:
    long = FakeDataset("long", documents=[FakeDocument("Long", [f"Rule {n}." for n in range(250)])])
    with FakeDify([long]) as dify:
        asked = make_source(dify.base_url, dify.dataset_id("long"), connection={"api_key": dify.api_key})
        document = str(found(asked, "rule")[0].document_id)
        assert [chunk.position for chunk in fetch(asked, documents=[document])] == list(range(250))
