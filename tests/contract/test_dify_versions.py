"""Dify as it changed after 1.12.1, a mode of FakeDify each, and what the source makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from context_engine.adapters.http import HttpCall
from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.api import drops_filters, shortcomings, stated_version
from context_engine.adapters.sources.dify.fair_queue import Ticket
from context_engine.adapters.sources.dify.workspace import Workspace, list_datasets
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import SourceAnswer, SourceQuery, SourceSpec
from context_engine.core.policy.filters import parse_filter
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, FakeDocument, FakeSegment
from context_engine.testing.fake_dify import Fault

VERSIONS = ("1.12.1", "1.13.3", "1.14.0", "1.14.1", "1.17.0")
KINDS = FakeDataset(
    "Kinds",
    documents=[
        FakeDocument(f"D{number}", [f"Approval limit {number}."], {"kind": "sop" if number > 30 else "web"})
        for number in range(36)
    ],
)


def opened(dify: FakeDify, *names: str, **settings: Any) -> DifySource:
    connection = Connection(base_url=dify.base_url, api_key=dify.api_key)
    spec = SourceSpec(
        id="s", type="bank_sop", adapter="dify", connection="c", settings={"attempts": 1, **settings},
        dataset_ids=tuple(map(dify.dataset_id, names)),
    )  # fmt: skip
    return DifySource(spec, Workspace(lambda: connection, SystemClock()), SystemClock())


def search(source: DifySource, text: str = "approval limit", **more: Any) -> SourceAnswer:
    return source.search(SourceQuery(text=text, domain="NPA", **{"top_k": 10, **more}))


def posted(dify: FakeDify, body: Any) -> httpx.Response:
    url = f"{dify.base_url}/v1/datasets/{next(iter(dify.dataset_ids.values()))}/retrieve"
    return httpx.post(url, headers={"Authorization": f"Bearer {dify.api_key}"}, json=body, trust_env=False)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_searched_and_its_version_is_known(version: str) -> None:
    economy = FakeDataset("Economy", "economy", KINDS.documents)
    reranked = FakeDataset("Hybrid", documents=KINDS.documents, reranker=("langgenius/fake/fake", "fake-rerank"))
    with FakeDify([KINDS, economy, reranked], version=version) as dify:
        source = opened(dify, "Kinds", "Economy", "Hybrid")
        answer = search(source)
        source.close()
        assert (len(answer.chunks), answer.failures) == (10, ())
        assert source.workspace.version == version


@pytest.mark.parametrize("version", VERSIONS)
def test_a_filter_finds_the_same_in_every_version(version: str) -> None:
    with FakeDify([KINDS], version=version) as dify:
        source = opened(dify, "Kinds")
        answer = search(source, filters=parse_filter({"kind": "sop"}), top_k=4)
        source.close()
        assert {chunk.metadata["kind"] for chunk in answer.chunks} == {"sop"}
        assert len(answer.chunks) == 4  # in 1.13, which returns the best of all kinds, because more are asked for
        asked = [request.body for request in dify.requests if request.path.endswith("/retrieve")]
        assert asked[-1]["retrieval_model"]["top_k"] == (100 if version == "1.13.3" else 4)
        ignored = [notice for notice in answer.notices if notice.code == "filter_ignored"]
        assert len(ignored) == (version == "1.13.3")


@pytest.mark.parametrize("version", ["1.13.3", "1.14.0", "1.17.0"])
@pytest.mark.parametrize("left_out", ["search_method", "reranking_enable", "top_k", "score_threshold_enabled"])
def test_each_of_four_keys_is_mandatory_since_1_13_and_we_send_them_all(version: str, left_out: str) -> None:
    with FakeDify([KINDS], version=version) as dify:
        source = opened(dify, "Kinds")
        search(source)
        source.close()
        sent = dify.requests[-1].body
        model = {name: value for name, value in sent["retrieval_model"].items() if name != left_out}
        refused = posted(dify, {**sent, "retrieval_model": model})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_param")
        assert f"retrieval_model.{left_out}" in refused.json()["message"]
        assert left_out in sent["retrieval_model"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_deletion_is_a_real_204_since_1_14_and_good_in_both(version: str) -> None:
    with FakeDify([KINDS], version=version) as dify:
        source = opened(dify, "Kinds")
        workspace, identity = source.workspace, dify.documents("Kinds")[0].id
        call = HttpCall("DELETE", f"datasets/{dify.dataset_id('Kinds')}/documents/{identity}")
        response = workspace.ask(call, workspace.access(), Ticket(lambda: 10.0))
        source.close()
        assert response.status == (204 if version >= "1.14" else 200)
        assert identity not in {one.id for one in dify.documents("Kinds")}


def test_a_segment_without_its_document_is_known_by_the_list_of_documents() -> None:
    """1.14.1 gives null for every field of a segment's document, but the segment's own `document_id`."""
    told = []
    for version in ("1.14.1", "1.14.2"):
        with FakeDify([KINDS], version=version) as dify:
            source = opened(dify, "Kinds", cache_ttl_s=0)
            answers = [search(source), search(source)]
            source.close()
            told.append([(chunk.document_id, chunk.title, chunk.metadata) for chunk in answers[1].chunks])
            lists = [request for request in dify.requests if "/documents?" in request.path]
            assert len(lists) == (version == "1.14.1")  # kept for half a minute
    assert told[0] and told[0] == told[1]


def test_the_stand_in_names_no_document_as_1_14_1_was_recorded() -> None:
    recorded = json.loads((Path(__file__).parent / "recordings_1_14_1" / "41-hq-semantic.json").read_text("utf-8"))
    with FakeDify([KINDS], version=recorded["dify_version"]) as dify:
        (ours,) = posted(dify, recorded["request"]["json"]).json()["records"]
    (seen,) = recorded["response"]["body"]["records"]
    assert ours["segment"]["document"] == seen["segment"]["document"] == dict.fromkeys(seen["segment"]["document"])
    assert ours["segment"]["document_id"] and seen["segment"]["document_id"]


def test_a_list_may_take_longer_than_the_connection_allows_a_call() -> None:
    """Dify needs many seconds for a hundred datasets; its call may take the whole minute of the list."""
    with FakeDify([FakeDataset("Slow")]) as dify:
        connection = Connection(base_url=dify.base_url, api_key=dify.api_key, timeout_s=0.1)
        workspace = Workspace(lambda: connection, SystemClock())
        dify.inject(Fault(delay_s=0.3), endpoint="list")
        assert [info.name for info in list_datasets(workspace, SystemClock())] == ["Slow"]
        assert len(dify.requests) == 1
        workspace.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_lists_longer_than_a_page_are_read_whole(version: str) -> None:
    with FakeDify([FakeDataset(f"D{number}") for number in range(203)], version=version) as dify:
        connection = Connection(base_url=dify.base_url, api_key=dify.api_key)
        workspace = Workspace(lambda: connection, SystemClock())
        assert len(list_datasets(workspace, SystemClock())) == 203
        workspace.close()
        headers = {"Authorization": f"Bearer {dify.api_key}"}
        page = httpx.get(f"{dify.base_url}/v1/datasets?limit=1000", headers=headers, trust_env=False).json()
        shown = (page["limit"], len(page["data"]), page["has_more"])
        assert shown == ((100, 100, True) if version >= "1.14" else (1000, 100, False))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_chunk_found_by_its_summary_is_the_chunk_with_the_summary_beside_it(version: str) -> None:
    segment = FakeSegment("Clause 4.2: 25 million.", summary="Approval limit of the committee for new products.")
    with FakeDify([FakeDataset("S", documents=[FakeDocument("D", [segment])])], version=version) as dify:
        source = opened(dify, "S")
        (chunk,) = search(source, "approval limit committee new products").chunks
        source.close()
        assert chunk.content == "Clause 4.2: 25 million."
        assert chunk.extra["summary"] == "Approval limit of the committee for new products."


@pytest.mark.parametrize("version", VERSIONS)
def test_child_chunks_are_spans_of_their_parent_and_none_is_no_span(version: str) -> None:
    parent = FakeSegment("Approval: the committee. Limit: 25 million.", children=["Limit: 25 million."])
    documents = [FakeDocument("D", [parent, "Approval limit."])]
    dataset = FakeDataset("P", documents=documents, doc_form="hierarchical_model")
    with FakeDify([dataset], version=version) as dify:
        source = opened(dify, "P")
        by_text = {chunk.content: chunk for chunk in search(source).chunks}
        source.close()
        assert by_text[parent.content].extra["matched_spans"] == [[25, 43]]
        assert "matched_spans" not in by_text["Approval limit."].extra


@pytest.mark.parametrize("version", VERSIONS)
def test_pictures_are_named_their_signed_addresses_are_not_and_one_without_text_is_said(version: str) -> None:
    segments = [
        FakeSegment("Approval limit as the chart shows.", files=["chart.png", "table.png"]),
        FakeSegment(" ", files=["limit.png"]),
    ]
    with FakeDify([FakeDataset("M", documents=[FakeDocument("D", segments)])], version=version) as dify:
        source = opened(dify, "M")
        answer = search(source)
        source.close()
        (chunk,) = answer.chunks
        assert chunk.extra["files"] == ["chart.png", "table.png"]
        assert "sign=" not in repr(chunk)
        (notice,) = answer.notices
        assert (notice.code, notice.detail["pictures"]) == ("chunk_without_text", ["limit.png"])


@pytest.mark.parametrize(
    ("header", "version"),
    [("1.12.1", "1.12.1"), (" 1.13.3 ", "1.13.3"), ("1.14.0-rc.1", "1.14.0-rc.1"), ("", None), ("<b>1.12</b>", None)],
)
def test_a_version_is_what_looks_like_one(header: str, version: str | None) -> None:
    assert stated_version({"x-version": header}) == version
    assert stated_version({}) is None


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (None, "does not state its version"),
        ("1.9.2", "older than 1.12"),
        ("1.11.1", "with 'in'"),
        ("1.13.3", "ignores metadata filters"),
        ("1.14.1", "to which document"),
        ("1.18.0", "newer than 1.17"),
        ("2.0.0", "newer than 1.17"),
    ],
)
def test_what_does_not_work_with_a_version_is_said(version: str | None, words: str) -> None:
    assert any(words in one for one in shortcomings(version))


@pytest.mark.parametrize("version", ["1.12.1", "1.14.0", "1.17.9"])
def test_nothing_is_said_of_a_version_with_which_all_works(version: str) -> None:
    assert shortcomings(version) == ()
    assert not drops_filters(version)
