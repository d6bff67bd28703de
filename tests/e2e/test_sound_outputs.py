"""Dify answers with metadata nested 900 deep and characters that are none: every output of a search stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main
from context_engine.testing import FakeDataset, FakeDify, FakeDocument
from context_engine.testing.fake_dify import Fault
from context_engine.testing.fake_dify.app import AppResponse

KEY = "dataset-soundoutputsecret"
DATASET = FakeDataset("rules", documents=[FakeDocument("R1", ["Records are kept for seven years."])])
MANIFEST = """
version: 1
domain: NPA
sources:
  - id: sops
    type: bank_sop
    adapter: dify
    connection: dify
    dataset_ids: ["{dataset}"]
    settings: {{attempts: 1, indexing_technique: economy, cache_ttl_s: 0}}
"""


@pytest.fixture
def dify() -> Iterator[FakeDify]:
    with FakeDify([DATASET], api_key=KEY) as server:
        yield server


def body(metadata: str) -> bytes:
    """Return an answer of one record; written by hand, for json.dumps would not write all of it."""
    return (
        '{"query": {"content": "q"}, "records": [{"segment": {"id": "s\\ud800", "position": 1, "content": '
        '"Records are kept \\udfff for seven years.", "answer": null, "document": {"id": "d1", "name": "Rule\\ud83d", '
        f'"doc_metadata": {metadata}}}}}, "score": 0.9, "child_chunks": null}}]}}'
    ).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metadata", "change"),
    [
        ('{"deep": ' + "[" * 900 + "1" + "]" * 900 + "}", "nested deeper than 32 levels"),
        ('{"text": "x\\ud800y"}', "not valid Unicode"),
        ('{"huge": ' + "9" * 4000 + "}", "a number of over 300 digits"),
        ('{"nan": NaN, "long": "' + "x" * 2_000_000 + '"}', "is too large"),
    ],
)
def test_a_search_shows_what_can_be_shown_and_says_the_rest(
    metadata: str, change: str, dify: FakeDify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "config/connections.yaml": f"dify: {{base_url: '{dify.base_url}', api_key: '${{DIFY_API_KEY}}'}}\n",
        "manifests/npa.yaml": MANIFEST.format(dataset=dify.dataset_id("rules")),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DIFY_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)

    def search(*options: str) -> str:
        dify.inject(Fault(answer=AppResponse(200, body(metadata))), endpoint="retrieve")
        result = CliRunner().invoke(main, ["search", "how long are records kept", "-d", "NPA", *options])
        assert result.exit_code == 0, result.output
        result.output.encode("utf-8")
        return result.stdout

    found: dict[str, Any] = json.loads(search("--json"))
    assert [chunk["chunk_id"] for chunk in found["chunks"]] == [r"s\ud800"]
    assert found["chunks"][0]["content"] == "Records are kept \ufffd for seven years."
    changes = [one["detail"]["change"] for one in found["notices"] if one["code"] == "metadata_repaired"]
    assert any(change in one for one in changes), changes
    assert json.loads(search("--jsonl"))["title"] == "Rule\ufffd"
    for option in ("--explain", "--context"):
        assert "Records are kept" in search(option)
