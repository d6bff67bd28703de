"""The guide of the RAG API: its request is answered, its program runs, its codes are those of the errors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import ValidationError

from context_engine import errors
from context_engine.adapters.sources.local import LocalBase
from context_engine.core.models import Chunk
from context_engine.errors import InvalidRequest
from context_engine.service.contract.rag import RAGQueryRequest
from context_engine.service.pipeline import RAGPipeline
from context_engine.wiring.embedded_base import base_path

GUIDE: Final = (Path(__file__).resolve().parents[3] / "docs/guides/rag-api.md").read_text("utf-8")
ROW: Final = {"id": "handbook", "type": "bank_sop", "title": "Handbook"}


def block(name: str) -> str:
    (found,) = re.findall(rf"^<!-- {name} -->\n```\w+\n(.*?)^```$", GUIDE, flags=re.M | re.S)
    return str(found)


def test_its_request_is_answered(make_deployment: Any):
    told = {"doc_type": "sop_document", "effective_from": "2024-07-01"}
    chunk = Chunk(content="The committee approves a new product.", title="Approval", metadata=told)
    deployment = make_deployment({"NPA": [(ROW, [chunk])]})
    answer = RAGPipeline(deployment=deployment).run(RAGQueryRequest(**json.loads(block("request"))))
    assert [one.title for one in answer.chunks] == ["Approval"]


def test_a_dict_is_no_request_and_the_error_says_what_makes_one(make_deployment: Any):
    with pytest.raises(InvalidRequest, match=r"got a dict: RAGQueryRequest\(query="):
        RAGPipeline(deployment=make_deployment({"NPA": [(ROW, [])]})).run({"query": "x"})  # type: ignore[arg-type]


def test_a_field_out_of_bounds_is_named_and_the_question_not_quoted() -> None:
    with pytest.raises(ValidationError, match="top_k") as refused:
        RAGQueryRequest(query="Is customer Roe on the list?", top_k=0)
    assert "Roe" not in str(refused.value)
    with pytest.raises(ValidationError) as refused:
        RAGQueryRequest(query="Roe" * 4_000)
    assert "Roe" not in str(refused.value)


def test_its_program_runs(
    make_deployment: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = make_deployment({"HANDBOOK": [(ROW, [])]}).data_dir
    chunk = Chunk(content="The hotel limit is EUR 180 a night.", chunk_id="1", document_id="travel", title="Travel")
    with (
        LocalBase.open(base_path(tmp_path / "data"), create=True) as base,
        base.writer() as writer,
    ):
        writer.put("handbook", "travel", "", "hash", [chunk])
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "my-bank").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    exec(compile(block("library"), "rag-api.md", "exec"), {})
    said = capsys.readouterr().out
    assert said.startswith("[1] Travel ")
    assert "The hotel limit is EUR 180 a night." in said


def test_its_fields_are_those_of_a_request():
    (table,) = re.findall(r"^\| Field \|.*?\n\n", GUIDE, flags=re.M | re.S)
    named = {name for row in table.strip().splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named | {"query", "domain"} == set(RAGQueryRequest.model_fields)


def test_its_codes_are_those_of_errors():
    codes = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| \d+ \|([^|]*)\|", GUIDE, flags=re.M))))
    known = {getattr(one, "code", None) for one in vars(errors).values() if isinstance(one, type)}
    assert codes and codes <= known
