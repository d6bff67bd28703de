"""A search of five access classes together against one of a base that keeps all in one: build, disk, search.

    python tests/benchmarks/bench_partitions.py [--sizes 10000,100000] [--queries 200] [--top-k 40]

The data are those of bench_local.py, each document of one of five sources; in one base all of them are open, in the
other each has a rule of its own. A caller who may read all asks both for the same chunks, in turn; that the scores are
equal is checked. "opened" is the first search after a commit, where the indexes are opened again.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bench_local import COMMIT_EVERY, PASSAGES_PER_DOCUMENT, Data

from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import AccessScope, Chunk, Classification

SOURCES = 5
OPENINGS = 10


def place(source_id: str) -> SourcePlace:
    """Return a rule of its own for each source."""
    return SourcePlace(f"rule of {source_id}")


def built(folder: Path, data: Data, *, parted: bool) -> tuple[LocalBase, float]:
    """Return a base that holds the data, and the seconds that took."""
    base = LocalBase.open(folder, create=True, place=place if parted else None)
    started = time.perf_counter()
    with base.writer() as writer:
        for number, (name, metadata, passages) in enumerate(data.documents()):
            chunks = [Chunk(content=text, metadata=metadata) for text in passages]
            writer.put(f"s{number % SOURCES}", name, "", name, chunks)
            if (number + 1) % (COMMIT_EVERY // PASSAGES_PER_DOCUMENT) == 0:
                writer.commit()
    return base, time.perf_counter() - started


def searched(base: LocalBase, query: str, source: str, top_k: int, access: AccessScope) -> tuple[float, list[float]]:
    """Return the milliseconds of a search and the scores found."""
    started = time.perf_counter()
    answer = base.answer(query, top_k=top_k, scope=Scope(source_id=source, access=access))
    return (time.perf_counter() - started) * 1e3, [chunk.scores[0].value for chunk in answer.chunks]


def opened(base: LocalBase, access: AccessScope) -> float:
    """Return the median milliseconds of opening the indexes."""
    times = []
    for _ in range(OPENINGS):
        base.close()
        with base._viewer.view(access):  # connections
            base._viewer.close()
        started = time.perf_counter()
        with base._viewer.view(access):
            times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def compared(size: int, queries: int, top_k: int, folder: Path) -> None:
    """Print one row for each thing measured."""
    data, names = Data(size), [f"s{number}" for number in range(SOURCES)]
    access = AccessScope(rules=frozenset(place(name).rules for name in names), clearance=Classification.INTERNAL)
    one, one_s = built(folder / "one", data, parted=False)
    five, five_s = built(folder / "five", data, parted=True)
    times: list[tuple[float, float]] = []
    for number, query in enumerate(data.queries(queries)):
        source = names[number % SOURCES]
        for turn in range(2):  # the first one warms both up, and each is asked first as often as the other
            pair = (one, five) if number % 2 else (five, one)
            found = {id(base): searched(base, query, source, top_k, access) for base in pair}
            assert found[id(one)][1] == found[id(five)][1], query
            if turn:
                times.append((found[id(one)][0], found[id(five)][0]))
    disk = [sum(file.stat().st_size for file in base.path.rglob("*") if file.is_file()) / 1e6 for base in (one, five)]
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    rows = (
        ("build, s", one_s, five_s),
        ("disk, MB", *disk),
        ("opened, ms", opened(one, access), opened(five, access)),
        ("search p50, ms", *medians),
    )
    for what, alone, parted in rows:
        print(f"{size:>9,} {what:<15} one {alone:>9.2f}   five {parted:>9.2f}   ratio {parted / alone:.2f}")
    one.close(), five.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--top-k", type=int, default=40)
    options = parser.parse_args()
    for size in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            compared(size, options.queries, options.top_k, Path(folder))


if __name__ == "__main__":
    main()
