"""What a record of each search adds to it: CPU, the time its caller waits, bytes.

    python tests/benchmarks/bench_audit.py [--bench BENCH_DIR] [--rounds 5] [--questions 200] [--postgresql]
        [--profile FILE]

The questions of the demo bank are asked of its base; with --bench those of a collection (see `search_pools.py`) of a
base of its documents. Each mode has an engine and a ledger of its own, and asks the same questions in rounds, in turn;
the first round of each is not counted, for the ledger learns the texts in it, and says what it cost by itself.

CPU is that of the whole process, all threads, until everything is written and the ledger is closed: ask enough
questions a round. Wall is what the caller of `search` waits.
Ratios are of medians of rounds to those without a record.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from postgresql_server import PostgresqlServer
from search_pools import BASE, CHECKOUT, Passages, environment, ingest, write_configuration, write_documents

from context_engine import Engine, SearchRequest, build_engine, demo
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.look_up import ledger_statistics
from context_engine.core.engine import SystemClock
from context_engine.wiring.audit_writers import close_writers
from context_engine.wiring.setup import load_setup

Question = tuple[str, str]
TEXTS = ("text", "card")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bench", type=Path)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--questions", type=int, default=200)
    options.add_argument("--postgresql", action="store_true")
    options.add_argument("--profile", type=Path)
    given = options.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ["HOME"] = str(folder)
        base = demo_base(folder) if given.bench is None else bench_base(folder, given.bench)
        asked = random.Random(7).choices(base.questions, k=given.questions)
        ledgers = {"sqlite": str(folder / "{}.db")}
        if given.postgresql:
            server = stack.enter_context(PostgresqlServer(durable=True))
            ledgers["postgresql"] = ""
        modes = {"off": Mode(base, "off", None)}
        for kind, place in ledgers.items():
            for firm in ("best_effort", "required"):
                url = place.format(firm) if place else str(server.new_database())
                modes[f"{firm} {kind}"] = Mode(base, firm, url)
        for number in range(given.rounds + 1):
            for name, mode in modes.items():
                mode.round(asked, counted=number > 0)
                print(f"\r{number} {name:24}", end="", file=sys.stderr)
        report(modes, len(asked))
        if given.profile:
            profile(modes["best_effort sqlite"], asked, given.profile)
        for mode in modes.values():
            mode.engine.close()


@dataclass(frozen=True)
class Base:
    """A base with questions to it."""

    data: Path
    questions: Sequence[Question]
    config: Path | None = None
    manifests: Path | None = None


def demo_base(folder: Path) -> Base:
    setup = load_setup(manifest_dir=demo.MANIFESTS, env={"HOME": str(folder)}, cwd=folder)
    rows = [json.loads(line) for line in demo.QUESTIONS.read_text("utf-8").splitlines()]
    asked = [(row["query"], row["domain"]) for row in rows]
    return Base(demo.ensure_base(folder / "data", setup.registry), asked, manifests=demo.MANIFESTS)


def bench_base(folder: Path, bench: Path) -> Base:
    passages = Passages(bench)
    config, data, documents = folder / "configuration", folder / "data", folder / "documents"
    write_configuration(config)
    write_documents(passages, documents)
    ingest(environment(CHECKOUT, folder / "installed"), config, documents, BASE, data)
    return Base(data, [(query, BASE) for query in passages.queries], config=config)


@dataclass
class Mode:
    """An engine that records in one way."""

    base: Base
    firm: str
    url: str | None
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    first: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        env = {"HOME": os.environ["HOME"], "CONTEXT_ENGINE_AUDIT_MODE": self.firm}
        env |= {"CONTEXT_ENGINE_AUDIT_LEDGER": self.url} if self.url else {}
        setup = load_setup(
            config_dir=self.base.config, manifest_dir=self.base.manifests, env=env, cwd=Path(os.environ["HOME"])
        )
        self.engine: Engine = build_engine(setup, data_dir=self.base.data)

    def round(self, asked: Sequence[Question], *, counted: bool) -> None:
        cpu, waited = time.process_time(), []
        for query, domain in asked:
            started = time.perf_counter()
            self.engine.search(SearchRequest(query=query, domain=domain))
            waited.append(time.perf_counter() - started)
        close_writers()
        found = (1000 * (time.process_time() - cpu) / len(asked), 1000 * median(waited))
        if counted:
            self.cpu.append(found[0])
            self.wall.append(found[1])
        else:
            self.first = found


def report(modes: Mapping[str, Mode], asked: int) -> None:
    off = modes["off"]
    print(f"\n{asked} questions a round, {len(off.cpu)} rounds; ms a search")
    print(f"{'mode':24}{'CPU':>8}{'ratio':>8}{'wall':>8}{'ratio':>8}{'first CPU':>11}")
    for name, mode in modes.items():
        cpu, wall = median(mode.cpu), median(mode.wall)
        ratios = cpu / median(off.cpu), wall / median(off.wall)
        print(f"{name:24}{cpu:8.2f}{ratios[0]:8.2f}{wall:8.2f}{ratios[1]:8.2f}{mode.first[0]:11.2f}")
    for name, mode in modes.items():
        if mode.url is not None:
            print(f"{name:24}{size_line(mode.url)}")


def size_line(url: str) -> str:
    with Ledger.open(url, origin="-", keyring=None, clock=SystemClock(), create=False) as ledger:
        ledger.integrate()
        found = ledger_statistics(ledger.database)
        entries = [len(one.entry or b"") for one in ledger.entries(0, ledger.size)]
    own = sum(one.size for kind, one in found.stored.items() if kind not in TEXTS)
    shared = sum(one.size for kind, one in found.stored.items() if kind in TEXTS)
    file = Path(url).stat().st_size / found.records if Path(url).is_file() else 0.0
    line = f"{found.records} records; entry {mean(entries):.0f} bytes, at most {max(entries)}; "
    line += f"with its own addenda {(found.entries + own) / found.records:.0f}; texts kept once {shared} bytes"
    return line + (f"; file {file:.0f} a record" if file else "")


@contextmanager
def profiled(out: Path) -> Iterator[None]:
    """Profile every thread that starts meanwhile, by its own CPU: the writer's is one."""
    profiles: list[cProfile.Profile] = []
    plain = threading.Thread.run

    def run(thread: threading.Thread) -> None:
        own = cProfile.Profile(time.thread_time)
        profiles.append(own)
        own.runcall(plain, thread)

    threading.Thread.run = run  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.run = plain  # type: ignore[method-assign]
    stats = pstats.Stats(profiles[0])
    for one in profiles[1:]:
        stats.add(one)
    stats.dump_stats(out)


def profile(mode: Mode, asked: Sequence[Question], out: Path) -> None:
    with profiled(out):
        mode.round(asked, counted=False)
    pstats.Stats(str(out)).sort_stats("cumulative").print_stats(60)


if __name__ == "__main__":
    main()
