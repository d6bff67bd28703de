"""An embedder with async methods as an `Embedder`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from context_engine.core.concurrency.awaiting import awaited
from context_engine.core.protocols import Embedder


class AwaitedEmbedder:
    """Calls the methods of an embedder, which may be async."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder

    @property
    def model_id(self) -> str:
        """The embedder's."""
        return self._embedder.model_id  # type: ignore[no-any-return]

    @property
    def dimension(self) -> int:
        """The embedder's."""
        return self._embedder.dimension  # type: ignore[no-any-return]

    def embed_query(self, text: str) -> Sequence[float]:
        """Return the vector of a query."""
        return awaited(self._embedder.embed_query(text))  # type: ignore[no-any-return]

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text."""
        return awaited(self._embedder.embed_documents(texts))  # type: ignore[no-any-return]


def embedder_of(given: Any) -> Embedder:
    """Return an embedder as it is, or one with an async method as an `Embedder`."""
    methods = (getattr(given, "embed_query", None), getattr(given, "embed_documents", None))
    return AwaitedEmbedder(given) if any(map(inspect.iscoroutinefunction, methods)) else given
