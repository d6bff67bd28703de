"""Of every value that a request, a persona and the settings may give, the first that is given holds, and is named."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.service.contract.rag import RAGQueryRequest
from context_engine.service.pipeline import RAGPipeline
from context_engine.testing.fakes import ScriptedSource

ROWS: Final = [{"id": "a", "type": "bank_sop"}, {"id": "b", "type": "general_web"}]
TOP_K = st.integers(1, 9)
VALUES: Final = {
    "top_k": ("max_results", "stage2_top_k", TOP_K),
    "similarity_threshold": ("similarity_threshold",) * 2 + (st.sampled_from([0.0, 0.25, 0.5]),),
    "enable_reranking": ("rerank", "reranking_enabled", st.booleans()),
    "rerank_top_n": ("rerank_top_n", "rerank_top_n", TOP_K),
    "namespaces": ("namespaces", "sources", st.sampled_from([["a"], ["b"], ["a", "b"]])),
}
"""By the request's name: the persona's, the setting's, and what may be given."""


@st.composite
def layers(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What request, persona and settings say, each of some of the values."""
    request: dict[str, Any] = {}
    persona: dict[str, Any] = {}
    files: dict[str, Any] = {}
    for name, (of_persona, setting, values) in VALUES.items():
        for layer, key in ((request, name), (persona, of_persona), (files, setting)):
            if draw(st.booleans()) and not (layer is files and name == "namespaces"):
                layer[key] = draw(values)
    return request, persona, files


@given(layers())
def test_request_persona_settings_default(
    make_deployment: Any, given_layers: tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
) -> None:
    request, persona, files = given_layers
    config = {"personas.json": {"own": persona}, "rag-pipeline.json": files}
    rows = [(row, ScriptedSource(row["id"])) for row in ROWS]
    deployment = make_deployment({"NPA": rows}, config=config)
    query = RAGQueryRequest(query="approval", persona_key="own", **request)
    answer = RAGPipeline(deployment=deployment).run(query)
    for name, (of_persona, setting, _) in VALUES.items():
        told = answer.effective[setting]
        value = list(told.value) if isinstance(told.value, tuple) else told.value
        if name in request:
            assert (value, told.origin) == (request[name], "call")
        elif of_persona in persona:
            assert value == persona[of_persona] and told.origin.startswith("persona own")
        elif setting in files:
            assert value == files[setting] and "rag-pipeline.json" in told.origin
        else:
            assert told.origin == "default"
    thresholds = answer.persona_thresholds
    assert thresholds.max_results == answer.effective["stage2_top_k"].value
    assert thresholds.rerank is answer.effective["reranking_enabled"].value
    assert thresholds.similarity_threshold == answer.effective["similarity_threshold"].value


@pytest.mark.parametrize("value", ["unknown", "Own"])
def test_a_persona_that_there_is_not_is_refused(make_deployment: Any, value: str) -> None:
    deployment = make_deployment({"NPA": [(ROWS[0], [])]}, config={"personas.json": {"own": {}}})
    with pytest.raises(Exception, match="persona"):
        RAGPipeline(deployment=deployment).run(RAGQueryRequest(query="approval", persona_key=value))
