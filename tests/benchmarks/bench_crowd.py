"""What a quiet caller of a service waits beside a crowd: many clients of another caller, who ask without a pause.

    python tests/benchmarks/bench_crowd.py [--seconds 5] [--clients 1 32 128] [--baseline TREE]
    python tests/benchmarks/bench_crowd.py --minutes 60 --clients 8 --pause 0.5 --audit required
    python tests/benchmarks/bench_crowd.py --hanging

The service is a process of its own over the demo bank, without rate limits, and without records unless `--audit` asks
for them. Prints for each number of clients the answers a second, p50 and p99 of the quiet caller, the shares of 503,
and beside a baseline, which is a checkout of another release, the ratio of the quiet caller's p50. With `--minutes` one
service is asked all the time: each minute is a line, with the memory of the service beside that of the first minute.
With `--hanging` the crowd asks another domain than the quiet caller, one with a source that accepts and never answers.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import socket
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

_QUERY = "classification criteria for a new product"
_TEXT = "# 1 Criteria\n\nThe classification criteria for a new product are size, risk and novelty.\n"
_OWN = {"id": "sops", "type": "bank_sop", "documents": [{"include": "*.md"}]}
_HANGING: dict[str, object] = {"id": "remote", "type": "industry_standard", "adapter": "dify", "connection": "silent"}
_HANGING["dataset_ids"] = ["0b9f6f0e-3c55-4d0e-9a54-5f3c1d7a0001"]
_TOKENS = {name: f"fictitious-token-of-the-{name}-0123456789abcdef" for name in ("crowd", "quiet")}
_ROOT = Path(__file__).parents[2]


class Seen(NamedTuple):
    """What was seen with some number of clients."""

    a_second: float
    p50_ms: float
    p99_ms: float
    shed: float
    quiet_shed: float
    failed: int
    crowd_p50_ms: float
    crowd_longest_ms: float


class Load(NamedTuple):
    """The crowd: its clients, and the seconds that each rests after an answer."""

    clients: int
    pause_s: float
    domains: tuple[str, str] = ("NPA", "NPA")  # of the crowd and of the quiet caller


@contextmanager
def served(tree: Path, audit: str = "off", silent_port: int | None = None) -> Iterator[tuple[int, int]]:
    """Serve the demo bank; yield the port and the process id.

    Args:
        silent_port: of a server that never answers; then two small domains are served, QUIET and CROWD, and CROWD has
            a source there.
    """
    with TemporaryDirectory() as folder:
        env = {**os.environ, "HOME": folder, "PYTHONPATH": str(tree), "CONTEXT_ENGINE_DATA_DIR": f"{folder}/data"}
        (Path(folder) / "config").mkdir()
        (Path(folder) / "config" / "rag-pipeline.json").write_text(
            json.dumps({"server_rate_per_minute": 0, "audit_mode": audit})
        )
        principals = {}
        for name, token in _TOKENS.items():
            principals[name] = {"clearance": "RESTRICTED", "tokens": [{"sha256": sha256(token.encode()).hexdigest()}]}
        access = {"version": 1, "principals": principals}
        (Path(folder) / "config" / "access.yaml").write_text(json.dumps(access))
        engine = [sys.executable, "-m", "context_engine"]
        serve = [*engine, "serve", "--port", "0", *(["--demo"] if silent_port is None else ["--config-dir", "."])]
        if silent_port is not None:
            _write_domains(Path(folder), silent_port)
            ingest = [*engine, "ingest", "documents", "--domain", "QUIET", "--config-dir", "."]
            subprocess.run(ingest, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
        process = subprocess.Popen(serve, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if port := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
                    threading.Thread(target=process.stderr.read, daemon=True).start()
                    yield int(port[1]), process.pid
                    return
            raise SystemExit("the service did not start")
        finally:
            process.terminate()
            process.wait()


def _write_domains(folder: Path, silent_port: int) -> None:
    for name, sources in (("QUIET", [_OWN]), ("CROWD", [_OWN, _HANGING])):
        manifest = {"version": 1, "domain": name, "sources": sources}
        (folder / "manifests").mkdir(exist_ok=True)
        (folder / "manifests" / f"{name.lower()}.yaml").write_text(json.dumps(manifest))
    silent = {"silent": {"base_url": f"http://127.0.0.1:{silent_port}/v1", "api_key": "fictitious-key"}}
    (folder / "config" / "connections.yaml").write_text(json.dumps(silent))
    (folder / "documents").mkdir()
    (folder / "documents" / "criteria.md").write_text(_TEXT)


def ask(connection: http.client.HTTPConnection, token: str, domain: str) -> int:
    """Ask once; return the status."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST", "/api/v1/rag/retrieve", json.dumps({"query": _QUERY, "domain": domain}), headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def measured(port: int, load: Load, seconds: float) -> Seen:
    """Ask as the quiet caller beside a crowd."""
    ends = time.monotonic() + seconds
    statuses, crowd_times = Counter[int](), list[float]()
    lock = threading.Lock()

    def flood() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while time.monotonic() < ends:
            begun = time.monotonic()
            status = ask(connection, _TOKENS["crowd"], load.domains[0])
            with lock:
                statuses[status] += 1
                crowd_times.append(1000 * (time.monotonic() - begun))
            time.sleep(0.2 if status == 503 else load.pause_s)

    threads = [threading.Thread(target=flood) for _ in range(load.clients)]
    for thread in threads:
        thread.start()
    time.sleep(min(1.0, seconds / 4))
    times, own = [], Counter[int]()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while time.monotonic() < ends:
        begun = time.monotonic()
        own[ask(connection, _TOKENS["quiet"], load.domains[1])] += 1
        times.append(1000 * (time.monotonic() - begun))
        time.sleep(load.pause_s)
    for thread in threads:
        thread.join()
    times.sort()
    every = statuses + own
    return Seen(
        statuses[200] / seconds,
        statistics.median(times),
        times[int(0.99 * (len(times) - 1))],
        statuses[503] / (statuses.total() or 1),
        own[503] / own.total(),
        every.total() - every[200] - every[503],
        statistics.median(crowd_times),
        max(crowd_times),
    )


