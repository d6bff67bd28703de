"""What an answer costs beside its search: the CPU of each step from the bare engine to HTTP, and of several processes.

    python tests/benchmarks/bench_answer_steps.py [--documents FOLDER --questions FILE] [--baseline CHECKOUT]
        [--rounds 3] [--asked 150] [--workers 2] [--clients 1 8 32] [--requests 0]
        [--parts steps parallel memory]

Each step holds the one before it: `search` is `Engine.search`, `context` adds the text for a model, `process` is
`RAGPipeline.run` with the JSON of its answer, `http` is a request to a service without tokens. The base is the demo
bank, or Markdown of FOLDER with questions of FILE, one JSON object a line with "question".

Times are CPU of the whole process, the service's as the operating system counts it, and medians over the rounds; the
steps, and with --baseline the checkouts, take turns. A question is asked once by each step in a round, so that popular
texts are known, as they are in a bank. `parallel` is what so many clients get from one process and from --workers:
requests per second, the median and the 95th percentile of a request, and the CPU of all processes of the service for
one. With --requests one more service of --workers processes answers so many, each another question; printed ten times
on the way are the memory of each process and the CPU that it used since. --parts chooses what is measured.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from search_pools import CHECKOUT, environment

QUERY = "/api/v1/rag/query"
DOMAIN = "POLICY"
MANIFEST = f"""version: 1
domain: {DOMAIN}
sources:
  - id: policies
    type: bank_sop
    adapter: local
    documents:
      - include: "**/*.md"
        doc_type: sop_document
"""
STEPS = ("search", "context", "process", "http")
PARTS = ("steps", "parallel", "memory")
ASKING = 8


class Side(NamedTuple):
    """A checkout with its own base: its environment, the options that name the base, and what to ask."""

    environ: dict[str, str]
    place: list[str]
    folder: Path
    questions: list[dict[str, str]]


class Parallel(NamedTuple):
    """What the clients of a service saw, and the CPU that its processes used for one request."""

    per_s: float
    p50_ms: float
    p95_ms: float
    cpu_ms: float


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--documents", type=Path)
    options.add_argument("--questions", type=Path)
    options.add_argument("--baseline", type=Path)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--asked", type=int, default=150)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    options.add_argument("--requests", type=int, default=0)
    options.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    given = options.parse_args()
    checkouts = {"baseline": given.baseline.resolve()} if given.baseline else {}
    checkouts["this"] = CHECKOUT
    with TemporaryDirectory() as folder:
        sides = {name: prepared(checkout, Path(folder) / name, given) for name, checkout in checkouts.items()}
        if "steps" in given.parts:
            report_steps(sides, given.rounds)
        for workers in sorted({1, given.workers}) if "parallel" in given.parts else ():
            report_parallel(sides["this"], workers, given.clients, given.rounds)
        if given.requests and "memory" in given.parts:
            report_memory(sides["this"], given.requests, given.workers)


def prepared(checkout: Path, folder: Path, given: argparse.Namespace) -> Side:
    """Write the configuration of a side and fill its base."""
    environ, config = environment(checkout, folder / "environment"), folder / "config"
    (config / "manifests").mkdir(parents=True)
    place = ["--config-dir", str(config), "--data-dir", str(folder / "data")]
    if given.documents is None:
        demo = checkout / "context_engine" / "demo"
        shutil.copytree(demo / "manifests", config / "manifests", dirs_exist_ok=True)
        lines = (demo / "questions.jsonl").read_text("utf-8").splitlines()
        questions = [{name: line[name] for name in ("query", "domain")} for line in map(json.loads, lines)]
        for domain in sorted({one["domain"] for one in questions}):
            called(environ, folder, "ingest", str(demo / "bank"), "--domain", domain, *place)
    else:
        (config / "manifests" / "policy.yaml").write_text(MANIFEST, "utf-8")
        called(environ, folder, "ingest", str(given.documents.resolve()), "--domain", DOMAIN, *place)
        lines = given.questions.read_text("utf-8").splitlines()
        questions = [{"query": json.loads(line)["question"], "domain": DOMAIN} for line in lines]
    return Side(environ, place, folder, questions[: given.asked])


def called(environ: dict[str, str], folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "context_engine", *words]
    subprocess.run(command, env=environ, cwd=folder, check=True, capture_output=True)


def report_steps(sides: dict[str, Side], rounds: int) -> None:
    """Print the CPU of each step, and what it is of the bare search."""
    times: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            for step, milliseconds in {**inside(side), "http": over_http(side)}.items():
                times[name][step].append(milliseconds)
    medians = {name: {step: median(found[step]) for step in STEPS} for name, found in times.items()}
    print(f"CPU ms    {'  '.join(f'{name:>16}' for name in medians)}")
    for step in STEPS:
        cells = [f"{found[step]:7.2f} {found[step] / found['search']:6.2f}x" for found in medians.values()]
        print(f"{step:9} {'  '.join(f'{cell:>16}' for cell in cells)}", flush=True)


def inside(side: Side) -> dict[str, float]:
    """Return the CPU milliseconds of the steps within a process of a side."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import bench_answer_steps as it; it.steps()"
    )
    told = json.dumps([side.place, side.questions])
    command = [sys.executable, "-c", code, told]
    ran = subprocess.run(command, env=side.environ, cwd=side.folder, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(ran.stdout))


