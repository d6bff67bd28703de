"""What following edges from the best chunks gains on judged questions, and what it costs.

    python tests/benchmarks/bench_graph.py BENCH_DIR [--vectors FOLDER] [--queries N] [--weights .3 .5 .7]

BENCH_DIR and FOLDER are those of bench_quality.py. The questions are asked through the engine without and with
`graph_hops`, for each set of edges; the differences are paired, with their bootstrap intervals. "citing" are the
questions one of whose answers is a passage that cites a clause of its document, or is cited by one. CPU is that of the
process for all questions, divided by that without edges.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench_quality import Vectors, interval, read, with_headings, write

from context_engine import Engine, Registry, SearchRequest
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.models import DomainSpec, Edge, SourceSpec, SourceType
from context_engine.core.query.features import citations, cited_sections

PLAIN = {"authority_weight": 0.0, "dedup_method": "off", "min_relevance_score": 0.0, "stage2_top_k": 10}
CITES = [Edge.CITES]
WAYS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("cited clauses, one hop", {"graph_hops": 1, "graph_edges": CITES}),
    ("cited clauses, two hops", {"graph_hops": 2, "graph_edges": CITES}),
    ("chunks beside", {"graph_hops": 1, "graph_edges": [Edge.NEXT_CHUNK]}),
    ("all edges, one hop", {"graph_hops": 1, "graph_edges": list(Edge)}),
    ("all edges, two hops", {"graph_hops": 2, "graph_edges": list(Edge)}),
)


class Outcome(NamedTuple):
    """Recall at 10 and average precision at 10 of each question, chunks added to each, CPU seconds of all."""

    recall: Any
    precision: Any
    added: float
    cpu: float


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--vectors", type=Path)
    options.add_argument("--queries", type=int)
    options.add_argument("--weights", type=float, nargs="+", default=[0.5])
    options.add_argument("--base", type=Path, help="a base that is written once and used again")
    given = options.parse_args()
    _, known, gold = read(given.bench)
    passages = with_headings(given.bench)
    asked = known[:: max(len(known) // given.queries, 1)] if given.queries else known
    embedder = Vectors(given.vectors, passages, known) if given.vectors else None
    with tempfile.TemporaryDirectory() as folder:
        path = given.base or Path(folder) / "base"
        is_new = not path.exists()
        base = LocalBase.open(path, create=True, embedder=embedder)
        if is_new:
            write(base, {"one": passages})
        spec = SourceSpec(id="one", type=SourceType.BANK_SOP)
        registry = Registry(domains={"BENCH": DomainSpec(version=1, domain="BENCH", sources=(spec,))})
        with Engine(registry, lambda _domain, source: LocalSource(base, source.id)) as engine:
            report(engine, asked, gold, citing(passages), given.weights)


def report(
    engine: Engine,
    asked: Sequence[dict[str, Any]],
    gold: Mapping[str, set[str]],
    citing: set[str],
    weights: Sequence[float],
) -> None:
    at = np.array([not citing.isdisjoint(gold[query["id"]]) for query in asked])
    asking(engine, asked[:20], gold, {})  # opens everything
    plain = asking(engine, asked, gold, {})
    print(
        f"{len(asked)} questions, {at.sum()} citing; R@10 {plain.recall.mean():.4f} MAP@10 {plain.precision.mean():.4f}"
    )
    print(f"{'':32}weight  {'R@10 [95 %]':26}{'MAP@10 [95 %]':26}{'citing: R@10':26}{'MAP@10':26}added  CPU")
    for weight in weights:
        for name, settings in WAYS:
            way = asking(engine, asked, gold, {**settings, "graph_weight": weight})
            recall, precision = way.recall - plain.recall, way.precision - plain.precision
            cells = "".join(map(interval, (recall, precision, recall[at], precision[at])))
            print(f"{name:32}{weight:6.2f}  {cells}{way.added:5.1f}  {way.cpu / plain.cpu:.2f}", flush=True)


def asking(
    engine: Engine, asked: Sequence[dict[str, Any]], gold: Mapping[str, set[str]], settings: Mapping[str, Any]
) -> Outcome:
    started, rows, added = time.process_time(), [], 0
    for query in asked:
        request = SearchRequest(query=query["text"], domain="BENCH", overrides={**PLAIN, **settings})
        result = engine.search(request)
        wanted = gold[query["id"]]
        places = [chunk.rank for chunk in result.chunks if chunk.chunk_id in wanted]
        precision = sum(number / place for number, place in enumerate(places, 1)) / len(wanted)
        rows.append((len(places) / len(wanted), precision))
        added += sum(link.added for answer in result.raw for link in answer.links)
    recall, precisions = np.array(rows).T
    return Outcome(recall, precisions, added / len(asked), time.process_time() - started)


def citing(passages: Sequence[dict[str, Any]]) -> set[str]:
    """Return the passages that cite a clause of their document, and those cited."""
    return {name for pair in cited_pairs(passages) for name in pair}


def cited_pairs(passages: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    documents: dict[str, list[dict[str, Any]]] = {}
    for row in passages:
        documents.setdefault(row["doc"], []).append(row)
    for rows in documents.values():
        sections = [row["passage_id"] for row in rows]
        for row in rows:
            for cited in () if row["is_heading"] else citations(row["text"]):
                for place in cited_sections(sections, cited.clause) if not cited.document else ():
                    if rows[place] is not row:
                        yield row["id"], rows[place]["id"]


if __name__ == "__main__":
    main()
