"""CPU time of one `Engine.search` by the number of sources in one base, beside that of another checkout.

    python tests/benchmarks/bench_many_sources.py BENCH_DIR [--baseline CHECKOUT] [--vectors FOLDER]
        [--counts 1 5 20] [--questions 200] [--rounds 3] [--keep FOLDER] [--overrides JSON]

The passages of BENCH_DIR are cut into so many sources of uneven size (source n holds whole documents, about 1/n as many
as the first) and written into one embedded base for each count; each source is asked for 40 chunks. With --vectors, as
embed_corpus.py writes them, the same again by text and vectors: vectors are read, not made.

cold     each question by a new engine, which has seen no text yet, over a base that is open
session  all questions in one order by one engine: popular passages come again
again    each question of the session a second time, right after the first

Both checkouts search the same bases, each in a process of its own, in turn; times are CPU of the whole process, all
threads, medians over questions and rounds. Printed beside them are what they are of one source's, the quality of the
answers (where tiers differ authority moves right answers down too), and how many answers (the chunks as published, the
decision), and how many whole results with the fate of every candidate, are the same to the byte in both.
`--overrides '{"stage1_top_k": 12}'` asks each source for 12.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from search_pools import CHECKOUT, Ids, Moment, environment

PHASES = ("cold", "session", "again")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("--baseline", type=Path)
    options.add_argument("--vectors", type=Path)
    options.add_argument("--counts", type=int, nargs="+", default=[1, 5, 20])
    options.add_argument("--questions", type=int, default=200)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--keep", type=Path, help="a folder for the bases")
    options.add_argument("--overrides", type=json.loads, default={})
    given = options.parse_args()
    sides = {"baseline": given.baseline.resolve()} if given.baseline else {}
    sides["this"] = CHECKOUT
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        environments = {name: environment(checkout, Path(temporary) / name) for name, checkout in sides.items()}
        for vectors in [None, given.vectors] if given.vectors else [None]:
            for count in given.counts:
                run("make", environments["this"], given, count, vectors, folder)
        for vectors in [None, given.vectors] if given.vectors else [None]:
            print(f"\n{'text and vectors' if vectors else 'text'}, CPU ms a search and times one source's")
            report(given, vectors, folder, environments)


def report(given: argparse.Namespace, vectors: Path | None, folder: Path, environments: dict[str, Any]) -> None:
    """Measure all counts of sources by each side in turn, and print a line for each."""
    ones: dict[str, dict[str, float]] = {}
    for count in given.counts:
        rounds: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for _ in range(given.rounds):
            for name, environ in environments.items():
                rounds[name].append(json.loads(run("measure", environ, given, count, vectors, folder)))
        for name, measured in rounds.items():
            times = {phase: median([time for one in measured for time in one[phase]]) for phase in PHASES}
            one = ones.setdefault(name, times)
            shown = "".join(f"{phase:>10} {times[phase]:7.2f} {times[phase] / one[phase]:5.2f}x" for phase in PHASES)
            print(f"{count:3} sources {name:9}{shown}")
            print("      R@10 {:.4f}, MAP@10 {:.4f}".format(*measured[0]["quality"]))
            parts = {part: median([one["parts"].get(part, 0.0) for one in measured]) for part in measured[0]["parts"]}
            print("      " + ", ".join(f"{part} {value:.2f}" for part, value in parts.items() if value >= 0.05))
        if len(rounds) == 2:
            same = [
                [one == other for one, other in zip(*(measured[0][what] for measured in rounds.values()), strict=True)]
                for what in ("answers", "results")
            ]
            answers, results = map(sum, same)
            print(f"      identical of {len(same[0])}: {answers} answers, {results} whole results", flush=True)


def run(what: str, environ: dict[str, str], given: argparse.Namespace, *args: Any) -> str:
    count, vectors, folder = args
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import bench_many_sources as it; it.side()"
    base = folder.resolve() / f"{count}{'-vectors' if vectors else ''}"
    told = {"bench": given.bench.resolve(), "vectors": vectors and vectors.resolve(), "base": base}
    told |= {"count": count, "questions": given.questions, "overrides": given.overrides}
    command = [sys.executable, "-c", code, what, json.dumps(told, default=str)]
    # Elsewhere than in a checkout, whose package would be imported whatever the environment says.
    return subprocess.run(command, env=environ, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout


def side() -> None:
    """Write a base, or search it over the package that this process imports and print times and results."""
    what, told = sys.argv[1], json.loads(sys.argv[2])
    from bench_disjoint import read

    passages, queries, gold = read(Path(told["bench"]))
    asked = random.Random(7).sample(queries, min(told["questions"], len(queries)))
    embedder = None
    if told["vectors"]:
        from bench_quality import Vectors

        embedder = Vectors(Path(told["vectors"]), passages, queries)
    names = [f"s{number:02}" for number in range(told["count"])]
    if what == "measure":
        print(json.dumps(measured(Path(told["base"]), names, embedder, asked, gold, told["overrides"])))
    elif not Path(told["base"]).exists():
        from bench_quality import write

        from context_engine.adapters.sources.local import LocalBase

        with LocalBase.open(Path(told["base"]), create=True, embedder=embedder) as base:
            write(base, dict(zip(names, shares(passages, len(names)), strict=True)))


def shares(passages: Sequence[dict[str, Any]], count: int) -> list[list[dict[str, Any]]]:
    """Cut a collection into whole documents; the n-th share is to hold 1/n as much as the first, and each at least
    one document."""
    documents: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in passages:
        documents[row["doc"]].append(row)
    parts: list[list[dict[str, Any]]] = [[] for _ in range(count)]
    for rows in sorted(documents.values(), key=lambda rows: (-len(rows), rows[0]["doc"])):
        min(enumerate(parts), key=lambda part: (len(part[1]) * (part[0] + 1), part[0]))[1].extend(rows)
    return parts


def measured(
    folder: Path,
    names: Sequence[str],
    embedder: Any,
    asked: Sequence[dict[str, Any]],
    gold: Mapping[str, set[str]],
    overrides: dict[str, Any],
) -> dict[str, Any]:
    """Return {phase: CPU milliseconds of each search}, the parts of the session, the digest of each result, and the
    quality of them all."""
    from context_engine import Engine, Registry, SearchRequest
    from context_engine.adapters.sources.local import LocalBase, LocalSource
    from context_engine.core.models import DomainSpec, SourceSpec, SourceType

    class CpuClock(Moment):
        def monotonic(self) -> float:
            return time.process_time()

    kinds = list(SourceType)
    specs = tuple(SourceSpec(id=name, type=kinds[place % len(kinds)]) for place, name in enumerate(names))
    registry = Registry(domains={"BENCH": DomainSpec(version=1, domain="BENCH", sources=specs)})
    out: dict[str, Any] = {phase: [] for phase in PHASES} | {"answers": [], "results": []}
    parts: dict[str, list[float]] = defaultdict(list)
    quality: list[tuple[float, float]] = []
    with LocalBase.open(folder, embedder=embedder) as base, ExitStack() as opened:
        sources = {name: LocalSource(base, name) for name in names}

        def engine() -> Engine:
            return Engine(registry, lambda _domain, spec: sources[spec.id], clock=CpuClock(), ids=Ids())

        def ask(of: Engine, text: str) -> tuple[float, Any]:
            request = SearchRequest(query=text, domain="BENCH", overrides={"stage2_top_k": 10, **overrides})
            started = time.process_time()
            result = of.search(request)
            return (time.process_time() - started) * 1000.0, result

        warming_up = engine()
        for question in asked:
            ask(warming_up, question["text"])
        for question in asked:
            out["cold"].append(ask(engine(), question["text"])[0])
        session = opened.enter_context(engine())
        for question in asked:
            took, result = ask(session, question["text"])
            out["session"].append(took)
            stages = {stage.name: stage.elapsed_ms for stage in result.stages}
            for name, part in {**stages, "engine": took - sum(stages.values())}.items():
                parts[name].append(part)
            published = result.to_dict()
            out["answers"].append(digest({key: published[key] for key in ("chunks", "decision")}))
            out["results"].append(digest(published))
            quality.append(judged([chunk.chunk_id for chunk in result.chunks], gold[question["id"]]))
            out["again"].append(ask(session, question["text"])[0])
    means = {name: mean(values) for name, values in parts.items()}
    return {**out, "parts": means, "quality": [mean(values) for values in zip(*quality, strict=True)]}


def judged(found: Sequence[str], wanted: set[str]) -> tuple[float, float]:
    """Return recall and average precision of the first ten."""
    places = [place for place, name in enumerate(found[:10], 1) if name in wanted]
    precision = sum(number / place for number, place in enumerate(places, 1))
    return len(places) / len(wanted), precision / len(wanted)


def digest(result: dict[str, Any]) -> str:
    """Return the hash of a published result, or of part of it, without how long anything took."""
    text = re.sub(r'"elapsed_ms": [\d.e-]+', '"elapsed_ms": 0', json.dumps(result, sort_keys=True, default=str))
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    main()
