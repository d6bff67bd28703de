"""What the benchmarks of whole searches share: questions, pools of passages as dicts, a source that gives a pool.

Only names that users import are used here, so that the same script runs over two versions of the package, each in a
process of its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from math import log
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
CHECKOUT = HERE.parents[2]
POOL, BASE = "POOL", "BASE"
TIERS = ("system_of_record", "bank_sop", "industry_standard", "external_official", "general_web")
DEPTH = 40
_WORD = re.compile(r"\w+")


class Passages:
    """The passages of a collection and a plain ranking of them, the same whatever package is measured.

    Args:
        folder: holds corpus.jsonl (id, doc, title, section, passage_id, tier, is_heading, text) and queries.jsonl.
    """

    def __init__(self, folder: Path) -> None:
        self.rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()]
        self.answers = [row for row in self.rows if not row["is_heading"]]
        self.queries = [json.loads(line)["text"] for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
        self._places: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for place, row in enumerate(self.answers):
            found = Counter(_words(row["text"]))
            length = sum(found.values())
            for word, times in found.items():
                self._places[word].append((place, times * 2.2 / (times + 0.3 + 0.9 * length / 80)))

    def best(self, query: str, depth: int = DEPTH) -> list[dict[str, Any]]:
        """Return the best passages for a query as chunk dicts with the score of this ranking."""
        scores: dict[int, float] = defaultdict(float)
        for word in set(_words(query)):
            holders = self._places.get(word, ())
            for place, share in holders:
                scores[place] += share * log(1 + len(self.answers) / len(holders))
        ranked = sorted(scores, key=lambda place: (-scores[place], place))[:depth]
        return [as_dict(self.answers[place], scores[place]) for place in ranked]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def as_dict(row: Mapping[str, Any], score: float) -> dict[str, Any]:
    """Return a passage as a chunk dict; `source` is the id of the source of its tier."""
    return {
        "source": f"tier_{row['tier'][1:]}",
        "chunk_id": row["id"],
        "content": row["text"],
        "document_id": row["doc"],
        "title": row["title"] or None,
        "section": row["passage_id"] or None,
        "heading_path": row["section"].split(" > ") if row["section"] else [],
        "score": round(score, 6),
    }


class Moment:
    """A clock whose date stands still until it is set; `monotonic` is real."""

    def __init__(self) -> None:
        self.moment = datetime.fromisoformat("2026-03-02T10:00:00+00:00")

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return time.monotonic()


class Ids:
    """s-000001, s-000002 ..."""

    def __init__(self) -> None:
        self._last = 0

    def new(self, now: datetime) -> str:
        self._last += 1
        return f"s-{self._last:06d}"


class PoolSource:
    """A source that answers with its share of the pool it is given before each search.

    Args:
        source_id: its id.
        pool: the share of every source, by id; changed between searches.
    """

    def __init__(self, source_id: str, pool: Mapping[str, Sequence[Any]]) -> None:
        from context_engine import ScoreKind

        self.source_id, self.score_kinds, self._pool = source_id, frozenset(ScoreKind), pool

    def search(self, query: Any) -> Any:
        from context_engine import SourceAnswer

        chunks = tuple(self._pool.get(self.source_id, ()))
        return SourceAnswer(chunks=chunks[: query.top_k], cut=max(len(chunks) - query.top_k, 0))

    def close(self) -> None:
        pass


def as_chunk(given: Mapping[str, Any]) -> Any:
    """Return the `Chunk` of a chunk dict of this file; `scores` holds [kind, value, scorer] each."""
    from context_engine import Chunk, Score, ScoreKind

    dates = {name: date.fromisoformat(given[name]) for name in ("effective_from", "effective_to") if name in given}
    if "fetched_at" in given:
        dates["fetched_at"] = datetime.fromisoformat(given["fetched_at"])
    plain = ("content", "chunk_id", "document_id", "document_version", "title", "section", "superseded_by")
    return Chunk(
        **{name: given[name] for name in (*plain, "metadata", "ttl_seconds") if name in given},
        heading_path=tuple(given.get("heading_path", ())),
        scores=tuple(Score(ScoreKind(kind), value, scorer) for kind, value, scorer in given.get("scores", ())),
        **dates,
    )


def by_source(chunks: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the chunks of each source."""
    out: dict[str, list[Any]] = defaultdict(list)
    for one in chunks:
        out[one["source"]].append(as_chunk(one))
    return out