def resident_mb(pid: int) -> float:
    """Return the memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def endure(load: Load, minutes: int, audit: str) -> None:
    """Ask one service for some minutes; print a line for each."""
    with served(_ROOT, audit) as (port, pid):
        first = 0.0
        for minute in range(1, minutes + 1):
            seen = measured(port, load, 60.0)
            memory = resident_mb(pid)
            first = first or memory
            print(
                f"minute {minute:3}  {seen.a_second:6.1f}/s  quiet p50 {seen.p50_ms:6.1f} p99 {seen.p99_ms:6.1f} ms"
                f"  shed {seen.shed:.2f} and {seen.quiet_shed:.2f}, other answers {seen.failed}"
                f"  {memory:.0f} MB, ratio {memory / first:.2f}",
                flush=True,
            )


def compare(load: Load, seconds: float, audit: str, baseline: Path | None) -> str:
    """Return the line of a number of clients."""
    with served(_ROOT, audit) as (port, _):
        now = measured(port, load, seconds)
    line = (
        f"{load.clients:4} clients  {now.a_second:6.1f}/s  quiet p50 {now.p50_ms:7.1f} p99 {now.p99_ms:7.1f} ms"
        f"  shed {now.shed:.2f}, of the quiet caller {now.quiet_shed:.2f}, other answers {now.failed}"
    )
    if baseline is None:
        return line
    with served(baseline, audit) as (port, _):
        before = measured(port, load, seconds)
    line += f"  | before p50 {before.p50_ms:7.1f} p99 {before.p99_ms:7.1f}, shed {before.quiet_shed:.2f}"
    return f"{line}: ratio {now.p50_ms / before.p50_ms:.2f}"


def beside_silence(clients: int, seconds: float, audit: str) -> str:
    """Return the line of a crowd whose domain has a source that accepts connections and never answers."""
    load = Load(clients, 0.0, ("CROWD", "QUIET"))
    silent = socket.create_server(("127.0.0.1", 0), backlog=512)
    with silent, served(_ROOT, audit, silent.getsockname()[1]) as (port, _):
        first, then = (measured(port, load, seconds) for _ in range(2))
    return (
        f"{clients:4} clients beside a silent source: "
        f"crowd p50 {first.crowd_p50_ms:.0f} and longest {first.crowd_longest_ms:.0f}, then {then.crowd_p50_ms:.0f} "
        f"and {then.crowd_longest_ms:.0f} ms (ratio {then.crowd_longest_ms / first.crowd_longest_ms:.3f})  "
        f"quiet p50 {first.p50_ms:.1f} p99 {first.p99_ms:.1f}, "
        f"then {then.p50_ms:.1f} and {then.p99_ms:.1f} ms  other answers {first.failed + then.failed}"
    )


def main() -> None:
    """Print a line for each number of clients."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 32, 128])
    parser.add_argument("--baseline", type=Path)
    parser.add_argument("--minutes", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--audit", choices=("off", "best_effort", "required"), default="off")
    parser.add_argument("--hanging", action="store_true")
    given = parser.parse_args()
    for clients in given.clients:
        load = Load(clients, given.pause)
        if given.hanging:
            print(beside_silence(clients, given.seconds, given.audit), flush=True)
        elif given.minutes:
            endure(load, given.minutes, given.audit)
        else:
            print(compare(load, given.seconds, given.audit, given.baseline), flush=True)


if __name__ == "__main__":
    main()
