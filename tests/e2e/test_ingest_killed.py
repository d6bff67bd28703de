"""Real processes killed in the middle of an ingestion, into both targets: the next run completes it, nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from context_engine.adapters.sources.local import LocalBase

KEY = "dataset-killedsecret01"
MANIFEST = """
version: 1
domain: BANK
sources:
  - id: procedures
    type: bank_sop
    adapter: {adapter}
    documents: [{{include: "**/*.md", doc_type: sop_document}}]
"""
DIFY = "    connection: dify\n    settings: {indexing_technique: economy}\n"
DOCUMENTS = 24


def documents(folder: Path, word: str, number: int = DOCUMENTS) -> None:
    for n in range(number):
        text = "\n\n".join(f"## {m} Part\n\nSection {m} of procedure {n}: {word}." for m in range(1, 4))
        (folder / f"{n:03}.md").write_text(f"---\ndocument_id: P{n:03}\n---\n# Procedure {n}\n\n{text}\n")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "docs").mkdir()
    return tmp_path


def start(place: Path, *args: str, **more: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONTEXT_ENGINE", "COLUMNS"))}
    environment = {**kept, "HOME": str(place), "CONTEXT_ENGINE_DATA_DIR": str(place / "data"), **more}
    return subprocess.Popen(
        [sys.executable, "-m", "context_engine", *args],
        cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_run_that_is_asked_to_end_leaves_no_process_and_no_temporary_folder(place: Path) -> None:
    (place / "manifests/bank.yaml").write_text(MANIFEST.format(adapter="local").replace("**/*.md", "**/*"))
    documents(place / "docs", "before", 2)
    (place / "docs/z.doc").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + b" " * 600)
    (place / "tmp").mkdir()
    office = place / "bin/soffice"
    office.parent.mkdir()
    office.write_text(f"#!/bin/sh\necho $$ > {place}/started\nexec sleep 300\n")
    office.chmod(0o755)
    path = f"{office.parent}{os.pathsep}{os.environ['PATH']}"
    running = start(place, "ingest", "docs", "-d", "BANK", PATH=path, TMPDIR=str(place / "tmp"))
    with running:
        until(lambda: (place / "started").exists() and (place / "started").read_text().strip() != "")
        converter = int((place / "started").read_text())
        assert list((place / "tmp").iterdir()), "it works in a temporary folder"
        running.terminate()
        _, err = running.communicate(timeout=60)
    assert running.returncode == 143
    assert "terminated" in err and "Traceback" not in err
    assert list((place / "tmp").iterdir()) == []
    until(lambda: not alive(converter))


def until(done: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not fetched does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[-1].split()[0] != "Z"
    except OSError:
        return False


def finished(running: subprocess.Popen[str]) -> dict[str, Any]:
    with running:
        out, err = running.communicate(timeout=240)
    assert running.returncode == 0, err
    report: dict[str, Any] = json.loads(out)
    return report


class Dify:
    """A Dify in a process of its own."""

    def __init__(self, base_url: str) -> None:
        self.environment = {"DIFY_BASE_URL": base_url, "DIFY_API_KEY": KEY}
        self._client = httpx.Client(
            base_url=f"{base_url}/v1", headers={"Authorization": f"Bearer {KEY}"}, trust_env=False, timeout=30
        )

    def get(self, path: str) -> Any:
        answer = self._client.get(path)
        assert answer.status_code == 200
        return answer.json()

    def documents(self) -> list[dict[str, Any]]:
        datasets = self.get("datasets")["data"]
        return self.get(f"datasets/{datasets[0]['id']}/documents?limit=100")["data"] if datasets else []

    def whole(self) -> dict[str, list[list[str]]]:
        """{document id: the chunks of each whole copy}."""
        out: dict[str, list[list[str]]] = {}
        (dataset,) = self.get("datasets")["data"]
        for row in self.documents():
            marks = {one["name"]: one["value"] for one in row["doc_metadata"] or ()}
            if "ce_hash" in marks:
                segments = self.get(f"datasets/{dataset['id']}/documents/{row['id']}/segments?limit=100")["data"]
                out.setdefault(marks["ce_document_id"], []).append([one["content"] for one in segments])
        return out

    def hashes(self) -> set[str]:
        return {
            one["value"] for row in self.documents() for one in row["doc_metadata"] or () if one["name"] == "ce_hash"
        }


@pytest.fixture
def dify() -> Iterator[Dify]:
    command = [sys.executable, "-m", "context_engine.testing.fake_dify", "--empty", "--api-key", KEY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield Dify(server.stdout.readline().partition(": ")[2].strip())
        server.kill()


def killed_when(running: subprocess.Popen[str], reached: Any) -> None:
    """Kill a process as soon as something is true; it must not end by itself before."""
    with running:
        until = time.monotonic() + 120
        while not reached():
            assert running.poll() is None, running.stderr and running.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.005)
        running.kill()


@pytest.mark.slow
def test_into_dify(place: Path, dify: Dify) -> None:
    (place / "manifests" / "bank.yaml").write_text(MANIFEST.format(adapter="dify") + DIFY)
    (place / "config" / "connections.yaml").write_text(
        "dify:\n  base_url: ${DIFY_BASE_URL}\n  api_key: ${DIFY_API_KEY}\n"
    )
    documents(place / "docs", "old")
    order = ("ingest", "docs", "--domain", "BANK", "--to", "dify", "--prune", "--json")
    killed_when(start(place, *order, **dify.environment), lambda: len(dify.documents()) >= 12)
    first = finished(start(place, *order, **dify.environment))
    assert first["documents"] == DOCUMENTS
    whole = dify.whole()
    assert {key: len(copies) for key, copies in whole.items()} == {f"P{n:03}": 1 for n in range(DOCUMENTS)}
    assert len(dify.documents()) == DOCUMENTS
    assert all("old" in chunk for (copy,) in whole.values() for chunk in copy)
    sizes = {key: len(copy) for key, (copy,) in whole.items()}

    documents(place / "docs", "new")
    before = dify.hashes()
    killed_when(start(place, *order, **dify.environment), lambda: len(dify.documents()) > DOCUMENTS + 10)
    assert all(any(len(copy) == sizes[key] for copy in dify.whole()[key]) for key in sizes)
    killed_when(start(place, *order, **dify.environment), lambda: bool(dify.hashes() - before))
    there = dify.whole()
    assert all(any(len(copy) == sizes[key] for copy in there.get(key, [])) for key in sizes)
    finished(start(place, *order, **dify.environment))
    whole = dify.whole()
    assert {key: [len(copy) for copy in copies] for key, copies in whole.items()} == {k: [n] for k, n in sizes.items()}
    assert len(dify.documents()) == DOCUMENTS
    assert all("new" in chunk for (copy,) in whole.values() for chunk in copy)
    again = finished(start(place, *order, **dify.environment))
    assert (again["unchanged"], again["dify"]["leftovers"]) == (DOCUMENTS, 0)


@pytest.mark.slow
def test_into_the_embedded_base(place: Path) -> None:
    (place / "manifests" / "bank.yaml").write_text(MANIFEST.format(adapter="local"))
    documents(place / "docs", "old", 250)
    order = ("ingest", "docs", "--domain", "BANK", "--json")
    for delay in (0.1, 0.6):
        with start(place, *order) as running:
            until = time.monotonic() + 60
            while not (place / "data" / "base").exists() and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(delay)
            running.kill()
    report = finished(start(place, *order))
    assert report["documents"] == 250
    assert report["unchanged"] in (0, 200, 250)
    with LocalBase.open(place / "data" / "base") as base:
        assert base.verify().ok
        with base.writer() as writer:
            assert set(writer.documents("procedures")) == {(f"P{n:03}", "") for n in range(250)}
        found = base.search("procedure", source_id="procedures", top_k=1000)
    assert len({chunk.chunk_id for chunk in found}) == len(found) == len({chunk.content for chunk in found})
    assert {chunk.document_id for chunk in found} == {f"P{n:03}" for n in range(250)}
