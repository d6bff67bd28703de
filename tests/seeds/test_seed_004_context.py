"""Seed 004: what a language model reads, and what it reads when there is nothing."""

import pytest

from context_engine import ApproxTokenCounter, build_context_block, from_result, inject_rag_context
from context_engine.rag import create_rag_pipeline, retrieve

pytestmark = pytest.mark.usefixtures("nothing_configured")

NOTHING = "No relevant information found"


def canteen(_query, _domain, _top_k):
    return [{"content": "Canteen hours are from noon to two.", "chunk_id": "c", "source_type": "bank_sop"}]


@pytest.fixture
def page(chunk_of):
    return chunk_of("c", content="Canteen hours are from noon to two.", title="Canteen", document_id="CANTEEN")


@pytest.mark.parametrize("form", ["markdown", "text"])
def test_E8_out_of_scope_reads_so_and_holds_no_passage(ask, page, form):
    result = ask([(2, [page])], query="approval limit for derivatives")
    context = from_result(result, counter=ApproxTokenCounter(), form=form)
    assert result.decision == "out_of_scope"
    assert (context.text, context.chunk_count, context.citations) == (NOTHING, 0, ())


def test_E8_also_where_min_chunks_brings_weak_passages_back(ask, page):
    """Scope is decided first: what is below it is never shown as an answer."""
    result = ask([(2, [page])], query="approval limit for derivatives", min_chunks=1)
    assert (result.decision, [chunk.flags[-1] for chunk in result.chunks]) == ("out_of_scope", ["below_threshold"])
    context = from_result(result, counter=ApproxTokenCounter())
    assert context.text == NOTHING
    assert [(one.chunk_id, one.reason) for one in context.left_out] == [("c", "out_of_scope")]


def test_E8_where_nothing_was_found_at_all(ask):
    assert from_result(ask([(2, [])]), counter=ApproxTokenCounter()).text == NOTHING
    assert build_context_block([]) == NOTHING


def test_E7_E8_the_minimum_decides_between_an_answer_and_nothing():
    """ "hours" is one of the query's three words that the page holds: half or so of the information."""
    for least, found in ((0.1, 1), (0.99, 0)):
        options = {"adapter": canteen, "min_relevance": least}
        chunks = retrieve("canteen opening hours", options=options)
        assert len(chunks) == found
        assert (build_context_block(chunks) == NOTHING) is (found == 0)


def test_E8_the_sentence_reaches_the_model():
    pipeline = create_rag_pipeline({"min_relevance_score": 0.9})
    chunks = pipeline["retrieve"]("approval limit for derivatives", options={"adapter": canteen, "out_of_scope": True})
    assert chunks == []
    assert chunks.result.decision == "out_of_scope"
    [system, user] = inject_rag_context([{"role": "user", "content": "Limit?"}], build_context_block(chunks))
    assert (system["role"], system["content"], user["role"]) == ("system", NOTHING, "user")


def test_E8_nothing_found_while_a_source_is_missing_says_so_too(ask, page):
    """Then it is incomplete, not out of scope: what is missing might have answered."""

    def down(*_):
        raise TimeoutError

    result = ask([(1, down), (2, [page])], query="approval limit for derivatives")
    text = from_result(result, counter=ApproxTokenCounter()).text
    assert result.decision == "incomplete"
    assert text.startswith(NOTHING)
    assert "may be incomplete" in text


def test_E10_a_passage_is_its_text_with_its_metadata(ask, chunk_of):
    chunk = chunk_of(
        "c",
        0.9,
        "The limit is USD 5 million.",
        title="Limits",
        section="4.1",
        document_version="2",
        metadata={"year": 2025, "project": "ignored"},
    )
    text = from_result(ask([(2, [chunk])]), counter=ApproxTokenCounter()).text
    heading, origin, empty, content = text.splitlines()[-4:]
    assert heading == "### [1] [Source: Limits, Section 4.1]"
    assert origin.startswith("Tier 2, bank SOP · source t2 · version 2 · ")
    assert origin.endswith("relevance 0.90 · 2025")
    assert (empty, content) == ("", "The limit is USD 5 million.")