def steps() -> None:
    """Measure the package that this process imports."""
    from context_engine import RAGPipeline, RAGQueryRequest
    from context_engine.core.context import ApproxTokenCounter
    from context_engine.core.models import SearchRequest
    from context_engine.service.deployment import open_deployment
    from context_engine.wiring.setup import load_setup

    (_, config, _, data), questions = json.loads(sys.argv[1])
    deployment = open_deployment(load_setup(config_dir=config), data_dir=Path(data))
    engine, pipeline = deployment.engine, RAGPipeline(deployment=deployment)
    counter = ApproxTokenCounter()

    def search(asked: dict[str, str]) -> Any:
        return engine.search(SearchRequest(**asked))

    calls = {
        "search": search,
        "context": lambda asked: engine.context(search(asked), counter=counter),
        "process": lambda asked: pipeline.run(RAGQueryRequest(**asked)).model_dump_json(),
    }
    times: dict[str, list[float]] = defaultdict(list)
    for round_ in range(2):
        for asked in questions:
            for name, call in calls.items():
                begun = time.process_time()
                call(asked)
                if round_:
                    times[name].append((time.process_time() - begun) * 1000)
    deployment.close()
    print(json.dumps({name: sum(found) / len(found) for name, found in times.items()}))


def over_http(side: Side) -> float:
    """Return the CPU milliseconds of a request to the service, one client asking one question after the other."""
    with served(side) as (port, pid):
        asked(port, side.questions, 1)
        before = cpu_ms(pid)
        asked(port, side.questions, 1)
        return (cpu_ms(pid) - before) / len(side.questions)


@contextmanager
def served(side: Side, *options: str) -> Iterator[tuple[int, int]]:
    """Yield the port and the process id of a service; it is stopped at the end."""
    command = [sys.executable, "-m", "context_engine", "serve", "--no-auth", "--port", "0", *side.place, *options]
    limits = {"CONTEXT_ENGINE_SERVER_RATE_PER_MINUTE": "0", "CONTEXT_ENGINE_SERVER_DRAIN_S": "0.0"}
    environ = {**side.environ, **limits}
    with subprocess.Popen(command, env=environ, cwd=side.folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = (re.search(r"listening on http://127\.0\.0\.1:(\d+)", line) for line in process.stderr)
            port = next(int(found[1]) for found in lines if found)
            threading.Thread(target=process.stderr.read, daemon=True).start()
            settle(process.pid)
            yield port, process.pid
        finally:
            process.terminate()


def settle(pid: int) -> None:
    """Wait until the other processes, which start after the first, have started: for a second without work."""
    used = -1.0
    while used != (used := sum(map(cpu_ms, family(pid)))):
        time.sleep(1.0)


def asked(port: int, questions: list[dict[str, str]], clients: int) -> list[float]:
    """Ask all questions from so many clients; return the milliseconds of each request."""
    left, times = iter(questions), list[float]()

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for question in left:
            begun = time.perf_counter()
            connection.request("POST", QUERY, json.dumps(question), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body
            times.append(1000 * (time.perf_counter() - begun))

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(times) == len(questions), f"{len(questions) - len(times)} requests failed"
    return times


def cpu_ms(pid: int) -> float:
    """Return the CPU milliseconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def report_parallel(side: Side, workers: int, clients: Sequence[int], rounds: int) -> None:
    """Print what each number of clients gets from a service of so many processes."""
    with served(side, *processes(workers)) as (port, pid):
        asked(port, side.questions, max(clients))
        for many in clients:
            seen = [in_parallel(port, pid, side.questions, many) for _ in range(rounds)]
            per_s, p50, p95, cpu = map(median, zip(*seen, strict=True))
            print(
                f"parallel  {workers} process{'es' * (workers > 1)}, {many:2} clients: {per_s:.1f} requests/s, "
                f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, CPU {cpu:.1f} ms a request",
                flush=True,
            )


def in_parallel(port: int, pid: int, questions: list[dict[str, str]], clients: int) -> Parallel:
    """Ask all questions from so many clients."""
    before, begun = sum(map(cpu_ms, family(pid))), time.perf_counter()
    times = asked(port, questions, clients)
    seconds, used = time.perf_counter() - begun, sum(map(cpu_ms, family(pid))) - before
    p95 = quantiles(times, n=20)[-1]
    return Parallel(len(times) / seconds, median(times), p95, used / len(times))


def processes(workers: int) -> list[str]:
    return ["--workers", str(workers)] if workers > 1 else []


def family(pid: int) -> list[int]:
    """Return a process and its children, whichever of its threads started them."""
    lists = (children.read_text().split() for children in Path(f"/proc/{pid}/task").glob("*/children"))
    return [pid, *sorted(int(child) for listed in lists for child in listed)]


def report_memory(side: Side, requests: int, workers: int) -> None:
    """Print the resident memory of each process of a service while it answers; no question is asked twice."""
    with served(side, *processes(workers)) as (port, pid):
        step = requests // 10
        for tenth in range(10):
            before = {process: cpu_ms(process) for process in family(pid)}
            asked(
                port, [distinct(side.questions, number) for number in range(tenth * step, (tenth + 1) * step)], ASKING
            )
            cells = [
                f"{resident_mib(process):.1f} MiB ({cpu_ms(process) - used:.0f} ms)" for process, used in before.items()
            ]
            print(f"memory    after {(tenth + 1) * step:6} requests: {', '.join(cells)}", flush=True)


def distinct(questions: list[dict[str, str]], number: int) -> dict[str, str]:
    """Return question `number`: the given ones, then two of them together, each pair once."""
    round_, place = divmod(number, len(questions))
    first, second = questions[place], questions[(place + round_) % len(questions)]
    return first if not round_ else {**first, "query": f"{first['query']} {second['query']}"}


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    resident = re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(resident[0]) / 1024


if __name__ == "__main__":
    main()
