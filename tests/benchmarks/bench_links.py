"""Questions over two documents with and without links, in PostgreSQL beside the embedded base.

    python tests/benchmarks/bench_links.py --corpus FOLDER [--passages 4 8]

FOLDER holds the texts that the policy questions of `multi_hop_questions.jsonl` ask about; its files are read as
Markdown. The other questions are for the demo bank. Both stores get the same documents, by words alone, and each
question is asked of both in turns, without a scope threshold. The time of a search is the shortest of three, so that
other work on the machine counts little. A server is started in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from bench_agentic import QUESTIONS, has_both  # noqa: E402
from bench_answers import DOMAIN, ingested  # noqa: E402
from postgresql_server import PostgresqlServer, programs  # noqa: E402
from postgresql_store import Store  # noqa: E402

from context_engine import demo  # noqa: E402
from context_engine.adapters.sources.local import LocalBase, LocalSource  # noqa: E402
from context_engine.core.engine import Engine  # noqa: E402
from context_engine.core.models import Registry, SearchRequest, SearchResult  # noqa: E402
from context_engine.core.protocols import Source  # noqa: E402
from context_engine.wiring.embedded_base import base_path  # noqa: E402
from context_engine.wiring.setup import load_setup  # noqa: E402

WAYS: Mapping[str, Mapping[str, Any]] = {
    "no links": {},
    "links": {"graph_hops": 2},
    "links, weight .8": {"graph_hops": 2, "graph_weight": 0.8},
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", type=Path, required=True, metavar="FOLDER")
    options.add_argument("--passages", type=int, nargs="+", default=[4, 8], help="passages shown")
    given = options.parse_args()
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder, PostgresqlServer(folder=programs()) as server:
        work = Path(folder)
        bank = load_setup(manifest_dir=demo.MANIFESTS, env={}, cwd=work).registry
        data = demo.ensure_base(work / "demo", bank)
        policies, policy_data = ingested(given.corpus, work / "policies")
        for name, registry, base in (("demo", bank, data), ("policies", policies.registry, policy_data)):
            with engines(registry, base_path(base), Store(server.dsn("postgres"))) as asked:
                for passages in given.passages:
                    report(name, asked, [row for row in rows if row["collection"] == name], passages)


@contextmanager
def engines(registry: Registry, base: Path, store: Store) -> Iterator[Mapping[str, Engine]]:
    """Yield an engine over a base, and one over a copy of its chunks in PostgreSQL."""
    specs = {spec.id: spec for name in registry.names for spec in registry.domain(name).sources}
    embedded: dict[str, Source] = {name: LocalSource(LocalBase(base), name, spec=spec) for name, spec in specs.items()}
    own = {"adapter": "postgres", "connection": "pg", "settings": store.own}
    copies = {name: spec.model_copy(update=own) for name, spec in specs.items()}
    with store.sink(*copies.values()) as sink:
        for name, source in embedded.items():
            documents = defaultdict(list)
            for chunk in source.list_chunks():
                documents[chunk.document_id, chunk.document_version or ""].append(chunk)
            for (document_id, version), chunks in documents.items():
                sink.put(name, document_id, version, "1", chunks)
    postgres = {name: store.source(spec) for name, spec in copies.items()}
    with (
        Engine(registry, lambda _domain, spec: embedded[spec.id]) as first,
        Engine(registry, lambda _domain, spec: postgres[spec.id]) as second,
    ):
        yield {"embedded base": first, "postgres": second}


def searched(engine: Engine, request: SearchRequest) -> tuple[SearchResult, float]:
    """Return the result, and the shortest time of three searches in ms."""
    times = []
    for _ in range(3):
        started = time.perf_counter()
        result = engine.search(request)
        times.append(1000.0 * (time.perf_counter() - started))
    return result, min(times)


def report(name: str, asked: Mapping[str, Engine], rows: Sequence[Mapping[str, Any]], passages: int) -> None:
    """Print how many questions have both documents among the passages, the chunks linked to one, and the time."""
    both: Counter[tuple[str, str]] = Counter()
    links: Counter[tuple[str, str]] = Counter()
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        for way, settings in WAYS.items():
            for store, engine in asked.items():
                overrides = {"scope_threshold": None, **settings}
                request = SearchRequest(
                    query=row["question"], domain=row.get("domain", DOMAIN), overrides=overrides, top_k=passages
                )
                result, elapsed_ms = searched(engine, request)
                times[store, way].append(elapsed_ms)
                both[store, way] += has_both(result.chunks, row["documents"])
                links[store, way] += sum(len(answer.links) for answer in result.raw)
    for store in asked:
        for way in WAYS:
            key = (store, way)
            print(
                f"{name:10}{passages:3} passages  {store:15}{way:18}both {both[key]:3} of {len(rows)}"
                f"  links {links[key] / len(rows):4.1f}  p50 {median(times[key]):6.1f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
