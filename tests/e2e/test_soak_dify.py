"""A short soak: processes that ingest, are killed and search against one FakeDify, and what Dify holds afterwards."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[1] / "benchmarks" / "soak_dify.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("soak_dify", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "soak_dify", module)  # where dataclasses look
    spec.loader.exec_module(module)
    return module


def test_after_a_soak_dify_holds_what_the_folder_holds(script: Any, tmp_path: Path) -> None:
    soak = script.Soak(tmp_path, seconds=20, seed=1)
    soak.run()
    assert soak.wrong == []
    assert soak.counts["documents at the end"] > 0
    assert sum(count for name, count in soak.counts.items() if name.startswith("ingest")) > 3


def test_the_soak_notices_a_document_that_stands_twice(script: Any, tmp_path: Path) -> None:
    soak = script.Soak(tmp_path, seconds=0, seed=1)
    with soak.dify:
        soak.documents.change()
        soak._prepare(0)
        genuine = soak._start

        def doubled(home: Path, *args: str) -> Any:
            run = genuine(home, *args)
            run.wait()
            (dataset,) = soak.dify._app.datasets.values()
            (document,) = dataset.documents
            dataset.put(type(document)("Copy", document.segments, document.metadata, id="copy"))
            return run

        soak._start = doubled
        soak._compare()
    assert "folder" in soak.wrong[0]
