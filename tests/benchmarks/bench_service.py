"""What the service costs beside a bare handler that calls the engine once, with 1, 8 and 64 clients.

    python tests/benchmarks/bench_service.py [--seconds 5] [--rounds 3] [--clients 1 8 64]

Service, bare handler and clients are processes of their own on this machine; both serve the demo bank, without tokens
and without records. `retrieve` is compared with a handler that searches and gives the chunks, `query` with one that
also makes the context. The two take turns, and the ratios are the medians over the rounds. Memory is what is resident
at the end.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from context_engine import demo

PATHS = ("/api/v1/rag/retrieve", "/api/v1/rag/query")
QUESTIONS = [
    {"query": one["query"], "domain": one["domain"]}
    for one in map(json.loads, demo.QUESTIONS.read_text("utf-8").splitlines())
]


class Round(NamedTuple):
    """What the clients of one round saw."""

    per_s: float
    p50_ms: float
    p99_ms: float
    failed: int


def bare(data_dir: Path) -> None:
    """Serve the same paths with nothing around the engine."""
    import uvicorn
    from fastapi import FastAPI, Response

    from context_engine.core.context import ApproxTokenCounter
    from context_engine.core.models import SearchRequest
    from context_engine.wiring.build import build_engine
    from context_engine.wiring.setup import load_setup

    app, counter = FastAPI(), ApproxTokenCounter()
    setup = load_setup(manifest_dir=demo.MANIFESTS)
    engine = build_engine(setup, data_dir=demo.ensure_base(data_dir, setup.registry))

    def answered(body: dict[str, Any], *, context: bool) -> Response:
        result = engine.search(SearchRequest(query=body["query"], domain=body["domain"]))
        told: dict[str, Any] = {"chunks": [chunk.to_dict() for chunk in result.chunks]}
        if context:
            told["context"] = engine.context(result, counter=counter).text
        return Response(json.dumps(told, default=str), media_type="application/json")

    @app.post(PATHS[0])
    def retrieve(body: dict[str, Any]) -> Response:
        return answered(body, context=False)

    @app.post(PATHS[1])
    def query(body: dict[str, Any]) -> Response:
        return answered(body, context=True)

    config = uvicorn.Config(app, port=0, access_log=False, log_level="info")
    uvicorn.Server(config).run()


def ask(address: str, path: str, clients: int, seconds: float) -> None:
    """Ask from so many threads, one request after the other in each, and print the times."""
    times: list[float] = []
    failed: list[int] = []
    ends = time.monotonic() + seconds

    def client(number: int) -> None:
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        asked = number
        while time.monotonic() < ends:
            body = json.dumps(QUESTIONS[asked % len(QUESTIONS)]).encode()
            asked += clients
            begun = time.perf_counter()
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            times.append(time.perf_counter() - begun)
            if answer.status != 200:
                failed.append(answer.status)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    begun = time.monotonic()
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    print(json.dumps({"times": times, "failed": len(failed), "seconds": time.monotonic() - begun}))


def asked(address: str, path: str, clients: int, seconds: float) -> Round:
    """Return what a process of clients saw."""
    command = [sys.executable, __file__, "--ask", address, path, str(clients), str(seconds)]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    times = sorted(said["times"])
    p99 = times[min(len(times) - 1, len(times) * 99 // 100)]
    return Round(len(times) / said["seconds"], 1000 * statistics.median(times), 1000 * p99, said["failed"])


@contextmanager
def served(command: list[str]) -> Iterator[tuple[str, int]]:
    """Yield the address of a server and its process id; it is stopped at the end."""
    env = {**os.environ, "CONTEXT_ENGINE_SERVER_RATE_PER_MINUTE": "0", "CONTEXT_ENGINE_SERVER_DRAIN_S": "0.0"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        try:
            address = next(
                found[0] for line in process.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+$", _plain(line)))
            )
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield address, process.pid
        finally:
            process.terminate()


def _plain(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", line).replace(" (Press CTRL+C to quit)", "").strip()


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        service = [sys.executable, "-m", "context_engine", "serve", "--demo", "--no-auth", "--port", "0"]
        with (
            served([*service, "--data-dir", folder]) as (address, pid),
            served([sys.executable, __file__, "--bare", folder]) as (bare_address, bare_pid),
        ):
            for path in PATHS:
                for clients in options.clients:
                    _compare(path, clients, (address, bare_address), options.seconds, options.rounds)
            own, others = resident_mib(pid), resident_mib(bare_pid)
            print(f"memory: {own:.0f} MiB, bare {others:.0f} MiB: ratio {own / others:.2f}")


def _compare(path: str, clients: int, addresses: tuple[str, str], seconds: float, rounds: int) -> None:
    for address in addresses:
        asked(address, path, clients, 1.0)
    pairs = [tuple(asked(one, path, clients, seconds) for one in addresses) for _ in range(rounds)]
    own, others = ([pair[place] for pair in pairs] for place in (0, 1))
    ratios = {
        name: statistics.median(getattr(one, name) / getattr(other, name) for one, other in pairs)
        for name in ("per_s", "p50_ms", "p99_ms")
    }
    shown = " | ".join(map(_shown, (own, others)))
    failed = sum(one.failed for one in own + others)
    print(
        f"{path.rpartition('/')[2]:8} {clients:3} clients  {shown}  ratios: throughput {ratios['per_s']:.2f}, "
        f"p50 {ratios['p50_ms']:.2f}, p99 {ratios['p99_ms']:.2f}{f'; {failed} failed' if failed else ''}",
        flush=True,
    )


def _shown(found: list[Round]) -> str:
    per_s, p50, p99 = (statistics.median(column) for column in list(zip(*found))[:3])
    return f"{per_s:6.1f}/s p50 {p50:7.1f} p99 {p99:7.1f} ms"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bare"]:
        bare(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["--ask"]:
        ask(sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
    else:
        main()
