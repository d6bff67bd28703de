"""Fakes for tests: a clock with a fixed date, a scripted source, a reranker and an embedder."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from math import sqrt

from context_engine.core.models import Chunk, ScoreKind, SourceAnswer, SourceQuery
from context_engine.core.protocols import TokenVectors
from context_engine.core.text import terms


class FixedClock:
    """A clock with a fixed date; `monotonic` is real, so that time limits work."""

    def __init__(self, moment: datetime = datetime(2026, 3, 2, 10, tzinfo=UTC)) -> None:
        self._moment = moment

    def now(self) -> datetime:
        """Return the fixed date and time."""
        return self._moment

    def monotonic(self) -> float:
        """Return real seconds."""
        return time.monotonic()


class ScriptedSource:
    """A source that returns fixed chunks, raises a given error, or waits for `release`.

    Args:
        chunks: the answer, cut at top_k.
        error: raised instead of an answer.
        hang: whether to wait for `release` before answering.
    """

    def __init__(
        self,
        source_id: str,
        chunks: Sequence[Chunk] = (),
        *,
        error: BaseException | None = None,
        hang: bool = False,
        score_kinds: frozenset[ScoreKind] = frozenset(ScoreKind),
    ) -> None:
        self.source_id, self.score_kinds = source_id, score_kinds
        self.queries: list[SourceQuery] = []
        self.release = threading.Event()
        self._chunks, self._error, self._hang = tuple(chunks), error, hang

    def search(self, query: SourceQuery) -> SourceAnswer:
        """Append the query to `queries` and answer as scripted."""
        self.queries.append(query)
        if self._hang:
            self.release.wait()
        if self._error is not None:
            raise self._error
        return SourceAnswer(chunks=self._chunks[: query.top_k], cut=max(len(self._chunks) - query.top_k, 0))

    def close(self) -> None:
        """Release a hanging call."""
        self.release.set()


class FakeReranker:
    """A reranker that scores by a table of text to score; other texts get 0."""

    name = "fake"

    def __init__(self, scores: Mapping[str, float]) -> None:
        self._scores = dict(scores)

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float]:
        """Return the scores of the chunks from the table."""
        return [self._scores.get(chunk.content, 0.0) for chunk in chunks]


class FakeEmbedder:
    """An embedder that hashes terms into a unit vector: texts that share terms are close. Deterministic, no model."""

    def __init__(self, dimension: int = 64) -> None:
        self.dimension = dimension
        self.model_id = f"fake-{dimension}"

    def embed_query(self, text: str) -> Sequence[float]:
        """Return the vector of a text; all zeros if it has no terms."""
        vector = [0.0] * self.dimension
        for term in terms(text):
            place, sign = self._hashed(term)
            vector[place] += sign
        length = sqrt(sum(value * value for value in vector))
        return [value / length for value in vector] if length else vector

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text."""
        return [self.embed_query(text) for text in texts]

    def embed_tokens(self, texts: Sequence[str], *, query: bool = False) -> Sequence[TokenVectors]:
        """Return the terms of each text with a vector for each term."""
        return [TokenVectors(words, self.embed_documents(words)) for words in map(terms, texts)]

    def _hashed(self, term: str) -> tuple[int, float]:
        digest = int.from_bytes(blake2b(term.encode(), digest_size=8).digest(), "big")
        return digest % self.dimension, 1.0 if digest >> 63 else -1.0
