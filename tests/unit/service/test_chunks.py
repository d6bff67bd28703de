"""A ranked chunk in the fields of the RAG API."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from context_engine.apps.mcp.search import search_answer
from context_engine.core.context import ApproxTokenCounter, from_result
from context_engine.core.models import SearchResult
from context_engine.service.comparing import compare
from context_engine.service.contract.answer import AnswerJson
from context_engine.service.contract.chunks import ChunkShown, ChunkView, FetchedChunk, RetrievalChunk
from context_engine.service.response import citation_labels, response_of, retrieval_chunk

Ask = Callable[..., SearchResult]


@pytest.fixture
def shown(ask: Ask, chunk_of: Any) -> Callable[..., RetrievalChunk]:
    def show(**fields: Any) -> RetrievalChunk:
        result = ask([(2, [chunk_of("a", 0.9, **fields)])], min_relevance_score=0.0, expired="flag")
        return retrieval_chunk(result.chunks[0], "[1]", "Rules of approval")

    return show


@pytest.mark.parametrize(
    ("fields", "year"),
    [
        ({"metadata": {"year": 1968}}, 1968),
        ({"metadata": {"year": "1968"}}, 1968),
        ({"metadata": {"year": 1968.0}}, 1968),
        ({"metadata": {"date": "2021-05-01"}}, 2021),
        ({"effective_from": date(2024, 7, 1)}, 2024),
        ({"metadata": {"year": 1968, "date": "2021-05-01"}, "effective_from": date(2024, 7, 1)}, 1968),
        ({"metadata": {"date": "2021-05-01"}, "effective_from": date(2024, 7, 1)}, 2021),
        ({"metadata": {"year": "the sixties"}, "effective_from": date(2024, 7, 1)}, 2024),
        ({"metadata": {"year": True}}, None),
        ({"metadata": {"year": 68}}, None),
        ({"metadata": {"date": "long ago"}}, None),
        ({}, None),
    ],
)
def test_the_year_is_the_documents_own_else_that_of_its_dates(
    shown: Callable[..., RetrievalChunk], fields: dict[str, Any], year: int | None
):
    assert shown(**fields).year == year


@pytest.mark.parametrize(
    ("given", "tags"),
    [
        (["rights", "march"], ("rights", "march")),
        ("rights, march ,,", ("rights", "march")),
        (["", " a "], ("a",)),
        ([2024], ("2024",)),
        (7, ()),
        (None, ()),
    ],
)
def test_tags_are_a_list_or_a_text_with_commas(shown: Callable[..., RetrievalChunk], given: Any, tags: tuple[str, ...]):
    assert shown(metadata={"tags": given}).tags == tags


def test_what_the_document_says_goes_before_what_is_known_of_it(shown: Callable[..., RetrievalChunk]):
    own = shown(doc_type="sop_document", metadata={"content_type": "speech", "source_org": "Harbour Archive"})
    assert (own.content_type, own.source_org) == ("speech", "Harbour Archive")
    known = shown(doc_type="sop_document")
    assert (known.content_type, known.source_org, known.license) == ("sop_document", "Rules of approval", None)
    assert shown(metadata={"license": ["a", "list"]}).license is None


def views(result: SearchResult) -> dict[type[ChunkView], list[ChunkView]]:
    """The chunks of a result in every contract that its answers are made of."""
    counter = ApproxTokenCounter()
    response = response_of(result, None, asked=None, mask=None, reranker=None, demo=False, total_ms=0.0)
    answer = AnswerJson.from_response(response)
    tool = search_answer(result, from_result(result, counter=counter), full=True, more="", demo=False)
    fetched = [FetchedChunk.of(chunk.fields()) for chunk in result.chunks]
    told = [ChunkShown.of(chunk.fields(), why="") for chunk in result.chunks]
    every = [
        *(*response.chunks, *answer.sources, *answer.retrieval_summary.results, *tool.results),
        *(*compare(result).enhanced.chunks, *fetched, *told),
    ]
    return {kind: [view for view in every if type(view) is kind] for kind in map(type, every)}


def test_every_contract_of_a_chunk_holds_what_it_promises(ask: Ask, chunk_of: Any):
    metadata = {"page": 7, "tags": "x, y", "year": 2024, "rate": float("inf")}
    dated = chunk_of("a", 0.9, section="4.2", metadata=metadata, effective_from=date(2024, 7, 1))
    made = views(ask([(2, [dated]), (5, [chunk_of("b", 0.8)])], min_relevance_score=0.0, expired="flag"))
    assert made.keys() == set(ChunkView.__subclasses__())
    for kind, shown in made.items():
        assert len(shown) == 2
        for view in shown:
            assert kind.model_validate_json(view.model_dump_json(warnings="error")) == view


def test_every_field_that_is_published_is_set(shown: Callable[..., RetrievalChunk]):
    one = shown(metadata={"unlike json": float("nan")}, section="4.2")
    assert RetrievalChunk.model_validate_json(one.model_dump_json()).metadata == {"unlike json": None}
    assert one.section == "4.2"
    assert one.confidence in ("strong", "fair", "weak")


def test_without_a_context_labels_are_ranks(ask: Ask, chunk_of: Any):
    result = ask([(1, [chunk_of("a", 0.9), chunk_of("b", 0.5)])])
    keys = [(chunk.source_id, chunk.chunk_id) for chunk in result.chunks]
    assert list(citation_labels((), keys).values()) == ["[1]", "[2]"]


def test_neighbours_that_are_one_block_share_its_label_and_the_rest_goes_on_counting(ask: Ask, chunk_of: Any):
    """Parts 1 and 2 of a document become block [1]; what does not fit is [2]."""
    part = {"document_id": "sop", "title": "Approval"}
    chunks = [
        chunk_of("sop-1", 0.9, "The desk approves a new product.", position=0, span=(0, 32), **part),
        chunk_of("sop-2", 0.8, "Finance approves its accounts too.", position=1, span=(32, 66), **part),
        chunk_of("other", 0.7, "approval " * 300, document_id="other"),
    ]
    result = ask([(1, chunks)])
    context = from_result(result, counter=ApproxTokenCounter(), budget=200)
    assert [block.chunk_ids for block in context.blocks] == [("sop-1", "sop-2")]
    keys = [(chunk.source_id, chunk.chunk_id) for chunk in result.chunks]
    assert citation_labels(context.blocks, keys) == {
        ("t1", "sop-1"): "[1]",
        ("t1", "sop-2"): "[1]",
        ("t1", "other"): "[2]",
    }
