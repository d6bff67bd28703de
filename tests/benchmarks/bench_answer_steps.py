"""What an answer costs beside its search: the CPU of each step from the bare engine to HTTP, and of several processes.

    python tests/benchmarks/bench_answer_steps.py [--documents FOLDER --questions FILE] [--baseline CHECKOUT]
        [--rounds 3] [--asked 150] [--workers 2] [--requests 0]

Each step holds the one before it: `search` is `Engine.search`, `context` adds the text for a model, `process` is
`RAGPipeline.run` with the JSON of its answer, `http` is a request to a service without tokens. The base is the demo
bank, or Markdown of FOLDER with questions of FILE, one JSON object a line with "question".

Times are CPU of the whole process, the service's as the operating system counts it, and medians over the rounds; the
steps, and with --baseline the checkouts, take turns. A question is asked once by each step in a round, so that popular
texts are known, as they are in a bank. `parallel` is the requests per second that 32 clients get from --workers
processes. With --requests one more service answers so many, and its memory is printed ten times on the way.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
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
CLIENTS = 32


class Side(NamedTuple):
    """A checkout with its own base: its environment, the options that name the base, and what to ask."""

    environ: dict[str, str]
    place: list[str]
    folder: Path
    questions: list[dict[str, str]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--documents", type=Path)
    options.add_argument("--questions", type=Path)
    options.add_argument("--baseline", type=Path)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--asked", type=int, default=150)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--requests", type=int, default=0)
    given = options.parse_args()
    checkouts = {"baseline": given.baseline.resolve()} if given.baseline else {}
    checkouts["this"] = CHECKOUT
    with TemporaryDirectory() as folder:
        sides = {name: prepared(checkout, Path(folder) / name, given) for name, checkout in checkouts.items()}
        report_steps(sides, given.rounds)
        for workers in sorted({1, given.workers}):
            many = ["--workers", str(workers)] if workers > 1 else []
            with served(sides["this"], *many) as (port, _):
                asked(port, sides["this"].questions, CLIENTS)
                rates = [asked(port, sides["this"].questions * 2, CLIENTS) for _ in range(given.rounds)]
            print(f"parallel  {workers} process{'es' * (workers > 1)}: {median(rates):.1f} requests/s")
        if given.requests:
            report_memory(sides["this"], given.requests)


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
            called(environ, folder, "ingest", str(demo / "bank" / domain.lower()), "--domain", domain, *place)
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
            yield port, process.pid
        finally:
            process.terminate()


def asked(port: int, questions: list[dict[str, str]], clients: int) -> float:
    """Ask all questions from so many clients; return the requests per second."""
    left, begun = iter(questions), time.perf_counter()

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for question in left:
            connection.request("POST", QUERY, json.dumps(question), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(questions) / (time.perf_counter() - begun)


def cpu_ms(pid: int) -> float:
    """Return the CPU milliseconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def report_memory(side: Side, requests: int) -> None:
    """Print the resident memory of a service while it answers."""
    with served(side) as (port, pid):
        for tenth in range(1, 11):
            batch = [side.questions[number % len(side.questions)] for number in range(requests // 10)]
            asked(port, batch, 8)
            resident = re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
            print(f"memory    after {tenth * len(batch):6} requests: {int(resident[0]) / 1024:.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
