"""What a calibrated scope threshold keeps and turns away, and what the calibration costs.

    python tests/benchmarks/bench_calibration.py BENCH_DIR [BENCH_DIR ...] [--sizes 100 1000] [--queries 400]
        [--vectors FOLDER --model FOLDER]

BENCH_DIRs and --vectors as for bench_scope.py; --model is a folder of sentence-transformers, which embeds what the
vectors do not hold: sentences of the base. Each collection is calibrated whole and in parts of --sizes passages, with
every other question that ships with the package. kept is the share of the collection's own questions with a relevant
passage in the part that reach the threshold; they take no part in the calibration. Turned away are shares of questions
below it: the other half of those that ship, those of everyday_questions.txt, and 100 of each other BENCH_DIR; each with
its 95 % interval (Wilson). "pool" is the same without the base's statistics and calibration, as for Dify or a function:
the measured default is in force.

The cost is CPU time of the calibration by words over that of ingesting the same passages from Markdown files.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

from bench_quality import Vectors, _letters, write
from bench_scope import Collection, Question, collection, share_below

from context_engine import Engine, Registry
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.models import (
    DocumentRule,
    DomainSpec,
    ScopeCalibration,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
    SourceType,
)
from context_engine.core.ranking.scope import DEFAULT_SCOPE_THRESHOLD
from context_engine.evaluation.questions import EvalQuestion
from context_engine.evaluation.scope import best_signals
from context_engine.ingest.run import ingest
from context_engine.learning.calibration import calibrate, outside_questions

DOMAIN = DomainSpec(version=1, domain="BENCH", sources=(SourceSpec(id="one", type=SourceType.BANK_SOP),))
CALIBRATED_WITH = outside_questions()[::2]
KINDS = ("shipped", "everyday", "other collections")


class Mode(NamedTuple):
    """How a base is searched: its name, with which embedder, and whether its statistics and calibration are known."""

    name: str
    embedder: Any
    known: bool


class Unknown(LocalSource):
    """A source that answers like one without a base."""

    def search(self, query: SourceQuery) -> SourceAnswer:
        return replace(super().search(query), statistics=None, calibration=None)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("benches", type=Path, nargs="+", metavar="BENCH_DIR")
    options.add_argument("--sizes", type=int, nargs="*", default=[100, 1000])
    options.add_argument("--queries", type=int, default=400)
    options.add_argument("--vectors", type=Path)
    options.add_argument("--model", type=Path)
    given = options.parse_args()
    if (given.vectors is None) != (given.model is None):
        options.error("--vectors and --model belong together")
    print(f"{'':28}threshold  {'kept':22}" + "".join(f"{kind:22}" for kind in KINDS))
    for bench in given.benches:
        whole = collection(bench, given.benches, given.vectors, 10**6)
        if given.model is not None:
            learn(whole.embedder, given.model)
        for size in [size for size in given.sizes if size < len(whole.passages)] + [len(whole.passages)]:
            one = part(whole, size, given.queries)
            with tempfile.TemporaryDirectory() as folder:
                for line in rows(one, Path(folder)):
                    print(line, flush=True)


def learn(embedder: Vectors | None, model: Path) -> None:
    """Have the embedder embed what it does not know."""
    from sentence_transformers import SentenceTransformer

    assert embedder is not None
    loaded = SentenceTransformer(str(model), device="cpu")
    known = embedder.embed_query

    def embed(text: str) -> Any:
        if _letters(text) not in embedder._of:
            embedder.know([text], loaded.encode([text], normalize_embeddings=True))
        return known(text)

    embedder.embed_query = embed  # type: ignore[method-assign]


def part(whole: Collection, size: int, queries: int) -> Collection:
    """Return whole documents of a collection, in an order of the seed, cut at a number of passages."""
    documents: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in whole.passages:
        documents[row["doc"]].append(row)
    order = sorted(documents)
    random.Random(size).shuffle(order)
    chosen = [row for name in order for row in documents[name]][:size]
    ids = {row["id"] for row in chosen}
    inside = [one for one in whole.inside if whole.gold[one[0]] & ids]
    return whole._replace(passages=chosen, inside=random.Random(7).sample(inside, min(queries, len(inside))))


def rows(one: Collection, folder: Path) -> Iterator[str]:
    """Yield a line for each way to search a collection, and one for the cost."""
    with LocalBase.open(folder / "base", create=True, embedder=one.embedder) as base:
        write(base, {"one": one.passages})
        vectors = [] if one.embedder is None else [Mode("words and vectors", one.embedder, True)]
        calibrations = dict(zip(["words", "words and vectors"], calibrate(base, DOMAIN, outside=CALIBRATED_WITH)))
    pools = [Mode("pool, words", None, False), *([Mode("pool, vectors", one.embedder, False)] if vectors else [])]
    for mode in (Mode("words", None, True), *vectors, *pools):
        found = calibrations.get(mode.name) if mode.known else None
        threshold = found.threshold if isinstance(found, ScopeCalibration) else DEFAULT_SCOPE_THRESHOLD
        with LocalBase(folder / "base", embedder=mode.embedder) as base:
            yield f"{one.name[:9]:9} {len(one.passages):6} {mode.name:18} {row(one, base, mode, threshold)}"
    calibration, ingestion = costs(one.passages, folder)
    cost = f"{calibration:.2f} s on {ingestion:.2f} s of ingestion, {calibration / ingestion:.1%}"
    yield f"{one.name[:9]:9} {len(one.passages):6} cost: {cost}"


def row(one: Collection, base: LocalBase, mode: Mode, threshold: float) -> str:
    """Return the threshold, and the shares of the questions that it keeps and turns away."""
    source = LocalSource if mode.known else Unknown
    registry = Registry(domains={"BENCH": DOMAIN})
    with Engine(registry, lambda _, spec: source(base, spec.id, spec=spec)) as engine:

        def best(questions: Sequence[Question]) -> list[float]:
            asked = [(EvalQuestion(id=name, text=text), "BENCH") for name, text in questions]
            return [signal for _, signal in best_signals(engine, asked)]

        kept = share_below([-value for value in best(one.inside)], -threshold + 1e-12)
        outside: Mapping[str, Sequence[Question]] = {**one.outside, "shipped": one.outside["shipped"][1::2]}
        return f"{threshold:9.3f}  {kept}" + "".join(share_below(best(outside[kind]), threshold) for kind in KINDS)


def costs(passages: Sequence[dict[str, Any]], folder: Path) -> tuple[float, float]:
    """Return CPU seconds of the calibration, and of the ingestion of the passages as Markdown files."""
    files = folder / "files"
    files.mkdir()
    texts: dict[str, list[str]] = defaultdict(list)
    for row in passages:
        heading = "## " if row["is_heading"] else ""
        texts[row["doc"]].append(f"{heading}{row['text']}\n")
    for name, parts in texts.items():
        (files / f"{name}.md").write_text("\n".join(parts), "utf-8")
    spec = DOMAIN.sources[0].model_copy(update={"documents": (DocumentRule(include="**/*.md"),)})
    with LocalBase.open(folder / "other", create=True) as base:

        def write_files() -> None:
            with base.writer() as writer:
                ingest(files, [spec], writer)

        ingestion = cpu(write_files)
        return cpu(lambda: calibrate(base, DOMAIN)), ingestion


def cpu(work: Callable[[], Any]) -> float:
    """Return CPU seconds of this process and of those that it started."""
    before = os.times()
    started = time.process_time()
    work()
    after = os.times()
    children = after.children_user + after.children_system - before.children_user - before.children_system
    return time.process_time() - started + children


if __name__ == "__main__":
    main()
