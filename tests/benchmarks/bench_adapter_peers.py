"""Is the gain of an adapter the adapter's or ours: three frameworks with and without its vectors, and the base.

    python tests/benchmarks/bench_adapter_peers.py BENCH --vectors FOLDER [--tokens FOLDER] [--folds 5]

BENCH is a folder as bench_quality.py reads it, the others as embed_corpus.py writes them. An adapter is learnt from
four fifths of the questions, as `context-engine eval tune --adapter` learns it, and everybody is asked the last fifth
with it; so five times. The frameworks search as their documentation shows it (peers_hybrid.py), over the model's
vectors and over the adapter's, which are written out for them. Each adapted row stands beside the row without. With
--folds 1 one fifth is asked: the frameworks take 0.1 to 0.3 s a question, and their stores are made for each adapter.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from bench_disjoint import read
from bench_quality import DEPTH, Ask, Outcome, Table, Tokens, Vectors, measure, reranked, with_headings, write
from peers_hybrid import PEERS

from context_engine.adapters.rerankers.max_sim import MaxSimReranker
from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.adapters.sources.local import LocalBase
from context_engine.evaluation.learning.adapter_gate import measures_with
from context_engine.evaluation.learning.folds import learn_by_folds
from context_engine.evaluation.learning.judged_pairs import judged_pairs
from context_engine.evaluation.questions import EvalQuestion
from context_engine.learning.contrast import lessons_of
from context_engine.learning.parts import parts_of


class Adapted:
    """An embedder whose vectors are those of another under an adapter, unit length."""

    def __init__(self, vectors: Vectors, adapter: DomainAdapter) -> None:
        self._vectors, self._adapter = vectors, adapter
        self.dimension = vectors.dimension

    def embed_query(self, text: str) -> Any:
        mapped = self._vectors.embed_query(text) @ self._adapter.query
        return mapped / np.linalg.norm(mapped)

    def embed_documents(self, texts: Sequence[str]) -> list[Any]:
        mapped = np.array(self._vectors.embed_documents(texts)) @ self._adapter.passage
        return list(mapped / np.linalg.norm(mapped, axis=1, keepdims=True))


class Fold(NamedTuple):
    """Questions, and an adapter that was not learnt from them; None: learning nothing was best."""

    adapter: DomainAdapter | None
    asked: Sequence[dict[str, Any]]


Asking = Callable[[DomainAdapter | None], Ask]
"""Makes a search with the vectors of an adapter; None: with the model's."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--vectors", type=Path, required=True)
    options.add_argument("--tokens", type=Path)
    options.add_argument("--folds", type=int, default=5, choices=range(1, 6), help="of five, how many are asked")
    given = options.parse_args()
    answers, queries, gold = read(given.bench)
    passages = with_headings(given.bench)
    vectors = Vectors(given.vectors, passages, queries)
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalBase.open(Path(folder) / "base", create=True, embedder=vectors) as base,
    ):
        write(base, {"one": passages})
        folds = learnt(base, vectors, queries, gold)[: given.folds]
        asked = sum(len(fold.asked) for fold in folds)
        print(f"each time learnt from four fifths of {len(queries)} questions, asked {asked} others\n", flush=True)
        table = Table()
        compare(table, "words and vectors", lambda adapter: ask_base(base, adapter, None), folds, gold)
        if given.tokens:
            reranker = MaxSimReranker(Tokens(given.tokens, passages, queries), cache_mib=0)
            compare(table, "and max-sim", lambda adapter: ask_base(base, adapter, reranker), folds, gold)
    for name, peer in PEERS.items():
        with ExitStack() as opened:
            compare(table, name, partial(ask_peer, opened, peer, answers, vectors), folds, gold)


def learnt(base: LocalBase, vectors: Vectors, queries: Sequence[dict[str, Any]], gold: Any) -> list[Fold]:
    """Return all questions in five folds, each beside an adapter of the questions of the others."""
    questions = [EvalQuestion(id=row["id"], text=row["text"]) for row in queries]
    qrels = {name: dict.fromkeys(sorted(names), 1) for name, names in gold.items()}
    held = base.held_vectors(["one"])
    judged = judged_pairs(questions, qrels, held)
    lessons = lessons_of(judged.pairs, held, vectors)
    parts = parts_of(judged.pairs.questions, None, 5).places
    found = learn_by_folds(lessons, parts, measures=measures_with("nDCG@10"), seed=lessons.seed(vectors.model_id))
    rows = {row["id"]: row for row in queries}
    return [
        Fold(
            None if fold.maps is None else DomainAdapter(vectors.model_id, *fold.maps),
            [rows[judged.ids[place]] for place in fold.questions],
        )
        for fold in found.folds
    ]


def compare(table: Table, name: str, asking: Asking, folds: Sequence[Fold], gold: Any) -> None:
    """Add the row of a search with the model's vectors, and of each question with those of its fold's adapter."""
    plain = asking(None)
    table.add(name, None, joined([measure(plain, fold.asked, gold) for fold in folds]))
    table.add(f"{name}, adapter", name, joined([measure(asking(fold.adapter), fold.asked, gold) for fold in folds]))


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    return Outcome(*(np.concatenate(column) for column in zip(*outcomes, strict=True)))


def ask_base(base: LocalBase, adapter: DomainAdapter | None, max_sim: MaxSimReranker | None) -> Ask:
    reranker = max_sim if max_sim is None or adapter is None else max_sim.under(adapter)

    def ask(text: str) -> list[str]:
        chunks = base.best_of(text, ["one"], top_k=DEPTH, domain="BENCH", adapter=adapter).chunks
        return [chunk.chunk_id for chunk in (chunks if reranker is None else reranked(text, chunks, reranker))]

    return ask


def ask_peer(
    opened: ExitStack, peer: Any, answers: Sequence[dict[str, Any]], vectors: Vectors, adapter: DomainAdapter | None
) -> Ask:
    given = vectors if adapter is None else Adapted(vectors, adapter)
    ask: Ask = opened.enter_context(peer(answers, given, DEPTH)).ask
    return ask


if __name__ == "__main__":
    main()
