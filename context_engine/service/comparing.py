"""Compare mode: a result beside its baseline, in published form."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from context_engine.core.context import ApproxTokenCounter, for_a_model, from_result
from context_engine.core.engine import comparison as core
from context_engine.core.engine.comparison import ChunkChange, ComparisonStep
from context_engine.core.models import Context, Key, Outcome, RankedChunk, SearchResult
from context_engine.core.protocols import Mask, TokenCounter
from context_engine.core.text import content_sha256
from context_engine.errors import ConfigError
from context_engine.service.appending import append_line
from context_engine.service.contract.chunks import ComparedChunk
from context_engine.service.contract.comparison import (
    Baseline,
    ChangeCode,
    ComparedContext,
    Comparison,
    ComparisonAnswer,
    Difference,
    Enhanced,
    RankChange,
    RankStep,
)
from context_engine.service.deployment import Deployment

logger = logging.getLogger(__name__)
_BECAUSE: Final = 10


def compare(
    result: SearchResult,
    *,
    mask: Mask | None = None,
    counter: TokenCounter | None = None,
    budget: int | None = None,
    enhanced: Context | None = None,
) -> Comparison:
    """Return a result beside its baseline. Only the result is needed, so a recorded one works.

    Neither context is recorded. A caller who gives the enhanced context to a model makes it with `Engine.context`.

    Args:
        mask: `Engine.mask`; required if the domain masks contexts.
        counter: counts tokens; default: the approximate counter.
        budget: tokens of each context; default: the result's `context_max_tokens`.
        enhanced: the context of the result if already made; the baseline's context gets the same budget and form.

    Raises:
        InvalidRequest: the result lacks its request, or its domain masks contexts and no mask is given.
        MaskingError: a masker failed.
    """
    difference = core.compare(result)
    make = partial(from_result, counter=counter or ApproxTokenCounter(), mask=mask, budget=budget)
    if enhanced is None:
        enhanced = make(result)
    else:
        make = partial(make, budget=enhanced.budget, form=enhanced.form, nonce=enhanced.nonce)
    baseline = make(difference.baseline)
    return Comparison(
        search_id=result.search_id,
        request_id=result.request_id,
        query=result.query,
        domain=result.domain,
        persona=None if result.request is None else result.request.persona,
        baseline=Baseline(**_side(for_a_model(difference.baseline, mask), baseline)),
        enhanced=_enhanced(for_a_model(result, mask), enhanced),
        difference=_difference(difference, result, baseline, enhanced),
    )


def comparison_asked_for(
    deployment: Deployment, asked: bool | None, result: SearchResult, context: Context | None
) -> Comparison | None:
    """Return the comparison of an answer if one is wanted, else None; it is also appended to `compare_file`.

    Args:
        asked: whether the request wants one; None: `compare_mode` decides.
        context: the context made of it; None: the caller wants no texts.

    Raises:
        MaskingError: a masker failed.
    """
    settings = deployment.settings
    if not (settings.compare_mode if asked is None else asked):
        return None
    comparison = compare(result, mask=deployment.engine.mask, enhanced=context)
    if settings.compare_file is not None:
        _keep(Path(settings.compare_file), comparison)
    return comparison if context is not None else without_texts(comparison)


def _keep(path: Path, comparison: Comparison) -> None:
    """Append a comparison without texts and question, which could not be erased there; a failure stops no answer."""
    try:
        append_comparison(path, without_texts(comparison).model_copy(update={"query": None}))
    except ConfigError as error:
        logger.warning("comparison of search %s was not kept: %s", comparison.search_id, error)


def without_texts(comparison: Comparison) -> Comparison:
    """Return a comparison with the sizes and digests of its contexts, without their texts."""
    baseline, enhanced = comparison.baseline, comparison.enhanced
    return comparison.model_copy(
        update={
            "baseline": baseline.model_copy(update={"context": _sizes(baseline.context)}),
            "enhanced": enhanced.model_copy(update={"context": _sizes(enhanced.context)}),
        }
    )


def append_comparison(path: Path, comparison: Comparison) -> None:
    """Append a comparison to a file as one line of JSON; safe for threads and processes.

    Raises:
        ConfigError: the file cannot be written.
    """
    append_line(path, ComparisonAnswer(data=comparison).model_dump_json())


def _side(result: SearchResult, context: Context) -> dict[str, Any]:
    chunks = tuple(map(_chunk, result.chunks))
    return {
        "chunks_used": len(chunks),
        "chunks_scores": tuple(chunk.score for chunk in chunks),
        "chunks": chunks,
        "context": ComparedContext(
            text=context.text,
            chars=len(context.text),
            tokens=context.tokens,
            token_counter=context.counter,
            num_chunks=context.chunk_count,
            sha256=content_sha256(context.text),
        ),
    }


def _enhanced(result: SearchResult, context: Context) -> Enhanced:
    settings = result.settings.values
    return Enhanced(
        **_side(result, context),
        filter_threshold=settings.min_relevance_score,
        similarity_threshold=settings.similarity_threshold,
        scope_threshold=None if result.scope is None else result.scope.value,
        fallback_triggered=any("below_threshold" in chunk.flags for chunk in result.chunks),
        reranker_enabled=bool(result.rerank_scores),
        status=str(result.status),
        decision=str(result.decision),
    )


def _chunk(ranked: RankedChunk) -> ComparedChunk:
    return ComparedChunk.of(
        ranked.fields(),
        score=round(ranked.absolute, 4),
        relevance=round(ranked.relevance, 4),
        final_score=round(ranked.final, 4),
    )


def _difference(
    compared: core.BaselineComparison, result: SearchResult, baseline: Context, enhanced: Context
) -> Difference:
    change = partial(_change, result)
    return Difference(
        same=tuple(chunk_name(change.key) for change in compared.of("same")),
        moved=tuple(map(change, compared.of("moved"))),
        entered=tuple(map(change, compared.of("entered"))),
        left=tuple(map(change, compared.of("left"))),
        chars=len(enhanced.text) - len(baseline.text),
        tokens=enhanced.tokens - baseline.tokens,
    )


def _change(result: SearchResult, change: ChunkChange) -> RankChange:
    tested = change.after is None
    return RankChange(
        namespace=result.namespace_of(change.key[0]),
        source_id=change.key[0],
        chunk_id=change.key[1],
        from_rank=change.before,
        to_rank=change.after,
        code=code_of(change),
        reason=sentence_of(change),
        value=change.fate.value if tested else None,
        limit=change.fate.limit if tested else None,
        steps=tuple(RankStep(step=str(step.step), from_rank=step.before, to_rank=step.after) for step in change.steps),
        because=tuple(map(chunk_name, change.because[:_BECAUSE])),
    )


def _sizes(context: ComparedContext) -> ComparedContext:
    return context.model_copy(update={"text": None})


_OF_STEP: Final[Mapping[ComparisonStep, ChangeCode]] = {
    ComparisonStep.DEDUP: "duplicates_merged",
    ComparisonStep.FILTER: "weaker_removed",
    ComparisonStep.RERANK: "reranked",
    ComparisonStep.EXACT_MATCH: "exact_match",
    ComparisonStep.RECENCY: "newer",
    ComparisonStep.AUTHORITY: "authority",
    ComparisonStep.LIMITS: "limits",
}

_OF_STAGE: Final[Mapping[str, ChangeCode]] = {
    "threshold": "below_similarity_threshold",
    "scope": "out_of_scope",
    "relevance": "below_min_relevance",
}

_NAMED: Final = 3


def chunk_name(key: Key) -> str:
    """Return a chunk's identity as SOURCE/CHUNK."""
    return "/".join(key)


