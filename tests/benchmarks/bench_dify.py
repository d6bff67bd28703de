"""The Dify source under load: 1, 5 and 20 datasets at 30 ms each, 1, 8 and 32 queries at a time.

    python tests/benchmarks/bench_dify.py [--rounds 12] [--delay-ms 30] [--connections N]

Compared with a plain client that asks one dataset after the other, with one `httpx.AsyncClient` that asks all at
once, and with the plain client in as many threads ("threads", the floor). Those read the JSON and no more; ours makes
chunks, checks and merges them, keeps rate budget and breaker. No cache, no retries, and as many connections as calls
unless --connections says otherwise. The server is another process that waits and sends the same ten records; its
datasets share an embedding model.

Printed: the median time of a query over the slowest dataset's delay (x delay), queries a second, and CPU milliseconds
of this process a call to a dataset. Contestants take turns round by round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any
from uuid import UUID

import httpx

from context_engine.adapters.sources.dify import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import SourceQuery, SourceSpec
from context_engine.settings.connections import Connection

DATASETS, QUERIES = (1, 5, 20), (1, 8, 32)
IDS = [str(UUID(int=number + 1)) for number in range(max(DATASETS))]
MODEL = {"search_method": "semantic_search", "reranking_enable": False, "top_k": 10, "score_threshold_enabled": False}
Run = Callable[[int, int], list[float]]
"""(datasets, queries at a time) -> seconds of each query."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--delay-ms", type=float, default=30.0)
    parser.add_argument("--connections", type=int, default=1000)
    given = parser.parse_args()
    ports: Any = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(given.delay_ms / 1000, ports), daemon=True)
    server.start()
    base = f"http://127.0.0.1:{ports.get(timeout=30)}"
    contestants = {"ours": ours(base, given.connections), "async client": asynchronous(base)}
    contestants |= {"threads": threaded(base), "one by one": plain(base)}
    print(f"{'datasets':>8} {'queries':>8}  {'contestant':13} {'x delay':>8} {'queries/s':>10} {'CPU ms/call':>12}")
    for datasets in DATASETS:
        for queries in QUERIES:
            measure(contestants, datasets, queries, given.rounds, given.delay_ms / 1000)
    server.terminate()


