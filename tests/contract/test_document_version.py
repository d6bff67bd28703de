"""One document by every road into a record: its version is the same text in chunk, tag, copies, entry and look-up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.callable import CallableSource
from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.sink import DifySink
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.audit.record.candidates import mentions_of
from context_engine.audit.record.drafts import search_draft
from context_engine.audit.record.question import Pseudonyms
from context_engine.audit.values import Addendum
from context_engine.core.engine import SystemClock
from context_engine.core.models import (
    NOBODY,
    AccessRecord,
    Chunk,
    FetchRequest,
    SearchRequest,
    SearchResult,
    SourceSpec,
)
from context_engine.ingest.run import ingest
from context_engine.rag import rerank
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, FakeDocument

TEXT = "The approval limit of the desk is 5 million."
RULES = {"*.md": "sop_document", "*.jsonl": "entity_record"}


def spec(**fields: Any) -> SourceSpec:
    documents = [{"include": pattern, "doc_type": kind} for pattern, kind in RULES.items()]
    return SourceSpec(id="sops", type="bank_sop", adapter="local", documents=documents, **fields)


@contextmanager
def ingested(tmp_path: Path, name: str, content: str) -> Iterator[LocalSource]:
    folder = tmp_path / "documents"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content)
    with LocalBase(tmp_path / "base") as base:
        with base.writer() as writer:
            ingest(folder, spec(), writer)
        yield LocalSource(base, "sops")


@contextmanager
def in_dify(dataset: FakeDataset, written: Chunk | None = None, **settings: Any) -> Iterator[DifySource]:
    with FakeDify([dataset], indexing_s=0.01) as dify:
        connection = Connection(base_url=dify.base_url, api_key=dify.api_key)
        of_dify = SourceSpec(
            id="sops", type="bank_sop", adapter="dify", connection="dify", settings=settings,
            dataset_ids=(dify.dataset_id(dataset.name),),
        )  # fmt: skip
        workspace = Workspace(lambda: connection, SystemClock())
        if written is not None:
            sink = DifySink((of_dify,), lambda _name: workspace, SystemClock())
            sink.put("sops", "LIMITS", str(written.document_version), "hash", [written])
            sink.commit()
        yield DifySource(of_dify, workspace, SystemClock())
        workspace.close()


def rows(**fields: Any) -> CallableSource:
    row = {"content": TEXT, "chunk_id": "r1", "document_id": "LIMITS", "relevance_score": 0.9, **fields}
    return CallableSource(lambda _query, _domain, _top_k: [row], "sops")


def mapped(value: Any, field: str = "edition", **declared: Any) -> FakeDataset:
    return FakeDataset("Rules", documents=[FakeDocument("Limits", [TEXT], {field: value})], fields=declared)


def version_of_search(source: Any, make_engine: Callable[..., Any]) -> str | None:
    """Search, look at every place where the version stands, fetch what was found; all of them must agree."""
    of_source = spec()
    copy = Chunk(content=TEXT, chunk_id="copy", document_id="COPY", document_version="v9", scores=())
    with make_engine([(of_source, source), (5, [copy])]) as engine:
        result = engine.search(SearchRequest(query="approval limit of the desk", domain="NPA"))
        (shown,) = result.chunks
        assert [member.document_version for member in shown.also_in] == ["9"]
        version = shown.chunk.document_version
        assert shown.provenance.extra["document_version"] == version
        assert shown.to_dict()["_provenance"]["extra"]["document_version"] == version
        assert versions_in_record(result) == ({version, "9"}, {version})
        if hasattr(source, "fetch"):
            wanted = FetchRequest(domain="NPA", document_ids=(str(shown.chunk.document_id),))
            assert {chunk.document_version for chunk in engine.fetch("sops", wanted)} == {version}
        return version


def versions_in_record(result: SearchResult) -> tuple[set[str | None], set[str | None]]:
    """The versions that the look-up table will have, and those that the entry lists."""
    secret = Pseudonyms(b"0" * 32)
    access = AccessRecord(principal=NOBODY)
    draft = search_draft(result, access, pseudonyms=secret, code_version="1")
    made = draft.compose({one.key: Addendum.of(one.kind, one.data).digest for one in draft.contents})
    (candidates,) = [one.data for one in made.addenda if one.kind == "candidates"]
    listed = {one["version"] for one in json.loads(made.entry)["chunks"]}
    return {version for _, _, _, version, _, _ in mentions_of(made.entry, candidates)}, listed


FRONT = "---\ndocument_id: LIMITS\nversion: {}\n---\n# Limits\n\n" + TEXT + "\n"
NAMED: dict[str, Any] = {"metadata": {"document_version": "edition"}}


@pytest.mark.parametrize("written", ["3.10", "'3.10'", "v3.10", "Version 3.10", " V. 3.10 "])
def test_front_matter(written: str, tmp_path: Path, make_engine: Any) -> None:
    with ingested(tmp_path, "limits.md", FRONT.format(written)) as source:
        assert version_of_search(source, make_engine) == "3.10"


@pytest.mark.parametrize(("written", "version"), [("3.2", "3.2"), ('"v3.2"', "3.2"), ("4", "4"), ('""', None)])
def test_records(written: str, version: str | None, tmp_path: Path, make_engine: Any) -> None:
    row = f'{{"entity_id": "LIMITS", "rule": "{TEXT}", "version": {written}}}\n'
    with ingested(tmp_path, "limits.jsonl", row) as source:
        assert version_of_search(_text_alone(source), make_engine) == version


def _text_alone(source: LocalSource) -> CallableSource:
    """A record's text names its fields; with the text alone it is the copy's."""
    chunks = [chunk._replace(content=TEXT, metadata={}) for chunk in source.list_chunks()]
    return CallableSource(lambda _query, _domain, _top_k: chunks, "sops")


@pytest.mark.parametrize(("value", "version"), [("v3.2", "3.2"), (3.2, "3.2"), (4, "4"), ("", None), (" ", None)])
def test_metadata_of_dify(value: Any, version: str | None, make_engine: Any) -> None:
    with in_dify(mapped(value), **NAMED) as source:
        assert version_of_search(source, make_engine) == version


@pytest.mark.parametrize("kind", ["string", "number"])
def test_what_this_package_wrote_to_dify(kind: str, make_engine: Any) -> None:
    """A field of numbers holds 3.1 where the document says 3.10; its mark holds the document's own."""
    chunk = Chunk(content=TEXT, document_id="LIMITS", document_version="3.10", title="Limits")
    with in_dify(FakeDataset("Rules", fields={"edition": kind}), chunk, **NAMED) as source:
        assert version_of_search(source, make_engine) == "3.10"


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        ({"document_version": "v3.2"}, "3.2"),
        ({"document_version": 3.2}, "3.2"),
        ({"version": 4}, "4"),
        ({"document_version": "", "metadata": {"document_version": "3.2"}}, "3.2"),
        ({"_provenance": {"extra": {"document_version": "3.2"}}}, "3.2"),
        ({"metadata": {"version": " v3.2 "}}, "3.2"),
        ({"document_version": "  "}, None),
        ({}, None),
    ],
)
def test_dicts_of_an_adapter_and_of_a_rerank(fields: Any, version: str | None, make_engine: Any) -> None:
    assert version_of_search(rows(**fields), make_engine) == version
    (ranked,) = rerank("approval limit", [{"content": TEXT, "relevance_score": 0.9, **fields}])
    assert ranked["_provenance"]["extra"]["document_version"] == version


@pytest.mark.parametrize(
    ("given", "version"),
    [("v3.2", "3.2"), (3.2, "3.2"), (4, "4"), ("", None), ("\t", None), (True, None), (float("nan"), None)],
)
def test_chunks_of_an_adapter(given: Any, version: str | None, make_engine: Any) -> None:
    chunk = Chunk(content=TEXT, chunk_id="r1", document_id="LIMITS", document_version=given)
    source = CallableSource(lambda _query, _domain, _top_k: [chunk], "sops")
    assert version_of_search(source, make_engine) == version
