"""Many users at once: five datasets that answer in 0.2 to 1.0 s, and 1, 5, 10 and 20 different searches at a time.

    python tests/benchmarks/bench_dify_load.py [--connections 4 60] [--searches 1 5 10 20] [--timeout-s 10]

The server is a FakeDify in a process of its own that answers as many calls at once as come. Each search goes through an
engine of its own domain of five datasets, and nothing is taken from the cache. The connections to the server are used
once before, so that datasets are known and measured ("cold" leaves that out).

Printed for each number of connections and searches: seconds of the median and of the 95th percentile, the latter over
one search alone, how many were complete, degraded and failed, and the latest second at which one failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, NamedTuple

from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.engine import Engine
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import DomainSpec, Registry, SearchRequest, SourceSpec
from context_engine.errors import AllSourcesFailed
from context_engine.settings.connections import Connection
from context_engine.testing import FakeDataset, FakeDify, FakeDocument

DELAYS_S = (0.2, 0.4, 0.6, 0.8, 1.0)
WORDS = ("approval", "limit", "committee", "exposure", "collateral", "product", "review", "market", "credit", "desk")


class Took(NamedTuple):
    seconds: float
    status: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, nargs="+", default=[4, 60])
    parser.add_argument("--searches", type=int, nargs="+", default=[1, 5, 10, 20])
    parser.add_argument("--timeout-s", type=float, default=10.0)
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    told: Any = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(told,), daemon=True)
    server.start()
    base, key, ids = told.get(timeout=60)
    print("connections searches   p50 s   p95 s  / one  complete degraded failed  told by")
    for connections in given.connections:
        alone = 0.0
        for searches in given.searches:
            took = together(engine_of(base, key, ids, connections, given.timeout_s), searches, warm=not given.cold)
            seconds = sorted(one.seconds for one in took)
            high = seconds[max(-(-95 * len(seconds) // 100) - 1, 0)]
            alone = alone or high
            count = {status: sum(one.status == status for one in took) for status in ("complete", "degraded", "failed")}
            late = max((one.seconds for one in took if one.status == "failed"), default=None)
            print(
                f"{connections:11} {searches:8} {median(seconds):7.2f} {high:7.2f} {high / alone:6.2f}  "
                f"{count['complete']:8} {count['degraded']:8} {count['failed']:6}  "
                f"{'' if late is None else f'{late:.2f}':>7}",
                flush=True,
            )
    server.terminate()


def engine_of(base: str, key: str, ids: list[str], connections: int, timeout_s: float) -> Engine:
    connection = Connection(base_url=base, api_key=key, max_connections=connections)
    spec = SourceSpec(
        id="rules", type="bank_sop", adapter="dify", connection="dify", dataset_ids=tuple(ids), timeout_s=timeout_s,
        settings={"cache_ttl_s": 0},
    )  # fmt: skip
    clock = SystemClock()
    workspace = Workspace(lambda: connection, clock)
    domain = DomainSpec(version=1, domain="LOAD", sources=(spec,))
    return Engine(Registry(domains={"LOAD": domain}), lambda _domain, one: DifySource(one, workspace, clock))


def together(engine: Engine, searches: int, *, warm: bool) -> list[Took]:
    def search(number: int) -> Took:
        overrides = {"deadline_s": 60.0, "source_timeout_s": 60.0}
        query = f"{WORDS[number % 10]} {WORDS[number // 10 % 10]} {number}"
        started = time.perf_counter()
        try:
            status = engine.search(SearchRequest(query=query, domain="LOAD", overrides=overrides)).status.value
        except AllSourcesFailed:
            status = "failed"
        return Took(time.perf_counter() - started, status)

    try:
        if warm:
            search(999)
        with ThreadPoolExecutor(searches) as threads:
            return list(threads.map(search, range(searches)))
    finally:
        engine.close()


def serve(told: Any) -> None:
    """Serve five datasets, each with its delay, until the process is ended."""
    text = " ".join(WORDS)
    datasets = [
        FakeDataset(f"D{number}", documents=[FakeDocument("Rules", [f"{text} {number}."])])
        for number in range(len(DELAYS_S))
    ]
    with FakeDify(datasets) as dify:
        for number, delay_s in enumerate(DELAYS_S):
            dify.inject("delay", dataset=f"D{number}", endpoint="retrieve", delay_s=delay_s)
        told.put((dify.base_url, dify.api_key, [dify.dataset_id(f"D{number}") for number in range(len(DELAYS_S))]))
        time.sleep(3600)


if __name__ == "__main__":
    main()