def measure(contestants: dict[str, Run], datasets: int, queries: int, rounds: int, delay_s: float) -> None:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    walls, cpus = dict.fromkeys(contestants, 0.0), dict.fromkeys(contestants, 0.0)
    for number in range(rounds + 1):
        for name, run in contestants.items():
            if name == "one by one" and number > max(rounds // 4, 1):
                continue
            wall, cpu = time.perf_counter(), time.process_time()
            took = run(datasets, queries)
            if number:  # the first round opens connections
                walls[name] += time.perf_counter() - wall
                cpus[name] += time.process_time() - cpu
                times[name] += took
    for name, taken in times.items():
        rate, cpu_ms = len(taken) / walls[name], cpus[name] * 1000 / (len(taken) * datasets)
        over = median(taken) / delay_s
        print(f"{datasets:8} {queries:8}  {name:13} {over:8.2f} {rate:10.1f} {cpu_ms:12.3f}", flush=True)


def timed(ask: Callable[[], object]) -> float:
    started = time.perf_counter()
    ask()
    return time.perf_counter() - started


def ours(base: str, connections: int) -> Run:
    connection = Connection(base_url=base, api_key="dataset-bench", max_connections=connections, timeout_s=120.0)
    workspace = Workspace(lambda: connection, SystemClock())
    threads = ThreadPoolExecutor(max(QUERIES))
    sources = {
        count: DifySource(
            SourceSpec(
                id="bench", type="bank_sop", adapter="dify", connection="dify", dataset_ids=tuple(IDS[:count]),
                settings={"cache_ttl_s": 0, "attempts": 1, "lookup_ttl_s": 3600},
            ),
            workspace,
            SystemClock(),
        )
        for count in DATASETS
    }  # fmt: skip

    def run(datasets: int, queries: int) -> list[float]:
        source = sources[datasets]

        def ask(number: int) -> float:
            query = SourceQuery(text=f"approval limit {number}", domain="NPA", top_k=10, timeout_s=120.0)
            return timed(lambda: check(len(source.search(query).failures) == 0))

        return list(threads.map(ask, range(queries)))

    return run


def asynchronous(base: str) -> Run:
    loop = asyncio.new_event_loop()
    client = httpx.AsyncClient(base_url=base, limits=httpx.Limits(max_connections=None), timeout=30.0)

    async def one(dataset: str, number: int) -> Any:
        answer = await client.post(f"/v1/datasets/{dataset}/retrieve", json=body(number))
        return answer.json()["records"]

    async def query(datasets: int, number: int) -> float:
        started = time.perf_counter()
        await asyncio.gather(*(one(dataset, number) for dataset in IDS[:datasets]))
        return time.perf_counter() - started

    async def all_of_them(datasets: int, queries: int) -> list[float]:
        return list(await asyncio.gather(*(query(datasets, number) for number in range(queries))))

    return lambda datasets, queries: loop.run_until_complete(all_of_them(datasets, queries))


def plain(base: str) -> Run:
    client = httpx.Client(base_url=base, limits=httpx.Limits(max_connections=None), timeout=30.0)
    threads = ThreadPoolExecutor(max(QUERIES))

    def search(datasets: int, number: int) -> None:
        for dataset in IDS[:datasets]:
            check(bool(client.post(f"/v1/datasets/{dataset}/retrieve", json=body(number)).json()["records"]))

    def run(datasets: int, queries: int) -> list[float]:
        return list(threads.map(lambda number: timed(lambda: search(datasets, number)), range(queries)))

    return run


def threaded(base: str) -> Run:
    client = httpx.Client(base_url=base, limits=httpx.Limits(max_connections=None), timeout=30.0)
    outer, inner = ThreadPoolExecutor(max(QUERIES)), ThreadPoolExecutor(max(QUERIES) * max(DATASETS))

    def call(dataset: str, number: int) -> None:
        check(bool(client.post(f"/v1/datasets/{dataset}/retrieve", json=body(number)).json()["records"]))

    def search(datasets: int, number: int) -> None:
        list(inner.map(lambda dataset: call(dataset, number), IDS[:datasets]))

    def run(datasets: int, queries: int) -> list[float]:
        return list(outer.map(lambda number: timed(lambda: search(datasets, number)), range(queries)))

    return run


def body(number: int) -> dict[str, Any]:
    return {"query": f"approval limit {number}", "retrieval_model": MODEL}


def check(good: bool) -> None:
    if not good:
        raise SystemExit("a call failed: the numbers would mean nothing")


def serve(delay_s: float, ports: Any) -> None:
    """Answer every GET with a dataset and every POST with ten records after a delay."""
    info = {"id": IDS[0], "name": "Bench", "indexing_technique": "high_quality", "total_available_documents": 1}
    info |= {"embedding_model": "embed", "embedding_model_provider": "acme"}
    records = [
        {
            "segment": {
                "id": str(UUID(int=number)), "position": 1, "document_id": "d", "answer": None,
                "content": f"The approval limit of level {number} is decided by the committee. " * 12,
                "completed_at": 1767225600, "document": {"id": "d", "name": "Limits", "doc_metadata": None},
            },
            "child_chunks": None, "score": 1 - number / 20,
        }
        for number in range(10)
    ]  # fmt: skip
    answers = {b"GET": packed(info), b"POS": packed({"query": {"content": "q"}, "records": records})}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [
                    line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"
                ]
                await reader.readexactly(int(length[0]) if length else 0)
                await asyncio.sleep(delay_s if head[:3] == b"POS" else 0)
                writer.write(answers[head[:3]])
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def forever() -> None:
        listening = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024)
        ports.put(listening.sockets[0].getsockname()[1])
        await listening.serve_forever()

    asyncio.run(forever())


def packed(value: Any) -> bytes:
    content = json.dumps(value).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        len(content),
        content,
    )


if __name__ == "__main__":
    main()
