"""Stage 1's relevance and the reranker's scores as one number: by the domain's learnt blend, or by one weight."""

from __future__ import annotations

from collections.abc import Sequence

from context_engine.core.engine.candidate_table import CandidateTable
from context_engine.core.models import Notice, NoticeCode, ScoreKind, Settings, scorer_name
from context_engine.core.ranking.learnt_blend import BlendPool, blend_scores, features, relevance_of, why_not
from context_engine.core.ranking.relevance import below_reranked, blended


def blend_relevance(table: CandidateTable, rows: Sequence[int], best: Sequence[int], settings: Settings) -> None:
    """Set the relevance of the candidates: a learnt blend where the domain has one, else w * stage 1 + (1 - w) * model.

    A blend that was learnt with other scorers is not used, and a notice says so; nor is it for a single candidate,
    which it could compare with nothing.

    Args:
        rows: the candidates that are left.
        best: of these the ones shown to the reranker; the others stay below them.
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
    """Return relevance by the learnt blend; None where there is none, or it says nothing of these."""
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
    said = f"the domain's learnt_blend was not used: {problem}. Learn it anew with 'context-engine eval tune --blend'"
    return Notice(NoticeCode.LEARNT_BLEND_NOT_USED, "learnt_blend", said, {"problem": problem})


def blend_pool(table: CandidateTable, rows: Sequence[int], settings: Settings) -> BlendPool:
    """Return what a blend may read of some candidates, once they are reranked."""
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
        cosines=[next((one for one in chunk.scores if one.kind is ScoreKind.COSINE), None) for chunk in chunks],
        reranker=reranker_id(settings, table.rerank_adapter),
        reranked=[table.rerank_scores.get(key) for key in keys],
    )


def reranker_id(settings: Settings, adapter: str | None = None) -> str:
    """Return what names the reranker of a search: its kind, its model and its power where the options name one, and the
    adapter that it compared vectors under.

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
