"""Cross-validation of maps: each part of the questions is ranked by maps trained on the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from context_engine.evaluation.metrics import measured
from context_engine.learning.contrast import Lessons, Maps, trained, unit

MOST_ROUNDS: Final = 6
"""More rounds no longer improve the answers to held-out questions."""

_DEPTH: Final = 10
_BLOCK: Final = 256
Values = Mapping[int, Mapping[str, float]]
"""The place of a question to its measures."""


class Fold(NamedTuple):
    """Held-out questions, and the maps learnt from the others.

    Attributes:
        questions: places of the questions among the lessons.
        rounds: number of rounds that was best on the other folds.
        maps: maps after `rounds` rounds; the starting maps if 0; None: the model alone.
    """

    questions: tuple[int, ...]
    rounds: int
    maps: Maps | None


class Folds(NamedTuple):
    """The results of all folds.

    Attributes:
        folds: one for each part of the questions.
        rounds: number of rounds that was best over all folds.
        dense: measures of the held-out questions ranked by cosine only, after 0, 1, 2 … rounds.
    """

    folds: list[Fold]
    rounds: int
    dense: list[Values]

    def shortened(self, share: float, start: Maps | None, lessons: Lessons, measures: Sequence[str]) -> Folds:
        """Return the folds with a share of the way that their maps went from the start, ranked by these."""
        folds = [
            fold if fold.maps is None else fold._replace(maps=fold.maps.shortened(share, start)) for fold in self.folds
        ]
        dense = [dict(values) for values in self.dense]
        for fold in folds:
            dense[fold.rounds] |= dense_values(lessons, fold.questions, fold.maps, measures)
        return Folds(folds, self.rounds, [*dense])


def learn_by_folds(
    lessons: Lessons,
    parts: Sequence[Sequence[int]],
    *,
    measures: Sequence[str],
    seed: int,
    rounds: int | None = None,
    apart: bool = False,
    first: Maps | None = None,
) -> Folds:
    """Hold out each part of the questions once and learn from the others.

    If `rounds` is None, the number of rounds for a fold is chosen on the other folds, so that its own questions do not
    influence it.

    Args:
        parts: disjoint places of questions; every fold also learns the questions in no part.
        measures: names of ir_measures; the first chooses the rounds, on the ranking by cosine.
        seed, first: see `trained`.
        rounds: the number of rounds; None: chosen.
        apart: whether to exclude from training also the passages that answer a question of the fold. The fold then
            measures learning of the language, not of the passages.
    """
    most = MOST_ROUNDS if rounds is None else rounds
    values: list[dict[int, Mapping[str, float]]] = [{} for _ in range(most + 1)]
    maps: list[list[Maps | None]] = []
    for part in parts:
        held_out = np.zeros(len(lessons.texts), bool)
        held_out[list(part)] = True
        pairs = lessons.of(~held_out, apart_from=held_out if apart else None)
        learnt = islice(trained(lessons.examples, pairs, seed=seed, first=first), most)
        maps.append([first, *(learnt if len(pairs) else ())])
        for done, tried in enumerate(maps[-1]):
            values[done] |= dense_values(lessons, part, tried, measures)
    folds = []
    for part, fold_maps in zip(parts, maps, strict=True):
        others = [place for other in parts if other is not part for place in other]
        chosen = best_rounds(values[: len(fold_maps)], others, measures[0]) if rounds is None else rounds
        chosen = min(chosen, len(fold_maps) - 1)
        folds.append(Fold(tuple(part), chosen, fold_maps[chosen]))
    everywhere = [place for part in parts for place in part]
    return Folds(folds, best_rounds(values, everywhere, measures[0]) if rounds is None else rounds, list(values))


def learn_all(lessons: Lessons, rounds: int, *, seed: int, first: Maps | None = None) -> Maps:
    """Return the maps after some rounds over all pairs.

    Args:
        rounds: >= 1.
        seed, first: see `trained`.
    """
    rounds_of_maps = trained(lessons.examples, lessons.pairs, seed=seed, first=first)
    return next(islice(rounds_of_maps, rounds - 1, None))


def best_rounds(values: Sequence[Values], questions: Sequence[int], measure: str) -> int:
    """Return the number of rounds with the best mean measure over some questions; the smallest among equals."""
    means = [sum(by_question[place][measure] for place in questions if place in by_question) for by_question in values]
    return means.index(max(means))


def dense_values(
    lessons: Lessons, part: Sequence[int], maps: Maps | None, measures: Sequence[str]
) -> dict[int, Mapping[str, float]]:
    """Return the measures of some questions ranked by cosine only; see `dense_rankings`."""
    rankings = {str(place): list(map(str, rows)) for place, rows in dense_rankings(lessons, part, maps).items()}
    qrels = {str(place): dict.fromkeys(map(str, lessons.chunks[place]), 1) for place in part}
    return {int(place): value for place, value in measured(rankings, qrels, measures).items()}


def dense_rankings(lessons: Lessons, questions: Sequence[int], maps: Maps | None) -> dict[int, list[int]]:
    """Return the ten chunks nearest to each question, best first; a chunk is as near as its nearest vector.

    Args:
        questions: places of the questions among the lessons.
        maps: None: the model alone.
    """
    asked, passages = lessons.examples.questions[list(questions)], lessons.examples.passages
    if maps is not None:
        asked, passages = unit(asked @ maps.query), unit(passages @ maps.passage)
    starts = np.flatnonzero(np.diff(lessons.owners, prepend=-1))
    out: dict[int, list[int]] = {}
    for start in range(0, len(asked), _BLOCK):
        cosines = asked[start : start + _BLOCK] @ passages.T
        if len(starts) < cosines.shape[1]:
            cosines = np.maximum.reduceat(cosines, starts, axis=1)
        depth = min(_DEPTH, cosines.shape[1])
        nearest = np.argpartition(-cosines, depth - 1, axis=1)[:, :depth]
        order = np.argsort(-np.take_along_axis(cosines, nearest, axis=1), axis=1, kind="stable")
        rows = lessons.owners[starts][np.take_along_axis(nearest, order, axis=1)]
        out |= dict(zip(questions[start : start + _BLOCK], rows.tolist()))
    return out
