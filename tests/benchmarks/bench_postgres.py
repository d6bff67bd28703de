"""The adapter `postgres` against the embedded base: the same documents, questions and vectors, asked in turns.

    python tests/benchmarks/bench_postgres.py BENCH_DIR [--vectors FOLDER] [--queries N] [--adapter]

BENCH_DIR holds corpus.jsonl, queries.jsonl and qrels.tsv as for bench_quality.py, FOLDER the vectors of both. A server
is started in a temporary folder, with pgvector if vectors are given, and with pg_textsearch where that is, which then
finds texts by BM25 in a second database. With vectors the search by an index is measured too, with its recall against
the exact search; with --adapter both again under an adapter that is learnt from all other questions than the first N.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from bench_disjoint import chunk  # noqa: E402
from bench_quality import Vectors  # noqa: E402
from postgresql_server import PostgresqlServer, programs, programs_with  # noqa: E402
from postgresql_store import Store  # noqa: E402

from context_engine.adapters.sources.domain_adapter import DomainAdapter  # noqa: E402
from context_engine.adapters.sources.local import LocalBase  # noqa: E402
from context_engine.adapters.sources.postgres import nearest, sink, vectors  # noqa: E402
from context_engine.core.models import Chunk, HeldVectors, SourceQuery  # noqa: E402
from context_engine.core.protocols import Embedder, Sink  # noqa: E402
from context_engine.learning.contrast import lessons_of, trained  # noqa: E402
from context_engine.learning.pairs import TrainingPairs  # noqa: E402

Ask = Callable[[str], list[str]]
Judged = Sequence[tuple[str, frozenset[str]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--queries", type=int)
    parser.add_argument("--adapter", action="store_true")
    args = parser.parse_args()
    corpus, queries = rows(args.data / "corpus.jsonl"), rows(args.data / "queries.jsonl")
    embedder = Vectors(args.vectors, corpus, queries) if args.vectors else None
    judged = judgements(args.data / "qrels.tsv", queries[: args.queries])
    taught = judgements(args.data / "qrels.tsv", queries[args.queries :]) if args.adapter and args.queries else []
    documents: dict[str, list[Chunk]] = defaultdict(list)
    for place, row in enumerate(corpus):
        documents[row["doc"]].append(chunk(row, place))
    ranking = programs_with("pg_textsearch")
    found = ranking or (programs_with("vector") if embedder else programs())
    library = "pg_textsearch" if ranking else ""
    with tempfile.TemporaryDirectory() as folder, PostgresqlServer(folder=found, libraries=library) as server:
        stores = {"postgres": Store(server.dsn("postgres"), embedder)}
        if ranking:
            by_rank = server.new_database()
            server.execute("CREATE EXTENSION pg_textsearch", by_rank)
            stores["postgres, BM25"] = Store(by_rank, embedder)
        compare(Path(folder), stores, embedder, documents, judged, taught)


def compare(
    folder: Path,
    stores: Mapping[str, Store],
    embedder: Embedder | None,
    documents: Mapping[str, Sequence[Chunk]],
    judged: Judged,
    taught: Judged,
) -> None:
    """Print the quality and the time of all, and of the index for vectors."""
    with LocalBase.open(folder, create=True, embedder=embedder) as base:
        with base.writer() as writer:
            fill("embedded base", writer, documents)
        for name, store in stores.items():
            with store.sink() as writer:
                fill(name, writer, documents)

        def embedded(question: str) -> list[str]:
            return [found.chunk_id for found in base.search(question, source_id="notes", top_k=40)]

        sources = {name: store.source() for name, store in stores.items()}
        measure({"embedded base": embedded} | {name: asking(source) for name, source in sources.items()}, judged)
        if embedder is None:
            return
        if taught:
            held = base.held_vectors(["notes"])
            adapter = learnt(held, embedder, taught)
            for of, domain in ((base, ""), (sources["postgres"].store, "NPA")):
                origin = of.held_vectors(["notes"]).origin
                of.use_adapter(domain, of.keep_adapter(domain, adapter, {}, origin).adapter_id)
            measure({"embedded base, adapter": embedded, "postgres, adapter": asking(sources["postgres"])}, judged)
        nearest.APPROXIMATE_FROM = vectors.APPROXIMATE_FROM = 1
        sink._ANALYSE_FROM = 0
        with stores["postgres"].sink() as writer:
            pass
        measure({"embedded base": embedded, "postgres, by an index": asking(sources["postgres"])}, judged)
        print(f"recall of the index: {sources['postgres'].store.watch.recall(range(100))}")


def asking(source: Any) -> Ask:
    def ask(question: str) -> list[str]:
        answer = source.search(SourceQuery(text=question, domain="NPA", top_k=40, timeout_s=60.0))
        return [found.chunk_id for found in answer.chunks]

    return ask


def learnt(held: HeldVectors, embedder: Embedder, taught: Judged) -> DomainAdapter:
    """Return an adapter that four rounds over some questions make."""
    places = {chunk_id: place for place, chunk_id in enumerate(held.chunk_ids)}
    answers = [[places[chunk_id] for chunk_id in gold if chunk_id in places] for _, gold in taught]
    lessons = lessons_of(TrainingPairs([question for question, _ in taught], answers), held, embedder)
    *_, maps = islice(trained(lessons.examples, lessons.pairs, seed=1), 4)
    return DomainAdapter(embedder.model_id, *maps)


def fill(name: str, writer: Sink, documents: Mapping[str, Sequence[Chunk]]) -> None:
    started = time.perf_counter()
    for document_id, chunks in documents.items():
        writer.put("notes", document_id, "", "1", chunks)
    writer.commit()
    print(f"{name}: written in {time.perf_counter() - started:.1f} s")


def measure(asked: Mapping[str, Ask], judged: Judged) -> None:
    """Print R@10, MAP@10, R@40 and milliseconds of each, and their ratio; each question is asked of all in turn."""
    scores: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    times: dict[str, list[float]] = defaultdict(list)
    for question, gold in judged:
        for name, ask in asked.items():
            started = time.perf_counter()
            ids = ask(question)
            times[name].append(1000 * (time.perf_counter() - started))
            hits = [place for place, chunk_id in enumerate(ids[:10], 1) if chunk_id in gold]
            precision = sum(number / place for number, place in enumerate(hits, 1)) / len(gold)
            scores[name].append((len(hits) / len(gold), precision, len(gold & {*ids}) / len(gold)))
    first = np.median(times[next(iter(asked))])
    for name in asked:
        recall, precision, at_40 = np.mean(scores[name], axis=0)
        middle = np.median(times[name])
        print(
            f"{name:24} R@10 {recall:.4f}  MAP@10 {precision:.4f}  R@40 {at_40:.4f}"
            f"  p50 {middle:.1f} ms  x{middle / first:.1f}"
        )


def judgements(path: Path, queries: Sequence[Mapping[str, Any]]) -> Judged:
    gold: dict[str, set[str]] = defaultdict(set)
    for line in path.read_text("utf-8").splitlines():
        query, passage, _ = line.split("\t")
        gold[query].add(passage)
    return [(query["text"], frozenset(gold[query["id"]])) for query in queries if gold[query["id"]]]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    main()
