"""What the defaults find in several collections of judged questions, and whether words and vectors beat vectors alone.

    python tests/benchmarks/bench_collections.py BENCH_DIR... --embedded FOLDER [--queries N] [--floor COSINE]
        [--powers 1.5,2,4]

Each BENCH_DIR is one of bench_quality.py; FOLDER holds, under the name of each, what embed_corpus.py writes:
passages.npz and queries.npz, with --tokens also tokens.npz and query_tokens.npz; without these max-sim is left out. A
default that gains on one kind of text and loses on another is seen here: regulation speaks as its questions do, an FAQ
is asked in other words than it answers in. --floor is `cosine_floor`, as for e5 models; --powers are others of max-sim.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench_quality import Outcome, Step, Table, Tokens, Vectors, asking, interval, measure, read, with_headings, write

from context_engine.adapters.rerankers.max_sim import MaxSimReranker
from context_engine.adapters.sources.local import LocalBase, SearchOptions

WORDS, DENSE, HYBRID, MAX_SIM = "words", "vectors alone", "words and vectors", "and max-sim"
FLOOR = "and the floor"
STEPS = (
    Step(WORDS, None, {}, False),
    Step(DENSE, WORDS, {"keyword_weight": 0.0}, True),
    Step(HYBRID, WORDS, {}, True),
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path, nargs="+")
    options.add_argument("--embedded", type=Path, required=True)
    options.add_argument("--queries", type=int)
    options.add_argument("--floor", type=float)
    options.add_argument("--powers", type=lambda text: [float(power) for power in text.split(",")], default=[])
    given = options.parse_args()
    measured = {bench.name: outcomes(bench, given) for bench in given.bench}
    print("\nR@10 / MAP@10".ljust(21) + "".join(name.ljust(18) for name in measured))
    for name in max(measured.values(), key=len):
        row = (cell(steps_of[name]) if name in steps_of else "" for steps_of in measured.values())
        print(name.ljust(20) + "".join(text.ljust(18) for text in row))
    print(f"\n{HYBRID}, against {DENSE}: R@10 [95 %], MAP@10 [95 %]")
    for name, steps_of in measured.items():
        both, dense = steps_of[HYBRID], steps_of[DENSE]
        print(name.ljust(20) + interval(both.recall - dense.recall) + interval(both.precision - dense.precision))


def cell(outcome: Outcome) -> str:
    return f"{outcome.recall.mean():.4f} / {outcome.precision.mean():.4f}"


def steps(floor: float | None, powers: Sequence[float]) -> Iterator[tuple[Step, float]]:
    """Yield each step with the power of its max-sim, 0 without it."""
    yield from ((step, 0.0) for step in STEPS)
    if floor is not None:
        yield Step(FLOOR, HYBRID, {"cosine_floor": floor}, True), 0.0
    for power in powers:
        name, against = (MAX_SIM, HYBRID) if power == 1.0 else (f"{MAX_SIM} {power:g}", MAX_SIM)
        yield Step(name, against, {}, True, max_sim=True), power


def outcomes(bench: Path, given: argparse.Namespace) -> dict[str, Outcome]:
    """Measure every step on one collection."""
    embedded = given.embedded / bench.name
    _, known, gold = read(bench)
    passages, asked = with_headings(bench), known[: given.queries]
    embedder = Vectors(embedded, passages, known)
    tokens = Tokens(embedded, passages, known) if (embedded / "tokens.npz").exists() else None
    print(f"\n{bench.name}: {len(passages)} passages, {len(asked)} questions")
    table, measured = Table(), dict[str, Outcome]()
    with tempfile.TemporaryDirectory() as folder:
        with LocalBase.open(Path(folder), create=True, embedder=embedder) as base:
            write(base, {"one": passages})
        for step, power in steps(given.floor, [1.0, *given.powers] if tokens else []):
            reranker = MaxSimReranker(tokens, cache_mib=0, power=power) if tokens and power else None
            with LocalBase(
                Path(folder), embedder=embedder if step.vectors else None, options=SearchOptions(**step.options)
            ) as base:
                measured[step.name] = measure(asking(base, reranker), asked, gold)
            table.add(step.name, step.against, measured[step.name])
    return measured


if __name__ == "__main__":
    main()
