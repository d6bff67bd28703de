"""The figures that retrieval services put in their headlines, measured here: latency by step, and tokens saved.

    python tests/benchmarks/bench_headlines.py [--rounds 5]

Every question of the demo bank goes through the whole pipeline of `POST /api/v1/rag/query` in this process, context
string and all, first in words alone, then in words and vectors (reciprocal rank fusion). The vectors are hashed terms
of 384 dimensions: what a model needs for the question comes on top, `embedding_time_ms` tells it. Tokens are the
estimate; of a question the context is compared with all documents of its domain, with all candidates of the first
stage, and with the chunks returned as they stand in the JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from context_engine import demo
from context_engine.adapters.sources.local.base import LocalBase
from context_engine.adapters.sources.stores.chunk_rows import places
from context_engine.core.context import ApproxTokenCounter
from context_engine.core.models import NOBODY, Caller
from context_engine.core.policy.access import AccessViews
from context_engine.ingest.run import ingest
from context_engine.service.contract.rag import RAGPipelineResponse, RAGQueryRequest
from context_engine.service.deployment import Deployment
from context_engine.service.query import answer_query
from context_engine.testing import FakeEmbedder
from context_engine.wiring.build import build_engine
from context_engine.wiring.embedded_base import base_path
from context_engine.wiring.setup import access_policy, load_setup

QUESTIONS = [
    RAGQueryRequest(query=one["query"], domain=one["domain"])
    for one in map(json.loads, demo.QUESTIONS.read_text("utf-8").splitlines())
]
STEPS = ("embedding_time_ms", "search_time_ms", "rerank_time_ms", "total_time_ms")
CALLER = Caller(app="benchmark")
COUNTER = ApproxTokenCounter()


def opened(folder: Path, embedder: FakeEmbedder | None) -> Deployment:
    """Return the demo bank, its base built anew."""
    setup = load_setup(manifest_dir=demo.MANIFESTS, env={"HOME": str(folder)}, cwd=folder)
    domains = [setup.registry.domain(name) for name in setup.registry.names]
    specs = [source for domain in domains for source in domain.sources]
    rules_of = access_policy({one.domain: one for one in domains}).rules_of
    place = places(specs, rules_of)
    with (
        LocalBase.open(base_path(folder), create=True, embedder=embedder, place=place) as base,
        base.writer() as writer,
    ):
        ingest(demo.BANK, specs, writer)
    models = setup.models(folder)
    if embedder is not None:
        models.embedder = lambda: embedder  # type: ignore[method-assign]
    engine = build_engine(setup, data_dir=folder, models=models)
    return Deployment(
        setup=setup, engine=engine, views=AccessViews(setup.registry, setup.access), data_dir=folder, demo=True
    )


def asked(deployment: Deployment, request: RAGQueryRequest) -> tuple[RAGPipelineResponse, float]:
    """Return an answer and its milliseconds."""
    begun = time.perf_counter()
    answer = answer_query(deployment, request, principal=NOBODY, caller=CALLER)
    answer.model_dump_json()
    return answer, 1000 * (time.perf_counter() - begun)


def latency(deployment: Deployment, title: str, rounds: int) -> None:
    """Print the times of the steps."""
    cold = [asked(deployment, one) for one in QUESTIONS]
    begun = time.process_time()
    found = [asked(deployment, one) for _ in range(rounds) for one in QUESTIONS]
    cpu_ms = 1000 * (time.process_time() - begun) / len(found)
    print(f"\n{title}: {len(QUESTIONS)} questions, {rounds} times; milliseconds")
    print(f"  asked first       p50 {_p(cold, 50):7.1f}  p95 {_p(cold, 95):7.1f}  (the first of all {cold[0][1]:.0f})")
    print(f"  with its JSON     p50 {_p(found, 50):7.1f}  p95 {_p(found, 95):7.1f}")
    print(f"  CPU of each       {cpu_ms:11.1f}")
    for step in STEPS:
        values = [getattr(answer.statistics, step) for answer, _ in found]
        print(f"  {step:17} p50 {statistics.median(values):7.1f}  p95 {_percentile(values, 95):7.1f}")


def _p(found: Sequence[tuple[RAGPipelineResponse, float]], percent: int) -> float:
    return _percentile([one for _, one in found], percent)


def _percentile(values: Sequence[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def tokens(deployment: Deployment) -> None:
    """Print what the context saves."""
    corpus: dict[str, int] = {}
    with LocalBase.open(base_path(deployment.data_dir or Path())) as base:
        for name in deployment.setup.registry.names:
            sources = deployment.setup.registry.domain(name).sources
            corpus[name] = sum(COUNTER.count(chunk.content) for one in sources for chunk in base.chunks(one.id))
    rows = []
    for request in QUESTIONS:
        answer, _ = asked(deployment, request)
        raw = deployment.kept.get(NOBODY, answer.search_id).result.raw
        assert answer.context_string is not None and request.domain is not None
        pool = sum(COUNTER.count(chunk.content) for one in raw for chunk in one.chunks)
        shown = sum(COUNTER.count(chunk.model_dump_json()) for chunk in answer.chunks)
        rows.append((answer.context_string.total_tokens, corpus[request.domain], pool, shown))
    context = statistics.mean(row[0] for row in rows)
    print(f"\ntokens of a context: {context:.0f} on average")
    for place, what in enumerate(("all documents of the domain", "all candidates", "the chunks as JSON"), start=1):
        other = statistics.mean(row[place] for row in rows)
        print(f"  against {what:28} {other:9.0f}: {1 - context / other:5.1%} fewer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for title, embedder in (("words alone", None), ("words and vectors", FakeEmbedder(384))):
        with TemporaryDirectory() as folder:
            deployment = opened(Path(folder), embedder)
            latency(deployment, title, options.rounds)
            if embedder is None:
                tokens(deployment)
            deployment.close()


if __name__ == "__main__":
    main()
