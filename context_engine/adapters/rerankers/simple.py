"""Rerankers without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from context_engine.core.models import Chunk

Score = Callable[[str, Sequence[str]], Sequence[float] | None]


class NoOpReranker:
    """Gives no scores: stage 1's relevance stands."""

    name = "noop"

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        """Return None."""
        return None


class CallableReranker:
    """Calls a function (query, texts) for one score in [0, 1] per text, or None for no scores."""

    def __init__(self, function: Score, name: str = "callable") -> None:
        self.name = name
        self._function = function

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        """Return the function's scores; its exceptions become a `RerankerError` in the engine."""
        return self._function(query, [chunk.content for chunk in chunks])
