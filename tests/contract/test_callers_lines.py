"""The lines that callers write, each with what it must give: the dict API, the typed API and the files beside them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from context_engine.errors import InvalidRequest
from context_engine.rag import create_rag_pipeline, retrieve

ROOT = Path(__file__).resolve().parents[2]
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


# -- 2: personas ------------------------------------------------------------------------------------------------------

MANIFEST = """\
version: 1
domain: NPA
sources:
  - {id: sops, type: bank_sop, documents: [{include: "*.md", doc_type: sop_document}]}
"""


@pytest.fixture
def bank(elsewhere, monkeypatch):
    """A domain NPA over an embedded base without an embedder: it gives no cosine."""
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(elsewhere / "data"))
    (elsewhere / "manifests").mkdir()
    (elsewhere / "manifests" / "npa.yaml").write_text(MANIFEST)
    (elsewhere / "documents").mkdir()
    for name, (text, _) in RULES.items():
        (elsewhere / "documents" / f"{name}.md").write_text(f"# {name.title()}\n\n{text}\n")
    from context_engine.adapters.sources.factory import base_path
    from context_engine.adapters.sources.local import LocalBase
    from context_engine.ingest import ingest
    from context_engine.wiring import load_setup

    with LocalBase.open(base_path(elsewhere / "data"), create=True) as base, base.writer() as writer:
        ingest(elsewhere / "documents", load_setup().registry.domain("NPA").sources, writer)
    return elsewhere


def test_the_personas_are_there_without_any_file(elsewhere):
    from context_engine.wiring import load_setup

    personas = load_setup(cwd=elsewhere).config.personas
    assert sorted(personas) == ["builder", "creator", "educator", "researcher"]
    assert all(one.description for one in personas.values())


def test_a_file_of_personas_is_the_whole_list(elsewhere):
    (elsewhere / "config").mkdir()
    (elsewhere / "config" / "personas.json").write_text('{"auditor": {"description": "All of it.", "max_results": 50}}')
    from context_engine.wiring import load_setup

    personas = load_setup(cwd=elsewhere).config.personas
    assert {name: one.description for name, one in personas.items()} == {"auditor": "All of it."}
    with pytest.raises(InvalidRequest, match="unknown persona 'educator'. Valid: auditor"):
        retrieve(QUESTION, domain="NPA", options={"adapter": cosines, "persona": "educator"})


def test_init_writes_the_personas_that_are_built_in(elsewhere):
    from context_engine.settings.scaffold import write_scaffold
    from context_engine.wiring import load_setup

    built_in = load_setup(cwd=elsewhere).config.personas
    write_scaffold(elsewhere / "new")
    written = load_setup(config_dir=elsewhere / "new", cwd=elsewhere).config.personas
    shipped = load_setup(config_dir=ROOT / "config", cwd=elsewhere).config.personas
    for name, one in built_in.items():
        for other in (written[name], shipped[name]):
            assert other.description == one.description
            assert {key: value for key, (value, _) in other.layer.items()} == {
                key: value for key, (value, _) in one.layer.items()
            }


def test_a_persona_of_cosines_works_where_there_are_none_and_the_answer_says_what_is_missing(bank):
    chunks = retrieve(QUESTION, domain="NPA", options={"persona": "educator"})
    assert "committee for approval" in chunks[0]["content"]
    (notice,) = [one for one in chunks.result.notices if one.code == "threshold_not_applicable"]
    assert notice.detail["origin"] == "persona educator (built-in)"
    assert notice.detail["count"] == notice.detail["tested"]
    assert "set 'embedder' in rag-pipeline.json and ingest the documents again" in notice.message


def test_a_threshold_of_the_call_or_a_strict_one_is_refused_there(bank):
    for options in ({"similarity_threshold": 0.8}, {"persona": "educator", "strict_thresholds": True}):
        with pytest.raises(InvalidRequest, match=r"source\(s\) sops give no cosine score.*set 'embedder'"):
            retrieve(QUESTION, domain="NPA", options=options)


def test_a_persona_measures_where_there_are_cosines():
    options = {"adapter": cosines, "persona": "creator", "min_chunks": 0}
    assert (
        retrieve(QUESTION, domain="NPA", options={**options, "similarity_threshold": 0.6})[0]["chunk_id"] == "approval"
    )
    assert retrieve(QUESTION, domain="NPA", options=options) == []  # .65 is above all of them
