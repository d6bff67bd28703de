"""What an embedder did and cost, as the user of `ingest` and `eval run` is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx
from click.testing import CliRunner

from context_engine.apps.cli import main

pytestmark = pytest.mark.slow

MANIFEST = 'version: 1\ndomain: BANK\nsources: [{id: sops, type: bank_sop, documents: [{include: "*.md"}]}]\n'
PIPELINE = {
    "embedder": "openai",
    "embedder_options": {"connection": "models", "dimensions": 4, "price_per_million_tokens": 1000},
}


def embeddings(request: httpx.Request) -> httpx.Response:
    """Ten tokens a text."""
    texts = json.loads(request.content)["input"]
    data = [{"index": place, "embedding": [1.0, float(len(text)), 0.0, 0.0]} for place, text in enumerate(texts)]
    return httpx.Response(200, json={"data": data, "usage": {"total_tokens": 10 * len(texts)}})


@pytest.fixture(autouse=True)
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    files = {
        "config/connections.yaml": "models: {base_url: 'https://models.example'}\n",
        "config/rag-pipeline.json": json.dumps(PIPELINE),
        "manifests/bank.yaml": MANIFEST,
        "docs/a.md": "---\ndocument_id: SOP-A\n---\n# Approval\n\nAny new product is approved by the committee.\n",
        "docs/b.md": "---\ndocument_id: SOP-B\n---\n# Closing\n\nEvery closed account is reported within a week.\n",
        "q.tsv": "q1\tWho approves a new product?\n",
        "r.tsv": "q1\tSOP-A\t1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    with respx.mock(assert_all_called=False) as router:
        router.post("https://models.example/v1/embeddings").mock(side_effect=embeddings)
        yield tmp_path


def run(*args: str) -> Any:
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    return result


def ingest(*args: str) -> Any:
    return run("ingest", "docs", "--domain", "BANK", *args)


def test_ingest_tells_what_was_embedded_and_what_the_cache_gave(bank: Path) -> None:
    assert "embedder: 2 texts embedded, 0 from the cache, 20 tokens, cost 0.0200" in ingest().stderr

    assert json.loads(ingest("--json").stdout)["embedder"] == {
        "embedded": 0, "from_cache": 0, "tokens": 0, "cost": 0.0,
    }  # fmt: skip


def test_a_base_built_anew_takes_its_vectors_from_the_cache(bank: Path) -> None:
    ingest()
    (bank / "data" / "base").rename(bank / "old")
    for file in (bank / "data").glob("files-*.json"):
        file.unlink()

    assert "embedder: 0 texts embedded, 2 from the cache, 0 tokens, cost 0.0000" in ingest().stderr


def test_an_evaluation_tells_it_on_the_console_in_json_and_in_the_report(bank: Path) -> None:
    ingest()
    ask = ("eval", "run", "--queries", "q.tsv", "--qrels", "r.tsv", "-d", "BANK")
    line = "embedder: 1 text embedded, 1 from the cache, 10 tokens, cost 0.0100"

    assert line in run(*ask, "--report", "r.md").stdout
    assert f"as configured: {line}." in (bank / "r.md").read_text("utf-8")
    assert json.loads(run(*ask, "--json").stdout)["embedder"]["tokens"] == 10


def test_nothing_is_told_without_an_embedder(bank: Path) -> None:
    (bank / "config" / "rag-pipeline.json").write_text("{}", "utf-8")
    assert "embedder" not in ingest().output
    assert "embedder" not in json.loads(ingest("--json").stdout)
    out = run("eval", "run", "--queries", "q.tsv", "--qrels", "r.tsv", "-d", "BANK", "--json").stdout
    assert json.loads(out)["embedder"] is None
