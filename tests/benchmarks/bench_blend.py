"""What a blend learnt for a domain does to questions it was not learnt on, and how many judged ones it takes.

    python tests/benchmarks/bench_blend.py BENCH [--vectors FOLDER] [--tokens FOLDER] [--curve 50,100,200,500,1000]
        [--adapter] [--folds 5]

BENCH is a folder as bench_quality.py reads it, the other folders as embed_corpus.py writes them: with vectors the base
is searched by both, with tokens max-sim reranks. The first table is what `context-engine eval tune --blend` measures,
through the engine, with so many folds. With --curve a blend is learnt from so many of the questions and measured on all
others, three draws each. With --adapter each question is searched for under an adapter that was learnt from the others,
as `eval tune --adapter --blend` does, and the first table is of the blend on top of it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from bench_disjoint import read
from bench_quality import Tokens, Vectors, interval, with_headings, write

from context_engine.adapters.rerankers.max_sim import MaxSimReranker
from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.adapters.sources.local import LocalBase, LocalSource, SearchOptions
from context_engine.adapters.sources.stores.adapter_keeping import OFF
from context_engine.core.engine import Engine
from context_engine.core.models import LearntBlend
from context_engine.evaluation.gold import Corpus
from context_engine.evaluation.learning.blend_lessons import BlendLesson, BlendLessons, blend_lessons
from context_engine.evaluation.learning.blend_tune import blended_hits, scores_of, trial_of
from context_engine.evaluation.learning.folds import learn_all, learn_by_folds
from context_engine.evaluation.learning.judged_pairs import judged_pairs
from context_engine.evaluation.learning.stacked import standing_for
from context_engine.evaluation.questions import EvalQuestion
from context_engine.evaluation.run import Depth
from context_engine.evaluation.session import Session
from context_engine.evaluation.variant import Variant
from context_engine.learning.contrast import lessons_of
from context_engine.learning.parts import parts_of
from context_engine.wiring.setup import load_setup

MEASURES = ("nDCG@10", "R@10", "AP@10")
DRAWS = 3
SOURCE = {"id": "one", "type": "bank_sop"}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--vectors", type=Path)
    options.add_argument("--tokens", type=Path)
    options.add_argument("--curve", type=lambda text: [int(one) for one in text.split(",")], default=[])
    options.add_argument("--adapter", action="store_true")
    options.add_argument("--folds", type=int, default=5)
    given = options.parse_args()
    _, queries, gold = read(given.bench)
    passages = with_headings(given.bench)
    embedder = Vectors(given.vectors, passages, queries) if given.vectors else None
    reranker = MaxSimReranker(Tokens(given.tokens, passages, queries), cache_mib=0) if given.tokens else None
    with tempfile.TemporaryDirectory() as folder:
        session = session_of(Path(folder), queries, gold)
        depth = session.depth(Variant(), MEASURES)
        with LocalBase.open(Path(folder) / "base", create=True, embedder=embedder) as base:
            write(base, {"one": passages})
            started = time.process_time()
            if given.adapter:
                lessons = stacked(session, base, embedder, reranker, depth, given.folds)
            else:
                with engine_over(session, base, reranker) as engine:
                    lessons = blend_lessons(session, engine, "BENCH", depth)
            print(f"{len(lessons.of)} questions searched for in {time.process_time() - started:.0f} s of CPU")
        folds(session, lessons, depth, given.folds)
        curve(session, lessons, depth, given.curve)


def engine_over(session: Session, base: LocalBase, reranker: MaxSimReranker | None) -> Engine:
    return Engine(
        session.setup.registry,
        lambda _domain, _spec: LocalSource(base, "one"),
        resolve=session.setup.resolver.resolve,
        reranker=reranker,
    )


def stacked(
    session: Session, base: LocalBase, embedder: Any, reranker: MaxSimReranker | None, depth: Depth, count: int
) -> BlendLessons:
    """Return each question as it is found under the adapter of its fold, as `stacked_lessons` does."""
    held, names = base.held_vectors(["one"]), [question for question, _ in session.questions]
    judged = judged_pairs(names, session.qrels, held)
    pairs = lessons_of(judged.pairs, held, embedder)
    seed = pairs.seed(base.model_id)
    learnt = learn_by_folds(pairs, parts_of(judged.pairs.questions, None, count).places, measures=MEASURES, seed=seed)
    found: dict[str, BlendLesson] = {}
    for fold in learnt.folds:
        choice = OFF
        if fold.maps is not None:
            adapter = DomainAdapter(base.model_id, *fold.maps)
            choice = base.keep_adapter("BENCH", adapter, {}, held.origin).adapter_id
        part = session.only({judged.ids[place] for place in fold.questions})
        with (
            LocalBase(base.path, embedder=embedder, options=SearchOptions(adapter=choice)) as one,
            engine_over(session, one, reranker) as engine,
        ):
            found |= blend_lessons(part, engine, "BENCH", depth).of
    of_all = DomainAdapter(base.model_id, *learn_all(pairs, max(learnt.rounds, 1), seed=seed))
    return standing_for(of_all, "BENCH", found, ())


def session_of(folder: Path, queries: list[dict[str, Any]], gold: dict[str, set[str]]) -> Session:
    """Return the judged questions in a domain of one source."""
    (folder / "config").mkdir()
    (folder / "manifests").mkdir()
    manifest = {"version": 1, "domain": "BENCH", "sources": [SOURCE]}
    (folder / "manifests" / "bench.yaml").write_text(json.dumps(manifest), "utf-8")
    setup = load_setup(config_dir=folder, env={"HOME": str(folder)}, cwd=folder)
    return Session(
        setup=setup,
        data_dir=folder,
        questions=tuple((EvalQuestion(id=row["id"], text=row["text"]), "BENCH") for row in queries),
        qrels={row["id"]: dict.fromkeys(gold[row["id"]], 1) for row in queries},
        corpus=Corpus(),
        counter=len,
    )


def folds(session: Session, lessons: BlendLessons, depth: Depth, count: int) -> None:
    """Print what the gate measures and says."""
    found = trial_of(session, lessons, measures=MEASURES, folds=count, depth=depth)
    print(f"learnt on {found.taught} of {len(found.before)} questions; {found.refusal or 'better beyond noise'}\n")
    for measure, row in found.held_out.items():
        mean, low, high = row["difference"]
        print(f"{measure:8} {row['before']:.4f} -> {row['after']:.4f}  {mean:+.4f} [{low:+.4f}, {high:+.4f}]")
    for name, term in sorted(found.blend.terms.items(), key=lambda one: -abs(one[1].weight)):
        print(f"  {name:14} {term.weight:+.3f}")


def curve(session: Session, lessons: BlendLessons, depth: Depth, counts: list[int]) -> None:
    """Print what blends of some questions do to all others, which are ranked by the blend's own numbers."""
    taught, random = list(lessons.taught), np.random.default_rng(7)
    for count in counts:
        for _ in range(DRAWS):
            drawn = set(random.permutation(taught)[:count].tolist())
            others = [name for name in lessons.of if name not in drawn]
            gains = differences(session, lessons, depth, lessons.learn(drawn), others)
            print(f"{count:6} questions  " + "  ".join(f"{name} {interval(gains[name])}" for name in MEASURES))


def differences(
    session: Session, lessons: BlendLessons, depth: Depth, blend: LearntBlend, names: list[str]
) -> dict[str, Any]:
    found = []
    for one in (blend, None):
        hits = {name: blended_hits(lessons, name, one, depth) for name in names}
        held = replace(session, qrels={name: session.qrels[name] for name in names})
        found.append(scores_of(held, hits, depth, MEASURES))
    ours, theirs = found
    return {name: np.array([ours[key][name] - theirs[key][name] for key in names]) for name in MEASURES}


if __name__ == "__main__":
    main()
