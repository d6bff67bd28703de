"""What the cache of answers costs and saves: no cache, a miss and a hit, in the process and in Redis.

    python tests/benchmarks/bench_cache.py [--rounds 5] [--wait 0.05]

The questions of the demo bank are asked of its base, each side in turn. `embedded` asks the base alone; `remote` asks
it too, and a source that answers after --wait seconds, as a server elsewhere does. Printed are medians of the time and
of the CPU of the whole process for one search, and the ratio to no cache. A hit in Redis is the first of a process,
which keeps what it found. Redis is left out if `redis-server` is not there.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))

from redis_server import RedisServer

from context_engine import demo
from context_engine.adapters.result_caches import MemoryCache, TieredCache
from context_engine.adapters.result_caches.redis import RedisCache, connected
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.engine import Engine, SystemClock
from context_engine.core.models import (
    Chunk,
    DomainSpec,
    Registry,
    ScoreKind,
    SearchRequest,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
    SourceType,
)
from context_engine.core.protocols import ResultCache
from context_engine.wiring.embedded_base import base_path
from context_engine.wiring.setup import load_setup

SECRET = b"fictitious-secret-of-a-benchmark"
KEPT = {"cache_ttl_s": 3600.0, "cache_unversioned_ttl_s": 3600.0}
Ask = Callable[[Engine, SearchRequest], None]


class Remote:
    """A source elsewhere."""

    source_id, score_kinds = "remote", frozenset({ScoreKind.RELEVANCE})

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s

    def search(self, query: SourceQuery) -> SourceAnswer:
        time.sleep(self._wait_s)
        return SourceAnswer(chunks=[Chunk(content=f"A remark on {query.text}", chunk_id="remark")])

    def close(self) -> None: ...


class Bank:
    """The demo bank as one domain, for engines with different caches."""

    def __init__(self, folder: Path, wait_s: float) -> None:
        setup = load_setup(manifest_dir=demo.MANIFESTS, env={"HOME": str(folder)}, cwd=folder)
        self._base = LocalBase(base_path(demo.ensure_base(folder / "data", setup.registry)))
        self._sources = [source for name in setup.registry.names for source in setup.registry.domain(name).sources]
        self._wait_s = wait_s

    def engine(self, cache: ResultCache | None, *, remote: bool) -> Engine:
        others = [SourceSpec(id="remote", type=SourceType.GENERAL_WEB)] if remote else []
        domain = DomainSpec(version=1, domain="BANK", sources=(*self._sources, *others))
        registry = Registry(domains={"BANK": domain})

        def opened(_domain: DomainSpec, spec: SourceSpec) -> LocalSource | Remote:
            return Remote(self._wait_s) if spec.id == "remote" else LocalSource(self._base, spec.id, spec=spec)

        return Engine(registry, opened, cache=cache)


def asked_once(engine: Engine, request: SearchRequest) -> tuple[float, float]:
    """Search, and return the seconds it took and the CPU of all threads."""
    started, cpu = time.perf_counter(), time.process_time()
    engine.search(request)
    return time.perf_counter() - started, time.process_time() - cpu


@contextmanager
def redis_client() -> Iterator[object]:
    with ExitStack() as stack:
        yield connected(stack.enter_context(RedisServer()).url) if RedisServer.installed() else None


def measured(
    bank: Bank, requests: Sequence[SearchRequest], client: object, *, remote: bool
) -> dict[str, list[tuple[float, float]]]:
    """Ask every question on every side: without a cache, where nothing is kept yet, and where it is."""
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    near = MemoryCache(256 * 2**20)
    sides = {"none": bank.engine(None, remote=remote), "memory": bank.engine(near, remote=remote)}
    before = MemoryCache(256 * 2**20)
    if client is not None:
        shared = RedisCache(client, SECRET, SystemClock(), namespace=str(remote), timeout_s=5.0)  # type: ignore[arg-type]
        sides["redis"] = bank.engine(TieredCache(before, shared), remote=remote)
    for request in requests:
        for name, engine in sides.items():
            for outcome in ("no cache",) if name == "none" else ("miss", "hit"):
                if name == "redis":
                    before.forget()
                times[f"{name}, {outcome}" if name != "none" else outcome].append(asked_once(engine, request))
    return times


def report(kind: str, times: dict[str, list[tuple[float, float]]]) -> None:
    base = [median(column) for column in zip(*times["no cache"], strict=True)]
    print(f"\n{kind:16}{'ms':>9}{'CPU ms':>9}{'of no cache':>14}{'of its CPU':>12}")
    for name, pairs in times.items():
        wall, cpu = (median(column) for column in zip(*pairs, strict=True))
        print(f"{name:16}{1000 * wall:9.2f}{1000 * cpu:9.2f}{wall / base[0]:14.3f}{cpu / base[1]:12.3f}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--wait", type=float, default=0.05)
    given = options.parse_args()
    lines = demo.QUESTIONS.read_text("utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder, redis_client() as client:
        bank = Bank(Path(folder), given.wait)
        for kind in ("embedded", "remote"):
            times: dict[str, list[tuple[float, float]]] = defaultdict(list)
            for number in range(given.rounds):
                requests = [
                    SearchRequest(query=f"{json.loads(line)['query']} {number}", domain="BANK", overrides=KEPT)
                    for line in random.Random(number).sample(lines, min(20, len(lines)))
                ]
                for name, pairs in measured(bank, requests, client, remote=kind == "remote").items():
                    times[name] += pairs
            report(kind, times)


if __name__ == "__main__":
    main()
