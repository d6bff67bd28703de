"""Broken files of every format through the processes that read files, with the limits on; by hand.

    python tests/benchmarks/fuzz_loaders.py [--mutants 100000] [--seed 1] [--seeds FOLDER] [--only .pdf,.docx]

For every suffix that is read, files are made (sample_files), or taken from the folder given, and broken: bits turned,
cut off, blocks doubled, two files spliced, numbers made large; of a zip archive a part is broken and packed again in
every second case. A line a format says how many gave documents, were refused, or were stopped, and by which limit.

An escape is what must not be: an exception out of the run; a file that takes longer than the limit and was not
stopped; a process that held more memory than the limit; a file of which nothing is said and nothing kept. Escapes are
kept in the folder that is printed. Exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import io
import re
import resource
import shutil
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))

from sample_files import MAKERS

from context_engine.core.models import IngestSettings
from context_engine.ingest import process
from context_engine.ingest.files import Assignment
from context_engine.ingest.loaders import LOADERS
from context_engine.ingest.reading import CutDocument, FileJob, IngestOptions
from context_engine.ingest.workers import read_all

_BATCH: Final = 400
_SEEDS: Final = 40
_SLACK_S: Final = 5.0
_BASE_MB: Final = 200
"""What a process holds before it reads a file, generously."""
_MOST_BYTES: Final = 4 << 20
_NUMBER: Final = re.compile(rb"\d+")
_LARGE: Final = (b"0", b"-1", b"65536", b"2147483648", b"99999999999", b"18446744073709551616", b"1e308")
_STOPS: Final = {"took longer": "time", "takes more": "memory", "process that read": "lost", "gives more": "output"}


def main() -> int:
    """Break files and count what comes of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=Path, help="files to break, beside those that are made")
    parser.add_argument("--only", default="", help="suffixes, separated by commas")
    parser.add_argument("--timeout", type=float, default=10.0, help="file_timeout_s")
    parser.add_argument("--memory", type=int, default=512, help="file_memory_mb")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    limits = IngestSettings(file_timeout_s=given.timeout, file_memory_mb=given.memory)
    options = IngestOptions(settings=limits, jobs=given.jobs)
    suffixes = [one for one in sorted(LOADERS) if not given.only or one in given.only.split(",")]
    share = -(-given.mutants // len(suffixes))
    kept = Path(tempfile.mkdtemp(prefix="escapes-"))
    escapes = 0
    for suffix in suffixes:
        rng = Random(f"{given.seed}{suffix}")
        seeds = _seeds(suffix, rng, given.seeds)
        started = time.monotonic()
        count = Counter[str]()
        for _ in range(0, share, _BATCH):
            size = min(_BATCH, share - count["mutants"])
            count += _tried([_mutant(rng, seeds) for _ in range(size)], suffix, options, kept)
        escapes += count["escapes"]
        print(_line(suffix, count, len(seeds), time.monotonic() - started), flush=True)
    while process._idle:
        process._idle.pop().end()
    held = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"largest process: {held} MB, limit {given.memory} MB beyond its own")
    escapes += held > given.memory + _BASE_MB
    print(f"{escapes} escapes{f', kept in {kept}' if escapes else ''}")
    if not escapes:
        kept.rmdir()
    return 1 if escapes else 0


def _line(suffix: str, count: Counter[str], seeds: int, seconds: float) -> str:
    stopped = ", ".join(f"{count[name]} {name}" for name in _STOPS.values())
    return (
        f"{suffix:10} {count['mutants']:6} mutants of {seeds} seeds: {count['documents']} gave documents, "
        f"{count['refused']} refused, stopped by: {stopped}; {count['escapes']} escapes; "
        f"{1000 * seconds / max(count['mutants'], 1):.1f} ms each"
    )


