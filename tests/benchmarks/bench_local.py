"""The embedded base against SQLite FTS5 on the same passages: build, disk, memory, search with and without filter.

    python tests/benchmarks/bench_local.py --sizes 10000,100000[,1000000] [--queries 200] [--top-k 40]

Each engine runs in a process of its own, on the same seeded data: a Zipf vocabulary of 60 000 words, passages of 100
to 300 words, 20 to a document, two metadata fields. A query is six words, none of the 40 most frequent. The filter
keeps 4 % of the documents (region = r2 and year <= 2001). FTS5 stems with its porter tokenizer, joins the query's
words with OR and orders by bm25(); the filter is a join on an indexed table.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from context_engine.adapters.sources.local import LocalBase
from context_engine.core.models import Chunk
from context_engine.core.policy.filters import parse_filter

VOCABULARY = 60_000
PASSAGES_PER_DOCUMENT = 20
COMMIT_EVERY = 20_000
FILTER = "region = r2; year <= 2001"
LETTERS = "bcdfghklmnprst"
VOWELS = "aeiou"


def word(number: int) -> str:
    """Pronounceable, one for each number; common words are short."""
    out = ""
    while True:
        number, letter = divmod(number, len(LETTERS) * len(VOWELS))
        out += LETTERS[letter // len(VOWELS)] + VOWELS[letter % len(VOWELS)]
        if not number:
            return out
        number -= 1


class Data:
    """The same passages, documents and queries each time it is asked."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.words = [word(number) + "x" for number in range(VOCABULARY)]
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))

    def _draw(self, chance: random.Random, count: int) -> list[str]:
        total = self._weights[-1]
        return [self.words[bisect(self._weights, chance.random() * total)] for _ in range(count)]

    def documents(self) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        """Yield (document id, metadata, passages)."""
        chance = random.Random(1)
        for number in range(self.size // PASSAGES_PER_DOCUMENT):
            metadata = {"region": f"r{chance.randrange(5)}", "year": chance.randrange(2000, 2010)}
            passages = [" ".join(self._draw(chance, chance.randrange(100, 300))) for _ in range(PASSAGES_PER_DOCUMENT)]
            yield f"d{number}", metadata, passages

    def queries(self, count: int) -> list[str]:
        """Return queries of six different words, none of the 40 most frequent."""
        chance, common = random.Random(2), set(self.words[:40])
        out = []
        while len(out) < count:
            drawn = list(dict.fromkeys(one for one in self._draw(chance, 60) if one not in common))
            out.append(" ".join(drawn[:6]))
        return out


class Ours:
    """The embedded base."""

    def __init__(self, folder: Path) -> None:
        self.base = LocalBase.open(folder, create=True)

    def build(self, data: Data) -> None:
        with self.base.writer() as writer:
            written = 0
            for document_id, metadata, passages in data.documents():
                chunks = [
                    Chunk(content=text, chunk_id=f"{document_id}-{n}", position=n, metadata=metadata)
                    for n, text in enumerate(passages)
                ]
                writer.put("bench", document_id, "", "1", chunks)
                written += len(passages)
                if written % COMMIT_EVERY < PASSAGES_PER_DOCUMENT:
                    writer.commit()

    def search(self, query: str, top_k: int, filtered: bool) -> int:
        filters = parse_filter(FILTER) if filtered else None
        return len(self.base.search(query, source_id="bench", top_k=top_k, filters=filters))


class Fts5:
    """SQLite's own full-text search, metadata beside it."""

    def __init__(self, folder: Path) -> None:
        self.connection = sqlite3.connect(folder / "fts.sqlite3", isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")

    def build(self, data: Data) -> None:
        run = self.connection.execute
        run("CREATE TABLE chunks(rid INTEGER PRIMARY KEY, chunk_id TEXT, content TEXT, region TEXT, year INTEGER)")
        run("CREATE INDEX by_field ON chunks(region, year)")
        run("CREATE VIRTUAL TABLE words USING fts5(content, content='chunks', content_rowid='rid', tokenize='porter')")
        run("BEGIN")
        written = 0
        for document_id, metadata, passages in data.documents():
            for n, text in enumerate(passages):
                row = (f"{document_id}-{n}", text, metadata["region"], metadata["year"])
                rid = run("INSERT INTO chunks(chunk_id, content, region, year) VALUES (?, ?, ?, ?)", row).lastrowid
                run("INSERT INTO words(rowid, content) VALUES (?, ?)", (rid, text))
            written += len(passages)
            if written % COMMIT_EVERY < PASSAGES_PER_DOCUMENT:
                run("COMMIT")
                run("BEGIN")
        run("COMMIT")

    def search(self, query: str, top_k: int, filtered: bool) -> int:
        wanted = " OR ".join(f'"{one}"' for one in query.split())
        where = "AND region = 'r2' AND year <= 2001" if filtered else ""
        rows = self.connection.execute(
            "SELECT chunk_id, chunks.content, bm25(words) AS score FROM words JOIN chunks ON rid = words.rowid"
            f" WHERE words MATCH ? {where} ORDER BY score LIMIT ?",
            (wanted, top_k),
        )
        return len(rows.fetchall())


ENGINES: dict[str, Callable[[Path], Any]] = {"ours": Ours, "fts5": Fts5}


def measured(name: str, size: int, queries: int, top_k: int) -> dict[str, Any]:
    """Run one engine in this process."""
    folder = Path(tempfile.mkdtemp(prefix="bench-local-"))
    try:
        data = Data(size)
        begun = time.process_time()
        for _ in data.documents():
            pass
        making = time.process_time() - begun
        before = peak_mb()
        wall, cpu = time.perf_counter(), time.process_time()
        engine = ENGINES[name](folder)
        engine.build(data)
        out: dict[str, Any] = {
            "build_wall_s": time.perf_counter() - wall - making,
            "build_cpu_s": time.process_time() - cpu - making,
            "peak_mb": peak_mb() - before,
            "disk_mb": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6,
        }
        for kind, filtered in (("plain", False), ("filtered", True)):
            out |= {
                f"{kind}_{key}": value for key, value in timed(engine, data.queries(queries), top_k, filtered).items()
            }
        return out
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def timed(engine: Any, queries: list[str], top_k: int, filtered: bool) -> dict[str, float]:
    """Return milliseconds: median and 95th percentile, of the clock and of the processor."""
    for query in queries[:5]:
        engine.search(query, top_k, filtered)
    walls, cpus, found = [], [], 0
    for query in queries:
        wall, cpu = time.perf_counter(), time.process_time()
        found += engine.search(query, top_k, filtered)
        walls.append(1000 * (time.perf_counter() - wall))
        cpus.append(1000 * (time.process_time() - cpu))
    walls.sort()
    cpus.sort()
    at50, at95 = len(queries) // 2, len(queries) * 95 // 100
    out = {"wall_p50_ms": walls[at50], "wall_p95_ms": walls[at95], "cpu_p50_ms": cpus[at50], "cpu_p95_ms": cpus[at95]}
    return {**out, "hits": found / len(queries)}


def peak_mb() -> float:
    """Return the most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--top-k", type=int, default=40)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one, int(given.sizes), given.queries, given.top_k)))
        return
    for size in map(int, given.sizes.split(",")):
        command = [sys.executable, __file__, "--queries", str(given.queries), "--top-k", str(given.top_k)]
        both = {
            name: json.loads(subprocess.check_output([*command, "--sizes", str(size), "--one", name]))
            for name in ENGINES
        }
        print(f"\n{size} chunks{'ours':>22}{'fts5':>12}{'fts5/ours':>12}")
        for key, ours in both["ours"].items():
            theirs = both["fts5"][key]
            print(f"{key:<22}{ours:>12.2f}{theirs:>12.2f}{theirs / ours if ours else float('nan'):>11.1f}x", flush=True)


if __name__ == "__main__":
    main()
