"""The lines that callers write, each with what it must give: the dict API, the typed API and the files beside them."""

from __future__ import annotations

import json
import os

import pytest

from context_engine.rag import create_rag_pipeline, retrieve

RULES = {
    "approval": ("A proposal above the materiality limit goes to the product committee for approval.", 0.62),
    "review": ("The approval of a product is reviewed by the committee every twelve months.", 0.58),
    "register": ("The register lists each product with its owner and the day of its approval.", 0.55),
    "canteen": ("Lunch is served from noon; the canteen committee plans the menu.", 0.20),
}
"""Texts with the cosine that an embedding model gives them for QUESTION: all below .75."""
QUESTION = "Who approves a product proposal?"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty folder, so that no configuration but the test's own is found."""
    for name in [name for name in os.environ if name.startswith(("CONTEXT_ENGINE_", "RAG_", "HYBRID_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cosines(query, domain, top_k):
    return [
        {"chunk_id": name, "content": text, "score": cosine, "score_kind": "cosine", "authority_tier": 2}
        for name, (text, cosine) in RULES.items()
    ]


def ids(chunks):
    return [chunk["chunk_id"] for chunk in chunks]


# -- 1: min_chunks under a similarity_threshold -----------------------------------------------------------------------


@pytest.mark.parametrize(("least", "expected"), [(0, []), (1, ["approval"]), (3, ["approval", "register", "review"])])
def test_min_chunks_brings_back_the_best_below_a_similarity_threshold(least, expected):
    options = {"adapter": cosines, "similarity_threshold": 0.75, "min_chunks": least}
    chunks = retrieve(QUESTION, domain="NPA", options=options)
    assert sorted(ids(chunks)) == expected
    assert all("below_threshold" in chunk["_provenance"]["extra"]["flags"] for chunk in chunks)
    fates = {fate.chunk_id: (str(fate.outcome), fate.stage, fate.value, fate.limit) for fate in chunks.result.fates}
    assert len(fates) == 4
    assert fates["canteen"] == ("dropped", "threshold", 0.20, 0.75)
    assert sorted(name for name, fate in fates.items() if fate[0] == "returned") == expected


def test_a_persona_s_min_results_holds_under_its_similarity_threshold(elsewhere):
    (elsewhere / "config").mkdir()
    persona = {"educator": {"similarity_threshold": 0.8, "max_results": 10, "min_results": 3, "rerank": True}}
    (elsewhere / "config" / "personas.json").write_text(json.dumps(persona))
    chunks = retrieve(QUESTION, domain="NPA", options={"adapter": cosines, "persona": "educator"})
    assert sorted(ids(chunks)) == ["approval", "register", "review"]


def test_a_pipeline_s_own_minimum_holds_in_rerank_too():
    pipeline = create_rag_pipeline({"similarity_threshold": 0.6, "min_chunks": 2})
    ranked = pipeline["rerank"](QUESTION, cosines(QUESTION, "NPA", 40))
    flags = {chunk["chunk_id"]: "below_threshold" in chunk["_provenance"]["extra"]["flags"] for chunk in ranked}
    assert flags == {"approval": False, "review": True}


def test_scope_is_decided_before_the_minimum_brings_anything_back():
    options = {"adapter": cosines, "similarity_threshold": 0.75, "min_chunks": 2, "out_of_scope": True}
    chunks = retrieve(QUESTION, domain="NPA", options={**options, "scope_threshold": 0.95})
    assert chunks.result.decision == "out_of_scope"
    assert len(chunks) == 2
    assert all("below_threshold" in chunk["_provenance"]["extra"]["flags"] for chunk in chunks)
