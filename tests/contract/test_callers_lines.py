"""The lines that callers write, each with what it must give: the dict API, the typed API and the files beside them."""

from __future__ import annotations

import asyncio
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from context_engine import (
    AllSourcesFailed,
    ApproxTokenCounter,
    Chunk,
    ContextEngineError,
    SearchRequest,
    SourceAnswer,
    SourceError,
    build_engine,
    from_result,
    parse_filter,
    recompute,
)
from context_engine.errors import InvalidRequest
from context_engine.rag import create_rag_pipeline, dify_kb_adapter, rerank, retrieve
from context_engine.testing import FakeDataset, FakeDify, FakeDocument

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
    from context_engine.adapters.sources.local import LocalBase
    from context_engine.ingest.run import ingest
    from context_engine.wiring.embedded_base import base_path
    from context_engine.wiring.setup import load_setup

    with LocalBase.open(base_path(elsewhere / "data"), create=True) as base, base.writer() as writer:
        ingest(elsewhere / "documents", load_setup().registry.domain("NPA").sources, writer)
    return elsewhere


def test_the_personas_are_there_without_any_file(elsewhere):
    from context_engine.wiring.setup import load_setup

    personas = load_setup(cwd=elsewhere).config.personas
    assert sorted(personas) == [
        *("analyst", "auditor", "builder", "compliance_officer", "creator", "educator", "front_desk", "researcher")
    ]
    assert all(one.description for one in personas.values())


def test_a_file_of_personas_is_the_whole_list(elsewhere):
    (elsewhere / "config").mkdir()
    (elsewhere / "config" / "personas.json").write_text('{"auditor": {"description": "All of it.", "max_results": 50}}')
    from context_engine.wiring.setup import load_setup

    personas = load_setup(cwd=elsewhere).config.personas
    assert {name: one.description for name, one in personas.items()} == {"auditor": "All of it."}
    with pytest.raises(InvalidRequest, match=r"unknown persona 'educator'\. Valid: auditor"):
        retrieve(QUESTION, domain="NPA", options={"adapter": cosines, "persona": "educator"})


def test_init_writes_the_personas_that_are_built_in(elsewhere):
    from context_engine.apps.cli.config import write_scaffold
    from context_engine.wiring.setup import load_setup

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


@pytest.mark.wording
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


# -- 3: the External Knowledge endpoint's score_threshold: tests/unit/apps/dify/test_external.py ----------------------


# -- 4: a pipeline's own number of chunks -----------------------------------------------------------------------------


def many(count=6):
    return [
        {"chunk_id": f"c{n}", "content": f"Rule {n} on approval {n}.", "relevance_score": 0.9} for n in range(count)
    ]


def test_rerank_of_a_pipeline_obeys_its_stage2_top_k():
    pipeline = create_rag_pipeline({"stage2_top_k": 3})
    assert len(pipeline["rerank"]("approval", many())) == 3
    assert len(pipeline["rerank"]("approval", many(), top_k=5)) == 5
    assert len(pipeline["rerank"]("approval", many(), 2)) == 2


def test_rerank_of_a_pipeline_obeys_the_file_s_stage2_top_k(elsewhere):
    (elsewhere / "config").mkdir()
    (elsewhere / "config" / "rag-pipeline.json").write_text('{"stage2_top_k": 4}')
    assert len(create_rag_pipeline()["rerank"]("approval", many(12))) == 4
    assert len(rerank("approval", many(12))) == 8  # the function's own default stays


# -- 5: the forms of an adapter ---------------------------------------------------------------------------------------


class Searcher:
    """What people write first: an object with `search`."""

    def search(self, query, domain, top_k):
        return many(2)


class TypedSource:
    """A Source of the typed API."""

    source_id, score_kinds = "own", frozenset()

    def search(self, query):
        return SourceAnswer(chunks=[Chunk(content=f"Rule on {query.text}.", chunk_id="typed")])

    def close(self):
        pass


@pytest.mark.parametrize("adapter", [Searcher(), Searcher, Searcher().search, lambda query, domain, top_k=5: many(2)])
def test_a_function_a_class_with_search_and_an_instance_of_it_are_adapters(adapter):
    assert ids(retrieve("approval", options={"adapter": adapter})) == ["c0", "c1"]


def test_a_source_of_the_typed_api_is_an_adapter():
    assert ids(retrieve("approval", options={"adapter": TypedSource()})) == ["typed"]


