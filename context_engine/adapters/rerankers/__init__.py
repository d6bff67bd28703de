"""Adapters to models that read query and text together.

Which one to choose (`reranker` and `reranker_options` in rag-pipeline.json):

- `cross_encoder` with `cross-encoder/ms-marco-MiniLM-L-6-v2` (80 MB) for English on a CPU; `-L-12-v2` has twice the
  layers and is half as fast. With `"runtime": "onnx"` and a folder it needs no torch.
- `tei`, `jina` or `cohere` for a model on a server, for example a multilingual one (`BAAI/bge-reranker-v2-m3`).
- `max_sim` if there is an embedder and no other model may be added.
- `llm` last: slow, expensive, and open to instructions in passages.
- `ensemble` takes the weighted mean of several; `adaptive` calls another only if it may change something.

Scores are in [0, 1] and enter as relevance = rerank_weight * stage 1 + (1 - rerank_weight) * score. If a reranker fails
or exceeds the search's deadline, the first stage's order stands and the result is degraded.
"""

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
