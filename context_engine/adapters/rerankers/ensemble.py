"""Several rerankers as one: the weighted mean of those that answer."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from context_engine.adapters.model_access import ModelContext, Options, read_options
from context_engine.core.models import Chunk, VectorAdapter
from context_engine.core.protocols import Reranker, reranker_under
from context_engine.errors import ConfigError, ContextEngineError, RerankerError

logger = logging.getLogger(__name__)


class _MemberOptions(Options):
    """One member: its name, its own options, its share."""

    reranker: Annotated[str, Field(min_length=1)]
    options: Mapping[str, Any] = Field(default_factory=dict)
    weight: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 1.0


class EnsembleOptions(Options):
    """Options of the reranker `ensemble`.

    Attributes:
        members: at least two, each {"reranker": NAME, "options": {...}, "weight": 1.0}.
    """

    members: Annotated[tuple[_MemberOptions, ...], Field(min_length=2, max_length=8)]


class EnsembleMember(NamedTuple):
    """A reranker and its share, above 0."""

    reranker: Reranker
    weight: float = 1.0


class EnsembleReranker:
    """Score = sum of weight * score / sum of weight, over the members that gave scores.

    A member may fail: the others speak for it, and the log says so. With none left the failure is the ensemble's.
    Members are asked one after the other.

    Args:
        members: at least one.
    """

    def __init__(self, members: Sequence[EnsembleMember]) -> None:
        self.name = f"ensemble({'+'.join(member.reranker.name for member in members)})"
        self._members = tuple(members)

    def under(self, adapter: VectorAdapter) -> EnsembleReranker | None:
        """Return the ensemble with those members under an adapter that compare vectors; None where none does."""
        found = [reranker_under(member.reranker, adapter) for member in self._members]
        if all(one is None for one in found):
            return None
        return EnsembleReranker(
            [EnsembleMember(one or own.reranker, own.weight) for one, own in zip(found, self._members, strict=True)]
        )

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        """Return the mean of the members' scores; None if none failed and none has an opinion."""
        failed: list[str] = []
        found: list[tuple[float, Sequence[float]]] = []
        for member in self._members:
            try:
                scores = self._asked(member.reranker, query, chunks)
            except ContextEngineError as error:
                failed.append(str(error))
                logger.warning("a member of the ensemble failed: %s", error)
                continue
            if scores is not None:
                found.append((member.weight, scores))
        if not found:
            if failed:
                raise RerankerError("; ".join(failed))
            return None
        total = sum(weight for weight, _ in found)
        return [
            min(sum(weight * scores[place] for weight, scores in found) / total, 1.0) for place in range(len(chunks))
        ]

    @staticmethod
    def _asked(reranker: Reranker, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        try:
            scores = reranker.rerank(query, chunks)
        except ContextEngineError:
            raise
        except Exception as error:
            raise RerankerError(f"{reranker.name} failed with {type(error).__name__}") from error
        if scores is None:
            return None
        values = list(scores)
        if len(values) != len(chunks) or not all(0.0 <= value <= 1.0 for value in values):
            raise RerankerError(f"{reranker.name} did not give one score from 0 to 1 for each of {len(chunks)} chunks")
        return values


def open_ensemble(options: Mapping[str, Any], context: ModelContext) -> Reranker:
    """Return an ensemble of rerankers, each opened by its name.

    Raises:
        ConfigError: a member that is not installed, is an ensemble itself, or whose options cannot be used.
    """
    chosen = read_options(EnsembleOptions, options)
    return EnsembleReranker(
        [EnsembleMember(_opened(place, one, context), one.weight) for place, one in enumerate(chosen.members)]
    )


def _opened(place: int, member: _MemberOptions, context: ModelContext) -> Reranker:
    key = f"members.{place}"
    if member.reranker == "ensemble":
        raise ConfigError("an ensemble cannot be a member of one: list its members here", key=f"{key}.reranker")
    try:
        return context.reranker(member.reranker, member.options)
    except ConfigError as error:
        raise ConfigError(error.problem, key=f"{key}.{error.key or 'reranker'}") from error
