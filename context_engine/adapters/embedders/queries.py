"""Many questions at once, of whatever embedder."""

from __future__ import annotations

from collections.abc import Sequence

from context_engine.core.protocols import Embedder, QueryBatchEmbedder


def embedded_queries(embedder: Embedder, texts: Sequence[str]) -> Sequence[Sequence[float]]:
    """Return the vector of each query: in batches, where the embedder takes them, else one by one.

    Raises:
        EmbedderError: the model cannot be loaded, or gave nothing.
    """
    if isinstance(embedder, QueryBatchEmbedder):
        return embedder.embed_queries(texts)
    return [embedder.embed_query(text) for text in texts]
