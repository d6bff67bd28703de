"""Recorded searches of a Dify 1.12.1 whose knowledge bases the package's pipelines filled: what the chunks say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
import respx

from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import Chunk, SourceQuery, SourceSpec
from context_engine.settings.connections import Connection

BASE: Final = "https://dify.meridian-harbour.example/v1"
DATASET: Final = "b644b4ec-c827-43bf-b869-905045e19833"
RECORDINGS: Final = Path(__file__).parent / "pipeline_recordings"
SOP: Final = ("NPA-SOP-001", "3.2", "New Product Approval Procedure", date(2025, 1, 1))


@pytest.fixture
def dify() -> Iterator[respx.MockRouter]:
    with respx.mock() as router:
        yield router


def recorded(name: str) -> dict[str, Any]:
    return json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))  # type: ignore[no-any-return]


def found(dify: respx.MockRouter, name: str, *, chunk_line: bool = True) -> list[Chunk]:
    """What a search makes of a recorded answer."""
    case = recorded(name)
    dify.get(f"{BASE}/datasets/{DATASET}").respond(json=case["dataset"])
    dify.post(f"{BASE}/datasets/{DATASET}/retrieve").respond(json=case["response"]["body"])
    connection = Connection(base_url=BASE, api_key=f"dataset-{uuid4()}")
    spec = SourceSpec(
        id="filled", type="bank_sop", adapter="dify", connection="dify", dataset_ids=(DATASET,),
        settings={"cache_ttl_s": 0, "attempts": 1, "chunk_line": chunk_line},
    )  # fmt: skip
    source = DifySource(spec, Workspace(lambda: connection, SystemClock()), SystemClock())
    try:
        return list(source.search(SourceQuery(text="notional threshold", domain="NPA", top_k=10)).chunks)
    finally:
        source.close()


def document(chunk: Chunk) -> tuple[Any, ...]:
    return chunk.document_id, chunk.document_version, chunk.title, chunk.effective_from


def test_a_section_comes_whole_with_its_own_number(dify: respx.MockRouter) -> None:
    (chunk,) = found(dify, "sections")
    assert document(chunk) == SOP
    assert (chunk.section, chunk.heading_path) == ("4", ("4 Classification criteria",))
    assert chunk.content.startswith("## 4 Classification criteria\n\n")
    assert "### 4.2 Material Change" in chunk.content


def test_a_whole_document_is_found_at_the_place_of_its_best_passage(dify: respx.MockRouter) -> None:
    (chunk,) = found(dify, "whole-document")
    assert document(chunk) == SOP
    assert (chunk.section, chunk.heading_path) == ("4.2", ("4 Classification criteria", "4.2 Material Change"))
    assert chunk.content.startswith("# New Product Approval Procedure\n\nDocument No.")


def test_an_answer_says_where_its_question_stands(dify: respx.MockRouter) -> None:
    first, second = found(dify, "questions")
    assert document(first) == ("faq", "1.4", "Questions on product approval", date(2025, 3, 1))
    assert (first.heading_path, second.heading_path) == (("1 Approval",), ("1 Approval",))
    assert (first.section, second.section) == ("1.1", "1.2")
    question, answer = first.content.split("\n\n")
    assert question == "Who decides the class of a proposal?"
    assert answer.startswith("The Product Governance Office, after")


def test_a_paragraph_of_a_notice_says_what_it_is_cited_by(dify: respx.MockRouter) -> None:
    chunks = found(dify, "general")
    assert {document(chunk) for chunk in chunks} == {
        ("FCAA-N637", "2023", "FCAA Notice 637: New Products and Material Changes", date(2023, 7, 1))
    }
    for chunk in chunks:
        assert chunk.section is not None
        assert chunk.metadata["reference"] == f"637({chunk.section})"
        assert chunk.content.startswith(f"## {chunk.section} ")


def test_each_record_is_its_own_document(dify: respx.MockRouter) -> None:
    chunks = found(dify, "records")
    assert {(chunk.document_id, chunk.document_version) for chunk in chunks} == {
        ("NPA-001", "4"), ("NPA-REG-SCHEME", "2025.1"),
    }  # fmt: skip
    assert all(chunk.content.startswith(f"{chunk.title}\n") for chunk in chunks)


@pytest.mark.parametrize("name", ["sections", "general", "records"])
def test_where_the_setting_is_off_the_text_is_what_dify_holds(dify: respx.MockRouter, name: str) -> None:
    segments = [record["segment"] for record in recorded(name)["response"]["body"]["records"]]
    chunks = found(dify, name, chunk_line=False)
    assert sorted(chunk.content for chunk in chunks) == sorted(segment["content"] for segment in segments)
    assert {chunk.document_id for chunk in chunks} == {segment["document"]["id"] for segment in segments}
    assert all(chunk.content.startswith("› ") for chunk in chunks)
