"""Recorded answers of a real Dify 1.14.2 and 1.16.0 to the same requests: the stand-in gives the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from context_engine.testing import FakeDataset, FakeDify, FakeDocument

VERSIONS = ("1.14.2", "1.16.0")
NAMES = sorted(path.stem for path in (Path(__file__).parent / "recordings_1_14_2").glob("*.json"))
ECONOMY, HIGH_QUALITY = "2001fc87-16d9-4eef-ba26-c690f0667fa5", "e96671e9-f0f5-4131-918d-70efd7785f20"
CLOSED, SECOND = "c28b10d9-ebe0-4079-9605-a13f111384e5", "828283fe-4ba3-4cf3-afa7-feb31f849c6b"
LOAN = "Classification criteria. A loan is classified as a non performing asset NPA after 90 days overdue."
NORMS = "Provisioning norms for sub-standard NPA assets are 15 percent of the outstanding."
WEB = "A web article says provisioning of NPA assets is 5 percent and 90 days."
LIMIT = "Approval limit of the committee is 25 million for new products."
REGISTER = "The register of approvals is kept by operations."


def documents(*, second: str | None = None) -> list[FakeDocument]:
    return [
        FakeDocument("SOP-1", [LOAN, NORMS], {"source_type": "bank_sop", "authority_tier": 2}),
        FakeDocument("SOP-2", [LIMIT, REGISTER], id=second),
        FakeDocument("WEB-1", [WEB], {"source_type": "general_web", "authority_tier": 5}),
    ]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def dify(version: str) -> Any:
    datasets = [
        FakeDataset("NPA", "economy", documents(second=SECOND), id=ECONOMY),
        FakeDataset("HQ", "high_quality", documents(), id=HIGH_QUALITY),
        FakeDataset("Empty", "economy", id=CLOSED, enable_api=False),
    ]
    with FakeDify(datasets, version=version) as server:
        yield server


def recorded(name: str, version: str = "1.14.2") -> dict[str, Any]:
    folder = Path(__file__).parent / f"recordings_{version.replace('.', '_')}"
    loaded: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def ask(dify: FakeDify, request: dict[str, Any]) -> httpx.Response:
    url = urlsplit(request["url"])
    headers = {name: text.replace("dataset-REDACTED", dify.api_key) for name, text in request["headers"].items()}
    sent: dict[str, Any] = {"json": request["json"]} if "json" in request else {}
    path = f"{url.path}?{url.query}" if url.query else url.path
    return httpx.request(request["method"], dify.base_url + path, headers=headers, trust_env=False, **sent)


def plain(text: str) -> str:
    """A message without the release of the validator, and without the database's own text."""
    return re.sub(r"errors\.pydantic\.dev/[\d.]+/", "", text).partition("double precision:")[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_stand_in_answers_as_recorded(name: str, version: str, dify: FakeDify) -> None:
    case = recorded(name, version)
    answer, theirs = ask(dify, case["request"]), case["response"]
    assert answer.status_code == theirs["status"], answer.text
    for header in ("x-version", "content-type", "www-authenticate"):
        assert answer.headers.get(header) == theirs["headers"].get(header)
    if theirs["status"] == 204:
        assert answer.content == b""
        return
    ours = answer.json()
    if "error" in theirs["body"] or "code" in theirs["body"]:
        key = "error" if "error" in theirs["body"] else "message"
        assert plain(ours.pop(key)) == plain(theirs["body"].pop(key))
        assert ours == theirs["body"]
    elif "records" in theirs["body"]:
        same_records(ours["records"], theirs["body"]["records"])
    else:
        assert ours == theirs["body"]


def same_records(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    """The same chunks with the same fields; scores and ids are each server's own."""
    contents = [sorted(record["segment"]["content"] for record in records) for records in (ours, theirs)]
    assert contents[0] == contents[1]
    for record, other in ((record, other) for record in ours for other in theirs):
        if record["segment"]["content"] == other["segment"]["content"]:
            assert kinds(record) == kinds(other)
            assert record["segment"]["document"]["doc_metadata"] == other["segment"]["document"]["doc_metadata"]


def kinds(value: Any) -> Any:
    """The names and types of an object, null and [] among them."""
    if isinstance(value, dict):
        return {name: kinds(inner) for name, inner in value.items() if name != "doc_metadata"}
    return [] if value == [] else type(value).__name__


def test_a_wrong_key_does_not_tell_which_datasets_exist_in_1_14_and_did_before() -> None:
    with FakeDify([], version="1.12.1") as old:
        assert ask(old, recorded("60b-unknown-dataset-wrong-key")["request"]).status_code == 404
    with FakeDify([], version="1.14.2") as new:
        assert ask(new, recorded("60b-unknown-dataset-wrong-key")["request"]).status_code == 401