def write_dify_configuration(folder, dify, dataset, settings="{}"):
    """Write a domain NPA whose one source is a dataset of a Dify on the loopback interface."""
    source = f"{{id: rules, type: bank_sop, adapter: dify, connection: dify, settings: {settings}"
    written = {
        "config/connections.yaml": f"dify: {{base_url: '{dify.base_url}', api_key: '{dify.api_key}'}}\n",
        "manifests/npa.yaml": f"version: 1\ndomain: NPA\nsources:\n  - {source}, "
        f"dataset_ids: ['{dify.dataset_id(dataset)}']}}\n",
    }
    for name, text in written.items():
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)


def test_dify_kb_adapter_itself_is_an_adapter(elsewhere):
    rules = FakeDataset("rules", "economy", [FakeDocument("Rules", ["A loan is approved by two officers."])])
    with FakeDify([rules]) as dify:
        write_dify_configuration(elsewhere, dify, "rules")
        with create_rag_pipeline() as pipeline:
            [chunk] = pipeline["retrieve"]("who approves a loan", domain="NPA", options={"adapter": dify_kb_adapter})
    assert (chunk["source_id"], chunk["authority_tier"]) == ("rules", 2)


class NeedsAnIndex:
    def __init__(self, index):
        self.index = index

    def search(self, query, domain, top_k):
        return many(1)


class OneArgument:
    def search(self, query):
        return many(1)


async def one_by_one(query, domain, top_k):
    yield many(1)


@pytest.mark.parametrize(
    ("adapter", "problem"),
    [
        (lambda query, top_k: many(1), r"adapter <lambda>\(query, top_k\) cannot be called with the three arguments"),
        (lambda: many(1), "cannot be called with the three arguments it is given: query, domain, top_k"),
        (one_by_one, "adapter one_by_one yields its chunks as an async generator: return them as a list"),
        (NeedsAnIndex, "adapter is the class NeedsAnIndex, which takes arguments: give an instance of it"),
        (OneArgument(), "has a search.query. like a Source, but no score_kinds and no close"),
        (
            "a name",
            "adapter must be a function .query, domain, top_k., or an object with such a method 'search', got str",
        ),
    ],
)
def test_what_is_no_adapter_is_refused_before_anything_is_called(adapter, problem):
    with pytest.raises(InvalidRequest, match=problem):
        retrieve("approval", options={"adapter": adapter})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"results": many(2), "total": 2},
            "returned dict instead of a list of chunks: return the list that is in its 'results'",
        ),
        (
            ["a text", "another"],
            r"none of the 2 chunk\(s\) .* can be read: a chunk must be a dict with 'content', got str",
        ),
        (
            [{"contnt": "A rule."}],
            "has no text in 'content'. Its text seems to be in 'contnt': name that key 'content'",
        ),
        ([{"text": "A rule."}], "Its text seems to be in 'text': name that key 'content'"),
        (
            [{"content": "A rule.", "source_type": "bank_shop"}],
            "source_type 'bank_shop' does not exist. Did you mean 'bank_sop'",
        ),
    ],
)
def test_an_adapter_of_which_nothing_can_be_read_has_failed_and_the_error_says_why(given, problem):
    with pytest.raises(AllSourcesFailed, match=problem):
        retrieve("approval", options={"adapter": lambda query, domain, top_k: given})


@pytest.mark.wording
def test_what_cannot_be_read_beside_good_chunks_is_a_warning_at_the_result():
    bad = {"content": "A rule on approval.", "source_type": "bank_shop"}
    with pytest.warns(UserWarning, match="left out: source_type 'bank_shop' does not exist. Did you mean 'bank_sop'"):
        chunks = retrieve("approval", options={"adapter": lambda query, domain, top_k: [*many(1), bad]})
    assert ids(chunks) == ["c0"]
    assert [notice.code for notice in chunks.result.notices] == ["chunk_unreadable"]


@pytest.mark.wording
def test_a_misspelt_key_is_a_warning_that_names_the_key_meant():
    given = [{"content": f"Rule {n} on approval.", "relevance_scor": 0.9, "colour": "red"} for n in range(3)]
    with pytest.warns(UserWarning, match=r"3 chunk dict\(s\) have the unknown key 'relevance_scor': did you mean"):
        chunks = retrieve("approval", options={"adapter": lambda query, domain, top_k: given})
    (notice,) = chunks.result.notices
    assert notice.detail == {"key": "relevance_scor", "meant": "relevance_score", "count": 3}
    assert chunks[0]["relevance_scor"] == 0.9  # nothing is lost
    with pytest.warns(UserWarning, match="'relevance_scor'"):
        rerank("approval", given)