def _seeds(suffix: str, rng: Random, folder: Path | None) -> list[bytes]:
    """Return files of a format; of one that cannot be made here, files of others under its name."""
    seeds: list[bytes] = []
    try:
        seeds += [MAKERS[suffix](rng) for _ in range(_SEEDS)]
    except (KeyError, ImportError):
        pass
    if folder:
        found = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix.lower() == suffix)
        seeds += [path.read_bytes() for path in found if path.stat().st_size <= _MOST_BYTES]
    return seeds or [MAKERS[other](rng) for other in (".docx", ".pdf", ".html", ".txt") for _ in range(_SEEDS // 4)]


def _mutant(rng: Random, seeds: Sequence[bytes]) -> bytes:
    seed = rng.choice(seeds)
    if seed[:4] == b"PK\x03\x04" and rng.random() < 0.5:
        return _repacked(rng, seed, rng.choice(seeds))
    return _broken(rng, seed, rng.choice(seeds))


def _broken(rng: Random, data: bytes, other: bytes) -> bytes:
    """Return bytes after one to six of the ways to break them."""
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        at = rng.randrange(len(data) + 1)
        size = min(len(data) - at, rng.choice((1, 4, 64, 1024)))
        way = rng.randrange(6)
        if way == 0:
            out = bytearray(data)
            for _ in range(rng.randint(1, 8) if data else 0):
                out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
            data = bytes(out)
        elif way == 1:
            data = data[:at]
        elif way == 2:
            data = data[:at] + data[at : at + size] * rng.choice((2, 3, 50)) + data[at + size :]
        elif way == 3:
            data = data[:at] + other[rng.randrange(len(other) + 1) :]
        elif way == 4:
            data = data[:at] + rng.randbytes(size) + data[at + size :]
        else:
            data = _inflated(rng, data)
    return data[:_MOST_BYTES]


def _inflated(rng: Random, data: bytes) -> bytes:
    numbers = list(_NUMBER.finditer(data))
    if not numbers:
        return data
    one = rng.choice(numbers)
    return data[: one.start()] + rng.choice(_LARGE) + data[one.end() :]


def _repacked(rng: Random, data: bytes, other: bytes) -> bytes:
    """Return an archive of which one or two parts are broken, or taken from another one."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = {one.filename: archive.read(one) for one in archive.infolist()}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError):
        return _broken(rng, data, other)
    for name in rng.choices(sorted(parts), k=rng.choice((1, 1, 2))) if parts else ():
        parts[name] = _broken(rng, parts[name], parts[rng.choice(sorted(parts))])
        if rng.random() < 0.05:
            del parts[name]
            break
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def _tried(mutants: Sequence[bytes], suffix: str, options: IngestOptions, kept: Path) -> Counter[str]:
    """Read the mutants as files and count what came of them."""
    count = Counter[str](mutants=len(mutants))
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        root = Path(name)
        jobs = []
        for number, content in enumerate(mutants):
            file = root / f"{number}{suffix}"
            file.write_bytes(content)
            jobs.append(FileJob(file, root, (file.name,), (Assignment("s", None, file.name),)))
        while jobs:
            try:
                for outcome in _outcomes(jobs, options):
                    count[outcome] += 1
                    if outcome == "escapes":
                        shutil.copy(jobs[0].file, kept / f"{time.time_ns()}{suffix}")
                    jobs = jobs[1:]
            except Exception as error:
                print(f"{jobs[0].file.name} ended the run: {type(error).__name__}: {error}"[:300], file=sys.stderr)
                shutil.copy(jobs[0].file, kept / f"{time.time_ns()}{suffix}")
                count["escapes"] += 1
                jobs = jobs[1:]
    return count


def _outcomes(jobs: Sequence[FileJob], options: IngestOptions) -> Iterator[str]:
    """Yield what came of each file, in one word."""
    most = options.settings.file_timeout_s
    with closing(read_all(jobs, options, {})) as reading:
        for job, items in reading:
            started = time.monotonic()
            found = list(items)
            took = time.monotonic() - started
            skipped = [one[1] for one in found if not isinstance(one, CutDocument)]
            stop = next((word for one in skipped for start, word in _STOPS.items() if start in one.reason), None)
            if took > 2 * most + _SLACK_S or not found or any("Traceback" in one.reason for one in skipped):
                print(f"{job.file.name}: {took:.1f} s, {len(found)} items, {skipped[:1]}", file=sys.stderr)
                yield "escapes"
            elif stop:
                yield stop
            else:
                yield "refused" if len(skipped) == len(found) else "documents"


if __name__ == "__main__":
    sys.exit(main())