def pool_engine(config: Path, clock: Any, ids: Any) -> tuple[Any, dict[str, list[Any]]]:
    """Return an engine over the five sources of the domain POOL, and the pool that they answer from."""
    from context_engine import Engine

    pool: dict[str, list[Any]] = {}
    return Engine(_registry(config), lambda _domain, spec: PoolSource(spec.id, pool), clock=clock, ids=ids), pool


@cache
def _registry(config: Path) -> Any:
    from context_engine import build_engine

    with build_engine(config_dir=config) as built:
        return built.registry


def write_configuration(folder: Path) -> None:
    """Write the manifests of the demo bank and of the domains POOL and BASE, one source a tier."""
    manifests = folder / "manifests"
    manifests.mkdir(parents=True)
    shutil.copytree(CHECKOUT / "config", folder / "config", ignore=shutil.ignore_patterns("connections*", "*funnel*"))
    for file in (CHECKOUT / "context_engine" / "demo" / "manifests").glob("*.yaml"):
        shutil.copy(file, manifests)
    for domain in (POOL, BASE):
        sources = "".join(
            f"  - id: tier_{tier}\n    type: {kind}\n    adapter: local\n    documents:\n"
            f'      - include: "tier_{tier}/*.md"\n        doc_type: sop_document\n'
            for tier, kind in enumerate(TIERS, start=1)
        )
        (manifests / f"{domain.lower()}.yaml").write_text(f"version: 1\ndomain: {domain}\nsources:\n{sources}", "utf-8")


def write_documents(passages: Passages, folder: Path) -> None:
    """Write each document of a collection as Markdown under its headings."""
    documents: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in passages.answers:
        documents[row["doc"]].append(row)
    for name, rows in documents.items():
        place = folder / f"tier_{rows[0]['tier'][1:]}" / f"{name}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        lines, section = [f"# {rows[0]['title'] or name}"], ""
        for row in rows:
            if row["section"] != section:
                section = row["section"]
                lines.append(f"## {section}")
            lines.append(f"{row['passage_id']} {row['text']}".strip())
        place.write_text("\n\n".join(lines) + "\n", "utf-8")


def ingest(environ: Mapping[str, str], config: Path, documents: Path, domain: str, data: Path) -> None:
    """Run `context-engine ingest` in the environment of a checkout."""
    command = [sys.executable, "-m", "context_engine", "ingest", str(documents), "--domain", domain]
    command += ["--config-dir", str(config), "--data-dir", str(data), "--json"]
    ran = subprocess.run(command, env=environ, cwd=config, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"ingest of {domain} ended with {ran.returncode}:\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}")


def environment(checkout: Path, place: Path) -> dict[str, str]:
    """Return the environment of a process that imports the package of a checkout and finds its adapters.

    Args:
        checkout: a source tree; it need not be installed.
        place: a folder for what an installation would say of it.
    """
    project = tomllib.loads((checkout / "pyproject.toml").read_text("utf-8"))["project"]
    installed = place / "dify_context_engine-0.dist-info"
    installed.mkdir(parents=True, exist_ok=True)
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n", "utf-8")
    groups = project["entry-points"].items()
    lines = [
        line for group, names in groups for line in (f"[{group}]", *(f"{one} = {to}" for one, to in names.items()))
    ]
    (installed / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("CONTEXT_ENGINE_", "RAG_"))}
    path = os.pathsep.join((str(checkout), str(place)))
    return {**own, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
