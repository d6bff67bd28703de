"""What the limits of files cost: `ingest` of many small files, against reading them in the process of the run.

    python tests/benchmarks/bench_ingest.py [--files 10000] [--rounds 3] [--jobs 1] [--seed 1]

The files are mixed (Markdown, text, CSV, JSON, HTML, DOCX, XLSX, PDF) and made from the seed. Both sides write the same
chunks to an embedded base of their own, in a process of its own, by turns; the baseline has no limits, for what reads
is the run itself. Printed are files a second and the peak of memory, the run's and its largest process's, as ratios.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

from sample_files import MAKERS

from context_engine.core.models import DocumentRule, Settings, SourceSpec
from context_engine.ingest import process, run
from context_engine.ingest.reading import FileJob, IngestOptions, Item, Known, read_file
from context_engine.ingest.run import ingest

_KINDS: Final = (".md", ".txt", ".csv", ".json", ".html", ".docx", ".xlsx", ".pdf")


def main() -> None:
    """Make the files, run both sides by turns, print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="processes that read; 0 takes as many as pay")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--side", choices=("limits", "baseline"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        print(json.dumps(_one(given.folder, given.side, given.jobs)))
        return
    with tempfile.TemporaryDirectory(prefix="bench-ingest-") as name:
        folder = Path(name)
        _write(folder, given.files, given.seed)
        found: dict[str, list[dict[str, Any]]] = {"limits": [], "baseline": []}
        for number in range(given.rounds):
            for side in ("limits", "baseline") if number % 2 else ("baseline", "limits"):
                command = [sys.executable, __file__, "--side", side, "--folder", name, "--jobs", str(given.jobs)]
                found[side].append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
                print(side, found[side][-1], file=sys.stderr, flush=True)
    assert len({(one["documents"], one["chunks"]) for side in found.values() for one in side}) == 1
    _print(found, given.files)


def _print(found: dict[str, list[dict[str, Any]]], files: int) -> None:
    best = {
        side: {key: median(one[key] for one in rows) for key in ("seconds", "cpu", "run_mb", "child_mb")}
        for side, rows in found.items()
    }
    limits, baseline = best["limits"], best["baseline"]
    print(f"files a second: {files / limits['seconds']:.0f}, baseline {files / baseline['seconds']:.0f}")
    print(f"throughput: {baseline['seconds'] / limits['seconds']:.2f} of the baseline's")
    print(f"processor time: {limits['cpu'] / baseline['cpu']:.2f} times the baseline's")
    both = limits["run_mb"] + limits["child_mb"]
    print(
        f"peak memory: run {limits['run_mb']:.0f} MB + largest process {limits['child_mb']:.0f} MB, "
        f"baseline {baseline['run_mb']:.0f} MB: {both / baseline['run_mb']:.2f} times"
    )


def _write(folder: Path, files: int, seed: int) -> None:
    """Write files of every kind into folders of a hundred."""
    rng = Random(seed)
    for number in range(files):
        kind = _KINDS[number % len(_KINDS)]
        path = folder / f"{number // 100:03}" / f"{number:05}{kind}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(MAKERS[kind](rng))


def _one(folder: Path, side: str, jobs: int) -> dict[str, Any]:
    """Ingest the folder once, into a base that is new."""
    from context_engine.core.engine import SystemClock
    from context_engine.wiring.embedded_base import open_base

    if side == "baseline":
        run.read_all = _in_this_process
    rules = (
        DocumentRule(include="**/*.json", doc_type="entity_record"),
        DocumentRule(include="**/*.csv", doc_type="entity_record"),
        DocumentRule(include="**/*", doc_type="sop_document"),
    )
    spec = SourceSpec(id="bank", type="bank_sop", documents=rules)
    with tempfile.TemporaryDirectory(prefix="bench-base-") as base:
        started, cpu = time.perf_counter(), _cpu()
        with open_base(Path(base) / "base", Settings(), None, SystemClock()) as opened, opened.writer() as sink:
            report = ingest(folder, spec, sink, options=IngestOptions(jobs=jobs))
        seconds = time.perf_counter() - started
    while process._idle:
        process._idle.pop().end()
    return {
        "documents": report.documents,
        "chunks": report.chunks,
        "skipped": len(report.skipped),
        "seconds": round(seconds, 2),
        "cpu": round(_cpu() - cpu, 2),
        "run_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "child_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
    }


def _in_this_process(
    jobs: Sequence[FileJob], options: IngestOptions, known: Known
) -> Iterator[tuple[FileJob, Iterator[Item]]]:
    """Read as a run without limits would."""
    for job in jobs:
        yield job, read_file(job, options, known)


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
