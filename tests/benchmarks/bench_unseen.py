"""What maps learnt from judged questions do to questions whose answers they never saw, by how they are learnt and kept.

    python tests/benchmarks/bench_unseen.py BENCH [BENCH ...] --embedded FOLDER
        [--folds 5] [--asked 5] [--rounds 3] [--known]

BENCH and FOLDER as for bench_collections.py; token vectors are not read. Questions that share an answer are in one of
--folds parts, and --asked of these parts are asked, each with maps learnt from the others without any passage that
answers a question of the part. The hundred best passages of the base's own search are ranked anew, half by the text's
score and half by the cosine under the maps; passages beyond them are not found. Each row is the gain over the model
alone, with a paired 95 % interval. With --known only the question is held out, not its answers. The ways:

share       of the learnt way, as `eval tune --adapter` tries them
diagonal    only one weight for each number of a vector is kept, or only the 16 strongest directions
section     half of the hard negatives are passages of the answer's section or document
search      the hard negatives are the best of the whole search, not the nearest by cosine
common      nothing is learnt: the direction that all passages share is taken out of them and the questions
elsewhere   learnt from the other BENCHes, alone or as the start
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from bench_disjoint import read
from bench_quality import Vectors, interval, with_headings, write

from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import HeldVectors, ScoreKind
from context_engine.evaluation.learning.adapter_gate import KEPT
from context_engine.evaluation.learning.judged_pairs import judged_pairs
from context_engine.evaluation.questions import EvalQuestion
from context_engine.learning.contrast import DEFAULTS, Examples, Lessons, Maps, lessons_of, trained, unit
from context_engine.learning.parts import parts_of

DEPTH, FIRST, HARD = 100, 10, DEFAULTS.pool
Learn = Callable[[Any], Maps]
"""Learns maps from training pairs."""


class Ground(NamedTuple):
    """A collection: its lessons, the chunks' sections, and of each question the best chunks with the text's score."""

    name: str
    lessons: Lessons
    starts: Any
    sections: Sequence[tuple[str, ...]]
    pools: Sequence[tuple[Any, Any]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("benches", type=Path, nargs="+", metavar="BENCH")
    options.add_argument("--embedded", type=Path, required=True)
    options.add_argument("--folds", type=int, default=5)
    options.add_argument("--asked", type=int, default=5, help="of the parts, how many are asked")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--known", action="store_true")
    given = options.parse_args()
    grounds = [ground(bench, given.embedded / bench.name) for bench in given.benches]
    for own in grounds:
        answers = None if given.known else own.lessons.answers
        parts = parts_of(own.lessons.texts, answers, given.folds).places[: given.asked]
        before = np.concatenate([figures(own, part, None) for part in parts])
        print(
            f"\n{own.name}, {len(before)} questions: R@10 {before[:, 0].mean():.4f}, MAP@10 {before[:, 1].mean():.4f}"
        )
        others = [other.lessons for other in grounds if other is not own]
        for way, kept, learn in ways(own, others, given.rounds):
            learnt = [learn(pairs_without(own.lessons, part, known=given.known)) for part in parts]
            for name, keep in kept.items():
                after = np.concatenate([figures(own, part, keep(maps)) for part, maps in zip(parts, learnt)])
                gains = interval(after[:, 0] - before[:, 0]) + interval(after[:, 1] - before[:, 1])
                print(f"{way:14}{name:16}{gains}", flush=True)


def ground(bench: Path, embedded: Path) -> Ground:
    _, queries, gold = read(bench)
    passages = with_headings(bench)
    embedder = Vectors(embedded, passages, queries)
    qrels = {name: dict.fromkeys(sorted(names), 1) for name, names in gold.items()}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalBase.open(Path(folder) / "base", create=True, embedder=embedder) as base,
    ):
        write(base, {"one": passages})
        held = base.held_vectors(["one"])
        judged = judged_pairs([EvalQuestion(id=row["id"], text=row["text"]) for row in queries], qrels, held)
        lessons = lessons_of(judged.pairs, held, embedder)
        places = {chunk.chunk_id: place for place, chunk in enumerate(held.chunks)}
        pools = [pool(base, text, places) for text in lessons.texts]
    return Ground(bench.name, lessons, np.flatnonzero(np.diff(lessons.owners, prepend=-1)), sections(held), pools)


def sections(held: HeldVectors) -> list[tuple[str, ...]]:
    return [(chunk.document_id or "", *chunk.heading_path) for chunk in held.chunks]


def pool(base: LocalBase, text: str, places: Mapping[str, int]) -> tuple[Any, Any]:
    """Return the places of the best chunks of a question, and the text's share of their scores, which are halves."""
    chunks = base.answer(text, top_k=DEPTH, scope=Scope(source_id="one")).chunks
    whole = np.array([chunk.score(ScoreKind.WEIGHTED) for chunk in chunks])
    cosines = np.array([chunk.score(ScoreKind.COSINE) for chunk in chunks])
    return np.array([places[chunk.chunk_id] for chunk in chunks]), whole - np.clip(cosines, 0.0, 1.0) / 2


def pairs_without(lessons: Lessons, part: Sequence[int], *, known: bool) -> Any:
    held_out = np.zeros(len(lessons.texts), bool)
    held_out[list(part)] = True
    return lessons.of(~held_out, apart_from=None if known else held_out)


