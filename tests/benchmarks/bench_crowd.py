"""What a quiet caller of a service waits beside a crowd: many clients of another caller, who ask without a pause.

    python tests/benchmarks/bench_crowd.py [--seconds 5] [--clients 1 32 128] [--baseline TREE]

The service is a process of its own over the demo bank, without rate limits and records. Prints for each number of
clients the answers a second, p50 and p99 of the quiet caller, the shares of 503, and beside a baseline, which is a
checkout of another release, the ratio of the quiet caller's p50.
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
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

_BODY = json.dumps({"query": "classification criteria for a new product", "domain": "NPA"})
_TOKENS = {name: f"fictitious-token-of-the-{name}-0123456789abcdef" for name in ("crowd", "quiet")}
_ROOT = Path(__file__).parents[2]


class Seen(NamedTuple):
    """What was seen with some number of clients."""

    a_second: float
    p50_ms: float
    p99_ms: float
    shed: float
    quiet_shed: float


@contextmanager
def served(tree: Path) -> Iterator[int]:
    """Serve the demo bank; yield the port."""
    with TemporaryDirectory() as folder:
        env = {**os.environ, "HOME": folder, "PYTHONPATH": str(tree), "CONTEXT_ENGINE_DATA_DIR": f"{folder}/data"}
        (Path(folder) / "config").mkdir()
        (Path(folder) / "config" / "rag-pipeline.json").write_text('{"server_rate_per_minute": 0}')
        principals = {}
        for name, token in _TOKENS.items():
            principals[name] = {"clearance": "RESTRICTED", "tokens": [{"sha256": sha256(token.encode()).hexdigest()}]}
        access = {"version": 1, "principals": principals}
        (Path(folder) / "config" / "access.yaml").write_text(json.dumps(access))
        serve = [sys.executable, "-m", "context_engine", "serve", "--demo", "--port", "0"]
        process = subprocess.Popen(serve, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if port := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
                    threading.Thread(target=process.stderr.read, daemon=True).start()
                    yield int(port[1])
                    return
            raise SystemExit("the service did not start")
        finally:
            process.terminate()
            process.wait()


def ask(connection: http.client.HTTPConnection, token: str) -> int:
    """Ask once; return the status."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST", "/api/v1/rag/retrieve", _BODY, headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def measured(tree: Path, clients: int, seconds: float) -> Seen:
    """Ask as the quiet caller beside a crowd of clients."""
    with served(tree) as port:
        ends = time.monotonic() + seconds
        statuses: Counter[int] = Counter()
        lock = threading.Lock()

        def flood() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            while time.monotonic() < ends:
                status = ask(connection, _TOKENS["crowd"])
                with lock:
                    statuses[status] += 1
                if status == 503:
                    time.sleep(0.2)

        threads = [threading.Thread(target=flood) for _ in range(clients)]
        for thread in threads:
            thread.start()
        time.sleep(min(1.0, seconds / 4))
        times, own = [], Counter[int]()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while time.monotonic() < ends:
            begun = time.monotonic()
            own[ask(connection, _TOKENS["quiet"])] += 1
            times.append(1000 * (time.monotonic() - begun))
        for thread in threads:
            thread.join()
    times.sort()
    total = statuses.total() or 1
    return Seen(
        statuses[200] / seconds,
        statistics.median(times),
        times[int(0.99 * (len(times) - 1))],
        statuses[503] / total,
        own[503] / own.total(),
    )


def main() -> None:
    """Print a line for each number of clients."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 32, 128])
    parser.add_argument("--baseline", type=Path)
    given = parser.parse_args()
    for clients in given.clients:
        now = measured(_ROOT, clients, given.seconds)
        line = (
            f"{clients:4} clients  {now.a_second:6.1f}/s  quiet p50 {now.p50_ms:7.1f} p99 {now.p99_ms:7.1f} ms"
            f"  shed {now.shed:.2f}, of the quiet caller {now.quiet_shed:.2f}"
        )
        if given.baseline:
            before = measured(given.baseline, clients, given.seconds)
            line += f"  | before p50 {before.p50_ms:7.1f} p99 {before.p99_ms:7.1f}, shed {before.quiet_shed:.2f}"
            line += f": ratio {now.p50_ms / before.p50_ms:.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
