"""What `recency_weight` does to made pairs of versions, and what it costs where dates say nothing.

    python tests/benchmarks/bench_recency.py BENCH_DIR [--queries N] [--weights .05 .1 .2]

BENCH_DIR is one of bench_quality.py; its passages have no dates. So they are made: each document comes into force on a
day drawn at random from ten years, and each passage that answers a question asked here stands in a second document too,
four years older, with its numbers raised by one. Nothing says that one supersedes the other.

newer first   of the questions for which both versions are returned, those with the newer one first
R@10, MAP@10  against those of weight 0, paired; only the newer version is right
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from bench_quality import as_chunk, interval, read, with_headings

from context_engine import Chunk, Engine, Registry, SearchRequest
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.models import DomainSpec, SourceSpec, SourceType

PLAIN = {"authority_weight": 0.0, "min_relevance_score": 0.0, "stage2_top_k": 10}
TODAY, OLDER = date(2026, 1, 1), timedelta(days=4 * 365)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--queries", type=int, default=500)
    options.add_argument("--weights", type=float, nargs="+", default=[0.02, 0.05, 0.1, 0.2])
    given = options.parse_args()
    _, known, gold = read(given.bench)
    asked = known[:: max(len(known) // given.queries, 1)]
    with tempfile.TemporaryDirectory() as folder:
        base = LocalBase.open(Path(folder) / "base", create=True)
        write_versions(base, with_headings(given.bench), {name for query in asked for name in gold[query["id"]]})
        spec = SourceSpec(id="one", type=SourceType.BANK_SOP)
        registry = Registry(domains={"BENCH": DomainSpec(version=1, domain="BENCH", sources=(spec,))})
        with Engine(registry, lambda _domain, source: LocalSource(base, source.id)) as engine:
            report(engine, asked, gold, given.weights)


def write_versions(base: LocalBase, rows: Sequence[Mapping[str, Any]], doubled: set[str]) -> None:
    draw, documents = random.Random(7), dict[str, list[Chunk]]()
    for row in rows:
        documents.setdefault(row["doc"], []).append(as_chunk(dict(row), len(documents.get(row["doc"], ()))))
    with base.writer() as writer:
        for name, chunks in documents.items():
            day = TODAY - timedelta(days=draw.randrange(3650))
            writer.put("one", name, "", "1", [chunk._replace(effective_from=day) for chunk in chunks])
            older = [earlier(chunk, day - OLDER) for chunk in chunks if chunk.chunk_id in doubled]
            if older:
                writer.put("one", f"{name}-older", "", "1", older)


def earlier(chunk: Chunk, day: date) -> Chunk:
    """Return the older version of a chunk."""
    text = re.sub(r"\d+", lambda number: str(int(number[0]) + 1), chunk.content)
    return chunk._replace(
        content=text if text != chunk.content else f"{text} This was amended.",
        chunk_id=f"{chunk.chunk_id}-older",
        document_id=f"{chunk.document_id}-older",
        effective_from=day,
    )


def report(
    engine: Engine, asked: Sequence[dict[str, Any]], gold: Mapping[str, set[str]], weights: Sequence[float]
) -> None:
    plain = asking(engine, asked, gold, 0.0)
    print(f"{len(asked)} questions\nweight  newer first  R@10    MAP@10  R@10 [95 %]               MAP@10 [95 %]")
    for weight in (0.0, *weights):
        rows = asking(engine, asked, gold, weight)
        first = rows[:, 2][~np.isnan(rows[:, 2])]
        gains = interval(rows[:, 0] - plain[:, 0]) + interval(rows[:, 1] - plain[:, 1])
        recall, precision = rows[:, :2].mean(axis=0)
        print(f"{weight:6.2f}  {first.mean():5.3f} ({len(first)})  {recall:.4f}  {precision:.4f}  {gains}", flush=True)


def asking(engine: Engine, asked: Sequence[dict[str, Any]], gold: Mapping[str, set[str]], weight: float) -> Any:
    """Return recall, average precision, and whether the newer of two versions comes first (NaN without both)."""
    rows = []
    for query in asked:
        overrides = {**PLAIN, "recency_weight": weight}
        result = engine.search(SearchRequest(query=query["text"], domain="BENCH", as_of=TODAY, overrides=overrides))
        ranks = {chunk.chunk_id: chunk.rank for chunk in result.chunks}
        wanted = gold[query["id"]]
        places = sorted(ranks[name] for name in wanted if name in ranks)
        precision = sum(number / place for number, place in enumerate(places, 1)) / len(wanted)
        pairs = [ranks[name] < ranks[f"{name}-older"] for name in wanted if {name, f"{name}-older"} <= ranks.keys()]
        rows.append((len(places) / len(wanted), precision, np.mean(pairs) if pairs else np.nan))
    return np.array(rows)


if __name__ == "__main__":
    main()