def figures(own: Ground, part: Sequence[int], maps: Maps | None) -> Any:
    """Return recall and average precision at 10 of some questions, (questions, 2)."""
    asked, passages = own.lessons.examples.questions[list(part)], own.lessons.examples.passages
    if maps is not None:
        asked, passages = unit(asked @ maps.query), unit(passages @ maps.passage)
    rows = []
    for question, place in zip(asked, part):
        chunks, text = own.pools[place]
        cosines = np.maximum.reduceat(passages @ question, own.starts)[chunks]
        best = chunks[np.argsort(-(text + np.clip(cosines, 0.0, 1.0) / 2), kind="stable")[:FIRST]]
        hits, answers = np.isin(best, own.lessons.chunks[place]), len(own.lessons.chunks[place])
        precision = (np.cumsum(hits) / np.arange(1, len(hits) + 1) * hits).sum() / answers
        rows.append((hits.sum() / answers, precision))
    return np.array(rows)


def ways(
    own: Ground, others: Sequence[Lessons], rounds: int
) -> Iterator[tuple[str, Mapping[str, Callable[[Maps], Maps]], Learn]]:
    """Yield by name how maps are learnt, and how each is kept."""
    examples = own.lessons.examples
    shares = {f"{share:.0%}": lambda maps, share=share: maps.shortened(share, None) for share in KEPT}
    shapes = {"diagonal": diagonal, "16 directions": strongest}
    yield "as it is", {**shares, **shapes}, learning(examples, rounds)
    yield "section", shares, learning(examples._replace(negatives=of_section(own)), rounds)
    yield "search", shares, learning(examples._replace(negatives=of_search(own)), rounds)
    yield "common", {"taken out": lambda maps: maps}, lambda _: without_common(examples.passages)
    if others:
        joined, pairs = together(others)
        elsewhere = learning(joined, rounds)(pairs)
        yield "elsewhere", shares, lambda _: elsewhere
        yield "elsewhere", {"then own": lambda maps: maps}, learning(examples, rounds, elsewhere)


def learning(examples: Examples, rounds: int, first: Maps | None = None) -> Learn:
    return lambda pairs: next(islice(trained(examples, pairs, seed=1, first=first), rounds - 1, None))


def diagonal(maps: Maps) -> Maps:
    return Maps(*(np.diag(np.diag(matrix)) for matrix in maps))


def strongest(maps: Maps, count: int = 16) -> Maps:
    """Return maps whose way from the identity has only its strongest directions."""
    identity = np.eye(len(maps.query), dtype=np.float32)
    parts = (np.linalg.svd(matrix - identity) for matrix in maps)
    return Maps(*(identity + (left[:, :count] * size[:count]) @ right[:count] for left, size, right in parts))


def of_section(own: Ground) -> Any:
    """Return hard negatives of each question: half from the section of an answer, or else its document."""
    within: dict[tuple[str, ...], list[int]] = {}
    for place, section in enumerate(own.sections):
        for group in {section, section[:1]}:
            within.setdefault(group, []).append(place)
    rows = []
    for place, answers in enumerate(own.lessons.chunks):
        near = [other for answer in answers for other in within[own.sections[answer]]]
        near += [other for answer in answers for other in within[own.sections[answer][:1]]]
        rows.append(negatives(own, place, list(dict.fromkeys(near)))[: HARD // 2])
    return np.concatenate([np.stack(rows), own.lessons.examples.negatives[:, : HARD // 2]], axis=1)


def of_search(own: Ground) -> Any:
    return np.stack([negatives(own, place, chunks) for place, (chunks, _) in enumerate(own.pools)])


def negatives(own: Ground, place: int, chunks: Sequence[int]) -> Any:
    """Return the vectors of chunks that do not answer a question, `HARD` of them, padded with -1."""
    texts, answers = own.lessons.examples.texts, own.lessons.examples.answers[place]
    rows = own.starts[np.asarray(chunks)]
    rows = rows[~np.isin(texts[rows], texts[list(answers)])][:HARD]
    return np.pad(rows, (0, HARD - len(rows)), constant_values=-1)


def without_common(passages: Any) -> Maps:
    direction = np.linalg.eigh(passages.T @ passages)[1][:, -1:]
    out = (np.eye(len(direction)) - direction @ direction.T).astype(np.float32)
    return Maps(out, out)


def together(others: Sequence[Lessons]) -> tuple[Examples, Any]:
    """Return the examples of several collections as those of one, and their pairs."""
    parts, pairs, questions, passages, texts = [], [], 0, 0, 0
    for lessons in others:
        some = lessons.examples
        answers = [[row + passages for row in rows] for rows in some.answers]
        hard = np.where(some.negatives < 0, -1, some.negatives + passages)
        parts.append((some.questions, some.passages, some.texts + texts, answers, hard))
        pairs.append(lessons.pairs + np.array([questions, passages]))
        questions, passages, texts = questions + len(answers), passages + len(some.texts), texts + some.texts.max() + 1
    columns = list(zip(*parts, strict=True))
    answers = [rows for each in columns[3] for rows in each]
    joined = Examples(*map(np.concatenate, columns[:3]), answers, np.concatenate(columns[4]))
    return joined, np.concatenate(pairs)


if __name__ == "__main__":
    main()
