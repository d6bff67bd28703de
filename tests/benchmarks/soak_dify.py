"""Ingests, prunes, kills, outages and searches of three processes against one FakeDify, at random, for a while.

    python tests/benchmarks/soak_dify.py --minutes 30

Three hosts share one folder of documents, which changes all the time, and have a data folder each. Each runs one
command after another: `ingest`, often with `--prune`, `--repair` or `--force`, some of them killed with SIGKILL, and
`search`. In between Dify fails: errors, answers lost on their way. At the end the folder rests, one run goes over it in
peace, and Dify has to hold what the folder holds, chunk for chunk.

Every answer of Dify to a search is looked at where it is made: if one of its chunks is of a document that does not hold
at that moment what was written to it, the search has to say so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from context_engine.testing import FakeDataset, FakeDify, Fault
from context_engine.testing.fake_dify.app import AppRequest, AppResponse

__all__ = ["Soak", "main"]

KEY: Final = "dataset-soakingsecret01"
CONNECTIONS: Final = f"dify:\n  base_url: ${{DIFY_BASE_URL}}\n  api_key: {KEY}\n  timeout_s: 4\n"
MANIFEST: Final = """version: 1
domain: SOAK
sources:
  - id: sops
    type: bank_sop
    tier: 2
    adapter: dify
    connection: dify
    dataset_ids: [{dataset}]
    settings: {{indexing_technique: economy, cache_ttl_s: 0}}
    documents: [{{include: "**", doc_type: sop_document}}]
