"""Two linear maps that bring questions to the passages that answer them, trained by contrast; numpy alone.

For a question q with an answer p and other passages n,

    loss = -ln( exp(cos(qA, pB) / t) / (exp(cos(qA, pB) / t) + sum over n of exp(cos(qA, nB) / t)) )

(InfoNCE: van den Oord, Li and Vinyals 2018), whose others are the answers of the other questions of its batch and hard
ones, which the model itself holds for near. Both maps begin as the identity and are pulled back to it, for a bank has
hundreds of questions and a map has a hundred thousand numbers. The gradient is written out; the steps are Adam's
(Kingma and Ba 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["Contrast", "Examples", "Maps", "hard_negatives", "loss_and_gradient", "train"]

Array = np.ndarray[Any, Any]

_FIRST: Final = 0.9
_SECOND: Final = 0.999
_TINY: Final = 1e-8
_NEVER: Final = -1e9
_BLOCK: Final = 256


class Contrast(NamedTuple):
    """How the maps are trained.

    Attributes:
        temperature: what cosines are divided by, > 0; the smaller, the more the nearest of the others count.
        hard: hard negatives of a question and step; `pool` of so many that the model finds nearest they are drawn.
        batch: answers a step.
        rate: Adam's step.
        pull: weight of half the squared distance of both maps from the identity.
        epochs: times each answer is shown, at most.
    """

    temperature: float = 0.05
    hard: int = 8
    pool: int = 40
    batch: int = 128
    rate: float = 5e-4
    pull: float = 0.01
    epochs: int = 8


class Examples(NamedTuple):
    """What is learnt from.

    Attributes:
        questions: float32 (questions, dimension), unit length.
        passages: float32 (passages, dimension), unit length.
        answers: of each question the rows of `passages` that answer it, at least one.
        negatives: int64 (questions, pool), rows near each question that do not answer it; -1 fills a short row.
    """

    questions: Array
    passages: Array
    answers: Sequence[Sequence[int]]
    negatives: Array


class Maps(NamedTuple):
    """float32 (dimension, dimension), each applied from the right: to questions, to passages."""

    query: Array
    passage: Array


def hard_negatives(questions: Array, passages: Array, answers: Sequence[Sequence[int]], pool: int) -> Array:
    """Return of each question the rows of the `pool` nearest passages that neither are nor equal one of its answers.

    Args:
        questions, passages, answers: see `Examples`.
        pool: nearest passages looked at; those left are the row, -1 behind them.
    """
    found = np.full((len(questions), pool), -1, np.int64)
    pool, texts = min(pool, len(passages)), same_text(passages)
    for start in range(0, len(questions), _BLOCK):
        cosines = questions[start : start + _BLOCK] @ passages.T
        nearest = np.argpartition(-cosines, pool - 1, axis=1)[:, :pool]
        nearest = np.take_along_axis(nearest, np.argsort(-np.take_along_axis(cosines, nearest, 1), axis=1), 1)
        for place, near in enumerate(nearest, start):
            kept = near[~np.isin(texts[near], texts[list(answers[place])])]
            found[place, : len(kept)] = kept
    return found


def same_text(passages: Array) -> Array:
    """Return a number for each passage, int64; those of exactly the same vector have the same."""
    _, numbers = np.unique(
        np.ascontiguousarray(passages).view(f"V{passages.itemsize * passages.shape[1]}"), return_inverse=True
    )
    return np.asarray(numbers, np.int64).ravel()


def train(
    examples: Examples,
    how: Contrast,
    *,
    seed: int,
    each: Callable[[int, Maps], bool] | None = None,
) -> Maps:
    """Return the maps after the last epoch, the same for the same examples in the same order and the same seed.

    Args:
        seed: of the order of the answers and the draws of hard negatives.
        each: told of every epoch, from 1, and the maps after it; returns whether to go on.
    """
    dimension = examples.questions.shape[1]
    maps = np.stack([np.eye(dimension, dtype=np.float32)] * 2)
    steps, first, second = 0, np.zeros_like(maps), np.zeros_like(maps)
    random = np.random.default_rng(seed)
    texts = same_text(examples.passages)
    pairs = np.array([(number, row) for number, rows in enumerate(examples.answers) for row in rows], np.int64)
    for epoch in range(1, how.epochs + 1):
        shuffled = pairs[random.permutation(len(pairs))]
        for start in range(0, len(pairs), how.batch):
            batch = _batch(examples, texts, shuffled[start : start + how.batch], how, random)
            _, gradient = loss_and_gradient(maps, *batch, how.temperature)
            gradient += how.pull * (maps - np.eye(dimension, dtype=np.float32))
            steps += 1
            first = _FIRST * first + (1.0 - _FIRST) * gradient
            second = _SECOND * second + (1.0 - _SECOND) * gradient * gradient
            rate = how.rate * np.sqrt(1.0 - _SECOND**steps) / (1.0 - _FIRST**steps)
            maps = (maps - rate * first / (np.sqrt(second) + _TINY)).astype(np.float32)
        if each is not None and not each(epoch, Maps(*maps)):
            break
    return Maps(*maps)


def _batch(
    examples: Examples, texts: Array, pairs: Array, how: Contrast, random: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Return the questions of some answers, these answers and the hard negatives, and which others do not count."""
    asked, answers = pairs.T
    drawn = random.random((len(pairs), examples.negatives.shape[1]), np.float32)
    drawn[examples.negatives[asked] < 0] = 2.0
    places = np.argsort(drawn, axis=1)[:, : how.hard]
    chosen = np.unique(np.take_along_axis(examples.negatives[asked], places, axis=1))
    rows = np.concatenate([answers, chosen[chosen >= 0]])
    left_out = np.stack([np.isin(texts[rows], texts[list(examples.answers[one])]) for one in asked])
    np.fill_diagonal(left_out, False)
    return examples.questions[asked], examples.passages[rows], left_out


def loss_and_gradient(
    maps: Array, questions: Array, passages: Array, left_out: Array, temperature: float
) -> tuple[float, Array]:
    """Return the mean loss of a batch and its gradient by both maps, (2, dimension, dimension).

    Args:
        maps: (2, dimension, dimension), the questions' first.
        questions: (questions, dimension); the answer of each stands at its place in `passages`.
        passages: (passages, dimension), at least as many.
        left_out: bool (questions, passages), passages that are no negatives of a question.
    """
    count = len(questions)
    asked, asked_length = _unit(questions @ maps[0])
    found, found_length = _unit(passages @ maps[1])
    logits = asked @ found.T / temperature
    logits[left_out] = _NEVER
    logits -= logits.max(axis=1, keepdims=True)
    shares = np.exp(logits)
    sums = shares.sum(axis=1, keepdims=True)
    places = np.arange(count)
    loss = float((np.log(sums[:, 0]) - logits[places, places]).mean())
    shares /= sums
    shares[places, places] -= 1.0
    shares /= count * temperature
    by_query = questions.T @ _through_unit(shares @ found, asked, asked_length)
    by_passage = passages.T @ _through_unit(shares.T @ asked, found, found_length)
    return loss, np.stack([by_query, by_passage])


def _unit(vectors: Array) -> tuple[Array, Array]:
    """Return vectors at unit length, and their lengths."""
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _TINY)
    return vectors / lengths, lengths


def _through_unit(gradient: Array, unit: Array, lengths: Array) -> Array:
    """Return the gradient by a vector from that by the vector at unit length."""
    across: Array = gradient - (gradient * unit).sum(axis=1, keepdims=True) * unit
    return across / lengths
