"""What query processing does to recall and precision: each step against the plain search of the same questions.

    python tests/benchmarks/bench_expansion.py BENCH_DIR [--weights 0.5,1.0] [--queries N]

BENCH_DIR holds corpus.jsonl (id, doc, title, section, passage_id, is_heading, text), queries.jsonl (id, text) and
qrels.tsv (query, passage, 1). The corpus is one source of an embedded base; the engine ranks without authority boost,
dedup and threshold. The glossary is made from the corpus' own definitions ("Net Stable Funding Ratio (NSFR)").

Printed are R@10 and MAP@10 over all questions, and the paired difference on the questions that a step touches with its
95 % bootstrap interval and the number of questions that gain and lose. "other names" puts each glossary term of a
question into its other name first: what a user who says it differently would get.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from context_engine import Chunk, Engine, Registry, SearchRequest
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.models import DomainSpec, SourceSpec, SourceType
from context_engine.core.query import glossary_of, prepare, variants

AT = 10
RESAMPLES = 1000
PLAIN = {
    "authority_weight": 0.0,
    "dedup_method": "off",
    "min_relevance_score": 0.0,
    "stage2_top_k": AT,
    "query_expansion": False,
    "exact_first": False,
}
Glossary = Mapping[str, tuple[str, ...]]


class Scores(NamedTuple):
    """Of one question."""

    recall: float
    precision: float


class Bench(NamedTuple):
    passages: list[dict]
    queries: dict[str, str]
    gold: dict[str, set[str]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--weights", default="1.0")
    options.add_argument("--queries", type=int, default=None)
    given = options.parse_args()
    bench = read(given.bench, given.queries)
    started = time.perf_counter()
    glossary = glossary_of(row["text"] for row in bench.passages)
    print(f"glossary: {len(glossary)} acronyms in {time.perf_counter() - started:.1f} s")
    with tempfile.TemporaryDirectory() as folder:
        base = build(Path(folder) / "base", bench.passages)
        with engine(base, glossary) as made:
            measure(made, bench, glossary, [float(weight) for weight in given.weights.split(",")])


def read(folder: Path, most: int | None) -> Bench:
    """Return the passages that can be answers, the questions, and each question's gold passages."""
    rows = map(json.loads, (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines())
    asked = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = random.Random(7).sample(asked, most) if most else asked
    gold: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, passage, *_ = line.split()
        gold[query].add(passage)
    return Bench([row for row in rows if not row["is_heading"]], {one["id"]: one["text"] for one in asked}, gold)


def build(folder: Path, passages: Iterable[dict]) -> LocalBase:
    documents: dict[str, list[dict]] = defaultdict(list)
    for row in passages:
        documents[row["doc"]].append(row)
    base = LocalBase.open(folder, create=True)
    with base.writer() as writer:
        for name, rows in documents.items():
            writer.put("bench", name, "", "1", [chunk(row, place) for place, row in enumerate(rows)])
    return base


def chunk(row: dict, place: int) -> Chunk:
    return Chunk(
        content=row["text"],
        chunk_id=row["id"],
        document_id=row["doc"],
        title=row["title"],
        section=row["passage_id"],
        heading_path=tuple(row["section"].split(" > ")) if row["section"] else (),
        position=place,
    )


def engine(base: LocalBase, glossary: Glossary) -> Engine:
    spec = SourceSpec(id="bench", type=SourceType.BANK_SOP)
    domain = DomainSpec(version=1, domain="BENCH", sources=(spec,), glossary=glossary)
    return Engine(Registry(domains={"BENCH": domain}), lambda _domain, one: LocalSource(base, one.id))


def measure(made: Engine, bench: Bench, glossary: Glossary, weights: Iterable[float]) -> None:
    prepared = {one: prepare(text, entries=glossary, multi_query=True) for one, text in bench.queries.items()}
    expanded = {one: text for one, text in bench.queries.items() if prepared[one].expansions}
    plain, took = run(made, bench, bench.queries)
    print(f"{'':24} {'all':>5} R@{AT}  MAP@{AT}  | touched: paired difference, 95 % interval, questions up/down")
    report(f"plain ({took:.1f} ms)", plain, plain, bench)
    for weight in weights:
        found, _ = run(made, bench, expanded, query_expansion=True, query_expansion_weight=weight)
        report(f"expansion {weight:g}", found, plain, bench)
    exact = {
        one: text
        for one, text in bench.queries.items()
        if prepared[one].phrases or prepared[one].codes or prepared[one].references
    }
    report("exact names first", run(made, bench, exact, exact_first=True)[0], plain, bench)
    parts = {one: text for one, text in bench.queries.items() if prepared[one].sub_queries}
    report("parts", run(made, bench, parts, multi_query=True)[0], plain, bench)
    other = {one: variants(prepared[one])[0] for one in expanded}
    renamed, _ = run(made, bench, other)
    report("other names", renamed, plain, bench)
    for weight in weights:
        found, _ = run(made, bench, other, query_expansion=True, query_expansion_weight=weight)
        report(f"  and expansion {weight:g}", found, renamed, bench)


def run(made: Engine, bench: Bench, asked: Mapping[str, str], **settings: object) -> tuple[dict[str, Scores], float]:
    """Return each question's scores, and wall milliseconds a question."""
    scores: dict[str, Scores] = {}
    started = time.perf_counter()
    for one, text in asked.items():
        result = made.search(SearchRequest(query=text, domain="BENCH", overrides={**PLAIN, **settings}))
        scores[one] = score([found.chunk_id for found in result.chunks], bench.gold[one])
    return scores, 1000 * (time.perf_counter() - started) / max(len(asked), 1)


def score(found: list[str], gold: set[str]) -> Scores:
    """Return recall and average precision at AT, divided by all gold."""
    hits, precision = 0, 0.0
    for place, passage in enumerate(found[:AT], start=1):
        if passage in gold:
            hits += 1
            precision += hits / place
    return Scores(hits / len(gold), precision / len(gold))


def report(name: str, found: Mapping[str, Scores], against: Mapping[str, Scores], bench: Bench) -> None:
    everything = {**against, **found}
    means = [sum(one[place] for one in everything.values()) / len(everything) for place in (0, 1)]
    line = f"{name:24} {len(everything):>5} {means[0]:.4f} {means[1]:.4f}"
    if found is not against and found:
        line += f"  | {len(found):>4}"
        for place, metric in enumerate(("R", "MAP")):
            gains = [scores[place] - against[one][place] for one, scores in found.items()]
            low, high = interval(gains)
            moved = f"{sum(gain > 0 for gain in gains)}/{sum(gain < 0 for gain in gains)}"
            line += f"  {metric} {sum(gains) / len(gains):+.4f} [{low:+.4f}, {high:+.4f}] {moved}"
    print(line, flush=True)


def interval(gains: list[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean by bootstrap over questions."""
    chance = random.Random(5)
    means = sorted(sum(chance.choices(gains, k=len(gains))) / len(gains) for _ in range(RESAMPLES))
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]


if __name__ == "__main__":
    main()
