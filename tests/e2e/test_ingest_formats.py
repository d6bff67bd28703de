"""A folder of every format, taken into either target by the command line and found again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main
from context_engine.testing import FakeDify

DOCUMENTS = Path(__file__).parents[1] / "data" / "documents"
MANIFEST = """
version: 1
domain: BANK
sources:
  - id: bank
    type: bank_sop
    ttl_seconds: 86400
    {target}
    documents:
      - {include: "**/*.docx", doc_type: sop_document}
      - {include: "**/*.pdf", doc_type: regulatory_notice}
      - {include: "**/*"}
"""
WRITTEN = {
    "glossary.md": "# Glossary\n\nA **mooring facility** means a credit line that is renewed every quarter.\n",
    "memo.txt": "The vault on Pier Street opens at nine.\n",
    "desks.jsonl": '{"entity_id": "DESK-1", "name": "Kelp desk", "mandate": "trades in seaweed futures"}\n',
    "products.json": '[{"entity_id": "PR-1", "name": "Anchor deposit", "term": "ninety days"}]',
    "broken.pdf": "%PDF-1.4 cut off",
    "slides.key": "not read",
}


def run(*args: str, code: int = 0) -> Any:
    result = CliRunner().invoke(main, [*args, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


KEY = "dataset-formatssecret0003"
TO_DIFY = "adapter: dify\n    connection: dify\n    settings: {vector_store: pgvector}"


@pytest.fixture(scope="module", params=["local", "dify"])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def report(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The report of taking in the folder, which stays the current directory; the manifest then reads the target."""
    place = tmp_path_factory.mktemp("bank")
    with pytest.MonkeyPatch.context() as patch, FakeDify([], api_key=KEY, indexing_s=0.0) as dify:
        for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "XDG_CONFIG_HOME"):
            patch.delenv(name, raising=False)
        patch.setenv("HOME", str(place))
        patch.setenv("CONTEXT_ENGINE_DATA_DIR", str(place / "data"))
        patch.chdir(place)
        (place / "manifests").mkdir()
        (place / "config").mkdir()
        (place / "config" / "connections.yaml").write_text(f"dify: {{base_url: {dify.base_url}, api_key: {KEY}}}\n")
        manifest, written = place / "manifests" / "bank.yaml", MANIFEST
        manifest.write_text(written.replace("{target}", "adapter: local" if target == "local" else TO_DIFY))
        shutil.copytree(DOCUMENTS, place / "documents", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        for name, text in WRITTEN.items():
            (place / "documents" / name).write_text(text)
        done = run("ingest", "documents", "--domain", "BANK", "--to", target, code=3)  # broken.pdf could not be read
        if target == "dify":
            [dataset] = done["dify"]["datasets"]
            ids = f"dataset_ids: [{dataset['dataset_id']}]\n    {TO_DIFY}"
            manifest.write_text(written.replace("{target}", ids))
        yield done


@pytest.mark.wording
def test_each_file_is_read_or_said(report: dict[str, Any]) -> None:
    # one each of docx, pdf, html, md, txt, jsonl and json; 3 rows of CSV; 1 cover and 2 + 2 rows of XLSX
    assert report["documents"] == 7 + 3 + 5
    skipped = {one["path"]: (one["reason"], one["error"]) for one in report["skipped"]}
    assert skipped["broken.pdf"] == ("is damaged or cut off: it cannot be opened", True)
    assert skipped["slides.key"][0].startswith(".key cannot be read; supported: ")
    assert not skipped["slides.key"][1]
    assert len(skipped) == 2
    assert any("accounts.csv: is not UTF-8 (line 2): read as cp1252" in one for one in report["warnings"])


@pytest.mark.parametrize(
    ("query", "file", "says"),
    [
        ("who reports a limit breach to Market Risk", "limit-breach-procedure.docx", "within 24 hours"),
        ("approver of an excess above 5 %", "limit-breach-procedure.docx", "| above 5 % | Board Risk Committee |"),
        ("spot limit of Quayside Metals", "counterparty-limits.xlsx", "Utilised: 105%"),
        ("rating of Lighthouse Fund", "accounts.csv", "Rating: A–"),
        ("register of outsourcing arrangements on request", "notice-641.pdf", "within 14 days"),
        ("fee for a transfer abroad at the branch", "fees.html", "| Transfer abroad | branch | 30.00 |"),
        ("what is a mooring facility", "glossary.md", "renewed every quarter"),
        ("when does the vault on Pier Street open", "memo.txt", "opens at nine"),
        ("mandate of the Kelp desk", "desks.jsonl", "seaweed futures"),
        ("term of the anchor deposit", "products.json", "ninety days"),
    ],
)
def test_a_search_finds_what_stands_in_each(report: dict[str, Any], query: str, file: str, says: str) -> None:
    found = run("search", query, "--domain", "BANK")
    chunk = found["chunks"][0]
    assert chunk["metadata"]["source_file"] == file
    assert says in chunk["content"]


def test_a_chunk_of_a_pdf_names_its_page(report: dict[str, Any], target: str) -> None:
    """Dify keeps metadata of documents only: there the chunk's own first line says it."""
    chunk = run("search", "tested exit plan", "--domain", "BANK")["chunks"][0]
    assert (chunk["metadata"]["source_file"], chunk["metadata"].get("page")) == ("notice-641.pdf", 3)
    assert chunk["_provenance"]["extra"]["document_id"] == "notice-641"


def test_taken_in_again_nothing_changes(report: dict[str, Any], target: str) -> None:
    again = run("ingest", "documents", "--domain", "BANK", "--to", target, code=3)
    assert (again["unchanged"], again["added"], again["replaced"]) == (report["documents"], 0, 0)
