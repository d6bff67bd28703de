"""Train two linear maps that bring questions close to the passages that answer them; needs only numpy.

For a question q with an answer p and other passages n,

    loss = -ln( exp(cos(qA, pB) / t) / (exp(cos(qA, pB) / t) + sum over n of exp(cos(qA, nB) / t)) )

(InfoNCE: van den Oord, Li and Vinyals 2018). The other passages are the answers of the batch's other questions, and
hard negatives that the model itself finds near. Both maps begin as the identity and are pulled back to it, because a
bank has hundreds of questions and a map has a hundred thousand numbers. In the end only a share of the distance from
the identity is kept, which costs little on seen questions and protects unseen ones (Wortsman et al. 2022). The gradient
is written out; the steps are Adam's (Kingma and Ba 2015).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from context_engine.adapters.embedders.cache import embedded_queries
from context_engine.core.models import HeldVectors
from context_engine.core.protocols import Embedder
from context_engine.learning.pairs import TrainingPairs

Array = np.ndarray[Any, Any]
_FIRST: Final = 0.9
_SECOND: Final = 0.999
_TINY: Final = 1e-8
_NEVER: Final = -1e9
_BLOCK: Final = 256
_LEAST_STEPS: Final = 30


class Contrast(NamedTuple):
    """How the maps are trained.

    Attributes:
        temperature: divisor of the cosines, > 0; the smaller, the more the nearest negatives count.
        hard: hard negatives per answer and step, drawn from the `pool` passages nearest to its question.
        batch: answers per step.
        rate: Adam's step times the square root of the dimension, so that it moves vectors of any length equally far.
        pull: weight of half the squared distance of both maps from their start.
        share: the share of the way from the start that is kept in the end, (0, 1].
    """

    temperature: float = 0.05
    hard: int = 8
    pool: int = 40
    batch: int = 128
    rate: float = 0.01
    pull: float = 0.1
    share: float = 0.7


DEFAULTS: Final = Contrast()


class Examples(NamedTuple):
    """The training examples.

    Attributes:
        questions: float32 (questions, dimension), unit length.
        passages: float32 (passages, dimension), unit length.
        texts: int64 (passages), equal for equal texts: a passage is no negative if a passage of equal text is an
            answer.
        answers: the rows of `passages` that answer each question.
        negatives: int64 (questions, pool), rows near each question that do not answer it, padded with -1.
    """

    questions: Array
    passages: Array
    texts: Array
    answers: Sequence[Sequence[int]]
    negatives: Array


class Maps(NamedTuple):
    """float32 (dimension, dimension), each applied from the right: to questions, to passages."""

    query: Array
    passage: Array

    def shortened(self, share: float, start: Maps | None) -> Maps:
        """Return maps that went only a share of the way from their start; None: the identity."""
        begun = _begun(len(self.query), start)
        return Maps(*(begun + np.float32(share) * (np.stack(self) - begun)))


def hard_negatives(
    questions: Array, passages: Array, texts: Array, answers: Sequence[Sequence[int]], pool: int = DEFAULTS.pool
) -> Array:
    """Return for each question the rows of the `pool` nearest passages, nearest first, without its answers.

    Args:
        questions, passages, texts, answers: see `Examples`.
        pool: number of nearest passages; -1 replaces each that answers.
    """
    rows = np.full((len(questions), pool), -1, np.int64)
    pool = min(pool, len(passages))
    for start in range(0, len(questions), _BLOCK):
        cosines = questions[start : start + _BLOCK] @ passages.T
        nearest = np.argpartition(-cosines, pool - 1, axis=1)[:, :pool]
        order = np.argsort(-np.take_along_axis(cosines, nearest, axis=1), axis=1, kind="stable")
        for place, near in enumerate(np.take_along_axis(nearest, order, axis=1), start):
            kept = near[~np.isin(texts[near], texts[list(answers[place])])]
            rows[place, : len(kept)] = kept
    return rows


def trained(
    examples: Examples, pairs: Array, how: Contrast = DEFAULTS, *, seed: int, first: Maps | None = None
) -> Iterator[Maps]:
    """Yield the maps after each round, without end; a round shows every pair at least once.

    A round has at least 30 steps, so that a hundred pairs are learnt as well as a thousand. Equal examples, pairs and
    seed give equal maps on one machine.

    Args:
        pairs: int64 (pairs, 2), question and row of its answer; at least one.
        seed: for the order of the pairs and the draws of hard negatives.
        first: the start of the maps, to which they are pulled back; None: the identity.
    """
    begun = _begun(examples.questions.shape[1], first)
    maps, mean, square, steps = begun, np.zeros_like(begun), np.zeros_like(begun), 0
    random = np.random.default_rng(seed)
    step = how.rate / np.sqrt(begun.shape[1])
    epochs = -(-_LEAST_STEPS // -(-len(pairs) // how.batch))
    while True:
        for shown in _shuffled(pairs, epochs, how.batch, random):
            batch = _batch(examples, shown, how.hard, random)
            _, gradient = loss_and_gradient(maps, *batch, how.temperature)
            gradient += how.pull * (maps - begun)
            steps += 1
            mean = _FIRST * mean + (1.0 - _FIRST) * gradient
            square = _SECOND * square + (1.0 - _SECOND) * gradient * gradient
            rate = np.float32(step * np.sqrt(1.0 - _SECOND**steps) / (1.0 - _FIRST**steps))
            maps = maps - rate * mean / (np.sqrt(square) + np.float32(_TINY))
        yield Maps(*maps).shortened(how.share, first)


def _begun(dimension: int, start: Maps | None) -> Array:
    """Return both maps of a start as one array, (2, dimension, dimension)."""
    identity = np.eye(dimension, dtype=np.float32)
    return np.stack([identity, identity] if start is None else start)


def _shuffled(pairs: Array, epochs: int, batch: int, random: np.random.Generator) -> Iterator[Array]:
    """Yield all pairs `epochs` times in batches, each time in another order."""
    for _ in range(epochs):
        order = random.permutation(len(pairs))
        for start in range(0, len(pairs), batch):
            yield pairs[order[start : start + batch]]


def _batch(examples: Examples, pairs: Array, hard: int, random: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return the questions of some answers, these answers with hard negatives, and a mask of passages that are not
    negatives.
    """
    asked, answers = pairs.T
    drawn = random.random((len(pairs), examples.negatives.shape[1]), np.float32)
    drawn[examples.negatives[asked] < 0] = 2.0
    places = np.argsort(drawn, axis=1)[:, :hard]
    chosen = np.unique(np.take_along_axis(examples.negatives[asked], places, axis=1))
    rows = np.concatenate([answers, chosen[chosen >= 0]])
    texts = examples.texts[rows]
    left_out = np.zeros((len(asked), len(rows)), bool)
    for place, question in enumerate(asked):
        for answer in examples.answers[question]:
            left_out[place] |= texts == examples.texts[answer]
    np.fill_diagonal(left_out, False)
    return examples.questions[asked], examples.passages[rows], left_out


