"""The reranker as a step of stage 2: its scores checked, its failures in our words."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from math import isfinite

from context_engine.engine.survivors import RerankStep
from context_engine.errors import RerankerError
from context_engine.models import Chunk, Key, Settings
from context_engine.protocols import Reranker

__all__ = ["rerank_step"]

logger = logging.getLogger(__name__)


def rerank_step(reranker: Reranker | None, settings: Settings) -> RerankStep | None:
    """Return the step that asks a reranker; None where there is none or `reranking_enabled` is off."""
    if reranker is None or not settings.reranking_enabled:
        return None

    def step(query: str, pairs: Sequence[tuple[Key, Chunk]]) -> Mapping[Key, float] | None:
        try:
            scores = reranker.rerank(query, [chunk for _, chunk in pairs])
            return None if scores is None else _checked(reranker.name, scores, [key for key, _ in pairs])
        except RerankerError:
            raise
        except Exception as error:
            logger.debug("reranker %s raised", reranker.name, exc_info=error)
            raise RerankerError(f"{reranker.name} failed with {type(error).__name__}") from error

    return step


def _checked(name: str, scores: Sequence[float], keys: Sequence[Key]) -> Mapping[Key, float]:
    values = list(scores)
    if len(values) != len(keys):
        raise RerankerError(f"{name} gave {len(values)} scores for {len(keys)} chunks")
    for value in values:
        if isinstance(value, bool) or not isfinite(value) or not 0.0 <= value <= 1.0:
            raise RerankerError(f"{name} gave the score {value!r}; scores are numbers from 0 to 1")
    return dict(zip(keys, map(float, values)))
