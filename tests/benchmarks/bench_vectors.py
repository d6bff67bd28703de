"""The forms of vectors: disk, memory, time and recall at size, and what a real collection loses.

    python tests/benchmarks/bench_vectors.py [--size 1000000] [--dimension 384] [--shorter 256,128] [--cells 4000]
        [--queries 100]
    python tests/benchmarks/bench_vectors.py BENCH --vectors FOLDER [--shorter 256,192,128]

Without BENCH vectors are made: clustered (1 000 centres in a space of 48 dimensions, turned into the whole), no two
alike; questions lie near one of them. Each form is written as the base writes it, read back, and searched exactly and
through the nearest cells; recall is the share of the ten nearest by whole 32-bit floats. Times are CPU milliseconds of
one search on one core, memory is what the process grew by. With BENCH (see bench_quality.py) a base is written once in
32-bit floats and rebuilt in each form, which embeds nothing, and is searched by vectors alone and by both.
"""

from __future__ import annotations

import argparse
import gc
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from math import isqrt
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from bench_quality import Table, Vectors, asking, measure, read, with_headings, write

from context_engine.adapters.sources.local import LocalBase, SearchOptions
from context_engine.adapters.sources.local.cells import assigned, trained
from context_engine.adapters.sources.local.matrix import Cells, Matrix
from context_engine.adapters.sources.local.schema import Model
from context_engine.adapters.sources.local.vector_parts import VectorParts
from context_engine.adapters.sources.stores.vector_form import VectorForm, reformed

LATENT, CENTRES, TOP, AT_ONCE = 48, 1000, 10, 20_000
EXACT, PROBED = SearchOptions(approximate_from=10**9), SearchOptions(approximate_from=1)
FORMS: tuple[VectorForm, ...] = ("float32", "int8")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path, nargs="?")
    options.add_argument("--vectors", type=Path)
    options.add_argument("--size", type=int, default=1_000_000)
    options.add_argument("--dimension", type=int, default=384)
    options.add_argument("--shorter", default="256,128", help="numbers kept of a vector, besides all")
    options.add_argument("--cells", type=int, help="as many as the base finds, four times the root of the size")
    options.add_argument("--queries", type=int)
    given = options.parse_args()
    shorter = [int(one) for one in given.shorter.split(",") if one]
    if given.bench is None:
        at_size(given.size, given.dimension, shorter, given.cells or 4 * isqrt(given.size), given.queries or 100)
    elif given.vectors is None:
        options.error("BENCH needs --vectors")
    else:
        of_collection(given.bench, given.vectors, shorter, given.queries)


class All:
    """Every row, of the one source there is."""

    source_key, selective = None, False

    def __init__(self, size: int) -> None:
        self._size = size

    def count(self) -> int:
        return self._size

    def all(self, count: int) -> list[int]:
        return list(range(1, count + 1))

    def among(self, rids: Collection[int]) -> Collection[int]:
        return rids


def at_size(size: int, dimension: int, shorter: Sequence[int], cells_wanted: int, queries: int) -> None:
    points, turn = made(size, dimension)
    asked = questions(points, turn, queries)
    cells = Cells(*parted(points, turn, cells_wanted))
    print(f"{size} vectors of {dimension} numbers, {len(cells.centroids)} cells, {queries} questions\n")
    print(f"{'':16} disk MB  memory MB  read s | exact p50 ms  recall@{TOP} | cells p50 ms  recall@{TOP}")
    wanted: list[list[int]] = []
    with tempfile.TemporaryDirectory() as folder:
        for count in (dimension, *shorter):
            for form in FORMS:
                path, model = Path(folder) / f"{form}-{count}", Model("made", count, form)
                write_vectors(path, points, turn, model)
                found = one_form(path, model, asked, cells if count == dimension else None, wanted)
                wanted = wanted or found
                path.unlink()


def one_form(path: Path, model: Model, asked: Any, cells: Cells | None, wanted: list[list[int]]) -> list[list[int]]:
    """Print what vectors in one form cost and find; return what the exact search finds."""
    disk, before, started = path.stat().st_size, grown(), time.process_time()
    parts = read_vectors(path, model)
    took, held = time.process_time() - started, grown() - before
    short = asked[:, : model.dimension]
    short = short / np.linalg.norm(short, axis=1, keepdims=True)
    exact, found = searched(matrix(parts, None), short, EXACT)
    line = f"{model.form:>8} {model.dimension:>6}  {disk / 1e6:7.0f} {held / 1e6:10.0f} {took:7.1f} |"
    line += f" {exact:12.1f} {recall(found, wanted or found):10.4f} |"
    if cells is not None:
        near, by_cells = searched(matrix(parts, cells), short, PROBED)
        line += f" {near:12.1f} {recall(by_cells, wanted or found):10.4f}"
    print(line, flush=True)
    return found