def loss_and_gradient(
    maps: Array, questions: Array, passages: Array, left_out: Array, temperature: float
) -> tuple[float, Array]:
    """Return the mean loss of a batch and its gradient by both maps, (2, dimension, dimension).

    Args:
        maps: (2, dimension, dimension), the questions' first.
        questions: (questions, dimension).
        passages: (passages, dimension); row i answers question i, further rows are negatives.
        left_out: bool (questions, passages), passages that are not negatives of a question.
        temperature: see `Contrast`.
    """
    asked, asked_lengths = _unit(questions @ maps[0])
    mapped_passages, passage_lengths = _unit(passages @ maps[1])
    logits = asked @ mapped_passages.T / temperature
    logits[left_out] = _NEVER
    logits -= logits.max(axis=1, keepdims=True)
    shares = np.exp(logits)
    sums = shares.sum(axis=1)
    places = np.arange(len(questions))
    loss = float((np.log(sums) - logits[places, places]).mean())
    shares /= sums[:, None]
    shares[places, places] -= 1.0
    shares /= len(questions) * temperature
    by_query = questions.T @ _through_unit(shares @ mapped_passages, asked, asked_lengths)
    by_passage = passages.T @ _through_unit(shares.T @ asked, mapped_passages, passage_lengths)
    return loss, np.stack([by_query, by_passage])


