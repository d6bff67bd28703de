"""How well the absolute signal tells questions that a collection answers from questions of elsewhere.

    python tests/benchmarks/bench_scope.py BENCH_DIR [BENCH_DIR ...] [--vectors FOLDER] [--queries 400]

BENCH_DIRs as for bench_quality.py. From elsewhere come the questions that ship with the package, those of
everyday_questions.txt (some of them near a bank's business), and 100 questions of each other BENCH_DIR. FOLDER holds,
for each BENCH_DIR, a folder of its name as embed_corpus.py writes it, and outside.npy, the vectors of the questions
that ship and, where they follow, of everyday_questions.txt, each in the order of its file.

A question's signal is the best absolute relevance among its 40 candidates. The rows are three signals of the same
candidates, first words alone and then words and vectors:

before  the share of the question's idf over the pool that a text holds; with a cosine the mean of the two
pool    today's without the base's statistics, as for a source that has none (Dify, a function)
base    today's

kept is the share of the collection's own questions above the threshold, the rest are the shares of the others below
it, with 95 % intervals (Wilson), and the area under the ROC curve. lost is what min_relevance_score = .15 costs: of the
relevant passages among the first 8, the share below it, and of the questions with one, the share that keep none.
Last come the thresholds that one number for every collection would need.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import log, sqrt
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from bench_disjoint import read
from bench_quality import DEPTH, Vectors, with_headings, write

from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import RawAnswer, ScoreKind, SourceSpec, SourceType
from context_engine.core.ranking.candidates import Candidate, pool
from context_engine.core.ranking.relevance import measure
from context_engine.core.text import term_weights
from context_engine.evaluation.scope import OUT_OF_SCOPE

EVERYDAY = Path(__file__).parent / "everyday_questions.txt"
SPEC = SourceSpec(id="one", type=SourceType.BANK_SOP)
KEPT = {"words": 0.985, "words and vectors": 0.99}
OF_EACH_OTHER, SHOWN, MIN_RELEVANCE = 100, 8, 0.15
COMMON = [number / 100 for number in range(10, 56, 5)]

Question = tuple[str, str]
Signals = Mapping[str, list[float]]


class Collection(NamedTuple):
    """A collection, its questions with their relevant passages, and questions of elsewhere by where they are from."""

    name: str
    passages: list[dict[str, Any]]
    gold: Mapping[str, set[str]]
    inside: list[Question]
    outside: Mapping[str, list[Question]]
    embedder: Vectors | None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("benches", type=Path, nargs="+", metavar="BENCH_DIR")
    options.add_argument("--vectors", type=Path)
    options.add_argument("--queries", type=int, default=400)
    given = options.parse_args()
    head = f"{'':30}threshold   kept  " + "".join(f"{name:22}" for name in ("shipped", "everyday", "other collections"))
    print(f"{head}{'all':20}ROC    lost: passages, questions")
    common: dict[str, dict[str, dict[str, Signals]]] = {}
    for bench in given.benches:
        one = collection(bench, given.benches, given.vectors, given.queries)
        for mode, by_signal, lost in measured(one):
            for name, signals in by_signal.items():
                print(f"{one.name[:10]:11}{mode:18}{row(signals, KEPT[mode])}  {lost[name]}  {name}", flush=True)
                common.setdefault(mode, {}).setdefault(name, {})[one.name] = signals
    for mode, of_signal in common.items():
        for name in ("pool", "base"):
            print(f"\n{mode}, {name}: kept / turned away at one threshold for all")
            for threshold in COMMON:
                cells = (f"{of:>12} {both(found, threshold)}" for of, found in of_signal[name].items())
                print(f"{threshold:.2f}", *cells)


def collection(bench: Path, benches: Sequence[Path], vectors: Path | None, most: int) -> Collection:
    """Read a collection, and choose its questions."""
    _, queries, gold = read(bench)
    passages = with_headings(bench)
    sample = random.Random(7).sample(queries, min(most, len(queries)))
    shipped = [json.loads(line) for line in OUT_OF_SCOPE.read_text("utf-8").splitlines()]
    everyday = EVERYDAY.read_text("utf-8").splitlines()
    others = {other: some_of(other) for other in benches if other != bench}
    outside = {
        "shipped": [(row["id"], row["text"]) for row in shipped],
        "everyday": [(f"everyday{number}", text) for number, text in enumerate(everyday)],
        "other collections": [(row["id"], row["text"]) for rows in others.values() for row in rows],
    }
    embedder = None
    if vectors is not None:
        embedder = Vectors(vectors / bench.name, passages, queries)
        ours = np.load(vectors / "outside.npy")
        embedder.know([text for _, text in (*outside["shipped"], *outside["everyday"])][: len(ours)], ours)
        outside["everyday"] = outside["everyday"] if len(ours) > len(shipped) else []
        for other, rows in others.items():
            embedder.know([row["text"] for row in rows], list(question_vectors(vectors / other.name, rows)))
    return Collection(bench.name, passages, gold, [(row["id"], row["text"]) for row in sample], outside, embedder)


def some_of(bench: Path) -> list[dict[str, Any]]:
    queries = read(bench)[1]
    return random.Random(11).sample(queries, min(OF_EACH_OTHER, len(queries)))


def question_vectors(folder: Path, rows: Sequence[dict[str, Any]]) -> Iterator[Any]:
    held = np.load(folder / "queries.npz")
    place, vectors = {name: number for number, name in enumerate(held["ids"].tolist())}, held["vectors"]
    return (vectors[place[row["id"]]] for row in rows)


def measured(one: Collection) -> Iterator[tuple[str, dict[str, Signals], dict[str, str]]]:
    """Yield, words alone and with vectors, each signal of every question, and what the least relevance costs."""
    with tempfile.TemporaryDirectory() as folder:
        with LocalBase.open(Path(folder), create=True, embedder=one.embedder) as base:
            write(base, {"one": one.passages})
        modes = {"words": None} if one.embedder is None else {"words": None, "words and vectors": one.embedder}
        for mode, model in modes.items():
            with LocalBase(Path(folder), embedder=model) as base:
                best: dict[str, dict[str, list[float]]] = {name: {} for name in ("before", "pool", "base")}
                hits: dict[str, list[list[float]]] = {name: [] for name in best}
                for source, questions in {"inside": one.inside, **one.outside}.items():
                    for asked, text in questions:
                        ids, signals = signals_of(base, text)
                        for name, values in signals.items():
                            best[name].setdefault(source, []).append(max(values, default=0.0))
                            relevant = one.gold.get(asked, ()) if source == "inside" else ()
                            hits[name].append([values[place] for place, id_ in enumerate(ids) if id_ in relevant])
                yield mode, dict(best), {name: lost(some) for name, some in hits.items()}


def signals_of(base: LocalBase, text: str) -> tuple[list[str], dict[str, list[float]]]:
    """Return the first 8 candidates' ids, best first, and each signal of all candidates, those first."""
    answer = base.answer(text, top_k=DEPTH, scope=Scope(source_id="one"))
    raw = RawAnswer(source_id="one", chunks=tuple(answer.chunks), retrieved_at=datetime.now(UTC))
    found = {one.chunk.chunk_id: one for one in pool([(SPEC, raw)])[0]}
    candidates = [found[chunk.chunk_id] for chunk in answer.chunks]
    known = {} if answer.statistics is None else {"one": answer.statistics}
    return [one.chunk.chunk_id for one in candidates[:SHOWN]], {
        "before": plain(text, candidates),
        "pool": measure(text, candidates).absolute,
        "base": measure(text, candidates, known).absolute,
    }


