"""Seed 001: the RAG API, as a library and over HTTP: requests, answers, personas, statistics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

import context_engine
from context_engine.adapters.identity.authenticator import NoAuthentication
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.core.models import Chunk
from context_engine.service.contract.rag import RAGPipelineResponse, RAGQueryRequest
from context_engine.service.deployment import LiveDeployment
from context_engine.service.pipeline import RAGPipeline
from context_engine.testing.fakes import FakeEmbedder, FakeReranker

QUERY = "harbour rights of dockers"
LIBRARY = [
    ("speech-1963", {"year": 1963, "content_type": "speech", "source_org": "Harbour Archive", "tags": ["rights"]}),
    ("letter-1968", {"year": 1968, "content_type": "letter", "source_org": "Harbour Archive", "license": "CC BY 4.0"}),
    ("article-1987", {"year": 1987, "content_type": "article", "tags": "docks, rights"}),
    ("speech-2003", {"year": 2003, "content_type": "speech", "canonical_url": "https://archive.example/2003"}),
]
PRESS = ("article-1987", "speech-2003")
ROWS = [
    {"id": "library", "type": "bank_sop", "title": "Harbour Library", "url": "https://library.example/{document_id}"},
    {"id": "press", "type": "general_web", "title": "Dockside Press"},
]
SEED_FIELDS = {
    *("chunk_id", "doc_id", "namespace", "content", "score", "rank", "citation_label", "canonical_url", "source_org"),
    *("year", "content_type", "license", "tags", "rerank_score", "final_score"),
}


def text_of(name: str) -> str:
    return f"The harbour rights of dockers, as told in {name}."


@pytest.fixture(scope="module")
def deployment(make_deployment: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with LocalBase.open(tmp_path_factory.mktemp("base"), create=True, embedder=FakeEmbedder()) as base:
        with base.writer() as writer:
            for name, metadata in LIBRARY:
                chunk = Chunk(content=text_of(name), chunk_id=name, document_id=name, title=name, metadata=metadata)
                writer.put("press" if name in PRESS else "library", name, "", name, [chunk])
        rows = [(row, LocalSource(base, row["id"])) for row in ROWS]
        scores = {text_of(name): 0.2 + 0.2 * place for place, (name, _) in enumerate(LIBRARY)}
        yield make_deployment({"LIB": rows}, reranker=FakeReranker(scores))


@pytest.fixture(scope="module")
def client(deployment: Any) -> Any:
    service = Service(LiveDeployment(lambda: deployment), NoAuthentication(), threads=2)
    with TestClient(create_app(service)) as client:
        yield client


def ask(deployment: Any, **fields: Any) -> RAGPipelineResponse:
    return RAGPipeline(deployment=deployment).run(RAGQueryRequest(query=QUERY, **fields))


def test_B2_query_and_retrieve_over_http(client: TestClient):
    whole = client.post("/api/v1/rag/query", json={"query": QUERY}).json()
    alone = client.post("/api/v1/rag/retrieve", json={"query": QUERY}).json()
    assert [len(one["chunks"]) for one in (whole, alone)] == [4, 4]
    assert whole["context_string"]["num_chunks"] == 4
    assert alone["context_string"] is None
    assert (whole["reranking_enabled"], alone["reranking_enabled"]) == (True, False)
    asked = client.post("/api/v1/rag/retrieve", json={"query": QUERY, "enable_reranking": True}).json()
    assert asked["reranking_enabled"] is True


@pytest.mark.parametrize("query", ["", " ", "x" * 10_001, "a\x00b", 7, None])
def test_B3_a_query_that_cannot_be_searched_for_is_refused(client: TestClient, query: Any):
    assert client.post("/api/v1/rag/query", json={"query": query}).status_code in (400, 422)


@pytest.mark.parametrize(
    ("persona", "threshold", "most", "least", "rerank"),
    [
        ("educator", 0.80, 10, 3, True),
        ("researcher", 0.75, 20, 5, True),
        ("creator", 0.65, 15, 2, False),
        ("builder", 0.70, 10, 1, False),
    ],
)
def test_B4_B28_personas_as_given(deployment: Any, persona: str, threshold: float, most: int, least: int, rerank: bool):
    answer = ask(deployment, persona_key=persona)
    given = answer.persona_thresholds
    assert answer.persona == persona
    assert (given.similarity_threshold, given.max_results, given.min_results, given.rerank) == (
        threshold,
        most,
        least,
        rerank,
    )
    assert len(answer.chunks) >= min(least, len(LIBRARY))
    assert answer.reranking_enabled is rerank


def test_B5_B29_the_request_wins_over_the_persona_and_each_value_says_where_it_is_from(deployment: Any):
    answer = ask(deployment, persona_key="educator", top_k=2, similarity_threshold=0.1, enable_reranking=False)
    origins = {name: (one.value, one.origin) for name, one in answer.effective.items()}
    assert origins["stage2_top_k"] == (2, "call")
    assert origins["similarity_threshold"] == (0.1, "call")
    assert origins["reranking_enabled"] == (False, "call")
    assert origins["min_chunks"][0] == 3 and origins["min_chunks"][1].startswith("persona educator")
    assert origins["stage1_top_k"] == (40, "default")
    assert len(answer.chunks) == 2


def test_B6_namespaces_are_searched_together_and_ranks_count_from_one(deployment: Any):
    answer = ask(deployment)
    assert answer.statistics.namespaces_searched == ("library", "press")
    assert [chunk.rank for chunk in answer.chunks] == [1, 2, 3, 4]
    finals = [chunk.final_score for chunk in answer.chunks]
    assert finals == sorted(finals, reverse=True)
    one = ask(deployment, namespaces=("press",))
    assert one.statistics.namespaces_searched == ("press",)
    assert {chunk.namespace for chunk in one.chunks} == {"press"}
    assert {chunk.chunk_id for chunk in one.chunks} == set(PRESS)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"year_gte": 1968, "year_lte": 1990, "content_type": ["letter", "article"]}, {"letter-1968", "article-1987"}),
        ("year < 1968", {"speech-1963"}),
        ({"or": [{"year": 1963}, {"field": "year", "op": "gt", "value": 2000}]}, {"speech-1963", "speech-2003"}),
        ({"namespace": "press", "doc_id": "article-1987"}, {"article-1987"}),
        ({"not": {"namespace": "press"}}, {"speech-1963", "letter-1968"}),
    ],
)
def test_B7_filters_in_every_form(deployment: Any, filters: Any, found: set[str]):
    answer = ask(deployment, filters=filters)
    assert {chunk.chunk_id for chunk in answer.chunks} == found
    assert answer.statistics.filters_applied is not None


def test_B7_the_filter_is_told_by_the_names_it_was_given_in(deployment: Any):
    told = ask(deployment, filters={"namespace": "press"}).statistics.filters_applied
    assert told == {"field": "namespace", "op": "eq", "value": "press"}


def test_B8_a_similarity_threshold_is_one_on_the_cosine(deployment: Any):
    """The embedder gives texts that share terms a high cosine; nothing reaches 1."""
    assert ask(deployment, similarity_threshold=1.0).chunks == ()
    answer = ask(deployment, similarity_threshold=0.1)
    assert len(answer.chunks) == 4
    assert answer.effective["similarity_kind"].value == "cosine"


def test_B9_B10_the_models_are_named_where_they_ran(deployment: Any):
    answer = ask(deployment)
    assert (answer.embedding_model, answer.rerank_model) == ("fake-64", "fake")
    plain = ask(deployment, enable_reranking=False)
    assert (plain.embedding_model, plain.rerank_model, plain.reranking_enabled) == ("fake-64", None, False)
    assert [chunk.rerank_score for chunk in plain.chunks] == [None] * 4
    assert plain.statistics.total_reranked == 0


def test_B10_score_is_the_relevance_before_the_reranker(deployment: Any):
    """final = 0.6 * (0.5 * score + 0.5 * rerank) + 0.4 * boost; the boost is 0.30 in the library, 0 in the press."""
    without = {chunk.chunk_id: chunk.score for chunk in ask(deployment, enable_reranking=False).chunks}
    for chunk in ask(deployment, settings={"exact_first": False}).chunks:
        assert chunk.score == without[chunk.chunk_id]
        assert chunk.score is not None and chunk.rerank_score is not None
        boost = 0.30 if chunk.namespace == "library" else 0.0
        blend = 0.5 * chunk.score + 0.5 * chunk.rerank_score
        assert chunk.final_score == pytest.approx(0.6 * blend + 0.4 * boost)


def test_B10_only_the_best_are_reranked(deployment: Any):
    answer = ask(deployment, rerank_top_n=2)
    assert answer.statistics.total_reranked == 2
    assert sorted(chunk.rerank_score is None for chunk in answer.chunks) == [False, False, True, True]


def test_B12_B13_the_context_string_and_its_labels(deployment: Any):
    answer = ask(deployment)
    assert answer.context_string is not None
    text = answer.context_string.formatted_context
    for chunk in answer.chunks:
        assert f"### {chunk.citation_label} [Source: {chunk.title}]" in text
        assert chunk.content in text
    assert answer.context_string.max_chunk_score == answer.chunks[0].final_score
    assert ask(deployment, include_context_string=False).context_string is None


def test_B13_the_context_string_keeps_to_both_limits(deployment: Any):
    whole = ask(deployment).context_string
    short = ask(deployment, max_chars=700)
    assert whole is not None and short.context_string is not None
    assert len(short.context_string.formatted_context) <= 700 < len(whole.formatted_context)
    assert 0 < short.context_string.num_chunks < 4
    few = ask(deployment, max_tokens=120).context_string
    assert few is not None and few.total_tokens <= 120


def test_B25_an_answer_too_large_for_its_limit_comes_in_parts(deployment: Any):
    part, chunks = ask(deployment, max_chars=700), []
    while True:
        assert part.context_string is not None
        assert len(part.context_string.formatted_context) <= 700
        assert part.statistics.total_returned == 4
        chunks += part.chunks
        if part.part.cursor is None:
            break
        part = ask(deployment, cursor=part.part.cursor)
    assert part.part.number == part.part.of > 1
    assert [chunk.rank for chunk in chunks] == [1, 2, 3, 4]
    assert len({chunk.citation_label for chunk in chunks}) == 4


def test_B14_statistics(deployment: Any):
    answer = ask(deployment)
    told = answer.statistics
    assert (told.total_retrieved, told.total_reranked, told.total_returned) == (4, 4, 4)
    finals = [chunk.final_score for chunk in answer.chunks]
    assert told.top_score == max(finals)
    assert told.average_score == pytest.approx(sum(finals) / 4)
    assert told.filters_applied is None
    assert told.embedding_time_ms > 0.0
    parts = told.embedding_time_ms + told.search_time_ms + told.rerank_time_ms
    assert 0.0 < parts <= told.total_time_ms


def test_B15_every_field_of_a_chunk_is_told_truly(deployment: Any):
    chunks = {chunk.chunk_id: chunk for chunk in ask(deployment).chunks}
    assert set(type(chunks["speech-1963"]).model_fields) >= SEED_FIELDS
    speech, letter, article, late = (chunks[name] for name, _ in LIBRARY)
    assert (speech.year, speech.content_type, speech.tags) == (1963, "speech", ("rights",))
    assert (speech.source_org, speech.doc_id, speech.namespace) == ("Harbour Archive", "speech-1963", "library")
    assert (letter.license, letter.tags) == ("CC BY 4.0", ())
    assert (article.tags, article.source_org) == (("docks", "rights"), "Dockside Press")
    assert speech.canonical_url == "https://library.example/speech-1963"
    assert late.canonical_url == "https://archive.example/2003"
    assert article.canonical_url is None
    assert speech.provenance["source_id"] == "library"
    assert (speech.authority_tier, article.authority_tier) == (2, 5)


def test_B15_the_answer_is_of_the_published_form(client: TestClient):
    body = client.post("/api/v1/rag/query", json={"query": QUERY, "persona_key": "educator"}).json()
    assert RAGPipelineResponse.model_validate(body).model_dump(mode="json") == body
    seed = {"status", "query", "persona", "chunks", "context_string", "statistics", "persona_thresholds"}
    assert set(body) >= seed | {"reranking_enabled", "embedding_model", "rerank_model", "search_id"}


@pytest.mark.parametrize("field", [{"topk": 3}, {"top_k": 0}, {"top_k": "3"}, {"similarity_threshold": 1.5}])
def test_B15_a_request_is_read_strictly(field: dict[str, Any]):
    with pytest.raises(ValidationError):
        RAGQueryRequest(query=QUERY, **field)


def test_B17_awaited_or_not_the_answer_is_the_same(deployment: Any):
    request = RAGQueryRequest(query=QUERY, persona_key="researcher", namespaces=("library",))

    async def awaited() -> RAGPipelineResponse:
        async with RAGPipeline(deployment=deployment) as pipeline:
            return await pipeline.process(request)

    one, other = asyncio.run(awaited()), RAGPipeline(deployment=deployment).run(request)
    assert _lasting(one) == _lasting(other)
    assert context_engine.RAGPipeline is RAGPipeline
    assert context_engine.RAGQueryRequest is RAGQueryRequest


def test_B17_what_a_pipeline_opened_it_closes(make_deployment: Any):
    own = make_deployment({"LIB": [(ROWS[0], [Chunk(content="A rule.")])]})
    with RAGPipeline(config_dir=own.data_dir, data_dir=own.data_dir) as pipeline:
        pass
    with pytest.raises(context_engine.ContextEngineError):
        pipeline.run(RAGQueryRequest(query=QUERY))
    with RAGPipeline(deployment=own) as pipeline:
        pass
    assert pipeline.run(RAGQueryRequest(query="rule")).domain == "LIB"


def _lasting(answer: RAGPipelineResponse) -> dict[str, Any]:
    """An answer without its times and ids."""
    told = answer.model_dump(mode="json")
    told["statistics"] = {key: value for key, value in told["statistics"].items() if not key.endswith("_ms")}
    told["sources"] = [{**one, "elapsed_ms": 0} for one in told["sources"]]
    for chunk in told["chunks"]:
        chunk["provenance"]["extra"] = {
            key: value
            for key, value in chunk["provenance"]["extra"].items()
            if key not in ("search_id", "retrieved_at")
        }
    return {key: value for key, value in told.items() if key != "search_id"}


def test_B16_chunks_become_sources_and_statistics_the_retrieval_summary(deployment):
    response = RAGPipeline(deployment=deployment).run(RAGQueryRequest(query=QUERY, persona_key="researcher"))
    answer = context_engine.AnswerJson.from_response(response, answer="Told in a speech [1].")
    assert (answer.version, answer.persona) == ("context_engine.answer.v1", "researcher")
    assert len(answer.sources) == len(response.chunks) > 1
    shared = {*SEED_FIELDS} - {"content", "score", "rank", "tags", "rerank_score", "final_score"}
    for source, result, chunk in zip(answer.sources, answer.retrieval_summary.results, response.chunks, strict=True):
        assert {name: getattr(source, name) for name in shared} == {name: getattr(chunk, name) for name in shared}
        assert source.relevance_score == result.score == chunk.final_score
        assert (result.rank, result.snippet) == (chunk.rank, chunk.content[:500])
    summary, statistics = answer.retrieval_summary, response.statistics
    assert (summary.query, summary.top_k) == (QUERY, len(response.chunks))
    assert summary.namespaces == statistics.namespaces_searched
    assert summary.filters == (statistics.filters_applied or {})
    assert context_engine.AnswerJson.read(answer.model_dump_json()) == answer


def test_B16_the_context_goes_into_a_prompt_that_asks_for_the_labels(deployment):
    response = RAGPipeline(deployment=deployment).run(RAGQueryRequest(query=QUERY))
    prompt = context_engine.system_prompt(response.context_string)
    assert "Always cite sources using the provided labels" in prompt
    assert response.context_string.formatted_context in prompt
    (system, user) = context_engine.inject_rag_context([{"role": "user", "content": QUERY}], response.context_string)
    assert (system["content"], user["content"]) == (response.context_string.formatted_context, QUERY)
