"""The reranker as a step of stage 2: in time or not at all, its scores checked, its failures in our words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, TypeVar

from context_engine.core.concurrency.deadline import DeadlineCaller
from context_engine.core.engine.stage_two_input import Reranked, RerankStep
from context_engine.core.models import Chunk, Key, Settings, VectorAdapter
from context_engine.core.policy.masking import masked_chunk
from context_engine.core.protocols import Clock, Mask, Reranker, reranker_under
from context_engine.errors import ConfigError, InvalidRequest, RerankerError, nearest

R = TypeVar("R")


class TimedReranker:
    """A reranker that is called with a deadline.

    Args:
        reranker: the reranker.
        clock: the time.
    """

    def __init__(self, reranker: Reranker, clock: Clock) -> None:
        self.name, self._reranker = reranker.name, reranker
        self._caller = DeadlineCaller(reranker.name, "rerank", clock.monotonic, RerankerError)

    def scores(
        self, query: str, chunks: Sequence[Chunk], seconds: float, adapter: VectorAdapter | None = None
    ) -> tuple[list[Any] | None, str | None]:
        """Return what the reranker gives, a list of all of it, and the id of the adapter that it was made under.

        Args:
            adapter: of the search; a reranker that makes nothing of one is called as it is.

        Raises:
            RerankerError: it failed, gave nothing in time, or is stuck in an overdue call.
        """

        def call() -> tuple[list[Any] | None, str | None]:
            under = None if adapter is None else reranker_under(self._reranker, adapter)
            if adapter is None or under is None:
                return _all(self._reranker.rerank(query, chunks)), None
            return _all(under.rerank(query, chunks)), adapter.adapter_id

        return self._caller.call(call, seconds, nothing="no scores")


def chosen(rerankers: Mapping[str | None, R], settings: Settings) -> R | None:
    """Return what reranks a search; None where nothing does.

    Args:
        rerankers: by the names that `rerank_by` has for them; under None what reranks where it names none.

    Raises:
        InvalidRequest: it names one that there is not.
    """
    name = settings.rerank_by if settings.reranking_enabled else None
    if name is not None and name not in rerankers:
        known = [one for one in rerankers if one is not None]
        raise InvalidRequest(f"rerank_by: this engine has no reranker {name!r}.{nearest(name, known)}")
    return rerankers.get(name)


def rerank_step(
    reranker: TimedReranker | None,
    settings: Settings,
    left: Callable[[], float],
    mask: Mask | None = None,
    adapter: Callable[[], VectorAdapter | None] = lambda: None,
) -> RerankStep | None:
    """Return the step that calls a reranker; None where there is none or `reranking_enabled` is off.

    Args:
        reranker: the reranker; it has `rerank_timeout_s`.
        settings: of the search.
        left: seconds until its deadline, which counts where it is sooner.
        mask: what question and passages pass before the model reads them, where `mask_contexts` is on.
        adapter: what vectors were compared under when the candidates were found.

    Raises:
        ConfigError: it is on, and there is no mask.
    """
    if reranker is None or not settings.reranking_enabled:
        return None
    if settings.mask_contexts and mask is None:
        raise ConfigError(f"mask_contexts is set, and there is no mask for what {reranker.name} reads: pass one")

    def step(query: str, pairs: Sequence[tuple[Key, Chunk]]) -> Reranked | None:
        seconds = min(left(), settings.rerank_timeout_s)
        chunks = [chunk for _, chunk in pairs]
        if mask is not None and settings.mask_contexts:
            query, chunks = mask(query), [masked_chunk(chunk, mask) for chunk in chunks]
        scores, under = reranker.scores(query, chunks, seconds, adapter())
        if scores is None:
            return None
        try:
            return Reranked(_checked(reranker.name, scores, [key for key, _ in pairs]), under)
        except (TypeError, ValueError, OverflowError) as error:
            raise RerankerError(f"{reranker.name} failed with {type(error).__name__}") from error

    return step


def _all(scores: Any) -> list[Any] | None:
    """Return the scores as a list: a generator does its work here, in the reranker's time."""
    return None if scores is None else list(scores)


def _checked(name: str, values: Sequence[float], keys: Sequence[Key]) -> Mapping[Key, float]:
    if len(values) != len(keys):
        raise RerankerError(f"{name} gave {len(values)} scores for {len(keys)} chunks")
    for value in values:
        if isinstance(value, bool) or not isfinite(value) or not 0.0 <= value <= 1.0:
            raise RerankerError(f"{name} gave the score {value!r}; scores are numbers from 0 to 1")
    return dict(zip(keys, map(float, values)))
