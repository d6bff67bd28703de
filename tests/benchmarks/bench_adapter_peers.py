"""Is the gain of an adapter the adapter's or ours: three frameworks with and without its vectors, and the base.

    python tests/benchmarks/bench_adapter_peers.py BENCH --vectors FOLDER [--tokens FOLDER] [--asked 400] [--rounds 3]

BENCH is a folder as bench_quality.py reads it, the others as embed_corpus.py writes them. An adapter is learnt from all
but some questions, drawn at random, and everybody is asked those. The frameworks search as their documentation shows
it (peers_hybrid.py), over the model's vectors and over the adapter's, which are written out for them. Each adapted row
stands beside the row without.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from bench_disjoint import read
from bench_quality import DEPTH, Ask, Table, Tokens, Vectors, measure, reranked, with_headings, write
from peers_hybrid import PEERS

from context_engine.adapters.rerankers.max_sim import MaxSimReranker
from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.local.domain_adapter import DomainAdapter
from context_engine.evaluation.learning.folds import learn_all
from context_engine.evaluation.learning.judged_pairs import judged_pairs
from context_engine.evaluation.learning.lessons import lessons_of
from context_engine.evaluation.questions import EvalQuestion


class Adapted:
    """An embedder whose vectors are those of another under an adapter, unit length."""

    def __init__(self, vectors: Vectors, adapter: DomainAdapter) -> None:
        self._vectors, self._adapter = vectors, adapter

    def embed_query(self, text: str) -> Any:
        mapped = self._vectors.embed_query(text) @ self._adapter.query
        return mapped / np.linalg.norm(mapped)

    def embed_documents(self, texts: Sequence[str]) -> list[Any]:
        mapped = np.array(self._vectors.embed_documents(texts)) @ self._adapter.passage
        return list(mapped / np.linalg.norm(mapped, axis=1, keepdims=True))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--vectors", type=Path, required=True)
    options.add_argument("--tokens", type=Path)
    options.add_argument("--asked", type=int, default=400)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    answers, queries, gold = read(given.bench)
    passages = with_headings(given.bench)
    vectors = Vectors(given.vectors, passages, queries)
    reranker = MaxSimReranker(Tokens(given.tokens, passages, queries), cache_mib=0) if given.tokens else None
    drawn = np.random.default_rng(5).permutation(len(queries))[: given.asked]
    asked = [queries[place] for place in sorted(drawn.tolist())]
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalBase.open(Path(folder) / "base", create=True, embedder=vectors) as base,
    ):
        write(base, {"one": passages})
        adapter = learnt(base, vectors, queries, gold, {row["id"] for row in asked}, given.rounds)
        print(f"learnt from {len(queries) - len(asked)} questions, asked {len(asked)} others\n")
        table = Table()
        for some, name in ((None, "words and vectors"), (reranker, "and max-sim")):
            if name == "words and vectors" or some is not None:
                table.add(name, None, measure(ask_base(base, None, some), asked, gold))
                table.add(f"{name}, adapter", name, measure(ask_base(base, adapter, some), asked, gold))
    for name, peer in PEERS.items():
        table.add(name, None, measure(peer(answers, vectors, DEPTH), asked, gold))
        table.add(f"{name}, adapter", name, measure(peer(answers, Adapted(vectors, adapter), DEPTH), asked, gold))


def learnt(
    base: LocalBase, vectors: Vectors, queries: Sequence[dict[str, Any]], gold: Any, held_out: set[str], rounds: int
) -> DomainAdapter:
    """Return the adapter of all questions but those held out."""
    questions = [EvalQuestion(id=row["id"], text=row["text"]) for row in queries]
    qrels = {name: dict.fromkeys(sorted(names), 1) for name, names in gold.items()}
    held = base.held_vectors(["one"])
    judged = judged_pairs(questions, qrels, held)
    lessons = lessons_of(judged.pairs, held, vectors)
    shown = np.array([name not in held_out for name in judged.ids])
    maps = learn_all(lessons._replace(pairs=lessons.of(shown)), rounds, seed=1)
    return DomainAdapter(vectors.model_id, *maps)


def ask_base(base: LocalBase, adapter: DomainAdapter | None, reranker: MaxSimReranker | None) -> Ask:
    def ask(text: str) -> list[str]:
        chunks = base.best_of(text, ["one"], top_k=DEPTH, domain="BENCH", adapter=adapter).chunks
        return [chunk.chunk_id for chunk in (chunks if reranker is None else reranked(text, chunks, reranker))]

    return ask


if __name__ == "__main__":
    main()
