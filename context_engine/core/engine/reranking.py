"""The reranker as a step of stage 2, and the blend of its scores with the relevance of stage 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, TypeVar

from context_engine.core.concurrency.awaiting import awaited
from context_engine.core.concurrency.calls import DeadlineCaller
from context_engine.core.engine.candidate_table import CandidateTable, Reranked, RerankStep
from context_engine.core.models import Chunk, Key, Notice, NoticeCode, ScoreKind, Settings, VectorAdapter, scorer_name
from context_engine.core.policy.masking import masked_chunk
from context_engine.core.protocols import Clock, Mask, Reranker, reranker_under
from context_engine.core.ranking.learnt_blend import BlendPool, blend_scores, features, relevance_of, why_not
from context_engine.core.ranking.relevance import below_reranked, blended
from context_engine.errors import ConfigError, InvalidRequest, RerankerError, nearest

R = TypeVar("R")


class TimedReranker:
    """A reranker that is called with a deadline."""

    def __init__(self, reranker: Reranker, clock: Clock) -> None:
        self.name, self._reranker = reranker.name, reranker
        self._caller = DeadlineCaller(reranker.name, "rerank", clock.monotonic, RerankerError)

    def scores(
        self, query: str, chunks: Sequence[Chunk], seconds: float, adapter: VectorAdapter | None = None
    ) -> tuple[list[Any] | None, str | None]:
        """Return the reranker's scores, and the id of the vector adapter that it used.

        Args:
            adapter: of the search; ignored if the reranker does not support adapters.

        Raises:
            RerankerError: it failed, was too slow, or is stuck in an overdue call.
        """

        def call() -> tuple[list[Any] | None, str | None]:
            under = None if adapter is None else reranker_under(self._reranker, adapter)
            if adapter is None or under is None:
                return _all(self.name, self._reranker.rerank(query, chunks)), None
            return _all(self.name, under.rerank(query, chunks)), adapter.adapter_id

        return self._caller.call(call, seconds, nothing="no scores")


def chosen(rerankers: Mapping[str | None, R], settings: Settings) -> R | None:
    """Return the reranker of a search, or None.

    Args:
        rerankers: by their name in `rerank_by`; the default reranker under None.

    Raises:
        InvalidRequest: `rerank_by` names an unknown reranker.
    """
    name = settings.rerank_by if settings.reranking_enabled else None
    if name is not None and name not in rerankers:
        known = [reranker for reranker in rerankers if reranker is not None]
        raise InvalidRequest(f"rerank_by: this engine has no reranker {name!r}.{nearest(name, known)}")
    return rerankers.get(name)


def rerank_step(
    reranker: TimedReranker | None,
    settings: Settings,
    left: Callable[[], float],
    mask: Mask | None = None,
    adapter: Callable[[], VectorAdapter | None] = lambda: None,
) -> RerankStep | None:
    """Return the step that calls a reranker; None if there is none or `reranking_enabled` is off.

    Args:
        left: seconds until the search's deadline; `rerank_timeout_s` applies too.
        mask: masks question and passages before the model reads them, if `mask_contexts` is on.
        adapter: the vector adapter that the sources used in this search.

    Raises:
        ConfigError: `mask_contexts` is on and there is no mask.
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


def _all(name: str, given: Any) -> list[Any] | None:
    """Return the scores as a list, so that a generator or an async function works within the reranker's time limit."""
    scores = awaited(given)
    if scores is not None and not isinstance(scores, Iterable):
        raise RerankerError(f"{name} returned {type(scores).__name__} instead of a list of scores")
    return None if scores is None else list(scores)


def _checked(name: str, values: Sequence[float], keys: Sequence[Key]) -> Mapping[Key, float]:
    if len(values) != len(keys):
        raise RerankerError(f"{name} gave {len(values)} scores for {len(keys)} chunks")
    for value in values:
        if isinstance(value, bool) or not isfinite(value) or not 0.0 <= value <= 1.0:
            raise RerankerError(f"{name} gave the score {value!r}; scores are numbers from 0 to 1")
    return dict(zip(keys, map(float, values)))


