"""Whatever a request of the RAG API holds, it is answered in the published form, or refused as a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from context_engine.core.models import SearchSettings
from context_engine.errors import EvidenceIncomplete, InvalidRequest
from context_engine.service.contract.rag import RAGPipelineResponse, RAGQueryRequest
from context_engine.service.pipeline import RAGPipeline

ROW: Final = {"id": "rules", "type": "bank_sop"}
FIELDS: Final = ["year", "doc_type", "namespace", "doc_id", "tags", "effective_from", "tier", "title", "nothing"]
SUFFIXES: Final = ["", "_gte", "_lt", "_ne", "_in", "_nin", "_contains", "_startswith", "_empty"]

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
names = st.builds(str.__add__, st.sampled_from(FIELDS), st.sampled_from(SUFFIXES))
mappings = st.dictionaries(names, scalars | st.lists(scalars, max_size=3), max_size=3)
filters = st.recursive(
    mappings | values.filter(lambda one: isinstance(one, dict)),
    lambda inner: (
        st.fixed_dictionaries({"and": st.lists(inner, max_size=3)})
        | st.fixed_dictionaries({"or": st.lists(inner, max_size=3)})
        | st.fixed_dictionaries({"not": inner})
    ),
)
requests = st.fixed_dictionaries(
    {"query": st.text(min_size=1, max_size=20) | st.just("approval of rules")},
    optional={
        "domain": st.sampled_from(["NPA", "npa", "", "ORM"]),
        "persona_key": st.sampled_from(["educator", "builder", "nobody"]),
        "namespaces": st.lists(st.sampled_from(["rules", "web"]), max_size=2),
        "filters": filters | st.text(max_size=20),
        "top_k": st.integers(-1, 5),
        "rerank_top_n": st.integers(0, 5),
        "include_context_string": st.booleans(),
        "max_tokens": st.integers(60, 300),
        "max_chars": st.integers(250, 600),
        "as_of": st.dates().map(str),
        "require_tiers": st.lists(st.integers(0, 6), max_size=2),
        "strict": st.booleans(),
        "settings": st.dictionaries(
            st.sampled_from([*SearchSettings.model_fields, "top_k", "embedder", "server_max_top_k"]),
            values,
            max_size=2,
        ),
    },
)


@pytest.fixture(scope="module")
def pipeline(make_deployment: Any, chunk_of: Any) -> RAGPipeline:
    chunks = [chunk_of(name, 0.9 - 0.1 * place, metadata={"year": 2020 + place}) for place, name in enumerate("abc")]
    return RAGPipeline(deployment=make_deployment({"NPA": [(ROW, chunks)]}))


@given(requests)
def test_it_is_answered_or_refused(pipeline: RAGPipeline, body: dict[str, Any]) -> None:
    try:
        request = RAGQueryRequest(**body)
    except ValidationError:
        return
    try:
        answer = pipeline.run(request)
    except (InvalidRequest, EvidenceIncomplete) as error:
        assert str(error)
        return
    parts = list(all_parts(pipeline, answer))
    chunks = [chunk for part in parts for chunk in part.chunks]
    assert [chunk.rank for chunk in chunks] == list(range(1, len(chunks) + 1))
    assert [part.part.number for part in parts] == list(range(1, answer.part.of + 1))
    for part in parts:
        assert part.statistics.total_returned == len(chunks) <= part.statistics.total_retrieved
        assert (part.context_string is not None) is request.include_context_string
        if request.max_chars is not None and part.context_string is not None:
            assert len(part.context_string.formatted_context) <= request.max_chars


def all_parts(pipeline: RAGPipeline, answer: RAGPipelineResponse) -> Iterator[RAGPipelineResponse]:
    """Yield the parts of an answer, each as it is published."""
    while True:
        yield RAGPipelineResponse.model_validate_json(answer.model_dump_json())
        if answer.part.cursor is None:
            return
        answer = pipeline.run(RAGQueryRequest(query="more", cursor=answer.part.cursor))
