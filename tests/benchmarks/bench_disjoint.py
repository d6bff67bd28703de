"""Recall of one index against the same collection cut into five disjoint sources of uneven size.

    python tests/benchmarks/bench_disjoint.py BENCH_DIR [--queries 500]

BENCH_DIR holds corpus.jsonl (id, doc, title, section, passage_id, is_heading, text), queries.jsonl (id, text) and
qrels.tsv (query, passage, 1). The five sources are whole documents in shares of about 50, 25, 15, 7 and 3 %, each an
index of its own, so their scores cannot be compared and the engine's own lexical score decides. No authority boost.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from context_engine import Chunk, Engine, Registry, SearchRequest
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.models import DomainSpec, SourceSpec, SourceType

SHARES = (0.50, 0.25, 0.15, 0.07, 0.03)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("bench", type=Path)
    options.add_argument("--queries", type=int, default=500)
    given = options.parse_args()
    passages, queries, gold = read(given.bench)
    asked = random.Random(7).sample(queries, min(given.queries, len(queries)))
    with tempfile.TemporaryDirectory() as folder:
        for name, parts in (("one index", [passages]), ("five sources", shares(passages))):
            recall, milliseconds = measure(Path(folder) / name, parts, asked, gold)
            print(f"{name:12} {[len(part) for part in parts]!s:34} R@8 {recall:.4f}   {milliseconds:.1f} ms a query")


def read(bench: Path) -> tuple[list[dict], list[dict], dict[str, set[str]]]:
    """Return the passages that can be answers, the queries, and each query's gold passages."""
    lines = (bench / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    passages = [row for row in map(json.loads, lines) if not row["is_heading"]]
    queries = [json.loads(line) for line in (bench / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    gold: dict[str, set[str]] = defaultdict(set)
    for line in (bench / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, passage, *_ = line.split()
        gold[query].add(passage)
    return passages, queries, gold


def shares(passages: list[dict]) -> list[list[dict]]:
    """Cut the collection into whole documents: the smallest share takes the smallest documents until it is full."""
    documents: dict[str, list[dict]] = defaultdict(list)
    for row in passages:
        documents[row["doc"]].append(row)
    waiting = sorted(documents.values(), key=lambda rows: (len(rows), rows[0]["doc"]))
    parts: list[list[dict]] = []
    for share in sorted(SHARES)[:-1]:
        part: list[dict] = []
        while len(part) < share * len(passages):
            part += waiting.pop(0)
        parts.append(part)
    return [[row for rows in waiting for row in rows], *reversed(parts)]


def measure(folder: Path, parts: list[list[dict]], asked: list[dict], gold: dict[str, set[str]]) -> tuple[float, float]:
    """Return mean recall at 8 and wall milliseconds a query."""
    bases = {f"s{index}": build(folder / str(index), f"s{index}", part) for index, part in enumerate(parts)}
    specs = tuple(SourceSpec(id=name, type=SourceType.BANK_SOP) for name in bases)
    registry = Registry(domains={"BENCH": DomainSpec(version=1, domain="BENCH", sources=specs)})
    settings = {"authority_weight": 0.0, "dedup_method": "off", "min_relevance_score": 0.0}
    found = 0.0
    with Engine(registry, lambda _domain, spec: LocalSource(bases[spec.id], spec.id)) as engine:
        started = time.perf_counter()
        for query in asked:
            result = engine.search(SearchRequest(query=query["text"], domain="BENCH", overrides=settings))
            returned = {chunk.chunk_id for chunk in result.chunks}
            found += len(returned & gold[query["id"]]) / len(gold[query["id"]])
        took = time.perf_counter() - started
    return found / len(asked), 1000 * took / len(asked)


def build(folder: Path, source: str, part: list[dict]) -> LocalBase:
    """Write one source into a base of its own."""
    documents: dict[str, list[dict]] = defaultdict(list)
    for row in part:
        documents[row["doc"]].append(row)
    base = LocalBase.open(folder, create=True)
    with base.writer() as writer:
        for name, rows in documents.items():
            writer.put(source, name, "", "1", [chunk(row, place) for place, row in enumerate(rows)])
    return base


def chunk(row: dict, place: int) -> Chunk:
    """Return a passage as a chunk."""
    headings = tuple(row["section"].split(" > ")) if row["section"] else ()
    return Chunk(
        content=row["text"],
        chunk_id=row["id"],
        document_id=row["doc"],
        title=row["title"],
        section=row["passage_id"],
        heading_path=headings,
        position=place,
    )


if __name__ == "__main__":
    main()
