"""Recorded answers of Dify 1.12.1 about one document: what is fetched of it is what a recorded search gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import respx

from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import Chunk, FetchRequest, SourceQuery, SourceSpec
from context_engine.settings.connections import Connection
from tests.contract.test_dify_recordings import BASE, DATASET

DOCUMENT = "d2f2a934-9f85-4d60-be01-851c126fb467"


RECORDINGS = Path(__file__).parent


def recorded(name: str) -> Any:
    folder = next(one for one in ("recordings", "write_recordings") if (RECORDINGS / one / f"{name}.json").exists())
    return json.loads((RECORDINGS / folder / f"{name}.json").read_text("utf-8"))["response"]["body"]


@pytest.fixture
def source() -> Any:
    connection = Connection(base_url=BASE, api_key=f"dataset-{uuid4()}")
    spec = SourceSpec(
        id="sops", type="bank_sop", adapter="dify", connection="dify", dataset_ids=(DATASET,),
        settings={"cache_ttl_s": 0, "attempts": 1, "metadata": {"effective_from": "effective_date"}},
    )  # fmt: skip
    return DifySource(spec, Workspace(lambda: connection, SystemClock()), SystemClock())


@respx.mock(base_url=BASE, assert_all_called=False)
def test_a_fetched_document_is_what_a_search_of_it_gave(respx_mock: respx.MockRouter, source: DifySource) -> None:
    where = f"/datasets/{DATASET}"
    respx_mock.post(f"{where}/retrieve").respond(json=recorded("41-keyword-full-model"))
    respx_mock.get(f"{where}/documents/{DOCUMENT}/segments").respond(json=recorded("34-list-segments"))
    respx_mock.get(f"{where}/documents/{DOCUMENT}").respond(json=recorded("35-get-document"))
    respx_mock.get(where).respond(json=recorded("32-get-dataset"))
    searched = source.search(SourceQuery(text="npa", domain="NPA", top_k=10)).chunks
    fetched = source.fetch(FetchRequest(domain="NPA", document_ids=(DOCUMENT,)))
    assert [chunk.position for chunk in fetched] == [0, 1, 2, 3, 4, 5]
    by_id = {chunk.chunk_id: plain(chunk) for chunk in fetched}
    same = [chunk for chunk in searched if chunk.document_id == DOCUMENT]
    assert len(same) == 2 and all(by_id[chunk.chunk_id] == plain(chunk) for chunk in same)
    assert dict(fetched[0].metadata)["effective_date"] == 20240401


def plain(chunk: Chunk) -> Chunk:
    return chunk._replace(scores=(), metadata=dict(chunk.metadata), extra=dict(chunk.extra))
