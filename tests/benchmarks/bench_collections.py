"""What the defaults find in several collections of judged questions, and whether words and vectors beat vectors alone.

    python tests/benchmarks/bench_collections.py BENCH_DIR... --embedded FOLDER [--queries N]

Each BENCH_DIR is one of bench_quality.py; FOLDER holds, under the name of each, what embed_corpus.py --tokens writes:
passages.npz, queries.npz, tokens.npz and query_tokens.npz. A default that gains on one kind of text and loses on
another is seen here: regulation speaks as its questions do, an FAQ is asked in other words than it answers in.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench_quality import Outcome, Step, Table, Tokens, Vectors, asking, interval, measure, read, with_headings, write

from context_engine.adapters.rerankers.max_sim import MaxSimReranker
from context_engine.adapters.sources.local import LocalBase, SearchOptions

WORDS, DENSE, HYBRID, MAX_SIM = "words", "vectors alone", "words and vectors", "and max-sim"
STEPS = (
    Step(WORDS, None, {}, False),
    Step(DENSE, WORDS, {"keyword_weight": 0.0}, True),
    Step(HYBRID, WORDS, {}, True),
    Step(MAX_SIM, HYBRID, {}, True, max_sim=True),
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path, nargs="+")
    options.add_argument("--embedded", type=Path, required=True)
    options.add_argument("--queries", type=int)
    given = options.parse_args()
    found = {bench.name: outcomes(bench, given.embedded / bench.name, given.queries) for bench in given.bench}
    print("\nR@10 / MAP@10".ljust(21) + "".join(name.ljust(18) for name in found))
    for step in STEPS:
        row = (f"{one[step.name].recall.mean():.4f} / {one[step.name].precision.mean():.4f}" for one in found.values())
        print(step.name.ljust(20) + "".join(cell.ljust(18) for cell in row))
    print(f"\n{HYBRID}, against {DENSE}: R@10 [95 %], MAP@10 [95 %]")
    for name, one in found.items():
        recall, precision = one[HYBRID].recall - one[DENSE].recall, one[HYBRID].precision - one[DENSE].precision
        print(name.ljust(20) + interval(recall) + interval(precision))


def outcomes(bench: Path, embedded: Path, queries: int | None) -> dict[str, Outcome]:
    """Measure every step on one collection."""
    _, known, gold = read(bench)
    passages, asked = with_headings(bench), known[:queries]
    embedder = Vectors(embedded, passages, known)
    reranker = MaxSimReranker(Tokens(embedded, passages, known), cache_mib=0)
    print(f"\n{bench.name}: {len(passages)} passages, {len(asked)} questions")
    table, found = Table(), dict[str, Outcome]()
    with tempfile.TemporaryDirectory() as folder:
        with LocalBase.open(Path(folder), create=True, embedder=embedder) as base:
            write(base, {"one": passages})
        for step in STEPS:
            with LocalBase(
                Path(folder), embedder=embedder if step.vectors else None, options=SearchOptions(**step.options)
            ) as base:
                found[step.name] = measure(asking(base, reranker if step.max_sim else None), asked, gold)
            table.add(step.name, step.against, found[step.name])
    return found


if __name__ == "__main__":
    main()
