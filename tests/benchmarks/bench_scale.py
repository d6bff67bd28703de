"""The embedded base at size: hybrid search, its filters, the approximate search against the exact one, time and memory.

    python tests/benchmarks/bench_scale.py [--sizes 10000,100000] [--queries 50] [--dimension 384]
        [--probes 0.05,0.1,0.2] [--folder FOLDER]

Texts are 100 to 200 words of a vocabulary of 60 000 with the frequencies of Zipf's law; vectors are clustered (1 000
centres in a space of 48 dimensions, turned into the whole) and are made from the text's number, so none is kept.
A question is six words of a chunk and a vector near that chunk's. The filter keeps 1 % of the chunks. Times are CPU
milliseconds of one search on one core; recall is the share of the exact search's 40 nearest that the cells hold. A
base written into FOLDER stays there, and is only searched the next time.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from context_engine.adapters.sources.local import LocalBase, SearchOptions
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import Chunk, Condition

WORDS, LATENT, CENTRES, TOP = 60_000, 48, 1000, 40
SELECTIVE = Condition("desk", "eq", 7)


class Synthetic:
    """Makes the n-th text and its vector; as an embedder it reads the number at the head of a text."""

    def __init__(self, dimension: int) -> None:
        self.dimension, self.model_id = dimension, f"synthetic-{dimension}"
        random = np.random.default_rng(1)
        self._turn = random.standard_normal((LATENT, dimension)).astype(np.float32)
        self._centres = random.standard_normal((CENTRES, LATENT)).astype(np.float32)
        self._share = 1.0 / np.arange(10, WORDS + 10)
        self._share /= self._share.sum()
        self._words = random.choice(WORDS, size=4_000_000, p=self._share)

    def text(self, number: int) -> str:
        random = np.random.default_rng(number)
        start, length = int(random.integers(0, len(self._words) - 200)), int(random.integers(100, 200))
        return f"n{number} " + " ".join(f"w{word}" for word in self._words[start : start + length])

    def vector(self, number: int, noise: int = 0) -> Any:
        random = np.random.default_rng((number, 5))
        point = self._centres[random.integers(0, CENTRES)] + 0.6 * random.standard_normal(LATENT)
        if noise:
            point = point + 0.3 * np.random.default_rng((number, noise)).standard_normal(LATENT)
        whole = point.astype(np.float32) @ self._turn
        return whole / np.linalg.norm(whole)

    def question(self, number: int) -> str:
        words = sorted(set(self.text(number).split()[1:]), key=lambda word: (-int(word[1:]), word))
        return f"n{number} " + " ".join(words[:6])

    def embed_query(self, text: str) -> Any:
        return self.vector(_number(text), noise=9)

    def embed_documents(self, texts: Sequence[str]) -> list[Any]:
        return [self.vector(_number(text)) for text in texts]


def _number(text: str) -> int:
    number = text.split(maxsplit=1)[0][1:]
    return int(number) if number.isdigit() else 0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", default="10000,100000")
    options.add_argument("--queries", type=int, default=50)
    options.add_argument("--dimension", type=int, default=384)
    options.add_argument("--probes", default="0.05,0.1,0.2")
    options.add_argument("--folder", type=Path)
    given = options.parse_args()
    synthetic = Synthetic(given.dimension)
    for size in map(int, given.sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            base = Path(given.folder or folder) / str(size)
            if not base.exists():
                build(base, size, synthetic)
            search(base, size, synthetic, given.queries, [float(one) for one in given.probes.split(",")])


def build(folder: Path, size: int, synthetic: Synthetic) -> None:
    parted = SearchOptions(approximate_from=min(size, 200_000))
    started, cpu = time.perf_counter(), time.process_time()
    with LocalBase.open(folder, create=True, embedder=synthetic, options=parted) as base:
        fill(base, synthetic, size)
        stats = base.stats()
    print(
        f"\n{size} chunks: written in {time.perf_counter() - started:.0f} s ({time.process_time() - cpu:.0f} s CPU), "
        f"{stats.bytes / 1e6:.0f} MB on disk, {stats.cells} cells"
    )


def search(folder: Path, size: int, synthetic: Synthetic, queries: int, probes: Sequence[float]) -> None:
    asked = np.random.default_rng(2).integers(0, size, queries).tolist()
    with LocalBase(folder, embedder=synthetic, options=SearchOptions(approximate_from=10**9)) as base:
        started = time.process_time()
        ask(base, synthetic.question(0), None)
        print(f"first search {time.process_time() - started:.1f} s CPU (vectors are read into memory)")
        exact = timed("exact", base, synthetic, asked)
        kept = timed("exact, 1 % filter", base, synthetic, asked, filtered=True)
        neighbours = nearest(base, synthetic, asked)
        found = nearest(base, synthetic, asked, filtered=True)
    for probe in probes:
        near = SearchOptions(approximate_from=1, probe=probe)
        with LocalBase(folder, embedder=synthetic, options=near) as base:
            name = f"cells, probe {probe}"
            hits = timed(name, base, synthetic, asked)
            told = timed(f"{name}, 1 % filter", base, synthetic, asked, filtered=True)
            print(
                f"    recall of neighbours {recall(nearest(base, synthetic, asked), neighbours):.4f}, filtered "
                f"{recall(nearest(base, synthetic, asked, filtered=True), found):.4f}; of hybrid answers "
                f"{recall(hits, exact):.4f}, filtered {recall(told, kept):.4f}"
            )
    with LocalBase(folder) as base:
        timed("text alone", base, synthetic, asked)
        timed("text alone, 1 % filter", base, synthetic, asked, filtered=True)
    print(f"most memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def fill(base: LocalBase, synthetic: Synthetic, size: int) -> None:
    """Ten chunks a document, a commit each 100 000 chunks."""
    with base.writer() as writer:
        for start in range(0, size, 10):
            chunks = [
                Chunk(content=synthetic.text(number), chunk_id=str(number), metadata={"desk": (number * 7919) % 100})
                for number in range(start, min(start + 10, size))
            ]
            writer.put("one", f"d{start}", "", "h", chunks)
            if start and start % 100_000 == 0:
                writer.commit()


def ask(base: LocalBase, text: str, filters: Condition | None) -> list[str]:
    answer = base.answer(text, top_k=TOP, scope=Scope(source_id="one", filters=filters))
    return [chunk.chunk_id for chunk in answer.chunks]


def timed(
    name: str, base: LocalBase, synthetic: Synthetic, asked: Sequence[int], *, filtered: bool = False
) -> list[list[str]]:
    filters = SELECTIVE if filtered else None
    questions = [synthetic.question(number) for number in asked]
    ask(base, questions[0], filters)
    found, times = [], []
    for question in questions:
        started = time.thread_time()
        found.append(ask(base, question, filters))
        times.append(1000 * (time.thread_time() - started))
    low, high = np.percentile(times, (50, 95))
    print(f"  {name:32} p50 {low:7.2f}  p95 {high:7.2f} ms", flush=True)
    return found


def nearest(base: LocalBase, synthetic: Synthetic, asked: Sequence[int], *, filtered: bool = False) -> list[list[str]]:
    """The nearest by vector alone: questions without words that could be found."""
    options = base.options
    base.options = SearchOptions(
        keyword_weight=0.0, approximate_from=options.approximate_from, probe=options.probe, depth=TOP
    )
    found = [ask(base, f"n{number}", SELECTIVE if filtered else None) for number in asked]
    base.options = options
    return found


def recall(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    return float(np.mean([len(set(one) & set(other)) / max(len(other), 1) for one, other in zip(found, wanted)]))


if __name__ == "__main__":
    main()
