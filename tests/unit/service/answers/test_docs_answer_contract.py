"""The guide of contexts and answers: its requests are answered as it says, and its programs run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from fastapi.testclient import TestClient

from context_engine import AnswerJson
from context_engine.adapters.sources.local import LocalBase
from context_engine.core.models import Chunk
from context_engine.wiring.embedded_base import base_path
from tests.unit.service.small_bank import CLERK, as_, client_of, small_bank

GUIDE: Final = (Path(__file__).resolve().parents[4] / "docs/guides/answer-contract.md").read_text("utf-8")
ROW: Final = {"id": "handbook", "type": "bank_sop", "title": "Handbook"}


def block(name: str) -> str:
    (found,) = re.findall(rf"^<!-- {name} -->\n```\w+\n(.*?)^```$", GUIDE, flags=re.M | re.S)
    return str(found)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    deployment = small_bank(tmp_path_factory.mktemp("bank"))
    with client_of(deployment) as client:
        yield client
    deployment.close()


def test_its_context_is_that_text(client: TestClient) -> None:
    said = client.post("/api/v1/rag/context", json=json.loads(block("context")), headers=as_(CLERK)).json()
    assert said["context_string"]["formatted_context"] == block("text").rstrip("\n")
    assert said["messages"][0] == {"role": "system", "content": said["context_string"]["formatted_context"]}


def test_its_ranking_puts_the_procedure_first(client: TestClient) -> None:
    said = client.post("/api/v1/rag/rerank", json=json.loads(block("rerank")), headers=as_(CLERK)).json()
    assert [one["chunk_id"] for one in said["chunks"]] == ["sop", "blog"]


def test_its_prompt_holds_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block("prompt"), "answer-contract.md", "exec"), {})
    said = capsys.readouterr().out
    assert "always cite sources using the provided labels" in said.casefold()
    assert "A loss above USD 10,000 is reported within 24 hours." in said


def test_its_program_runs(
    make_deployment: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_deployment({"HANDBOOK": [(ROW, [])]}).data_dir
    chunk = Chunk(content="The hotel limit is EUR 180 a night.", chunk_id="1", document_id="travel", title="Travel")
    with LocalBase.open(base_path(tmp_path / "data"), create=True) as base, base.writer() as writer:
        writer.put("handbook", "travel", "", "hash", [chunk])
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "my-bank").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    exec(compile(block("contract"), "answer-contract.md", "exec"), {})
    answer = AnswerJson.read(capsys.readouterr().out)
    assert answer.answer.cited == ("[1]",)
    assert answer.sources[0].doc_id == "travel"


def test_its_sections_are_those_of_the_contract() -> None:
    (table,) = re.findall(r"^\| Section \|.*?\n\n", GUIDE, flags=re.M | re.S)
    named = [re.findall(r"`(\w+)`", row.split("|")[1])[0] for row in table.strip().splitlines()[2:]]
    assert {*named, "version", "persona"} == set(AnswerJson.model_fields)