def code_of(change: ChunkChange) -> ChangeCode:
    """Return the code of why a chunk's rank differs.

    Raises:
        ValueError: the rank is the same.
    """
    if change.cause is None:
        raise ValueError("its place is the same in both")
    fate = change.fate
    if fate.outcome is Outcome.MERGED:
        return "merged"
    if fate.outcome is Outcome.DROPPED and fate.stage in _OF_STAGE:
        return _OF_STAGE[fate.stage]
    if fate.reason == "document_limit":
        return "document_limit"
    return "too_similar" if fate.reason == "too_similar" else _OF_STEP[change.cause]


def sentence_of(change: ChunkChange) -> str:
    """Return a sentence on why a chunk's rank differs, without the ranks.

    Raises:
        ValueError: the rank is the same.
    """
    code, fate = code_of(change), change.fate
    if code == "merged":
        return f"says the same as {_names(change)} (similarity {_number(fate.value)}) and was merged into it"
    if code == "below_similarity_threshold":
        return f"its score {_number(fate.value)} is below similarity_threshold {_number(fate.limit)}"
    if code == "below_min_relevance":
        return f"its absolute relevance {_number(fate.value)} is below min_relevance_score {_number(fate.limit)}"
    if code == "out_of_scope":
        return f"the question is out of scope: {_number(fate.value)} is below scope_threshold {_number(fate.limit)}"
    if code == "document_limit":
        return f"its document has {_number(fate.limit)} chunks already (max_per_document)"
    if code == "too_similar":
        return f"it is like a chunk that is returned: likeness {_number(fate.value)} (mmr_lambda {_number(fate.limit)})"
    return _of_ranking(change, code)


def _of_ranking(change: ChunkChange, code: ChangeCode) -> str:
    others = _names(change)
    rising = (change.after or 0) < (change.before or 0)
    if code == "duplicates_merged":
        return f"near-duplicates became one: {others}" if others else "the relevance of merged copies counts"
    if code == "weaker_removed":
        return f"what the thresholds removed stood above it: {others}" if others else "the thresholds removed others"
    if code == "reranked":
        return "the reranker's score " + ("raised it" if rising else "lowered it, or raised others above it")
    if code == "exact_match":
        what = "it has" if rising else "others have"
        return f"{what} the phrase or code that the question names"
    if code == "newer":
        return "it is newer than others of about the same relevance" if rising else "newer texts stand above it"
    if code == "authority":
        side = "its authority tier outranks" if rising else "outranked by a higher authority tier:"
        return f"{side} {others}" if others else "the authority boosts of others changed their order"
    return "limits on chunks of one document or on likeness changed who has a place"


def _names(change: ChunkChange) -> str:
    shown = ", ".join(map(chunk_name, change.because[:_NAMED]))
    more = len(change.because) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _number(value: float | str | None) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
