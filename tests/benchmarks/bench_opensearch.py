"""The adapter `opensearch` against the embedded base: the same documents, questions and vectors, asked in turns.

    python tests/benchmarks/bench_opensearch.py BENCH_DIR [--vectors FOLDER] [--queries N]

The arguments are those of bench_postgres.py. A node is started in a temporary folder. With vectors the search of the
graph is measured too, with its recall against the exact search.
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
from bench_postgres import Judged, fill, judgements, measure, rows  # noqa: E402
from bench_quality import Vectors  # noqa: E402

from context_engine.adapters.sources.local import LocalBase  # noqa: E402
from context_engine.adapters.sources.opensearch import nearest  # noqa: E402
from context_engine.core.models import Chunk, SourceQuery  # noqa: E402
from context_engine.core.protocols import Embedder  # noqa: E402
from tests.engines.opensearch.conftest import Store  # noqa: E402
from tests.opensearch_server import OpenSearchNode  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    with tempfile.TemporaryDirectory() as folder, OpenSearchNode() as node:
        compare(Path(folder), Store(node.url, embedder), embedder, documents, judged)


def compare(
    folder: Path, store: Any, embedder: Embedder | None, documents: Mapping[str, Sequence[Chunk]], judged: Judged
) -> None:
    """Print the quality and the time of both, and of the graph of vectors."""
    with LocalBase.open(folder, create=True, embedder=embedder) as base:
        with base.writer() as writer:
            fill("embedded base", writer, documents)
        with store.sink() as writer:
            fill("opensearch", writer, documents)
        source = store.source()

        def embedded(question: str) -> list[str]:
            return [found.chunk_id for found in base.search(question, source_id="notes", top_k=40)]

        def opensearch(question: str) -> list[str]:
            answer = source.search(SourceQuery(text=question, domain="NPA", top_k=40, timeout_s=60.0))
            return [found.chunk_id for found in answer.chunks]

        nearest.APPROXIMATE_FROM = 1_000_000
        measure({"embedded base": embedded, "opensearch": opensearch}, judged)
        if embedder is None:
            return
        nearest.APPROXIMATE_FROM = 1
        measure({"embedded base": embedded, "opensearch, by the graph": opensearch}, judged)
        print(f"recall of the graph: {source.store.watch.lowest()}")


if __name__ == "__main__":
    main()