def test_a_dict_that_has_the_known_key_may_have_one_like_it():
    given = [{"content": "A rule on approval.", "title": "Rule", "titles": ["Rule"], "relevance_score": 0.9}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert retrieve("approval", options={"adapter": lambda query, domain, top_k: given}).result.notices == ()


def test_what_an_adapter_raised_is_the_cause_and_its_text_stands_nowhere(caplog):
    secret = "password=hunter2-of-the-vault"

    def adapter(query, domain, top_k):
        raise KeyError(secret)

    with caplog.at_level("INFO"), pytest.raises(AllSourcesFailed) as raised:
        retrieve("approval", options={"adapter": adapter})
    failure = raised.value.__cause__
    assert isinstance(failure, SourceError)
    assert isinstance(failure.__cause__, KeyError)
    assert failure.__cause__.args == (secret,)
    assert raised.value.result.sources[0].failure is failure
    told = [str(raised.value), json.dumps(raised.value.result.to_dict(), default=str), caplog.text, str(failure)]
    assert "failed with KeyError" in told[0]
    assert not any(secret in one for one in told)


# -- 6: a score without its kind; strict thresholds -------------------------------------------------------------------


def unkinded(query, domain, top_k):
    return [
        {"chunk_id": "far", "content": "Lunch is served at noon.", "score": 12.5},
        {"chunk_id": "near", "content": "The committee approves the product.", "score": 0.3},
    ]


@pytest.mark.wording
def test_a_score_without_its_kind_is_said_and_the_engine_s_own_score_ranks():
    with pytest.warns(UserWarning, match="'score' without 'score_kind', so the engine's own lexical score ranks them"):
        chunks = retrieve("who approves the product", options={"adapter": unkinded, "min_relevance": 0.0})
    assert ids(chunks) == ["near", "far"]
    (notice,) = chunks.result.notices
    assert (notice.code, notice.detail) == ("score_kind_missing", {"count": 2})
    with pytest.warns(UserWarning, match="score_kind"):
        assert ids(rerank("who approves the product", unkinded("", "", 2)))[0] == "near"


def test_a_kind_that_is_said_to_be_unknown_is_no_mistake():
    given = [{**chunk, "score_kind": "unknown"} for chunk in unkinded("", "", 2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert retrieve("approves", options={"adapter": lambda query, domain, top_k: given}).result.notices == ()


def test_a_strict_threshold_is_refused_for_a_function_without_that_kind():
    options = {"adapter": lambda query, domain, top_k: many(3), "similarity_threshold": 0.75}
    assert len(retrieve("approval", options=options)) == 3
    with pytest.raises(InvalidRequest, match=r"no chunk of source\(s\) adapter has a cosine score"):
        retrieve("approval", options={**options, "strict_thresholds": True})
    assert (
        len(retrieve(QUESTION, options={**options, "adapter": cosines, "min_chunks": 4, "strict_thresholds": True}))
        == 4
    )


# -- 7: the funnel, versions, the limit of a chunk, small contexts, a tag alone ---------------------------------------


def test_the_funnel_example_runs_over_a_base_without_vectors(bank):
    text = (ROOT / "config" / "rag-pipeline.funnel.example.json").read_text()
    (bank / "config").mkdir()
    (bank / "config" / "rag-pipeline.json").write_text(text)
    chunks = retrieve(QUESTION, domain="NPA", options={"reranking_enabled": False})  # its model is not at hand here
    assert "committee for approval" in chunks[0]["content"]
    (notice,) = [one for one in chunks.result.notices if one.code == "threshold_not_applicable"]
    assert notice.detail["origin"] == "config/rag-pipeline.json"


VERSIONED = "The limit for a new product is EUR 5 million."


def version_by_function(written, elsewhere):
    given = [{"content": VERSIONED, "document_version": written, "relevance_score": 0.9}]
    return retrieve("limit", options={"adapter": lambda query, domain, top_k: given})


def version_in_metadata(written, elsewhere):
    given = [{"content": VERSIONED, "metadata": {"version": written}, "relevance_score": 0.9}]
    return rerank("limit", given)


def version_in_front_matter(written, elsewhere):
    return ingested(elsewhere, "policy.md", f"---\nversion: '{written}'\n---\n# Limits\n\n{VERSIONED}\n".encode())


def version_in_docx(written, elsewhere):
    import io

    import docx

    document, file = docx.Document(), io.BytesIO()
    for line in ("Limits of new products", "Document ID: LIM-1", f"Version: {written}", VERSIONED):
        document.add_paragraph(line)
    document.save(file)
    return ingested(elsewhere, "policy.docx", file.getvalue())


def version_in_dify(written, elsewhere):
    document = FakeDocument("Limits", [VERSIONED], metadata={"document_version": written})
    with FakeDify([FakeDataset("limits", "economy", [document], fields={"document_version": "string"})]) as dify:
        write_dify_configuration(elsewhere, dify, "limits", "{metadata: {document_version: document_version}}")
        return retrieve("limit of a new product", domain="NPA", options={"filters": "version=3.2"})


def ingested(elsewhere, name, content):
    from context_engine.adapters.sources.local import LocalBase
    from context_engine.ingest.run import ingest
    from context_engine.wiring.embedded_base import base_path
    from context_engine.wiring.setup import load_setup

    (elsewhere / "manifests").mkdir()
    (elsewhere / "manifests" / "npa.yaml").write_text(MANIFEST.replace("*.md", "*"))
    (elsewhere / "documents").mkdir()
    (elsewhere / "documents" / name).write_bytes(content)
    with LocalBase.open(base_path(elsewhere / "data"), create=True) as base, base.writer() as writer:
        ingest(elsewhere / "documents", load_setup().registry.domain("NPA").sources, writer)
    return retrieve("limit of a new product", domain="NPA", options={"filters": "version=V3.2"})


@pytest.mark.parametrize("written", ["3.2", "v3.2", "Version 3.2"])
@pytest.mark.parametrize(
    "road", [version_by_function, version_in_metadata, version_in_front_matter, version_in_docx, version_in_dify]
)
def test_the_version_of_a_document_is_the_same_by_every_road(road, written, elsewhere, monkeypatch):
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(elsewhere / "data"))
    chunk = road(written, elsewhere)[0]
    assert (chunk["document_version"], chunk["_provenance"]["extra"]["document_version"]) == ("3.2", "3.2")


def test_max_chunk_tokens_holds_under_a_profile_and_a_profile_keeps_its_size_where_it_is_not_set(elsewhere):
    from click.testing import CliRunner

    from context_engine.apps.cli import main

    (elsewhere / "handbook.md").write_text(
        "## 4 Access\n\n" + "A sentence of a dozen words stands here so that it counts. " * 200
    )

    def longest():
        found = CliRunner().invoke(
            main, ["chunk", "handbook.md", "--profile", "funnel", "--json"], catch_exceptions=False
        )
        return max(chunk["metadata"]["token_count"] for chunk in json.loads(found.stdout)["documents"][0]["chunks"])

    assert 512 < longest() <= 800
    (elsewhere / "config").mkdir()
    (elsewhere / "config" / "rag-pipeline.json").write_text('{"max_chunk_tokens": 100}')
    assert longest() <= 100


def test_a_context_too_small_for_the_first_passage_begins_with_it_and_says_that_it_is_cut():
    long = "The committee approves a product that " + "and that ".join(f"meets criterion {n} " for n in range(200))
    given = [
        {"chunk_id": "first", "content": long, "relevance_score": 0.9, "authority_tier": 1},
        {"chunk_id": "second", "content": "Minutes are kept.", "relevance_score": 0.5, "authority_tier": 1},
    ]
    context = from_result(rerank("approval", given).result, counter=ApproxTokenCounter(), budget=120)
    assert [(block.chunk_ids, block.truncated) for block in context.blocks] == [(("first",), True)]
    assert context.text.endswith("[truncated]")
    assert context.tokens <= 120
    assert [one.chunk_id for one in context.left_out] == ["second"]


def test_a_tag_alone_can_be_checked(elsewhere, capsys):
    from click.testing import CliRunner

    from context_engine.apps.cli import main

    ranked = rerank("approval", many(2))
    tag = ranked[0]["_provenance"]

    def checked(value):
        (elsewhere / "tag.json").write_text(json.dumps(value))
        found = CliRunner().invoke(main, ["tags", "check", "tag.json", "--json"])
        return [one["checks"] for one in json.loads(found.stdout)["chunks"]]

    [checks] = checked(tag)
    assert {name: one["state"] for name, one in checks.items() if name != "fresh"} == {
        "tag": "ok",
        "text": "noted",
        "authority": "ok",
        "score": "ok",
        "order": "ok",
    }
    assert len(checked([chunk["_provenance"] for chunk in ranked])) == 2
    assert checked({**tag, "authority_tier": 1})[0]["authority"]["state"] == "failed"
    assert checked({key: value for key, value in tag.items() if key != "ttl_seconds"})[0]["tag"]["state"] == "failed"


# -- 8: the typed API -------------------------------------------------------------------------------------------------


def test_a_request_takes_its_number_of_chunks_as_top_k(bank):
    with build_engine() as engine:
        everything = engine.search(SearchRequest(query="committee product approval", domain="NPA"))
        two = engine.search(SearchRequest(query="committee product approval", domain="NPA", top_k=2))
    assert len(everything.chunks) > 2
    assert [chunk.chunk_id for chunk in two.chunks] == [chunk.chunk_id for chunk in everything.chunks[:2]]
    assert two.settings.to_dict()["stage2_top_k"] == {"value": 2, "origin": "call"}


@pytest.mark.parametrize("top_k", [0, 1001, True, 2.0, "2"])
def test_a_top_k_that_cannot_be_used_is_refused(top_k):
    with pytest.raises(InvalidRequest, match="top_k must be"):
        SearchRequest(query="q", domain="NPA", top_k=top_k)


def test_top_k_given_twice_must_be_the_same():
    same = SearchRequest(query="q", domain="NPA", top_k=3, overrides={"stage2_top_k": 3, "stage1_top_k": 9})
    assert same.call_settings == {"stage1_top_k": 9, "stage2_top_k": 3}
    for name in ("stage2_top_k", "top_k"):
        with pytest.raises(InvalidRequest, match=f"top_k is 3, and {name} in overrides is 4: give only one of them"):
            SearchRequest(query="q", domain="NPA", top_k=3, overrides={name: 4})
    assert replace(same, top_k=None, overrides={}).call_settings == {}


def test_a_ranked_chunk_has_title_section_and_url(bank):
    with build_engine() as engine:
        [chunk, *_] = engine.search(SearchRequest(query=QUESTION, domain="NPA")).chunks
    assert chunk.title == "Approval"
    assert (chunk.section, chunk.url) == (None, None)


def test_a_filter_is_read_by_what_the_package_exports(bank):
    wanted = parse_filter("title=Approval")
    with build_engine() as engine:
        found = engine.search(SearchRequest(query="committee product approval", domain="NPA", filters=wanted))
    assert {chunk.title for chunk in found.chunks} == {"Approval"}


def test_an_engine_is_an_asynchronous_context_manager(bank):
    async def ask():
        async with build_engine() as engine:
            found = await engine.asearch(SearchRequest(query=QUESTION, domain="NPA"))
        with pytest.raises(ContextEngineError, match="the engine is closed"):
            engine.search(SearchRequest(query=QUESTION, domain="NPA"))
        return found

    assert asyncio.run(ask()).chunks


def test_a_pipeline_is_a_mapping_that_can_be_closed_and_used_again(bank):
    with create_rag_pipeline({"stage2_top_k": 1}) as pipeline:
        assert isinstance(pipeline, Mapping)
        assert list(pipeline) == ["retrieve", "rerank", "get_config", "get_chunking_strategy"]
        assert len(pipeline) == len(dict(**pipeline)) == 4
        assert len(pipeline["retrieve"](QUESTION, domain="NPA")) == 1
    with pytest.raises(TypeError):
        pipeline["retrieve"] = None
    pipeline.close()
    assert len(pipeline["retrieve"](QUESTION, domain="NPA")) == 1  # it opens its sources again
    pipeline.close()


def test_a_result_computed_again_is_equal_but_for_the_times_of_its_stages(bank):
    with build_engine() as engine:
        result = engine.search(SearchRequest(query=QUESTION, domain="NPA", persona="researcher", top_k=2))
    stages = tuple(stage._replace(elapsed_ms=0.0) for stage in result.stages)
    again = recompute(result)
    assert again != result
    assert again == replace(result, stages=stages)