def blend_relevance(table: CandidateTable, rows: Sequence[int], best: Sequence[int], settings: Settings) -> None:
    """Set the relevance of the candidates: a learnt blend if the domain has one, else w * stage 1 + (1 - w) * model.

    A blend that was learnt with other scorers is not used, and a notice says so. A single candidate is not blended
    either: there is nothing to compare it with.

    Args:
        best: the rows that the reranker read; all other rows stay below them.
    """
    if not table.rerank_scores:
        best = rows
    before = [table.relevance[row] for row in best]
    after = _learnt(table, best, settings)
    if after is None:
        after = [_with_model(table, row, settings) for row in best]
    for row, value in zip(best, after):
        table.relevance[row] = value
    rest = sorted(set(rows) - set(best))
    for row, value in zip(rest, below_reranked([table.relevance[row] for row in rest], before, after)):
        table.relevance[row] = value


def _with_model(table: CandidateTable, row: int, settings: Settings) -> float:
    score = table.rerank_scores.get(table.keys[row])
    return table.relevance[row] if score is None else blended(table.relevance[row], score, settings.rerank_weight)


def _learnt(table: CandidateTable, rows: Sequence[int], settings: Settings) -> list[float] | None:
    """Return the relevance by the learnt blend; None if there is none or it does not apply."""
    blend = settings.learnt_blend
    if blend is None or len(rows) < 2:
        return None
    pool = blend_pool(table, rows, settings)
    problem = why_not(blend, pool)
    if problem is None:
        return relevance_of(blend_scores(blend, features(pool)))
    table.notices.append(_not_used(problem))
    return None


def _not_used(problem: str) -> Notice:
    message = (
        f"the domain's learnt_blend was not used: {problem}. Learn it again with 'context-engine eval tune --blend'"
    )
    return Notice(NoticeCode.LEARNT_BLEND_NOT_USED, "learnt_blend", message, {"problem": problem})


def blend_pool(table: CandidateTable, rows: Sequence[int], settings: Settings) -> BlendPool:
    """Return the features of reranked candidates that a blend may read."""
    keys = [table.keys[row] for row in rows]
    chunks = [table.chunks[row] for row in rows]
    declared = any(chunk.score(ScoreKind.RELEVANCE) is not None for chunk in chunks)
    return BlendPool(
        keys=keys,
        measured_by="declared" if declared else table.measured_by,
        relevance=[table.recalled[row] for row in rows],
        text=[table.text[row] for row in rows],
        coverage=[table.coverage[row] for row in rows],
        documents=[(key[0], chunk.document_id) if chunk.document_id else None for key, chunk in zip(keys, chunks)],
        words=[table.candidates[row].text.reading.length for row in rows],
        cosines=[next((score for score in chunk.scores if score.kind is ScoreKind.COSINE), None) for chunk in chunks],
        reranker=reranker_id(settings, table.rerank_adapter),
        reranked=[table.rerank_scores.get(key) for key in keys],
    )


def reranker_id(settings: Settings, adapter: str | None = None) -> str:
    """Return the id of a search's reranker: its kind, model and power if the options name them, and its vector adapter.

    >>> reranker_id(Settings(reranker="cross_encoder", reranker_options={"model": "small"}))
    'cross_encoder small'
    >>> reranker_id(Settings(reranker="max_sim", reranker_options={"power": 4}))
    'max_sim power 4'
    >>> reranker_id(Settings(reranker="max_sim", reranker_options={"power": 1.0}))
    'max_sim'
    >>> reranker_id(Settings(reranker="max_sim"), "0f3a")
    'max_sim+0f3a'
    """
    name, options = settings.reranker, settings.reranker_options
    if settings.rerank_by is not None:
        row = settings.rerankers.get(settings.rerank_by, {})
        name, options = row.get("reranker", settings.rerank_by), row.get("options", {})
    model, power = options.get("model"), options.get("power")
    named = (str(name), *([str(model)] if model else ()), *([f"power {power}"] if power not in (None, 1) else ()))
    return scorer_name(" ".join(named), adapter)
