"""The adapters `opensearch` and `neo4j` against the embedded base: the same documents, questions and vectors, in turns.

    python tests/benchmarks/bench_engines.py opensearch|neo4j BENCH_DIR [--vectors FOLDER] [--queries N]

The arguments are those of bench_postgres.py. A server is started in a temporary folder. With vectors the search of the
index of vectors is measured too, with its recall against the exact search, or as the adapter watches it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent)]

from bench_disjoint import chunk  # noqa: E402
from bench_postgres import Judged, asking, fill, judgements, measure, rows  # noqa: E402
from bench_quality import Vectors  # noqa: E402

from context_engine.adapters.sources.local import LocalBase  # noqa: E402
from context_engine.core.models import Chunk  # noqa: E402
from context_engine.core.protocols import Embedder  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=("opensearch", "neo4j"))
    parser.add_argument("data", type=Path)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--queries", type=int)
    args = parser.parse_args()
    corpus, queries = rows(args.data / "corpus.jsonl"), rows(args.data / "queries.jsonl")
    embedder = Vectors(args.vectors, corpus, queries) if args.vectors else None
    judged = judgements(args.data / "qrels.tsv", queries[: args.queries])
    documents: dict[str, list[Chunk]] = defaultdict(list)
    for place, row in enumerate(corpus):
        documents[row["doc"]].append(chunk(row, place))
    server, store, search = engine(args.engine)
    with tempfile.TemporaryDirectory() as folder, server() as running:
        compare(Path(folder), args.engine, store(running.url, embedder), search, embedder, documents, judged)


def engine(name: str) -> tuple[Any, Any, Any]:
    """Return the test server of an engine, its test store, and the module of its search."""
    if name == "neo4j":
        from context_engine.adapters.sources.neo4j import search as graph_search
        from tests.engines.neo4j.conftest import Store as GraphTestStore
        from tests.neo4j_server import Neo4jServer

        return Neo4jServer, GraphTestStore, graph_search
    from context_engine.adapters.sources.opensearch import search as index_search
    from tests.engines.opensearch.conftest import Store as IndexTestStore
    from tests.opensearch_server import OpenSearchNode

    return OpenSearchNode, IndexTestStore, index_search


def compare(
    folder: Path,
    name: str,
    store: Any,
    search: Any,
    embedder: Embedder | None,
    documents: Mapping[str, Sequence[Chunk]],
    judged: Judged,
) -> None:
    """Print the quality and the time of both, and of the index of vectors."""
    with LocalBase.open(folder, create=True, embedder=embedder) as base:
        with base.writer() as writer:
            fill("embedded base", writer, documents)
        with store.sink() as writer:
            fill(name, writer, documents)
        source = store.source()

        def embedded(question: str) -> list[str]:
            return [found.chunk_id for found in base.search(question, source_id="notes", top_k=40)]

        if embedder is not None:
            search.APPROXIMATE_FROM = 1
            measure({"embedded base": embedded, f"{name}, by an index": asking(source)}, judged)
            print(f"recall of the index: {source.store.watch.lowest()}")
        search.APPROXIMATE_FROM = 1_000_000
        measure({"embedded base": embedded, name: asking(source)}, judged)


if __name__ == "__main__":
    main()
