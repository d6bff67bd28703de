"""How many near misses are marked or refused: questions like those that a base answers, but without an answer in it.

    python tests/benchmarks/bench_near_miss.py BENCH_DIR [BENCH_DIR ...] [--groups FILE] [--sizes 100 1000]
        [--queries 400] [--vectors FOLDER --model FOLDER]

BENCH_DIRs and --vectors as for bench_scope.py; --model is a folder with an embedding model in ONNX form, which embeds
sentences of the base. FILE lists exact duplicates, one "passage<TAB>the passage it repeats" a line.

Each collection is searched whole, in parts of --sizes passages, and "without": passages that answer questions are left
out, with their duplicates, until a third of the questions has no answer. Asked are

answerable  questions with a relevant passage in the base
same        questions of the same collection without one: the hardest near misses
other       100 questions of each other BENCH_DIR
everyday    the questions of everyday_questions.txt, and those that ship and took no part in the calibration

The rows are shares that are marked or refused, by the best signals among 40 candidates:

today       the absolute signal is below the calibrated scope threshold: refused
marked      today's, or the evidence is below the calibrated near-miss threshold
oracle      for comparison, below the value that 98.5 % of the answerable questions reach: the absolute signal, or the
            evidence

Last come the means over all bases, and the differences between marked and today with paired 95 % intervals.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from bench_calibration import DOMAIN, part
from bench_quality import DEPTH, Vectors, _letters, interval, write
from bench_scope import SPEC, Collection, Question, collection

from context_engine.adapters.embedders.onnx import OnnxOptions, load_encoder
from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.local.search import Scope
from context_engine.core.models import RawAnswer, ScopeCalibration
from context_engine.core.ranking.candidates import pool
from context_engine.core.ranking.relevance import measure
from context_engine.learning.calibration import _MOMENT, calibrate, outside_questions

KEPT = 0.985
CALIBRATED_WITH = outside_questions()[::2]
KINDS = ("answerable", "same", "other", "everyday")
RULES = ("today", "marked", "oracle absolute", "oracle evidence")
FEWEST = 20

Marks = Mapping[str, Mapping[str, Any]]
"""By rule and kind of question: whether each question is marked or refused."""


class Base(NamedTuple):
    """Passages of a collection, and the questions to ask of them by kind."""

    name: str
    passages: list[dict[str, Any]]
    asked: Mapping[str, Sequence[Question]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("benches", type=Path, nargs="+", metavar="BENCH_DIR")
    options.add_argument("--groups", type=Path)
    options.add_argument("--sizes", type=int, nargs="*", default=[100, 1000])
    options.add_argument("--queries", type=int, default=400)
    options.add_argument("--vectors", type=Path)
    options.add_argument("--model", type=Path)
    given = options.parse_args()
    if (given.vectors is None) != (given.model is None):
        options.error("--vectors and --model belong together")
    groups = {} if given.groups is None else dict(map(str.split, given.groups.read_text("utf-8").splitlines()))
    print(f"{'':42}" + "".join(f"{kind:>12}" for kind in KINDS), flush=True)
    all_marks: dict[str, list[Marks]] = defaultdict(list)
    for bench in given.benches:
        whole = collection(bench, given.benches, given.vectors, 10**6)
        if whole.embedder is not None:
            learn(whole.embedder, given.model)
        for base in bases(whole, given.sizes, groups, given.queries):
            for mode, marks in measured(base, whole.embedder):
                all_marks[mode].append(marks)
                for rule in RULES:
                    print(f"{base.name:16}{mode:10}{rule:16}" + row([marks], rule), flush=True)
    for mode, of_bases in all_marks.items():
        for rule in RULES:
            print(f"{'mean':16}{mode:10}{rule:16}" + row(of_bases, rule))
        for kind in KINDS:
            print(f"{mode:10} marked - today, {kind:10} {gain(of_bases, kind)}")


def learn(embedder: Vectors, model: Path) -> None:
    """Have the embedder embed what it does not know."""
    encoder, known = load_encoder(OnnxOptions(folder=model)), embedder.embed_query

    def embed(text: str) -> Any:
        if _letters(text) not in embedder._of:
            embedder.know([text], np.asarray(encoder.encode([text]), np.float32))
        return known(text)

    embedder.embed_query = embed  # type: ignore[method-assign]


def bases(whole: Collection, sizes: Sequence[int], groups: Mapping[str, str], most: int) -> Iterator[Base]:
    """Yield the whole collection, the one without the answers of a third of its questions, and parts of it."""
    yield base_of(whole, f"{whole.name[:9]} whole", whole.passages, groups, most)
    yield base_of(whole, f"{whole.name[:9]} without", without_answers(whole, groups), groups, most)
    for size in sizes:
        if size < len(whole.passages):
            yield base_of(whole, f"{whole.name[:9]} {size}", part(whole, size, most).passages, groups, most)


def without_answers(whole: Collection, groups: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the passages without those that answer some questions, and without duplicates of them."""
    answers = {asked: {groups.get(id_, id_) for id_ in whole.gold[asked]} for asked, _ in whole.inside}
    gone: set[str] = set()
    for asked in random.Random(5).sample(list(answers), len(answers)):
        if 3 * sum(ids <= gone for ids in answers.values()) >= len(answers):
            break
        gone |= answers[asked]
    return [row for row in whole.passages if groups.get(row["id"], row["id"]) not in gone]


