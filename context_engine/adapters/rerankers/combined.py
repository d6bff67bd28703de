"""Rerankers over others: the weighted mean of several, and one that is called only if it can change something."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field

from context_engine.adapters.model_access import ModelContext, Options, read_options
from context_engine.core.concurrency.awaiting import awaited
from context_engine.core.models import Chunk, ScoreKind, VectorAdapter
from context_engine.core.protocols import Reranker, reranker_under
from context_engine.core.ranking.relevance import normalise_pool
from context_engine.errors import ConfigError, ContextEngineError, RerankerError

logger = logging.getLogger(__name__)


class _MemberOptions(Options):
    """One member: its name, its own options and its weight."""

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
    """A reranker and its weight, above 0."""

    reranker: Reranker
    weight: float = 1.0


class EnsembleReranker:
    """Score = sum of weight * score / sum of weight, over the members that gave scores.

    If a member fails, that is logged and the others decide. If all fail, the ensemble fails. Members are called one
    after the other.
    """

    def __init__(self, members: Sequence[EnsembleMember]) -> None:
        self.name = f"ensemble({'+'.join(member.reranker.name for member in members)})"
        self._members = tuple(members)

    def under(self, adapter: VectorAdapter) -> EnsembleReranker | None:
        """Return the ensemble with the members that compare vectors under an adapter; None if no member does."""
        adapted = [reranker_under(member.reranker, adapter) for member in self._members]
        if all(other is None for other in adapted):
            return None
        return EnsembleReranker(
            [
                EnsembleMember(other or own.reranker, own.weight)
                for other, own in zip(adapted, self._members, strict=True)
            ]
        )

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        """Return the mean of the members' scores; None if none failed and none has an opinion."""
        failed: list[str] = []
        answers: list[tuple[float, Sequence[float]]] = []
        for member in self._members:
            try:
                scores = self._asked(member.reranker, query, chunks)
            except ContextEngineError as error:
                failed.append(str(error))
                logger.warning("a member of the ensemble failed: %s", error)
                continue
            if scores is not None:
                answers.append((member.weight, scores))
        if not answers:
            if failed:
                raise RerankerError("; ".join(failed))
            return None
        total = sum(weight for weight, _ in answers)
        return [
            min(sum(weight * scores[place] for weight, scores in answers) / total, 1.0) for place in range(len(chunks))
        ]

    @staticmethod
    def _asked(reranker: Reranker, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        try:
            scores = awaited(reranker.rerank(query, chunks))
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
        ConfigError: a member is not installed, is an ensemble itself, or its options cannot be used.
    """
    chosen = read_options(EnsembleOptions, options)
    return EnsembleReranker(
        [EnsembleMember(_opened(place, member, context), member.weight) for place, member in enumerate(chosen.members)]
    )


def _opened(place: int, member: _MemberOptions, context: ModelContext) -> Reranker:
    key = f"members.{place}"
    if member.reranker == "ensemble":
        raise ConfigError("an ensemble cannot be a member of one: list its members here", key=f"{key}.reranker")
    try:
        return context.reranker(member.reranker, member.options)
    except ConfigError as error:
        raise ConfigError(error.problem, key=f"{key}.{error.key or 'reranker'}") from error


FEWEST: Final = 4
CLEAR_LEAD: Final = 0.35


class AdaptiveOptions(Options):
    """Options of the reranker `adaptive`.

    Attributes:
        reranker: the name of the other reranker.
        options: its own.
        fewest: with fewer chunks it is not called.
        clear_lead: it is not called either if the best chunk leads the second by this much, on a scale where the best
            is 1 and the worst 0; 1 to call it always.
    """

    reranker: Annotated[str, Field(min_length=1)]
    options: Mapping[str, Any] = Field(default_factory=dict)
    fewest: Annotated[int, Field(ge=1, le=1000)] = FEWEST
    clear_lead: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = CLEAR_LEAD


class AdaptiveReranker:
    """Skips reranking if there are few chunks or one clearly leads; else calls another reranker.

    The lead is read from the chunks' relevance, which stage 2 sets; without it the other reranker is called.
    """

    def __init__(self, reranker: Reranker, *, fewest: int = FEWEST, clear_lead: float = CLEAR_LEAD) -> None:
        self.name = f"adaptive({reranker.name})"
        self._reranker, self._fewest, self._clear_lead = reranker, fewest, clear_lead

    def under(self, adapter: VectorAdapter) -> AdaptiveReranker | None:
        """Return this reranker over the other under an adapter; None if the other compares no vectors."""
        other = reranker_under(self._reranker, adapter)
        return None if other is None else AdaptiveReranker(other, fewest=self._fewest, clear_lead=self._clear_lead)

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        """Return the other's scores; None if it is not called."""
        if len(chunks) < self._fewest or _lead(chunks) >= self._clear_lead < 1.0:
            return None
        return self._reranker.rerank(query, chunks)


def _lead(chunks: Sequence[Chunk]) -> float:
    """Return the lead of the best chunk over the second, [0, 1]; 0 if unknown."""
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
