"""A reranker that is asked only where it can change something worth its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from context_engine.adapters.model_access import ModelContext, Options, read_options
from context_engine.core.models import Chunk, ScoreKind, VectorAdapter
from context_engine.core.protocols import Reranker, reranker_under
from context_engine.core.ranking.relevance import normalise_pool
from context_engine.errors import ConfigError

FEWEST: Final = 4
CLEAR_LEAD: Final = 0.35


class AdaptiveOptions(Options):
    """Options of the reranker `adaptive`.

    Attributes:
        reranker: the name of the one that is asked.
        options: its own.
        fewest: with fewer chunks it is not asked.
        clear_lead: nor where the best chunk leads the second by this much or more, on the scale where the best is 1 and
            the least 0; 1 to ask always.
    """

    reranker: Annotated[str, Field(min_length=1)]
    options: Mapping[str, Any] = Field(default_factory=dict)
    fewest: Annotated[int, Field(ge=1, le=1000)] = FEWEST
    clear_lead: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = CLEAR_LEAD


class AdaptiveReranker:
    """Has no opinion where there are few chunks or one that clearly leads; else asks another reranker.

    The lead is read from the chunks' relevance, which stage 2 gives each chunk it hands to a reranker; without it the
    reranker is asked.

    Args:
        reranker: asked.
        fewest, clear_lead: see `AdaptiveOptions`.
    """

    def __init__(self, reranker: Reranker, *, fewest: int = FEWEST, clear_lead: float = CLEAR_LEAD) -> None:
        self.name = f"adaptive({reranker.name})"
        self._reranker, self._fewest, self._clear_lead = reranker, fewest, clear_lead

    def under(self, adapter: VectorAdapter) -> AdaptiveReranker | None:
        """Return the same in front of the other under an adapter; None where the other compares no vectors."""
        other = reranker_under(self._reranker, adapter)
        return None if other is None else AdaptiveReranker(other, fewest=self._fewest, clear_lead=self._clear_lead)

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        """Return the other's scores; None where it is not asked."""
        if len(chunks) < self._fewest or _lead(chunks) >= self._clear_lead < 1.0:
            return None
        return self._reranker.rerank(query, chunks)


def _lead(chunks: Sequence[Chunk]) -> float:
    """Return by how much the best chunk leads the second, [0, 1]; 0 where it is not known."""
    values = [chunk.score(ScoreKind.RELEVANCE) for chunk in chunks]
    known = [value for value in values if value is not None]
    if not len(known) == len(chunks) >= 2:
        return 0.0
    best, second, *_ = sorted(normalise_pool(known), reverse=True)
    return best - second


def open_adaptive(options: Mapping[str, Any], context: ModelContext) -> Reranker:
    """Return a reranker in front of another, which is opened by its name.

    Raises:
        ConfigError: the other is not installed, or its options cannot be used.
    """
    chosen = read_options(AdaptiveOptions, options)
    try:
        other = context.reranker(chosen.reranker, chosen.options)
    except ConfigError as error:
        raise ConfigError(error.problem, key=error.key or "reranker") from error
    return AdaptiveReranker(other, fewest=chosen.fewest, clear_lead=chosen.clear_lead)
