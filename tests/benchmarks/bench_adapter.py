#!/usr/bin/env python3
"""What an adapter of a domain does to questions it was not trained on, and how many judged questions it takes.

    python tests/benchmarks/bench_adapter.py BENCH --vectors FOLDER [--curve 50,100,200,500,1000,1850] [--draws 1]

BENCH is a folder as bench_quality.py reads it, FOLDER as embed_corpus.py writes it. The first table is what
`context-engine eval tune --adapter` measures: the base's own search, five folds, with what it says. With --curve an
adapter is learnt from so many questions of two thirds, and measured on the last third, once where questions alone are
parted (known answers) and once where those that share an answer are kept together (new answers).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from bench_disjoint import read
from bench_quality import Vectors, with_headings, write

from context_engine.adapters.sources.local import LocalBase
from context_engine.evaluation.gold import identity_of
from context_engine.evaluation.learning.adapter_gate import (
    JudgedSearch,
    Searches,
    evidence,
    learn_adapter,
    measures_with,
)
from context_engine.evaluation.learning.folds import MOST_ROUNDS, Fold, dense_values, learn_all
from context_engine.evaluation.learning.judged_pairs import JudgedPairs, judged_pairs
from context_engine.evaluation.metrics import Scores, mean, paired_bootstrap
from context_engine.evaluation.questions import EvalQuestion
from context_engine.learning.contrast import Lessons, Maps, lessons_of
from context_engine.learning.parts import parts_of

MEASURES = measures_with("nDCG@10")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--vectors", type=Path, required=True)
    options.add_argument("--curve", type=lambda text: [int(one) for one in text.split(",")], default=[])
    options.add_argument("--draws", type=int, default=1, choices=(1, 2))
    options.add_argument("--only-curve", action="store_true")
    given = options.parse_args()
    _, queries, gold = read(given.bench)
    passages = with_headings(given.bench)
    embedder = Vectors(given.vectors, passages, queries)
    questions = [EvalQuestion(id=row["id"], text=row["text"]) for row in queries]
    qrels = {name: dict.fromkeys(sorted(names), 1) for name, names in gold.items()}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalBase.open(Path(folder) / "base", create=True, embedder=embedder) as base,
    ):
        write(base, {"one": passages})
        held = base.held_vectors(["one"])
        known = {chunk.chunk_id: identity_of("one", chunk.chunk_id, chunk) for chunk in held.chunks}
        asked = JudgedSearch(base=base, domain="BENCH", source_ids=["one"], qrels=qrels, known=known)
        judged = judged_pairs(questions, qrels, held)
        started = time.process_time()
        lessons = lessons_of(judged.pairs, held, embedder)
        negatives_took = time.process_time() - started
        started = time.process_time()
        learn_all(lessons, MOST_ROUNDS, seed=1)
        print(
            f"{len(judged.ids)} questions, {len(lessons.pairs)} pairs, {len(lessons.owners)} vectors; CPU of the hard "
            f"negatives {negatives_took:.1f} s, of {MOST_ROUNDS} rounds {time.process_time() - started:.1f} s\n"
        )
        if not given.only_curve:
            folds(asked, judged, lessons)
        curve(asked, judged, lessons, given)


def folds(asked: JudgedSearch, judged: JudgedPairs, lessons: Lessons) -> None:
    """Print what the gate measures and says."""
    started = time.process_time()
    trial = learn_adapter(asked, judged, lessons, measure="nDCG@10")
    held: dict[str, Any] = evidence(trial)
    for name in MEASURES:
        for kind in ("search", "known"):
            one = held[kind][name]
            print(
                f"{kind:6} {name:8} {one['before']:.4f} -> {one['after']:.4f}  "
                f"{one['mean']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}]"
            )
        print(f"cosine  {name:8} {held['dense'][name]['before']:.4f} -> {held['dense'][name]['after']:.4f}")
    print(f"parts {held['parts']}, passages {held['passages']}")
    print(f"rounds of each fold {[fold.rounds for fold in trial.folds.folds]}, in the end {trial.folds.rounds}")
    print(f"{trial.kept:.0%} of the learnt way kept")
    print(
        f"the gate: {trial.refusal or 'better beyond noise'}; CPU {time.process_time() - started:.0f} s\n", flush=True
    )


def curve(asked: JudgedSearch, judged: JudgedPairs, lessons: Lessons, given: argparse.Namespace) -> None:
    """Print, by the number of questions learnt from, what is gained on a third that is never learnt from."""
    searches = Searches(asked, judged.ids, lessons)
    for draw in range(given.draws if given.curve else 0):
        for kind, answers in (("known", None), ("new", lessons.answers)):
            parts = sorted(parts_of(lessons.texts, answers, 3).places, key=len)
            rest = parts.pop(draw)
            order = np.random.default_rng(draw).permutation(np.concatenate(parts))
            before = searches.scores([Fold(tuple(rest), 0, None)], MEASURES)
            flat = dense(lessons, rest, None)
            print(f"draw {draw}, {kind} answers, {len(rest)} of {len(judged.ids)} asked: cosine {flat}", flush=True)
            for size in given.curve:
                learnt = np.zeros(len(judged.ids), bool)
                learnt[order[:size]] = True
                pairs = lessons.of(learnt)
                maps = learn_all(lessons._replace(pairs=pairs), MOST_ROUNDS, seed=draw)
                after = searches.scores([Fold(tuple(rest), 0, maps)], MEASURES)
                print(
                    f"{int(learnt.sum()):5} questions, {len(pairs)} pairs: cosine {dense(lessons, rest, maps)}, "
                    f"search {gains(before, after)}",
                    flush=True,
                )


def dense(lessons: Lessons, questions: Sequence[int], maps: Maps | None) -> str:
    """The means of some questions ranked by cosine alone."""
    found = dense_values(lessons, questions, maps, MEASURES).values()
    return " ".join(f"{name} {sum(one[name] for one in found) / len(found):.4f}" for name in MEASURES)


def gains(before: Scores, after: Scores) -> str:
    """The means of the questions that were not learnt from, with what was gained."""
    parts = []
    for name in MEASURES:
        pair = paired_bootstrap([one[name] for one in after.values()], [before[each][name] for each in after])
        parts.append(f"{name} {mean(after, name):.4f} ({pair.mean:+.4f} [{pair.low:+.4f}, {pair.high:+.4f}])")
    return ", ".join(parts)


if __name__ == "__main__":
    main()
