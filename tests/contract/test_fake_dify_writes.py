"""FakeDify takes the recorded writes as Dify 1.12.1 took them.

Each recording is one case: the datasets and documents of that moment are declared, the recorded request is sent, and
status, error body or the form of the answer are compared: names, their order, types, and the values that are not made
up (ids, times, counts of tokens).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from context_engine.testing import FakeDataset, FakeDify, FakeDocument, FakeSegment

RECORDINGS = Path(__file__).parent / "write_recordings"
NAMES = [path.stem for path in sorted(RECORDINGS.glob("*.json"))]
ECONOMY = "b644b4ec-c827-43bf-b869-905045e19833"
SOP, FAQ = "d2f2a934-9f85-4d60-be01-851c126fb467", "b151da80-8629-44aa-b227-8a24941169b0"
MANUAL = "2239f345-3743-498c-b1c3-4c3ac0c43150"
ASYNC = {
    "141g-max-tokens-4001": "Custom segment length should be between 50 and 4000.",
    "141h-overlap-gt-max": "Got a larger chunk overlap (200) than chunk size (100), should be smaller.",
}
COMPARED = (
    "name", "description", "provider", "permission", "indexing_technique", "embedding_model", "doc_form", "enabled",
    "embedding_available", "embedding_model_provider", "indexing_status", "display_status", "error", "archived",
    "position", "content", "answer", "word_count", "status", "code", "message", "type", "total", "has_more", "limit",
    "page", "result", "completed_segments", "total_segments", "created_from", "data_source_type",
)  # fmt: skip


def recorded(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def documents(name: str) -> list[FakeDocument]:
    """The documents of the economy dataset at the time of a recording, as the lists of then tell of them."""
    listed = recorded("142-list-documents-after")["response"]["body"]["data"]
    most = {"33": 5, "33b": 5, "163": 6, "141b": 7, "141d": 8, "141g": 10, "141h": 11}.get(name.partition("-")[0], 12)
    segments: list[FakeSegment] = [
        FakeSegment(one["content"], keywords=one["keywords"], id=one["id"])
        for one in recorded("34-list-segments")["response"]["body"]["data"]
    ]
    if name.startswith(("133-", "134-", "135-")):
        manual = recorded("133-segment-update" if name.startswith("134") else "130-segments-create")
        rows = manual["response"]["body"]["data"]
        row = rows if isinstance(rows, dict) else rows[0]
        segments.append(FakeSegment(row["content"], keywords=row["keywords"], id=MANUAL, position=7))
    out = []
    for row in sorted(listed, key=lambda one: one["position"])[:most]:
        metadata = {each["name"]: number(each) for each in row["doc_metadata"] or () if each["id"] != "built-in"}
        out.append(
            FakeDocument(
                row["name"],
                segments if row["id"] == SOP else ["x" * (410 if name.startswith("163") else row["word_count"] or 0)],
                metadata or None,
                id=row["id"],
                place=7 if name.startswith("163") and row["id"] == FAQ else None,
                completed_at=row["created_at"],
                indexing_status=row["indexing_status"],
                error=row["error"],
            )
        )
    return out


def case_position(name: str) -> int:
    position: int = recorded(name)["response"]["body"]["document"]["position"]
    return position


def number(field: Mapping[str, str]) -> str | int:
    return int(field["value"]) if field["type"] == "number" else field["value"]


def datasets(name: str, request: Mapping[str, Any]) -> list[FakeDataset]:
    path = urlsplit(request["url"]).path.split("/")
    identity = path[3] if len(path) > 3 else None
    if name.startswith("04"):
        return [FakeDataset("KYC", "economy")]
    if identity is None or name.startswith(("141j", "37b")):
        return []
    fields: Any = {"doc_type": "string"} if name.startswith("21") else {}
    if name.startswith(("13-", "14-")):
        held = [FakeDocument(f"earlier {n}", ["x"]) for n in range(case_position(name) - 1)]
        form: Any = "hierarchical_model" if name.startswith("14-") else "text_model"
        return [FakeDataset("HQ", documents=held, id=identity, doc_form=form)]
    if identity != ECONOMY or name.startswith(("10-", "20-", "21", "34")):
        segments = [one["content"] for one in recorded("34-list-segments")["response"]["body"]["data"]]
        held = [FakeDocument("SOP", segments, id=SOP)] if name.startswith("34") else []
        return [FakeDataset("One", "economy", held, identity, fields=fields)]
    built_in = not name.startswith(("10-", "20-", "21", "25"))
    return [FakeDataset("NPA SOP", "economy", documents(name), ECONOMY, built_in_fields=built_in)]


@pytest.fixture(scope="module")
def ask() -> Iterator[Callable[[FakeDify, Mapping[str, Any]], httpx.Response]]:
    with httpx.Client(trust_env=False) as client:

        def send(dify: FakeDify, request: Mapping[str, Any]) -> httpx.Response:
            url = dify.base_url + urlsplit(request["url"])._replace(scheme="", netloc="").geturl()
            headers = {"Authorization": f"Bearer {dify.api_key}"}
            return client.request(request["method"], url, headers=headers, json=request.get("json"))

        yield send


SINGLE = [name for name in NAMES if not name.startswith(("11-", "12-", "142", "144d", "153", "163b"))]


@pytest.mark.parametrize("name", SINGLE)
def test_a_write_is_answered_as_recorded(name: str, ask: Any) -> None:
    case = recorded(name)
    with FakeDify(datasets(name, case["request"]), indexing_s=3600.0) as dify:
        answer = ask(dify, case["request"])
    theirs = case["response"]
    assert answer.status_code == theirs["status"], answer.text
    if theirs["status"] == 404:
        assert answer.json()["code"] == theirs["body"]["code"]
        assert theirs["body"]["message"].startswith(answer.json()["message"])
    elif name.startswith("141c"):  # echoes what Dify made of the request
        assert (
            answer.json()["message"].partition("input_value")[0]
            == theirs["body"]["message"].partition("input_value")[0]
        )
    else:
        same(answer.json(), theirs["body"], name)


def same(ours: Any, theirs: Any, where: str) -> None:
    """Compare two JSON values by names, order and types, and by value where the value is not made up."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        assert list(ours) == list(theirs), where
        for name, value in theirs.items():
            if name in COMPARED and not isinstance(value, dict | list):
                assert ours[name] == value, f"{where}.{name}"
            same(ours[name], value, f"{where}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list):
        assert len(ours) == len(theirs), where
        for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            same(mine, other, f"{where}[{place}]")
    else:
        assert (ours is None) == (theirs is None) or where.rpartition(".")[2] in LOOSE, where


def by_api(dify: FakeDify, method: str, path: str, body: Any = None) -> Any:
    """Ask the API without a recording; the body of a good answer."""
    headers = {"Authorization": f"Bearer {dify.api_key}"}
    with httpx.Client(base_url=f"{dify.base_url}/v1", headers=headers, trust_env=False) as client:
        answer = client.request(method, path, json=body)
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


class Clock:
    """Moved by hand."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_indexing_takes_its_time_and_its_states_are_dify_s(ask: Any) -> None:
    early, late = (recorded(name)["response"]["body"]["data"][0] for name in ("11-indexing-status-early-kyc", LATE))
    created, clock = recorded("10-create-by-text-npa-0")["request"], Clock()
    with FakeDify([FakeDataset("NPA SOP", "economy", id=ECONOMY)], clock=clock, indexing_s=10.0) as dify:
        batch = ask(dify, created).json()["batch"]
        path, seen = f"datasets/{ECONOMY}/documents/{batch}/indexing-status", []
        for second in (0, 3, 4.5, 5.5, 7, 10):
            clock.seconds = second
            seen.append(by_api(dify, "GET", path)["data"][0])
        found = by_api(dify, "POST", f"datasets/{ECONOMY}/retrieve", KEYWORD | {"query": "Upgradation"})
    assert [one["indexing_status"] for one in seen] == [
        "waiting", "parsing", "cleaning", "splitting", "indexing", "completed",
    ]  # fmt: skip
    same(seen[0], early, "early")
    same(seen[-1], late, "late")
    assert [one["segment"]["position"] for one in found["records"]] == [6]


def test_the_splitter_cuts_as_recorded(ask: Any) -> None:
    with FakeDify([FakeDataset("NPA SOP", "economy", id=ECONOMY)], indexing_s=0) as dify:
        document = ask(dify, recorded("10-create-by-text-npa-0")["request"]).json()["document"]["id"]
        ours = by_api(dify, "GET", f"datasets/{ECONOMY}/documents/{document}/segments")
    theirs = recorded("34-list-segments")["response"]["body"]
    assert [one["content"] for one in ours["data"]] == [one["content"] for one in theirs["data"]]


def test_a_long_piece_loses_its_spaces() -> None:
    rule = {"mode": "custom", "rules": {"pre_processing_rules": [], "segmentation": {"max_tokens": 50}}}
    with FakeDify([FakeDataset("One", "economy")], indexing_s=0) as dify:
        path = f"datasets/{dify.dataset_id('One')}"
        body = {
            "name": "a",
            "text": "The sheet is signed. " * 20,
            "indexing_technique": "economy",
            "process_rule": rule,
        }
        document = by_api(dify, "POST", f"{path}/document/create-by-text", body)["document"]["id"]
        rows = by_api(dify, "GET", f"{path}/documents/{document}/segments")["data"]
    assert rows[0]["content"].startswith("Thesheetissigned.")


@pytest.mark.parametrize("name", sorted(ASYNC))
def test_a_rule_that_cannot_be_used_fails_after_the_answer(name: str, ask: Any) -> None:
    with FakeDify([FakeDataset("NPA SOP", "economy", id=ECONOMY)], indexing_s=0) as dify:
        assert ask(dify, recorded(name)["request"]).status_code == 200
        (row,) = by_api(dify, "GET", f"datasets/{ECONOMY}/documents")["data"]
    listed = recorded("142-list-documents-after")["response"]["body"]["data"]
    theirs = next(one for one in listed if one["error"] == ASYNC[name])
    same(row | {"position": 0}, theirs | {"position": 0, "name": row["name"]}, name)


def test_an_update_by_text_never_ends_and_the_chunks_are_gone(ask: Any) -> None:
    case = recorded("144-update-by-text")
    with FakeDify(datasets("144", case["request"]), indexing_s=0) as dify:
        ask(dify, case["request"])
        (row,) = by_api(dify, "GET", f"datasets/{ECONOMY}/documents?keyword=FAQ")["data"]
        chunks = by_api(dify, "GET", f"datasets/{ECONOMY}/documents/{FAQ}/segments")["data"]
        by_api(dify, "DELETE", f"datasets/{ECONOMY}/documents/{FAQ}")
    theirs = recorded("144d-document-after-update")["response"]["body"]["data"][0]
    assert (row["indexing_status"], row["name"]) == (theirs["indexing_status"], theirs["name"]) == ("indexing", NEW)
    assert chunks == []


def test_a_document_of_the_same_name_is_written_over_and_keeps_id_and_metadata(ask: Any) -> None:
    case = recorded("163-create-by-text-same-name")
    with FakeDify(datasets("163", case["request"]), indexing_s=0) as dify:
        made = ask(dify, case["request"]).json()["document"]
        page = by_api(dify, "GET", f"datasets/{ECONOMY}/documents?keyword=FAQ")
    assert made["id"] == FAQ
    theirs = recorded("163b-list-after-same-name")["response"]["body"]
    same(page, theirs, "163b")
    assert {one["name"]: one["value"] for one in page["data"][0]["doc_metadata"]}["authority_tier"] == "tier3"


def test_chunks_wait_for_the_document_and_refuse_a_disabled_one() -> None:
    clock = Clock()
    with FakeDify([FakeDataset("One", "economy")], clock=clock, indexing_s=1.0) as dify:
        path = f"/v1/datasets/{dify.dataset_id('One')}"
        headers = {"Authorization": f"Bearer {dify.api_key}"}
        with httpx.Client(base_url=dify.base_url, headers=headers, trust_env=False) as client:
            body = {"name": "a", "text": "", "indexing_technique": "economy"}
            document = client.post(f"{path}/document/create-by-text", json=body).json()["document"]["id"]
            chunk = {"segments": [{"content": "two  spaces\n\n\nkept"}]}
            early = client.post(f"{path}/documents/{document}/segments", json=chunk)
            clock.seconds = 1.0
            good = client.post(f"{path}/documents/{document}/segments", json=chunk)
            client.patch(f"{path}/documents/status/disable", json={"document_ids": [document]})
            disabled = client.post(f"{path}/documents/{document}/segments", json=chunk)
    assert (early.status_code, early.json()["message"]) == (404, "Document is not completed.")
    assert [one["content"] for one in good.json()["data"]] == ["two  spaces\n\n\nkept"]
    assert (disabled.status_code, disabled.json()["message"]) == (404, "Document is disabled.")


def test_metadata_of_an_unknown_document_is_lost_without_a_word() -> None:
    with FakeDify([FakeDataset("One", "economy")]) as dify:
        path = f"datasets/{dify.dataset_id('One')}"
        rows = [{"document_id": SOP, "metadata_list": [{"id": SOP, "name": "a", "value": "b"}]}]
        assert by_api(dify, "POST", f"{path}/documents/metadata", {"operation_data": rows}) == {"result": "success"}
        assert by_api(dify, "GET", f"{path}/documents")["total"] == 0


LATE, NEW = "12-indexing-status-completed", "FAQ on NPA (renamed)"
KEYWORD = {
    "retrieval_model": {
        "search_method": "keyword_search", "reranking_enable": False, "top_k": 5, "score_threshold_enabled": False,
    }
}  # fmt: skip
LOOSE = ("tokens", "word_count", "updated_by", "disabled_at", "disabled_by", "score_threshold")
