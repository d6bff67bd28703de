"""Files are cut as the bank's own configuration says, wherever the plugin has it from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from context_engine.apps.dify.chunk_document import chunk_document
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.file_documents import FileNotRead
from context_engine.apps.dify.reading import Reading, reading_of
from context_engine.errors import ConfigError

TABLE = {"chunking_strategies": {"sop_document": {"chunk_size": 40, "overlap": 0}}}
MANIFEST = {"version": 1, "domain": "NPA", "sources": [{"id": "sops", "type": "bank_sop", "adapter": "local"}]}
TEXT = "# Limits\n\n" + "The head of the desk signs the limit before the first trade of the day. " * 12


def reading(root: Path, **form: Any) -> Reading:
    return reading_of(Credentials.read(form), root=root, env={"HOME": str(root)})


def packed(root: Path, config: dict[str, Any]) -> None:
    (root / "config").mkdir()
    (root / "manifests").mkdir()
    (root / "config/rag-pipeline.json").write_text(json.dumps(config))
    (root / "manifests/npa.yaml").write_text(json.dumps(MANIFEST))


def most_tokens(how: Reading, **fields: Any) -> int:
    report = chunk_document({"text": TEXT, "document_type": "sop_document", **fields}, how).json
    return int(report["tokens"]["most"])


def line(config: dict[str, Any]) -> str:
    return json.dumps({"manifests": [MANIFEST], "config": {"rag-pipeline.json": config}})


def test_without_a_configuration_the_built_in_table_is_used(tmp_path: Path) -> None:
    assert reading(tmp_path, demo_bank=True).options.strategies is None
    assert most_tokens(reading(tmp_path), chunk_line=False) > 40


def test_the_table_of_a_package_is_used(tmp_path: Path) -> None:
    packed(tmp_path, TABLE)
    assert most_tokens(reading(tmp_path), chunk_line=False) <= 40


def test_the_table_of_the_line_goes_before_that_of_the_package(tmp_path: Path) -> None:
    packed(tmp_path, TABLE)
    wide = {"chunking_strategies": {"sop_document": {"chunk_size": 120, "overlap": 0}}}
    assert 40 < most_tokens(reading(tmp_path, domains=line(wide)), chunk_line=False) <= 120


def test_sizes_of_the_form_go_before_the_table(tmp_path: Path) -> None:
    packed(tmp_path, TABLE)
    assert 40 < most_tokens(reading(tmp_path), chunk_line=False, chunk_size=100, overlap=0) <= 100


def test_the_limit_of_a_chunk_holds_for_the_table(tmp_path: Path) -> None:
    packed(tmp_path, {"max_chunk_tokens": 60})
    assert most_tokens(reading(tmp_path), chunk_line=False) <= 60


def test_a_table_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    packed(tmp_path, {"chunking_strategies": {"sop_document": {"chunk_size": "large"}}})
    with pytest.raises(ConfigError, match=r"rag-pipeline\.json.*sop_document"):
        reading(tmp_path)


def test_what_a_file_may_cost_is_said_by_an_ingest_json(tmp_path: Path) -> None:
    packed(tmp_path, {})
    (tmp_path / "config/ingest.json").write_text(json.dumps({"file_max_chunks": 1, "hidden_cells": "read"}))
    how = reading(tmp_path)
    assert (how.options.settings.hidden_cells, how.options.settings.file_memory_mb) == ("read", 512)
    with pytest.raises(FileNotRead, match=r"gives more than 1 chunks.*file_max_chunks in ingest\.json"):
        chunk_document({"text": TEXT, "document_type": "sop_document", "chunk_size": 40, "overlap": 0}, how)


@pytest.mark.parametrize(("own", "held"), [(5.0, 5.0), (90.0, 30.0)])
def test_a_file_is_not_waited_for_longer_than_dify_waits(own: float, held: float, tmp_path: Path) -> None:
    said = {"manifests": [MANIFEST], "config": {"ingest.json": {"file_timeout_s": own}}}
    assert reading(tmp_path, domains=json.dumps(said)).options.settings.file_timeout_s == held
