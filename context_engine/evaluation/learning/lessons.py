"""Questions and passages as vectors: what the maps are trained on, whoever made the pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from context_engine.adapters.embedders.cache import embedded_queries
from context_engine.adapters.sources.local.held_vectors import HeldVectors
from context_engine.core.protocols import Embedder
from context_engine.evaluation.learning.contrast import Array, Examples, hard_negatives
from context_engine.evaluation.learning.training_pairs import TrainingPairs

_AT_ONCE: Final = 1024


class Lessons(NamedTuple):
    """Pairs over the chunks of a base, ready to be learnt.

    Attributes:
        texts: the questions.
        chunks: of each question the chunks that answer it, by their places among the held ones.
        examples: the same as vectors. A chunk of several vectors answers with the one nearest to the question.
        pairs: int64 (pairs, 2), questions with the vectors that answer them: one a chunk.
        owners: int64 (vectors), the chunk of each vector, ascending.
    """

    texts: list[str]
    chunks: list[list[int]]
    examples: Examples
    pairs: Array
    owners: Array

    @property
    def answers(self) -> list[set[int]]:
        """The numbers of the texts that answer each question: passages of one text are one answer."""
        return [set(self.examples.texts[list(rows)].tolist()) for rows in self.examples.answers]

    def of(self, questions: Array, *, apart_from: Array | None = None) -> Array:
        """Return the pairs of some questions.

        Args:
            questions: bool (questions).
            apart_from: bool (questions); left out is what answers one of these, or is of the same text.
        """
        kept = questions[self.pairs[:, 0]]
        texts = self.examples.texts[self.pairs[:, 1]]
        if apart_from is not None:
            kept &= ~np.isin(texts, texts[apart_from[self.pairs[:, 0]]])
        found: Array = self.pairs[kept]
        return found

    def seed(self, model_id: str) -> int:
        """Return a number made of the model's name and the digest of all questions with what answers them."""
        digest = hashlib.sha256(model_id.encode("utf-8", "surrogatepass"))
        for text, rows in zip(self.texts, self.chunks, strict=True):
            digest.update(f"\0{text}\0{rows}".encode("utf-8", "surrogatepass"))
        return int.from_bytes(digest.digest()[:8], "big")


def lessons_of(pairs: TrainingPairs, held: HeldVectors, embedder: Embedder) -> Lessons:
    """Return pairs as lessons, in their order; a question without an answer is held, and teaches nothing.

    Args:
        pairs: their passages are places among the held chunks.
        held: the chunks and vectors of the base.
        embedder: that of the base.

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
    """Return the vector of each question, float32; as Python's floats a part of them is held at a time."""
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
    """Return rows at unit length; one of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Array = vectors / np.where(lengths > 0.0, lengths, 1.0)
    return found
