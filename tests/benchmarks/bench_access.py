"""What access control costs: a decision for one source, and a search with it against the same search without.

    python tests/benchmarks/bench_access.py BENCH_DIR [--questions 200] [--rounds 3]

The passages of BENCH_DIR stand in five sources of the embedded base, in three bases of their own: without a rule; with
one rule on the domain, so that all sources are of one class; with a rule on each source, so that each is of its own.
A principal who may read all of it asks each the same question in turn, and the published form of each answer is built.
Printed are the medians of wall and CPU time, their ratio to those without a rule, and how many of the chunks returned
are the same.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import timeit
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from search_pools import BASE, TIERS, Passages, write_documents

from context_engine.core.models import (
    AccessRule,
    Classification,
    DomainSpec,
    Principal,
    Registry,
    SearchRequest,
    SourceSpec,
)
from context_engine.core.policy.access import ManifestPolicy, visible
from context_engine.wiring.build import build_engine
from context_engine.wiring.setup import load_setup

ROLE = "access: {roles: [reader%s]}"
EVERYTHING = Principal(
    id="bench",
    roles=frozenset(["reader", *(f"reader{number}" for number in range(len(TIERS)))]),
    clearance=Classification.RESTRICTED,
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--questions", type=int, default=200)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    decisions()
    passages = Passages(given.bench)
    asked = random.Random(7).sample(passages.queries, min(given.questions, len(passages.queries)))
    with tempfile.TemporaryDirectory() as temporary:
        documents = Path(temporary) / "documents"
        write_documents(passages, documents)
        engines = {
            "no rule": built(Path(temporary) / "off", documents),
            "one class": built(Path(temporary) / "one", documents, domain=ROLE % ""),
            "five classes": built(Path(temporary) / "five", documents, source=ROLE),
        }
        report(searched(engines, asked, given.rounds))
        for engine in engines.values():
            engine.close()


def decisions() -> None:
    """Print the time of a decision, and of the registry as a principal may know it."""
    rule = AccessRule(roles=("a", "b", "reader"), groups=("g",), clearance=Classification.INTERNAL)
    sources = tuple(SourceSpec(id=f"s{number}", type="bank_sop", access=rule) for number in range(100))
    domains = {
        name: DomainSpec(version=1, domain=name, sources=sources, access=AccessRule(roles=("reader",)))
        for name in map("D{}".format, range(20))
    }
    policy, domain = ManifestPolicy(domains), domains["D0"]
    policy.decide(EVERYTHING, domain)
    took = min(timeit.repeat(lambda: policy.decide(EVERYTHING, domain), number=100, repeat=5)) / 100
    print(f"a decision, each source          {took / len(sources) * 1e6:8.2f} µs")

    registry = Registry(domains=domains)
    took = min(timeit.repeat(lambda: visible(registry, policy, EVERYTHING), number=3, repeat=3)) / 3
    print(f"a registry of 2,000 sources, once for each principal {took * 1e3:8.2f} ms")


def built(folder: Path, documents: Path, *, domain: str = "", source: str = "") -> Any:
    """Return an engine over a base of its own; `source` is the text of a rule with a place for a number."""
    from context_engine.adapters.sources.adapter import SinkOptions
    from context_engine.ingest.run import ingest
    from context_engine.wiring.sinks import open_sink

    rows = "".join(
        f"  - {{id: tier_{tier}, type: {kind}, documents: [{{include: 'tier_{tier}/*.md'}}]"
        f"{', ' + source % (tier - 1) if source else ''}}}\n"
        for tier, kind in enumerate(TIERS, start=1)
    )
    (folder / "manifests").mkdir(parents=True)
    (folder / "manifests" / "base.yaml").write_text(f"version: 1\ndomain: {BASE}\nsources:\n{rows}{domain}\n", "utf-8")
    setup, data = load_setup(env={"HOME": str(folder)}, cwd=folder), folder / "data"
    spec = setup.registry.domain(BASE)
    with open_sink(setup, spec, spec.sources, "local", SinkOptions(), data_dir=data, embedder=lambda: None) as sink:
        ingest(documents, spec.sources, sink)
    return build_engine(setup, data_dir=data)


Times = dict[str, dict[str, list[float]]]


def searched(engines: dict[str, Any], questions: list[str], rounds: int) -> tuple[Times, dict[str, int]]:
    """Ask every engine every question in turn; return {what: {engine: milliseconds}}, and equal chunks by engine."""
    times: Times = {what: defaultdict(list) for what in ("wall", "CPU")}
    same: dict[str, int] = defaultdict(int)
    for number in range(rounds + 1):
        for question in questions:
            request = SearchRequest(query=question, domain=BASE, principal=EVERYTHING)
            first: set[tuple[str, str]] = set()
            for name, engine in engines.items():
                wall, cpu = time.perf_counter(), time.process_time()
                published = engine.search(request).to_dict()
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                returned = {(one["source_id"], one["content"]) for one in published["chunks"]}
                first = first or returned
                if number:  # the first round fills caches
                    same[name] += len(first & returned)
                    times["wall"][name].append(wall * 1000)
                    times["CPU"][name].append(cpu * 1000)
    return times, same


def report(measured: tuple[Times, dict[str, int]]) -> None:
    """Print medians and ratios."""
    times, same = measured
    base, *_ = same
    print(f"\n{'a search, ms':14} {'wall':>8} {'ratio':>7} {'CPU':>8} {'ratio':>7}   chunks as without a rule")
    for name in same:
        cells = []
        for what in ("wall", "CPU"):
            here, there = median(times[what][name]), median(times[what][base])
            cells.append(f"{here:8.3f} {here / there:7.3f}")
        print(f"{name:14} {' '.join(cells)}   {same[name] / same[base]:.4f}")


if __name__ == "__main__":
    main()
