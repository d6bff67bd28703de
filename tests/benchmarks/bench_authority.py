"""What the authority boost does to judged questions: five sources, one a tier, in one embedded base, by the engine.

    python tests/benchmarks/bench_authority.py BENCH_DIR [--vectors FOLDER] [--queries N] [--shuffles 20] [--twins 200]

BENCH_DIR and FOLDER as for bench_quality.py; corpus.jsonl also names each passage's tier (T1 to T5). Without FOLDER the
text alone is searched, with it the text alone and then text and vectors.

Every question is searched once, without dedup and with all candidates returned. Which order a boost, none, or the tiers
of others give follows from the relevances, by the engine's own rules. The tiers are shuffled over documents (a document
is what one book has in one source; there are few, so a shuffling may be lucky) and over passages; all stay where they
are.

Twins: a gold passage that is found, with the same text planted in the four other sources, each copy a document of its
own under the same headings. Of two tiers whose copies are both among the candidates that of the higher must stand
first; with dedup, where only these two sources are searched, the lower must have joined a text of the higher tier.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from bench_disjoint import read
from bench_quality import Vectors, interval, with_headings, write

from context_engine import Engine, Registry, SearchRequest, SearchResult
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.models import TIERS, DomainSpec, Key, Settings, SourceSpec, SourceType
from context_engine.core.ranking.select import Contenders, final_scores, order

AT = 8
SOURCE_OF = dict(zip(TIERS, SourceType))
EVERYTHING: dict[str, Any] = {"stage2_top_k": 1000, "dedup_method": "off"}
WITH, WITHOUT = Settings(), Settings(authority_weight=0.0)
PAIRS = tuple(itertools.combinations([f"T{tier}" for tier in TIERS], 2))


class Measured(NamedTuple):
    """Per question: recall at 8, nDCG at 8, share of tiers 1 and 2 in the first 8."""

    recall: Any
    gain: Any
    share: Any


class Pool(NamedTuple):
    """What a question found: its candidates in the order of identity, and its gold."""

    keys: Sequence[Key]
    relevance: Sequence[float]
    gold: set[str]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--vectors", type=Path)
    options.add_argument("--queries", type=int)
    options.add_argument("--shuffles", type=int, default=20)
    options.add_argument("--twins", type=int, default=200)
    given = options.parse_args()
    _, queries, gold = read(given.bench)
    passages = with_headings(given.bench)
    asked = random.Random(7).sample(queries, min(given.queries or len(queries), len(queries)))
    print(f"{len(passages)} passages in {len(TIERS)} sources, {len(asked)} questions")
    for kind in ("text", "text and vectors")[: 2 if given.vectors else 1]:
        embedder = Vectors(given.vectors, passages, queries) if kind != "text" else None
        print(f"\n{kind}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            with opened(Path(folder) / "as it is", passages, embedder) as engine:
                pools = [searched(engine, query, gold[query["id"]]) for query in asked]
            found = [(query, name) for query, pool in zip(asked, pools) for name in gold_found(pool)]
            for line in (*boost(pools), *shuffled(pools, passages, given.shuffles)):
                print(line, flush=True)
            twins = list({name: (query, name) for query, name in found}.values())[: given.twins]
            planted = [*passages, *copies(passages, {name for _, name in twins})]
            with opened(Path(folder) / "with twins", planted, embedder) as engine:
                for line in (twins_apart(engine, twins), twins_merged(engine, twins)):
                    print(line, flush=True)


def opened(folder: Path, passages: Sequence[dict[str, Any]], embedder: Vectors | None) -> Engine:
    """Return an engine over one base with a source for each tier."""
    base = LocalBase.open(folder, create=True, embedder=embedder)
    write(base, {name: [row for row in passages if row["tier"] == name] for name in map(source_of, TIERS)})
    specs = tuple(SourceSpec(id=source_of(tier), type=SOURCE_OF[tier]) for tier in TIERS)
    registry = Registry(domains={"BENCH": DomainSpec(version=1, domain="BENCH", sources=specs)})
    return Engine(registry, lambda _domain, spec: LocalSource(base, spec.id, spec=spec))


def source_of(tier: int) -> str:
    return f"T{tier}"


def tier_of(source: str) -> int:
    return int(source[1:])


def search(engine: Engine, text: str, **settings: Any) -> SearchResult:
    return engine.search(SearchRequest(query=text, domain="BENCH", overrides=settings))


def searched(engine: Engine, query: Mapping[str, Any], gold: set[str]) -> Pool:
    """Return the candidates; the order computed from them must be the one the engine gave."""
    result = search(engine, query["text"], **EVERYTHING)
    rows = sorted(((one.source_id, one.chunk_id), one.relevance) for one in result.chunks)
    pool = Pool([key for key, _ in rows], [relevance for _, relevance in rows], gold)
    if [pool.keys[row] for row in ordered(pool, WITH)] != [(one.source_id, one.chunk_id) for one in result.chunks]:
        raise SystemExit(f"question {query['id']}: the engine's order is not the one of its relevances")
    return pool


def ordered(pool: Pool, settings: Settings, tiers: Mapping[str, int] | None = None) -> list[int]:
    """Return the rows of a pool, best first; by the tiers of their sources, or by others."""
    held = [tier_of(source) if tiers is None else tiers[name] for source, name in pool.keys]
    finals = final_scores(pool.relevance, [settings.authority_boosts.of(tier) for tier in held], settings)
    return order(Contenders(pool.keys, held, pool.relevance, finals))


def measured(pools: Sequence[Pool], settings: Settings, tiers: Mapping[str, int] | None = None) -> Measured:
    rows = []
    for pool in pools:
        first = [pool.keys[row] for row in ordered(pool, settings, tiers)[:AT]]
        places = [place for place, (_, name) in enumerate(first) if name in pool.gold]
        ideal = sum(1 / np.log2(place + 2) for place in range(min(len(pool.gold), AT)))
        high = sum(tier_of(source) <= 2 for source, _ in first) / max(len(first), 1)
        rows.append((len(places) / len(pool.gold), sum(1 / np.log2(place + 2) for place in places) / ideal, high))
    return Measured(*np.array(rows).T)


def boost(pools: Sequence[Pool]) -> Iterator[str]:
    """What the boost changes, question by question."""
    with_boost, without = measured(pools, WITH), measured(pools, WITHOUT)
    yield f"{'':26} without with   difference [95 %]"
    for name, after, before in zip(("R@8", "nDCG@8", "tiers 1, 2 in the top 8"), with_boost, without):
        yield f"{name:26} {before.mean():.4f}  {after.mean():.4f} {interval(after - before)}"


def shuffled(pools: Sequence[Pool], passages: Sequence[dict[str, Any]], times: int) -> Iterator[str]:
    """The true tiers against tiers that say nothing, those of other documents and those of other passages."""
    true = measured(pools, WITH)
    yield f"{'':26} shuffled true  difference [95 %]            true is better"
    for unit, of in (("documents", lambda row: (row["doc"], row["tier"])), ("passages", itemgetter("id", "tier"))):
        units = sorted({of(row) for row in passages})
        others = []
        for seed in range(times):
            tiers = [tier_of(source) for _, source in units]
            random.Random(seed).shuffle(tiers)
            given = dict(zip(units, tiers))
            others.append(measured(pools, WITH, {row["id"]: given[of(row)] for row in passages}))
        for name, own, found in zip(("R@8", "nDCG@8"), true, zip(*others)):
            mean = np.mean(found, axis=0)
            beaten = sum(own.mean() > one.mean() for one in found)
            means = f"{mean.mean():.4f}  {own.mean():.4f}"
            yield f"{f'{name}, over {unit}':26} {means} {interval(own - mean)} than {beaten} of {times} shufflings"


def gold_found(pool: Pool) -> list[str]:
    return [name for _, name in pool.keys if name in pool.gold]


def copies(passages: Sequence[dict[str, Any]], names: set[str]) -> list[dict[str, Any]]:
    """Return each passage named in the tiers that are not its own, every copy a document."""
    return [
        {**row, "id": twin(row["id"], tier), "doc": f"{row['doc']} {row['id']}", "tier": tier}
        for row in passages
        for tier in map(source_of, TIERS)
        if row["id"] in names and row["tier"] != tier
    ]


def twin(name: str, source: str) -> str:
    return f"{name} in {source}"


def twins_apart(engine: Engine, twins: Sequence[tuple[dict[str, Any], str]]) -> str:
    """Without dedup: which of two equal texts stands first."""
    pairs = first = 0
    for query, name in twins:
        result = search(engine, query["text"], **EVERYTHING)
        place = {one.source_id: one.rank for one in result.chunks if one.chunk_id in (name, twin(name, one.source_id))}
        found = [(place[high], place[low]) for high, low in PAIRS if high in place and low in place]
        pairs += len(found)
        first += sum(high < low for high, low in found)
    return f"twins, no dedup: the higher tier stands first in {first} of {pairs} pairs"


def twins_merged(engine: Engine, twins: Sequence[tuple[dict[str, Any], str]]) -> str:
    """With dedup, each pair of sources searched alone: which of two equal texts is kept."""
    pairs = kept = 0
    for query, name in twins:
        for high, low in PAIRS:
            result = search(engine, query["text"], stage2_top_k=1000, sources=(high, low))
            fates = {fate.source_id: fate for fate in result.fates if name in fate.chunk_id.split(" in ")}
            if len(fates) == 2:
                into = fates[low].into
                pairs += 1
                kept += into is not None and into[0] == high
    return f"twins, dedup: the higher tier is kept in {kept} of {pairs} pairs"


if __name__ == "__main__":
    main()
