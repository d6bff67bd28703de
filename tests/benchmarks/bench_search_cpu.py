"""CPU time of one `Engine.search`, beside that of another checkout: cold, in a session, and asked again.

    python tests/benchmarks/bench_search_cpu.py BENCH_DIR --baseline CHECKOUT [--questions 300] [--rounds 3] [--base]
        [--depth 40] [--overrides JSON]

The candidates of a question are the 40 best passages of BENCH_DIR by a plain ranking, given by five sources, one a
tier, that cost nothing: what is measured is the engine. With --base the documents of BENCH_DIR are ingested into the
embedded base by each checkout and eight chunks are asked of each of five sources there: its own query time is "recall".

cold     each question by a new engine, which has seen no text yet
session  all questions in random order by one engine: popular passages come again, as they do in a bank
again    each question of the session a second time, right after the first

In each the texts are new strings, as a source gives them, and the memos that a process has of words are warm. Times are
CPU of the whole process, all threads; a round is one process of each checkout in turn. Printed are the medians, their
ratio, and for the session where the time goes. Parts are means, with what the engine spends outside the stages as
"engine".
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from search_pools import (
    BASE,
    CHECKOUT,
    POOL,
    Ids,
    Moment,
    Passages,
    by_source,
    environment,
    ingest,
    pool_engine,
    write_configuration,
    write_documents,
)

PHASES = ("cold", "session", "again")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--baseline", type=Path)
    options.add_argument("--questions", type=int, default=300)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--depth", type=int, default=40)
    options.add_argument("--base", action="store_true")
    options.add_argument("--overrides", type=json.loads, default={})
    given = options.parse_args()
    passages = Passages(given.bench)
    asked = random.Random(7).sample(passages.queries, min(given.questions, len(passages.queries)))
    sides = {"baseline": given.baseline.resolve()} if given.baseline else {}
    sides["this"] = CHECKOUT
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        questions = folder / "questions.jsonl"
        with questions.open("w", encoding="utf-8") as out:
            for query in asked:
                pool = [] if given.base else passages.best(query, given.depth)
                out.write(json.dumps({"query": query, "pool": pool, "overrides": given.overrides}) + "\n")
        made = {
            name: Side(checkout, folder / name, passages if given.base else None) for name, checkout in sides.items()
        }
        rounds = [{name: side.measured(questions) for name, side in made.items()} for _ in range(given.rounds)]
    report(rounds)


class Side:
    """A checkout with its configuration, and its embedded base where passages are given to ingest."""

    def __init__(self, checkout: Path, folder: Path, passages: Passages | None) -> None:
        self.config, self.kind = folder / "conf", "base" if passages else "pool"
        write_configuration(self.config)
        self.environ = environment(checkout, folder / "installed")
        self.environ |= {"CONTEXT_ENGINE_CONFIG_DIR": str(self.config), "CONTEXT_ENGINE_DATA_DIR": str(folder / "data")}
        if passages:
            write_documents(passages, folder / "documents")
            ingest(self.environ, self.config, folder / "documents", BASE, folder / "data")

    def measured(self, questions: Path) -> dict[str, Any]:
        """Return {phase: CPU milliseconds of each search}, and {part: mean milliseconds} of the session."""
        folder = str(Path(__file__).parent)
        code = f"import sys; sys.path.insert(0, {folder!r}); import bench_search_cpu as it; it.side()"
        command = [sys.executable, "-c", code, str(questions), self.kind]
        ran = subprocess.run(command, env=self.environ, cwd=self.config, stdout=subprocess.PIPE, check=True)
        return dict(json.loads(ran.stdout))


class CpuClock(Moment):
    """Stages are timed by the CPU that the process has used."""

    def monotonic(self) -> float:
        return time.process_time()


def side() -> None:
    """Search over the package that this process imports and print the times."""
    lines, kind = Path(sys.argv[1]).read_text("utf-8").splitlines(), sys.argv[2]
    times: dict[str, list[float]] = {phase: [] for phase in PHASES}
    parts: dict[str, list[float]] = defaultdict(list)
    with Asking(kind) as warming_up:
        for line in lines:
            warming_up.ask(line)
    for line in lines:
        with Asking(kind) as fresh:
            times["cold"].append(fresh.ask(line)[0])
    with Asking(kind) as engine:
        for line in lines:
            took, stages = engine.ask(line)
            times["session"].append(took)
            for name, part in stages.items():
                parts[name].append(part)
            times["again"].append(engine.ask(line)[0])
    print(json.dumps({**times, "parts": {name: mean(values) for name, values in parts.items()}}))


class Asking:
    """An engine to ask questions of."""

    def __init__(self, kind: str) -> None:
        from context_engine import build_engine

        config, clock = Path.cwd(), CpuClock()
        self.domain = BASE if kind == "base" else POOL
        self.pool: dict[str, list[Any]] = {}
        if kind == "base":
            self.engine = build_engine(config_dir=config, clock=clock, ids=Ids())
        else:
            self.engine, self.pool = pool_engine(config, clock, Ids())

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()

    def ask(self, line: str) -> tuple[float, dict[str, float]]:
        """Return the CPU milliseconds of a search, and those of each part of it."""
        from context_engine import SearchRequest

        question = json.loads(line)
        self.pool.clear()
        self.pool.update(by_source(question["pool"]))
        depth = {} if question["pool"] else {"stage1_top_k": 8}
        request = SearchRequest(query=question["query"], domain=self.domain, overrides=depth | question["overrides"])
        started = time.process_time()
        result = self.engine.search(request)
        took = (time.process_time() - started) * 1000.0
        stages = {stage.name: stage.elapsed_ms for stage in result.stages}
        return took, {**stages, "engine": took - sum(stages.values())}


def report(rounds: list[Mapping[str, Any]]) -> None:
    """Print the medians over all rounds, and the parts of the session."""
    base = "baseline" if "baseline" in rounds[0] else "this"
    print(f"{'CPU ms a search':14} {base:>9} {'this':>9}   ratio")
    for phase in PHASES:
        old, new = (median([time for one in rounds for time in one[name][phase]]) for name in (base, "this"))
        print(f"{phase:14} {old:9.3f} {new:9.3f}   {new / old:.3f}")
    print("\nparts of the session, mean ms")
    for part in rounds[0]["this"]["parts"]:
        old, new = (median([one[name]["parts"].get(part, 0.0) for one in rounds]) for name in (base, "this"))
        print(f"{part:14} {old:9.3f} {new:9.3f}")


if __name__ == "__main__":
    main()
