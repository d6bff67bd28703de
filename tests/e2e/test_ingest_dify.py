"""The demo bank from its files into the embedded base and into a Dify of another process, by the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from context_engine import SearchRequest, build_engine, demo
from context_engine.wiring.setup import load_setup

pytestmark = pytest.mark.slow
KEY = "dataset-processsecret01"
CONNECTIONS = "dify:\n  base_url: ${DIFY_BASE_URL}\n  api_key: ${DIFY_API_KEY}\n  max_connections: 8\n"


class Bank:
    """A configuration folder with the demo's documents; Dify's address and key come from the environment."""

    def __init__(self, folder: Path, base_url: str) -> None:
        self.folder, self.base_url = folder, base_url
        (folder / "config").mkdir(parents=True)
        (folder / "manifests").mkdir()
        (folder / "config" / "connections.yaml").write_text(CONNECTIONS)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONTEXT_ENGINE", "COLUMNS"))}
        self.environment = {
            **kept,
            "HOME": str(folder),
            "CONTEXT_ENGINE_DATA_DIR": str(folder / "data"),
            "DIFY_BASE_URL": base_url,
            "DIFY_API_KEY": KEY,
        }

    def manifest(self, domain: str, adapter: str, datasets: Mapping[str, str] | None = None) -> None:
        """Write the demo's manifest of a domain, with sources of an adapter."""
        raw: Any = yaml.safe_load((demo.MANIFESTS / f"{domain.lower()}.yaml").read_text("utf-8"))
        for source in raw["sources"]:
            source["adapter"] = adapter
            if adapter == "dify":
                source |= {"connection": "dify", "settings": {"vector_store": "pgvector"}}
            if datasets is not None:
                source["dataset_ids"] = [datasets[source["id"]]]
        (self.folder / "manifests" / f"{domain.lower()}.yaml").write_text(yaml.safe_dump(raw))

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", "context_engine", *args],
            cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *args: str, code: int = 0) -> dict[str, Any]:
        """Run `ingest ... --json` to its end and return the report."""
        with self.start("ingest", *args, "--json") as running:
            out, err = running.communicate(timeout=240)
        assert running.returncode == code, err
        assert KEY not in out + err
        report: dict[str, Any] = json.loads(out)
        return report

    def ask(self, path: str) -> Any:
        """Ask Dify."""
        headers = {"Authorization": f"Bearer {KEY}"}
        answer = httpx.get(f"{self.base_url}/v1/{path}", headers=headers, trust_env=False, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def tell(self, path: str, body: Mapping[str, Any]) -> None:
        """Change something in Dify."""
        headers = {"Authorization": f"Bearer {KEY}"}
        answer = httpx.post(f"{self.base_url}/v1/{path}", json=body, headers=headers, trust_env=False, timeout=30)
        assert answer.status_code == 200, answer.text

    def held(self) -> dict[tuple[str, str], list[list[str]]]:
        """{(document id, version): the chunks of each document that has the marks} of all datasets."""
        out: dict[tuple[str, str], list[list[str]]] = {}
        for dataset in self.ask("datasets?limit=100")["data"]:
            path = f"datasets/{dataset['id']}/documents"
            for row in self.ask(f"{path}?limit=100")["data"]:
                marks = {one["name"]: one["value"] for one in row["doc_metadata"] or ()}
                segments = self.ask(f"{path}/{row['id']}/segments?limit=100")["data"]
                key = (marks.get("ce_document_id", "?"), marks.get("ce_version", ""))
                out.setdefault(key, []).append([one["content"] for one in segments])
        return out


@pytest.fixture(scope="module")
def dify(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of an empty Dify in a process of its own."""
    command = [sys.executable, "-m", "context_engine.testing.fake_dify", "--empty", "--api-key", KEY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().partition(": ")[2].strip()
        server.kill()


@pytest.fixture(scope="module")
def bank(dify: str, tmp_path_factory: pytest.TempPathFactory) -> Bank:
    """The bank, ingested into both targets; the manifest is then one of Dify."""
    made = Bank(tmp_path_factory.mktemp("bank"), dify)
    made.manifest("NPA", "dify")
    planned = made.run(str(demo.BANK), "--domain", "NPA", "--to", "dify", "--dry-run")
    assert (planned["dify"]["documents"], made.held(), len(planned["samples"])) == (0, {}, 5)
    manifest = made.folder / "manifests/npa.yaml"
    before = yaml.safe_load(manifest.read_text())
    report = made.run(str(demo.BANK), "--domain", "NPA", "--to", "dify", "--write-ids", str(manifest))
    assert report["added"] == report["documents"] == report["dify"]["documents"] == planned["added"] > 15
    assert report["chunks"] == report["dify"]["segments"] == planned["chunks"]
    ids = {row["source"]: row["dataset_id"] for row in report["dify"]["datasets"]}
    sources = [{**source, "dataset_ids": [ids[source["id"]]]} for source in before["sources"]]
    assert yaml.safe_load(manifest.read_text()) == {**before, "sources": sources}
    return made


@pytest.fixture(scope="module")
def local(bank: Bank, tmp_path_factory: pytest.TempPathFactory) -> Bank:
    made = Bank(tmp_path_factory.mktemp("local"), bank.base_url)
    made.manifest("NPA", "local")
    made.run(str(demo.BANK), "--domain", "NPA", "--to", "local")
    return made


def test_a_second_run_writes_nothing(bank: Bank) -> None:
    report = bank.run(str(demo.BANK), "--domain", "NPA", "--to", "dify")
    assert (report["unchanged"], report["chunks"]) == (report["documents"], 0)
    assert (report["dify"]["documents"], report["dify"]["deleted"]) == (0, 0)


def test_a_doubled_document_is_named_by_the_doctor_and_mended_by_a_repair(bank: Bank) -> None:
    before = bank.held()
    dataset = next(one["id"] for one in bank.ask("datasets?limit=100")["data"] if one["name"] == "npa_sops")
    documents = f"datasets/{dataset}/documents"
    row = bank.ask(f"{documents}?limit=1")["data"][0]
    (first, *_) = bank.ask(f"{documents}/{row['id']}/segments?limit=100")["data"]
    bank.tell(f"{documents}/{row['id']}/segments", {"segments": [{"content": first["content"]}]})
    with bank.start("doctor", "--domain", "NPA", "--no-query") as running:
        told = " ".join(running.communicate(timeout=120)[0].split())
    assert "1 document with missing or changed chunks" in told
    assert row["name"][:20] in told
    assert "--repair" in told
    report = bank.run(str(demo.BANK), "--domain", "NPA", "--to", "dify", "--repair")
    assert (report["replaced"], report["dify"]["documents"], report["dify"]["damaged"]) == (1, 1, [])
    assert bank.held() == before


def test_a_source_without_a_dataset_is_told_to_ingest_first(dify: str, tmp_path: Path) -> None:
    bare = Bank(tmp_path, dify)
    bare.manifest("NPA", "dify")
    with bare.start("doctor", "--domain", "NPA", "--no-query") as running:
        told = " ".join(running.communicate(timeout=120)[0].split())
    assert told.index("context-engine ingest DOCUMENTS") < told.index("context-engine domains import")


def test_both_targets_hold_the_same_chunks_word_for_word(bank: Bank, local: Bank) -> None:
    from context_engine.adapters.sources.local import LocalBase
    from context_engine.core.chunking.chunk_line import read_line

    of_dify = {key: [read_line(text)[1] for text in one] for key, (one,) in bank.held().items()}
    of_base: dict[tuple[str, str], dict[int, str]] = {}
    with LocalBase.open(local.folder / "data" / "base") as base, base.writer() as writer:
        ids = [
            source["id"] for source in yaml.safe_load((local.folder / "manifests" / "npa.yaml").read_text())["sources"]
        ]
        held = {key for source in ids for key in writer.documents(source)}
        for source in ids:
            for chunk in base.search("the a of to and NPA product is", source_id=source, top_k=1000):
                key = (chunk.document_id or "", chunk.document_version or "")
                of_base.setdefault(key, {})[chunk.position or 0] = chunk.content
    assert set(of_dify) == held
    for key, found in of_base.items():
        for position, content in found.items():
            assert of_dify[key][position] == content


def test_what_was_ingested_is_searched_through_dify_and_answers_as_the_embedded_base_does(
    bank: Bank, local: Bank
) -> None:
    asked = [json.loads(line) for line in demo.QUESTIONS.read_text("utf-8").splitlines()]
    asked = [one for one in asked if one["domain"] == "NPA" and one["answers"] and not one.get("as_of")]
    hits = {"dify": 0, "local": 0}
    same = 0
    for one in asked:
        told: dict[str, dict[str, tuple[Any, ...]]] = {}
        for name, where in (("dify", bank), ("local", local)):
            result = searched(where, one["query"])
            assert result.status == "complete"
            wanted = {(answer["document_id"], answer["version"] or "") for answer in one["answers"]}
            given = {(chunk.chunk.document_id, chunk.chunk.document_version or "") for chunk in result.chunks}
            hits[name] += bool(wanted & given)
            told[name] = {chunk.content: standing(chunk) for chunk in result.chunks}
        both = set(told["dify"]) & set(told["local"])
        same += bool(both)
        assert {text: told["dify"][text] for text in both} == {text: told["local"][text] for text in both}
    print(f"\nquestions {len(asked)}, answered by the right document: {hits}, with a chunk in common: {same}")
    assert len(asked) >= 8
    assert same >= 0.7 * len(asked)
    assert hits["dify"] >= hits["local"] - 1


def standing(ranked: Any) -> tuple[Any, ...]:
    """What is said of a chunk wherever it stands."""
    chunk = ranked.chunk
    return (
        chunk.document_id, chunk.document_version, chunk.title, chunk.doc_type, chunk.position, chunk.effective_from,
        chunk.effective_to, ranked.provenance.source_id, ranked.provenance.authority_tier, str(ranked.classification),
        str(ranked.trust_class),
    )  # fmt: skip


def searched(bank: Bank, query: str) -> Any:
    setup = load_setup(env=bank.environment, cwd=bank.folder)
    with build_engine(setup, data_dir=bank.folder / "data") as engine:
        return engine.search(SearchRequest(query=query, domain="NPA"))
