"""Real processes: readers beside a writer, a second writer, and writers killed at any moment.

What is written goes from one partition to another with every turn, so that most commits change several of them.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase
from context_engine.core.models import Chunk, ScoreKind
from context_engine.errors import StoreLocked
from context_engine.testing.fakes import FakeEmbedder

WRITER = """
import sys
from pathlib import Path
from context_engine.core.models import Chunk, Classification
from context_engine.adapters.sources.local import LocalBase
from context_engine.testing.fakes import FakeEmbedder

embedder = FakeEmbedder(8) if sys.argv[3] == "True" else None
base, start = LocalBase.open(Path(sys.argv[1]), create=True, embedder=embedder), int(sys.argv[2])
CLASSES = (None, Classification.CONFIDENTIAL, Classification.RESTRICTED)
with base.writer() as writer:
    print("open", flush=True)
    for n in range(start, 100_000):
        text = " ".join(f"word{(n * 7 + m) % 997}" for m in range(120))
        for document, turn in ((f"d{n}", 0), (f"d{n}", 1), (f"again{n % 5}", n)):
            chunks = [
                Chunk(content=f"limit {turn} {m} {text}", chunk_id=f"{document}#{m}", classification=CLASSES[turn % 3])
                for m in range(4)
            ]
            writer.put("sop", document, "", f"{document} turn {turn}", chunks)
        writer.commit()
        print(n, flush=True)
"""
READER = """
import sys, time
from pathlib import Path
from context_engine.adapters.sources.local import LocalBase

base, until = LocalBase.open(Path(sys.argv[1])), time.monotonic() + 30
for line in sys.stdin:
    while not (found := base.search(line, source_id="sop", top_k=1)) and time.monotonic() < until:
        time.sleep(0.01)
    print(found[0].chunk_id if found else "nothing", flush=True)
"""
HOLDER = """
import sys
from pathlib import Path
from context_engine.adapters.sources.local import LocalBase

with LocalBase.open(Path(sys.argv[1]), create=True).writer():
    print("open", flush=True)
    sys.stdin.read()
"""


@contextmanager
def process(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def said(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


@pytest.mark.slow
def test_another_process_sees_each_commit(tmp_path: Path) -> None:
    with LocalBase.open(tmp_path, create=True) as base, base.writer() as writer:
        writer.put("sop", "d", "", "h", [Chunk(content="limit", chunk_id="first")])
        writer.commit()
        with process(READER, tmp_path) as reader:
            assert reader.stdin is not None
            print("limit", file=reader.stdin, flush=True)
            assert said(reader) == "first"
            for n in range(3):
                writer.put("sop", f"d{n}", "", "h", [Chunk(content=f"news{n}", chunk_id=f"c{n}")])
                writer.commit()
                print(f"news{n}", file=reader.stdin, flush=True)
                assert said(reader) == f"c{n}"


def test_a_second_writing_process_is_refused(tmp_path: Path) -> None:
    with process(HOLDER, tmp_path) as holder:
        assert said(holder) == "open"
        with pytest.raises(StoreLocked, match=f"process {holder.pid} "):
            LocalBase(tmp_path).writer()
    LocalBase(tmp_path).writer().close()


@pytest.mark.slow
def test_a_reader_beside_a_writer_of_several_partitions(tmp_path: Path) -> None:
    """Every search is answered, whatever is committed meanwhile, and finds nothing twice."""
    with process(WRITER, tmp_path, 0, False) as writer:
        assert [said(writer) for _ in range(3)] == ["open", "0", "1"]
        with LocalBase.open(tmp_path) as base:
            seen = []
            for _ in range(300):
                found = [chunk.chunk_id for chunk in base.search("limit", source_id="sop", top_k=100_000)]
                assert len(found) == len(set(found)) > 0
                seen.append(base.stats().generation)
    assert len(set(seen)) > 1, "the writer wrote nothing meanwhile"


def killed(folder: Path, start: int, delay: float, *, vectors: bool) -> int:
    """Run a writer, kill it, return the last number it had acknowledged; start - 1 if none."""
    last = start - 1
    with process(WRITER, folder, start, vectors) as writer:
        assert said(writer) == "open"
        if start == 0:
            last = int(said(writer))
        time.sleep(delay)
        writer.kill()
        assert writer.stdout is not None
        for line in writer.stdout.read().split():
            last = int(line)
    return last


def holds(base: LocalBase, last: int, *, vectors: bool) -> None:
    """Every acknowledged document is there and whole; at most one commit more is."""
    report = base.verify()
    assert report.ok, report.problems
    with base.writer() as writer:
        documents = writer.documents("sop")
    for n in range(last + 1):
        assert documents[f"d{n}", ""] == f"d{n} turn 1"
    assert (f"d{last + 2}", "") not in documents
    found = base.search("limit", source_id="sop", top_k=100_000)
    assert {chunk.document_id for chunk in found} == {document for document, _ in documents}
    assert len(found) == 4 * len(documents)
    if vectors:
        assert base.stats().embedded == len(found)
        assert all(chunk.score(ScoreKind.COSINE) is not None for chunk in found)


def survives(folder: Path, kills: int, seed: int, *, vectors: bool) -> None:
    chance, last = random.Random(seed), -1
    embedder = FakeEmbedder(8) if vectors else None
    LocalBase.open(folder, create=True, embedder=embedder).close()
    for _ in range(kills):
        last = killed(folder, last + 1, chance.uniform(0.0, 0.6), vectors=vectors)
        with LocalBase.open(folder, embedder=embedder) as base:
            base.search("limit", source_id="sop", top_k=5)
            base.writer().close()
            holds(base, last, vectors=vectors)
    assert last >= 0, "no writer lived long enough to commit"


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "vectors"), [(8, False), (20, True)])
def test_many_kills(tmp_path: Path, kills: int, *, vectors: bool) -> None:
    survives(tmp_path, kills, seed=2, vectors=vectors)


@pytest.mark.slow
def test_kills_while_the_base_is_made(tmp_path: Path) -> None:
    """Killed before anything was acknowledged, it can be made by the next."""
    chance = random.Random(3)
    for n in range(6):
        folder = tmp_path / str(n)
        with process(WRITER, folder, 0, False):
            time.sleep(0.3 + chance.uniform(0.0, 0.4))
        with LocalBase.open(folder, create=True) as base:
            base.writer().close()
            assert base.verify().ok