"""
FAULTS: Final = ("status_500", "status_503", "truncated", "dropped", "reset")
WRITES: Final = ("create_by_text", "create_segments", "assign_metadata", "delete_document", "documents", "segments")
SAYS: Final = "its chunks may be incomplete"
_PART: Final = re.compile(r"(DOC-\d+) revision (\d+) part (\d+) of (\d+)")
_PROBE: Final = re.compile(r"probe\d+")


@dataclass
class Folder:
    """The documents, changed at random."""

    path: Path
    rng: random.Random
    revisions: Counter[str] = field(default_factory=Counter)

    def change(self) -> None:
        """Write, rewrite or delete one document."""
        name = f"DOC-{self.rng.randrange(12):02d}"
        file = self.path / f"{name}.md"
        if file.exists() and self.rng.random() < 0.2:
            file.unlink()
            return
        self.revisions[name] += 1
        parts = self.rng.choice((1, 3, 8, 30, 90))
        words = "approval limit of the desk is checked by the officer who signs " * 4
        sections = [
            f"## {part} Section\n\n{name} revision {self.revisions[name]} part {part} of {parts}. {words}\n"
            for part in range(1, parts + 1)
        ]
        draft = file.with_suffix(".tmp")
        draft.write_text(f"# {name}\n\n" + "\n".join(sections), "utf-8")
        draft.replace(file)

    def parts(self) -> dict[str, list[str]]:
        """{document: the parts that it holds, as they stand in its chunks}."""
        return {file.stem: _parts(file.read_text("utf-8")) for file in sorted(self.path.glob("*.md"))}


def _parts(text: str) -> list[str]:
    return [found[0] for found in _PART.finditer(text)]


def _complete(contents: list[str]) -> bool:
    """Whether chunks are all parts of one revision, each once."""
    parts = [found for content in contents for found in _PART.findall(content)]
    revisions, wanted = {(name, revision, most) for name, revision, _, most in parts}, int(parts[0][3]) if parts else 0
    return len(revisions) <= 1 and sorted(int(part) for _, _, part, _ in parts) == list(range(1, wanted + 1))


class Soak:
    """One soak.

    Args:
        folder: where everything is kept.
        seconds: how long.
        seed: of the choices; what the processes make of them differs from run to run all the same.
    """

    def __init__(self, folder: Path, seconds: float, seed: int) -> None:
        self.folder, self.seconds, self.rng = folder, seconds, random.Random(seed)
        self.dify = FakeDify([FakeDataset("SOPs", "economy")], api_key=KEY, indexing_s=0.1)
        (folder / "documents").mkdir(parents=True)
        self.documents = Folder(folder / "documents", random.Random(seed + 1))
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._half: dict[str, set[str]] = {}
        self._ends = time.monotonic() + seconds
        self._watch()

    def run(self) -> None:
        """Soak, let it rest, and compare."""
        with self.dify:
            for _ in range(8):
                self.documents.change()
            self._heal()
            hosts = [threading.Thread(target=self._host, args=(number,)) for number in range(3)]
            jobs = [*hosts, threading.Thread(target=self._changes), threading.Thread(target=self._outages)]
            for job in jobs:
                job.start()
            for job in jobs:
                job.join()
            self.dify.heal()
            self._compare()

    def _prepare(self, number: int) -> Path:
        """Write the configuration of a host."""
        home = self.folder / f"host{number}"
        (home / "config").mkdir(parents=True)
        (home / "manifests").mkdir()
        (home / "config" / "connections.yaml").write_text(CONNECTIONS)
        (home / "manifests" / "soak.yaml").write_text(MANIFEST.format(dataset=self.dify.dataset_id("SOPs")))
        return home

    def _host(self, number: int) -> None:
        rng, home = random.Random(self.rng.random()), self._prepare(number)
        while time.monotonic() < self._ends:
            action = rng.choices(("ingest", "killed", "search"), (4, 3, 4))[0]
            if action == "search":
                self._search(home, f"probe{number}{rng.randrange(10**9)}")
            else:
                options = rng.choice(([], ["--prune"], ["--prune"], ["--force", "--prune"], ["--repair", "--prune"]))
                self._ingest(home, options, rng.uniform(0.6, 5.0) if action == "killed" else None)

    def _ingest(self, home: Path, options: list[str], kill_s: float | None) -> None:
        run = self._start(home, "ingest", str(self.documents.path), "--domain", "SOAK", "--to", "dify", *options)
        try:
            run.communicate(timeout=kill_s if kill_s is not None else 300)
            self.counts[f"ingest {run.returncode}"] += 1
        except subprocess.TimeoutExpired:
            run.kill()
            run.communicate()
            self.counts["ingest killed" if kill_s is not None else "ingest hung"] += 1

    def _search(self, home: Path, probe: str) -> None:
        run = self._start(home, "search", f"{probe} approval limit of the desk", "--domain", "SOAK", "--json")
        out, err = run.communicate(timeout=120)
        self.counts[f"search {run.returncode}"] += 1
        if run.returncode not in (0, 3, 4):
            if "Traceback" in err:
                self.wrong.append(f"search failed: {err[-500:]}")
            return
        half = self._half.pop(probe, set())
        answer = json.loads(out)
        given = {chunk.get("document_id") or chunk["_provenance"]["extra"]["document_id"] for chunk in answer["chunks"]}
        self.counts["searches met a half-written document"] += bool(half)
        self.counts["searches answered from a half-written document"] += bool(half & given)
        said = {name for name in half & given if any(SAYS in one and name in one for one in answer["warnings"])}
        (dataset,) = self.dify._app.datasets.values()
        unsaid = half & given - said
        if unsaid and (still := unsaid & self._half_written({document.id for document in list(dataset.documents)})):
            # one that was finished before the search looked at its state is complete
            self.wrong.append(f"{sorted(still)} half-written and not said: {answer['warnings']}")

    def _start(self, home: Path, *args: str) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_ENGINE")}
        env = {
            **kept,
            "HOME": str(home),
            "CONTEXT_ENGINE_DATA_DIR": str(home / "data"),
            "DIFY_BASE_URL": self.dify.base_url,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "context_engine", *args],
            cwd=home, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def _changes(self) -> None:
        rng = random.Random(self.rng.random())
        while time.monotonic() < self._ends:
            time.sleep(rng.expovariate(1 / 3))
            self.documents.change()

    def _outages(self) -> None:
        rng = random.Random(self.rng.random())
        while time.monotonic() < self._ends:
            time.sleep(rng.expovariate(1 / 6))
            endpoint: Any = rng.choice((None, *WRITES))
            self.dify.inject(rng.choice(FAULTS), endpoint=endpoint)
            self.counts["outages"] += 1
            time.sleep(rng.choice((0.2, 0.5, 1.0, 4.0)))
            self._heal()

    def _heal(self) -> None:
        """End an outage; Dify takes its time to write, as it does."""
        self.dify.heal()
        self.dify.inject(Fault(delay_s=0.15), endpoint="create_segments")
        self.dify.inject(Fault(delay_s=0.05), endpoint="create_by_text")

    def _watch(self) -> None:
        """Look at each answer to a search where it is made, while nothing can change."""
        app: Any = self.dify._app
        genuine: Callable[[AppRequest], AppResponse] = app.answer

        def answer(call: AppRequest) -> AppResponse:
            given = genuine(call)
            if call.target.endswith("/retrieve") and given.status == 200:
                probe = _PROBE.search(json.loads(call.body)["query"])
                records = json.loads(given.body)["records"]
                if probe:
                    ids = {record["segment"]["document"]["id"] for record in records}
                    self._half.setdefault(probe[0], set()).update(self._half_written(ids))
            return given

        app.answer = answer

    def _half_written(self, ids: set[str]) -> set[str]:
        """Return the names of those documents that are only partly written."""
        found = set()
        (dataset,) = self.dify._app.datasets.values()
        for identity in ids:
            document = dataset.document(identity)
            contents = [one if isinstance(one, str) else one.content for one in document.segments] if document else []
            if not _complete(contents):
                found.update(name for content in contents for name, *_ in _PART.findall(content))
        return found

    def _compare(self) -> None:
        """One run in peace by a host of its own, then folder against Dify."""
        self._ends = 0.0
        home = self.folder / "host0"
        run = self._start(
            home, "ingest", str(self.documents.path), "--domain", "SOAK", "--to", "dify", "--prune", "--json"
        )
        out, err = run.communicate(timeout=300)
        if run.returncode != 0:
            self.wrong.append(f"the last run ended with {run.returncode}: {err[-800:]}")
        else:
            self.counts["calls of the last run"] = json.loads(out)["dify"]["calls"]
        held: dict[str, list[list[str]]] = {}
        for document in self.dify.documents("SOPs"):
            contents = [one if isinstance(one, str) else one.content for one in document.segments]
            name = str((document.metadata or {}).get("ce_document_id", "?"))
            if contents or document.metadata:
                held.setdefault(name, []).append([part for text in contents for part in _parts(text)])
            else:
                self.counts["empty documents left"] += 1
        wanted = {name: [parts] for name, parts in self.documents.parts().items()}
        for name in sorted({*held, *wanted}):
            if held.get(name) != wanted.get(name):
                self.wrong.append(f"{name}: Dify holds {_short(held.get(name))}, the folder {_short(wanted.get(name))}")
        self.counts["documents at the end"] = len(wanted)
        self.counts["requests"] = len(self.dify.requests)


def _short(parts: list[list[str]] | None) -> str:
    return "nothing" if parts is None else "; ".join(f"{len(one)} parts of {one[:1]}" for one in parts)


def main() -> int:
    """Soak and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-dify-") as folder:
        soak = Soak(Path(folder), options.minutes * 60, options.seed)
        soak.run()
    for name, count in sorted(soak.counts.items()):
        sys.stdout.write(f"{count:>8}  {name}\n")
    for one in soak.wrong:
        sys.stdout.write(f"WRONG: {one}\n")
    sys.stdout.write(f"{len(soak.wrong)} things are wrong\n" if soak.wrong else "Dify holds what the folder holds\n")
    return bool(soak.wrong)


if __name__ == "__main__":
    sys.exit(main())