def _unit(vectors: Array) -> tuple[Array, Array]:
    """Return the vectors scaled to unit length, and their lengths."""
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _TINY)
    return vectors / lengths, lengths


def _through_unit(gradient: Array, unit: Array, lengths: Array) -> Array:
    """Return the gradient with respect to a vector, given that with respect to its unit vector."""
    across: Array = gradient - (gradient * unit).sum(axis=1, keepdims=True) * unit
    return across / lengths


_AT_ONCE: Final = 1024


class Lessons(NamedTuple):
    """Training pairs over the chunks of a store, as vectors.

    Attributes:
        texts: the questions.
        chunks: the places of the chunks that answer each question.
        examples: the same as vectors; a chunk with several vectors answers with the one nearest to the question.
        pairs: int64 (pairs, 2), question and answering vector, one per chunk.
        owners: int64 (vectors), the chunk of each vector, ascending.
    """

    texts: list[str]
    chunks: list[list[int]]
    examples: Examples
    pairs: Array
    owners: Array

    @property
    def answers(self) -> list[set[int]]:
        """The numbers of the texts that answer each question; passages of equal text are one answer."""
        return [set(self.examples.texts[list(rows)].tolist()) for rows in self.examples.answers]

    def of(self, questions: Array, *, apart_from: Array | None = None) -> Array:
        """Return the pairs of some questions.

        Args:
            questions: bool (questions).
            apart_from: bool (questions); passages that answer one of these, or are of equal text, are left out.
        """
        kept = questions[self.pairs[:, 0]]
        texts = self.examples.texts[self.pairs[:, 1]]
        if apart_from is not None:
            kept &= ~np.isin(texts, texts[apart_from[self.pairs[:, 0]]])
        pairs: Array = self.pairs[kept]
        return pairs

    def seed(self, model_id: str) -> int:
        """Return a seed from the model's name and the digest of all questions with their answers."""
        digest = hashlib.sha256(model_id.encode("utf-8", "surrogatepass"))
        for text, rows in zip(self.texts, self.chunks, strict=True):
            digest.update(f"\0{text}\0{rows}".encode("utf-8", "surrogatepass"))
        return int.from_bytes(digest.digest()[:8], "big")


def lessons_of(pairs: TrainingPairs, held: HeldVectors, embedder: Embedder) -> Lessons:
    """Return pairs as lessons, in their order; a question without an answer stays and teaches nothing.

    Args:
        pairs: their passages are places among the chunks of `held`.
        embedder: of the store.

    Raises:
        EmbedderError: it failed.
    """
    questions = unit(_embedded(pairs.questions, embedder))
    owners = np.repeat(np.arange(len(held.lengths)), held.lengths)
    starts = np.concatenate(([0], np.cumsum(held.lengths)))
    texts = text_numbers(held.contents)[owners]
    rows = [
        [_nearest(question, held.parts, starts, chunk) for chunk in chunks]
        for question, chunks in zip(questions, pairs.passages, strict=True)
    ]
    negatives = hard_negatives(questions, held.parts, texts, rows)
    examples = Examples(questions, held.parts, texts, rows, negatives)
    learnt = np.array([(place, row) for place, own in enumerate(rows) for row in own], np.int64).reshape(-1, 2)
    return Lessons(pairs.questions, pairs.passages, examples, learnt, owners)


def _embedded(texts: Sequence[str], embedder: Embedder) -> Array:
    """Return the vector of each question, float32; embedded in parts, because Python floats take much memory."""
    parts = [
        np.asarray(embedded_queries(embedder, texts[start : start + _AT_ONCE]), np.float32)
        for start in range(0, len(texts), _AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.empty((0, embedder.dimension), np.float32)


def _nearest(question: Array, parts: Array, starts: Array, chunk: int) -> int:
    """Return the vector of a chunk that is nearest to a question."""
    first, end = int(starts[chunk]), int(starts[chunk + 1])
    return first if end - first == 1 else first + int(np.argmax(parts[first:end] @ question))


def text_numbers(texts: Sequence[str]) -> Array:
    """Return a number for each text, int64; equal texts have the same."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(text, len(known)) for text in texts], np.int64)


def unit(vectors: Array) -> Array:
    """Return rows scaled to unit length; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Array = vectors / np.where(lengths > 0.0, lengths, 1.0)
    return scaled
