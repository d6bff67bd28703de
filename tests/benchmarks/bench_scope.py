"""Which questions a scope threshold keeps and which it turns away: the trade-off with text alone and with vectors.

    python tests/benchmarks/bench_scope.py BENCH_DIR [--vectors FOLDER --outside FILE] [--queries 400] [--keep 0.995]

BENCH_DIR and FOLDER as for bench_quality.py; FILE is a NumPy array of the vectors of the questions from elsewhere that
come with the package (context_engine/evaluation/data/out_of_scope.jsonl), in their order. A question's signal is the
best absolute relevance among its candidates.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from bench_disjoint import read
from bench_quality import Vectors, with_headings, write

from context_engine import Engine, Registry
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.models import DomainSpec, Settings, SourceSpec, SourceType
from context_engine.evaluation.questions import EvalQuestion
from context_engine.evaluation.scope import OUT_OF_SCOPE, best_signals, calibrate

SHOWN = (0.10, 0.40)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--vectors", type=Path)
    options.add_argument("--outside", type=Path)
    options.add_argument("--queries", type=int, default=400)
    options.add_argument("--keep", type=float, default=0.995)
    given = options.parse_args()
    if bool(given.vectors) != bool(given.outside):
        options.error("--vectors and --outside belong together")
    _, queries, _ = read(given.bench)
    passages = with_headings(given.bench)
    asked = random.Random(7).sample(queries, min(given.queries, len(queries)))
    elsewhere = [json.loads(line) for line in OUT_OF_SCOPE.read_text("utf-8").splitlines()]
    embedder = None
    if given.vectors:
        embedder = Vectors(given.vectors, passages, queries)
        embedder.know([row["text"] for row in elsewhere], np.load(given.outside))
    with tempfile.TemporaryDirectory() as folder:
        with LocalBase.open(Path(folder), create=True, embedder=embedder) as base:
            write(base, {"one": passages})
        for name, model in (("text", None), ("text and vectors", embedder))[: 2 if embedder else 1]:
            with engine_over(LocalBase(Path(folder), embedder=model)) as engine:
                inside, outside = (
                    list(
                        best_signals(engine, [(EvalQuestion(id=row["id"], text=row["text"]), "BENCH") for row in rows])
                    )
                    for rows in (asked, elsewhere)
                )
            found = calibrate(inside, outside, current=Settings().scope, keep=given.keep)
            print(f"\n{name}: {len(inside)} questions in scope, {len(outside)} from elsewhere")
            print("threshold  kept   turned away")
            for one in found.table:
                if SHOWN[0] <= one.threshold <= SHOWN[1]:
                    print(f"{one.threshold:9.2f} {one.kept:6.1%} {one.turned_away:12.1%}")
            print(f"{found.chosen.threshold:.2f} is the highest that keeps {given.keep:.1%}", end="; ")
            print(f"it turns away {found.chosen.turned_away:.1%}; area under the ROC curve {found.separation:.4f}")


def engine_over(base: LocalBase) -> Engine:
    spec = SourceSpec(id="one", type=SourceType.BANK_SOP)
    registry = Registry(domains={"BENCH": DomainSpec(version=1, domain="BENCH", sources=(spec,))})
    return Engine(registry, lambda _domain, one: LocalSource(base, one.id))


if __name__ == "__main__":
    main()
