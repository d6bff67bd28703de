"""What an embedder was asked for, in one line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from context_engine.adapters.embedders.cache import CachedEmbedder
from context_engine.adapters.embedders.openai import OpenAIEmbedder
from context_engine.core.protocols import Embedder

_LEAST_COST: Final = 0.0001


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderUse:
    """What an embedder did since it was opened; None: not known.

    Attributes:
        embedded: texts the model embedded, questions and passages.
        from_cache: texts it did not have to.
        tokens: as the server counted them.
        cost: in the currency of `price_per_million_tokens`.
    """

    embedded: int | None = None
    from_cache: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return asdict(self)

    def __str__(self) -> str:
        parts = []
        if self.embedded is not None:
            parts.append(f"{self.embedded:,} {'text' if self.embedded == 1 else 'texts'} embedded")
        if self.from_cache is not None:
            parts.append(f"{self.from_cache:,} from the cache")
        if self.tokens is not None:
            parts.append(f"{self.tokens:,} {'token' if self.tokens == 1 else 'tokens'}")
        if self.cost is not None:
            tiny = 0.0 < self.cost < _LEAST_COST
            parts.append(f"cost below {_LEAST_COST}" if tiny else f"cost {self.cost:,.4f}")
        return "embedder: " + (", ".join(parts) or "it does not say what it did")


def embedder_use(embedder: Embedder) -> EmbedderUse:
    """Return what an embedder, with or without a cache, did since it was opened.

    A text that appears twice in one call counts as one that the cache gave.
    """
    stats = embedder.stats if isinstance(embedder, CachedEmbedder) else None
    model = embedder.inner if isinstance(embedder, CachedEmbedder) else embedder
    usage = model.usage if isinstance(model, OpenAIEmbedder) else None
    return EmbedderUse(
        embedded=None if stats is None else stats.query_misses + stats.document_misses,
        from_cache=None if stats is None else stats.query_hits + stats.document_hits,
        tokens=None if usage is None else usage.tokens,
        cost=None if usage is None else usage.cost,
    )