def made(size: int, dimension: int) -> tuple[Any, Any]:
    """Return points of the small space, and what turns them into the whole."""
    random = np.random.default_rng(1)
    turn = random.standard_normal((LATENT, dimension)).astype(np.float32)
    centres = random.standard_normal((CENTRES, LATENT)).astype(np.float32)
    points = centres[random.integers(0, CENTRES, size)]
    points += np.float32(0.6) * random.standard_normal((size, LATENT), dtype=np.float32)
    return points, turn


def whole(points: Any, turn: Any) -> Any:
    turned = points @ turn
    return turned / np.linalg.norm(turned, axis=1, keepdims=True)


def questions(points: Any, turn: Any, count: int) -> Any:
    random = np.random.default_rng(2)
    near = points[random.integers(0, len(points), count)]
    return whole(near + np.float32(0.3) * random.standard_normal(near.shape, dtype=np.float32), turn)


def parted(points: Any, turn: Any, count: int) -> tuple[Any, Any]:
    """Return cells as the base finds them, from 32 vectors a cell."""
    centroids = trained(whole(points[:: max(1, len(points) // (32 * count))], turn), count)
    return centroids, np.concatenate([assigned(block, centroids) for block in blocks(points, turn)])


def blocks(points: Any, turn: Any) -> Iterator[Any]:
    for start in range(0, len(points), AT_ONCE):
        yield whole(points[start : start + AT_ONCE], turn)


def write_vectors(path: Path, points: Any, turn: Any, model: Model) -> None:
    rid = 0
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE vectors(rid INTEGER PRIMARY KEY, vector BLOB NOT NULL, digest BLOB NOT NULL)")
        for block in blocks(points, turn):
            kept = [reformed(one.tobytes(), len(one), model.dimension, model.form) for one in block]
            rows = ((rid + place, blob, sha256(blob).digest()) for place, blob in enumerate(kept, 1))
            database.executemany("INSERT INTO vectors VALUES (?, ?, ?)", rows)
            rid += len(block)


def read_vectors(path: Path, model: Model) -> VectorParts:
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT vector FROM vectors ORDER BY rid")
        parts = []
        while some := rows.fetchmany(AT_ONCE):
            parts.append(VectorParts.read(b"".join(blob for (blob,) in some), model))
    return VectorParts.joined(parts)


def matrix(parts: VectorParts, cells: Cells | None) -> Matrix:
    each = np.ones(len(parts), np.int64)
    return Matrix("made", np.arange(1, len(parts) + 1), each, each, parts, cells)


def searched(of: Matrix, asked: Any, options: SearchOptions) -> tuple[float, list[list[int]]]:
    """Return the median CPU milliseconds of a search and what each found."""
    scope, times, found = All(len(of)), [], []
    for vector in asked:
        started = time.thread_time()
        found.append(of.nearest(vector, TOP, scope, options))
        times.append(1000 * (time.thread_time() - started))
    return float(np.median(times)), found


def recall(found: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]) -> float:
    return float(np.mean([len(set(one) & set(other)) / len(other) for one, other in zip(found, wanted)]))


def grown() -> int:
    """Return the bytes of memory that the process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def of_collection(bench: Path, vectors: Path, shorter: Sequence[int], count: int | None) -> None:
    _, queries, gold = read(bench)
    passages, asked = with_headings(bench), queries[:count]
    embedder = Vectors(vectors, passages, queries)
    table = Table()
    for dimensions in (None, *shorter):
        for form in FORMS:
            kept = {"vector_form": form, "vector_dimensions": dimensions}
            name = f"{form} {dimensions or embedder.dimension}"
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / "base"
                with LocalBase.open(place, create=True, embedder=embedder) as base:
                    write(base, {"one": passages})
                with LocalBase(place, embedder=embedder, options=SearchOptions(**kept)) as base:
                    base.rebuild()
                    table.add(name, f"float32 {embedder.dimension}", measure(asking(base), asked, gold))
                    base.options = SearchOptions(**kept, keyword_weight=0.0)
                    dense = f"float32 {embedder.dimension}, vectors"
                    table.add(f"{name}, vectors", dense, measure(asking(base), asked, gold))


if __name__ == "__main__":
    main()