def base_of(whole: Collection, name: str, passages: list[dict[str, Any]], groups: Mapping[str, str], most: int) -> Base:
    ids = {groups.get(row["id"], row["id"]) for row in passages}
    has_answer = {asked: any(groups.get(id_, id_) in ids for id_ in whole.gold[asked]) for asked, _ in whole.inside}

    def some(questions: Sequence[Question]) -> Sequence[Question]:
        return random.Random(7).sample(questions, min(most, len(questions)))

    asked = {
        "answerable": some([question for question in whole.inside if has_answer[question[0]]]),
        "same": some([question for question in whole.inside if not has_answer[question[0]]]),
        "other": whole.outside["other collections"],
        "everyday": [*whole.outside["shipped"][1::2], *whole.outside["everyday"]],
    }
    return Base(name, passages, asked)


def measured(base: Base, embedder: Vectors | None) -> Iterator[tuple[str, Marks]]:
    """Yield, words alone and with vectors, what is marked by each rule."""
    with tempfile.TemporaryDirectory() as folder:
        with LocalBase.open(Path(folder), create=True, embedder=embedder) as written:
            write(written, {"one": base.passages})
            calibrations = calibrate(written, DOMAIN, outside=CALIBRATED_WITH)
        for calibration in calibrations:
            with LocalBase(Path(folder), embedder=embedder if calibration.model_id else None) as searched:
                signals = {
                    kind: np.array([best_signals(searched, text) for _, text in questions]).reshape(-1, 2)
                    for kind, questions in base.asked.items()
                }
            yield "vectors" if calibration.model_id else "words", marked(signals, calibration)


def best_signals(base: LocalBase, text: str) -> tuple[float, float]:
    """Return the best absolute signal and the best evidence among the candidates of a question."""
    answer = base.answer(text, top_k=DEPTH, scope=Scope(source_id="one"))
    raw = RawAnswer(source_id="one", chunks=tuple(answer.chunks), retrieved_at=_MOMENT)
    statistics = {} if answer.statistics is None else {"one": answer.statistics}
    signals = measure(text, pool([(SPEC, raw)])[0], statistics)
    return max(signals.absolute, default=0.0), max(signals.evidence, default=0.0)


def marked(signals: Mapping[str, Any], calibration: ScopeCalibration) -> Marks:
    least = np.quantile(signals["answerable"], 1 - KEPT, axis=0)
    rules: dict[str, Callable[[Any], Any]] = {
        "today": lambda values: values[:, 0] < calibration.threshold,
        "marked": lambda values: (values < [calibration.threshold, calibration.near_miss]).any(axis=1),
        "oracle absolute": lambda values: values[:, 0] < least[0],
        "oracle evidence": lambda values: values[:, 1] < least[1],
    }
    return {rule: {kind: is_marked(signals[kind]) for kind in KINDS} for rule, is_marked in rules.items()}


def row(of_bases: Sequence[Marks], rule: str) -> str:
    """Return the share of each kind of question that is marked, as the mean over bases with enough of them."""
    shares = ([marks[rule][kind].mean() for marks in of_bases if len(marks[rule][kind]) >= FEWEST] for kind in KINDS)
    return "".join(f"{np.mean(values):12.3f}" if values else f"{'':12}" for values in shares)


def gain(of_bases: Sequence[Marks], kind: str) -> str:
    before, after = (np.concatenate([marks[rule][kind] for marks in of_bases]) for rule in ("today", "marked"))
    return f"{len(before):6} questions {interval(after.astype(float) - before)}"


if __name__ == "__main__":
    main()