def plain(query: str, candidates: Sequence[Candidate]) -> list[float]:
    """The baseline: idf over the pool, held anywhere or not; with a cosine the mean of the two."""
    weights = term_weights(query)
    held = [{*one.text.reading.terms, *one.label.reading.terms} & weights.keys() for one in candidates]
    idf = {
        term: weight * log(1 + len(held) / max(sum(term in one for one in held), 1)) for term, weight in weights.items()
    }
    whole = sum(idf.values()) or 1.0
    out = []
    for one, terms in zip(candidates, held):
        coverage, cosine = sum(idf[term] for term in terms) / whole, one.chunk.score(ScoreKind.COSINE)
        out.append(coverage if cosine is None else (coverage + max(cosine, 0.0)) / 2)
    return out


def lost(hits: Sequence[Sequence[float]]) -> str:
    passages, questions = [value for one in hits for value in one], [max(one) for one in hits if one]
    below = [sum(value < MIN_RELEVANCE for value in values) / max(len(values), 1) for values in (passages, questions)]
    return f"{below[0]:6.2%} {below[1]:6.2%}"


def row(signals: Signals, keep: float) -> str:
    """The threshold that keeps a share of the questions in scope, and how many of the others are below it."""
    inside = sorted(signals["inside"])
    threshold = inside[int((1 - keep) * len(inside))]
    others = {name: values for name, values in signals.items() if name != "inside"}
    everything = [value for values in others.values() for value in values]
    cells = [share_below(others.get(name, []), threshold) for name in ("shipped", "everyday", "other collections")]
    kept = sum(value >= threshold for value in inside) / len(inside)
    cells.append(share_below(everything, threshold))
    return f"{threshold:9.3f} {kept:6.1%}  {''.join(cells)}{roc(inside, everything):.4f}"


def share_below(values: Sequence[float], threshold: float) -> str:
    """A share with its 95 % interval (Wilson)."""
    if not values:
        return " " * 22
    count, z = len(values), 1.96
    share = sum(value < threshold for value in values) / count
    middle, half = share + z * z / (2 * count), z * sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    low, high = ((middle + sign * half) / (1 + z * z / count) for sign in (-1, 1))
    return f"{share:6.1%} [{low:.3f}, {high:.3f}] "


def both(signals: Signals, threshold: float) -> str:
    inside = signals["inside"]
    outside = [value for name, values in signals.items() if name != "inside" for value in values]
    kept = sum(value >= threshold for value in inside) / len(inside)
    return f"{kept:6.1%} {sum(value < threshold for value in outside) / len(outside):6.1%}"


def roc(inside: Sequence[float], outside: Sequence[float]) -> float:
    """The chance that a question in scope has a higher signal than one from elsewhere."""
    wins = sum((one > other) + 0.5 * (one == other) for one in inside for other in outside)
    return wins / (len(inside) * len(outside))


if __name__ == "__main__":
    main()
