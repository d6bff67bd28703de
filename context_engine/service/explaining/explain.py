"""Explains how an answer was made, from the kept answers of the last minutes or from its record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from context_engine.core.engine import blend_terms
from context_engine.core.models import (
    Authenticated,
    Fate,
    Key,
    Outcome,
    SearchResult,
    SearchSettings,
    Settings,
    utc_text,
)
from context_engine.core.protocols import Mask
from context_engine.core.ranking.candidates import pool
from context_engine.errors import AuditError, InvalidRequest, RecordNotFound
from context_engine.service.comparing import compare
from context_engine.service.contract.chunks import ChunkShown
from context_engine.service.contract.comparison import Difference
from context_engine.service.contract.explanation import (
    ChunkNotShown,
    ExplainedNotice,
    ExplainedSetting,
    ExplainedSource,
    ExplainedStage,
    ExplainedSwap,
    Explanation,
)
from context_engine.service.deployment import Deployment
from context_engine.service.explaining.words import why_not_shown, why_shown
from context_engine.service.records import OwnedRecord, find_owned, own_result

_MOST: Final = 10
_DEFAULTS: Final = Settings().model_dump(mode="json")


def explain(deployment: Deployment, caller: Authenticated, search_id: str) -> Explanation:
    """Explain an answer to its recipient; operators may ask about any recorded answer.

    Raises:
        RecordNotFound: neither kept nor recorded, or somebody else's; the cases are deliberately indistinguishable.
        RecordNotWritten, AuditError: see `record_of`.
        InvalidRequest: the record is not of a search.
        MaskingError: a masker failed.
    """
    try:
        result = own_result(deployment, caller, search_id)
    except RecordNotFound:
        raise
    except AuditError:  # parts were erased or never kept
        return explained_record(find_owned(deployment, caller, search_id), demo=deployment.demo)
    return explained_result(deployment, result, recorded=deployment.ledger.recording)


def explained(record: OwnedRecord, *, mask: Mask | None, demo: bool, compared: bool = True) -> Explanation:
    """Explain a recorded search, or what is left of it.

    Args:
        mask: masks personal data if the search's settings want it.
        demo: whether the documents are the fictitious bank's.
        compared: compare with the candidates by relevance alone, which takes longer than all the rest.

    Raises:
        AuditError: the record cannot be read.
        InvalidRequest: the record is not of a search.
        MaskingError: a masker failed.
    """
    from context_engine.audit.review.stored import recorded_result

    try:
        result = recorded_result(record.ledger, record.record_id, record.entry, None)
    except AuditError:  # parts were erased or never kept
        return explained_record(record, demo=demo)
    return _of_result(result, mask, recorded=True, demo=demo, compared=compared)


def explained_result(
    deployment: Deployment, result: SearchResult, *, recorded: bool, compared: bool = True
) -> Explanation:
    """Return the explanation of a result.

    Args:
        recorded: whether searches are recorded.
        compared: compare with the candidates by relevance alone, which takes longer than all the rest.

    Raises:
        MaskingError: a masker failed.
    """
    mask, demo = deployment.engine.mask, deployment.demo
    return _of_result(result, mask, recorded=recorded, demo=demo, compared=compared)


def _of_result(result: SearchResult, mask: Mask | None, *, recorded: bool, demo: bool, compared: bool) -> Explanation:
    values = result.settings.values
    plain = mask if mask is not None and values.mask_contexts else str
    names = {key: None if title is None else plain(title) for key, title in _titles(result).items()}
    ends = Counter(fate.outcome for fate in result.fates)
    return Explanation(
        search_id=result.search_id,
        time=utc_text(result.now),
        domain=result.domain,
        question=plain(result.query),
        question_missing="",
        persona=None if result.request is None else result.request.persona,
        as_of=result.as_of.isoformat(),
        status=str(result.status),
        decision=str(result.decision),
        recorded=recorded,
        sources=_sources(result, plain),
        funnel=tuple(
            ExplainedStage(name=stage.name, entered=stage.entered, left=stage.left) for stage in result.stages
        ),
        outcomes={str(outcome): ends[outcome] for outcome in Outcome},
        scope_threshold=None if result.scope is None else result.scope.value,
        shown=_shown(result, names),
        not_shown=tuple(_not_shown(fate, result, names) for fate in _closest(result)[:_MOST]),
        swaps=_swaps(result),
        swap_count=result.swap_count,
        settings=_changed(result.settings_in_force()),
        notices=tuple(
            ExplainedNotice(code=str(notice.code), subject=notice.subject, message=plain(notice.message))
            for notice in result.notices
        ),
        comparison=_difference(result, mask) if compared else None,
        missing=(),
        demo=demo,
    )


def _titles(result: SearchResult) -> Mapping[Key, str | None]:
    """Return the titles of all candidates, by identity."""
    specs = {spec.id: spec for spec in result.specs}
    candidates, _ = pool((specs[answer.source_id], answer) for answer in result.raw)
    return {candidate.key: candidate.chunk.title for candidate in candidates}


def _sources(result: SearchResult, plain: Callable[[str], str]) -> tuple[ExplainedSource, ...]:
    return tuple(
        ExplainedSource(
            source_id=source.source_id,
            title=source.title,
            authority_tier=source.authority_tier,
            state=source.state,
            candidates=source.chunks,
            elapsed_ms=round(source.elapsed_ms, 1),
            problem=plain(source.problem) if source.error is not None else None,
        )
        for source in result.sources
    )


def _shown(result: SearchResult, names: Mapping[Key, str | None]) -> tuple[ChunkShown, ...]:
    terms = blend_terms(result)
    return tuple(
        ChunkShown.of(
            chunk.fields(),
            title=names.get((chunk.source_id, chunk.chunk_id), chunk.title),
            relevance=round(chunk.relevance, 4),
            absolute=round(chunk.absolute, 4),
            final_score=round(chunk.final, 4),
            why=why_shown(
                chunk, result.settings.values, terms.get((chunk.source_id, chunk.chunk_id), {}), result.rerank_adapter
            ),
        )
        for chunk in result.chunks
    )


def _closest(result: SearchResult) -> list[Fate]:
    """Return the candidates that are not shown; candidates that came furthest are first, merged ones last."""
    stages = {stage.name: place for place, stage in enumerate(result.stages)}

    def distance(fate: Fate) -> tuple[bool, int, float, Key]:
        value = fate.value if isinstance(fate.value, int | float) else 0.0
        nearer = value if fate.reason == "beyond_top_k" else -value
        return fate.outcome is Outcome.MERGED, -stages.get(fate.stage, 0), nearer, (fate.source_id, fate.chunk_id)

    return sorted((fate for fate in result.fates if fate.outcome is not Outcome.RETURNED), key=distance)


def _not_shown(fate: Fate, result: SearchResult, names: Mapping[Key, str | None]) -> ChunkNotShown:
    return ChunkNotShown(
        namespace=result.namespace_of(fate.source_id),
        source_id=fate.source_id,
        chunk_id=fate.chunk_id,
        title=names.get((fate.source_id, fate.chunk_id)),
        outcome=str(fate.outcome),
        stage=fate.stage,
        reason=fate.reason,
        value=fate.value,
        limit=fate.limit,
        into=None if fate.into is None else "/".join(fate.into),
        why=why_not_shown(fate),
    )


def _swaps(result: SearchResult) -> tuple[ExplainedSwap, ...]:
    return tuple(
        ExplainedSwap(
            winner="/".join(swap.winner),
            loser="/".join(swap.loser),
            winner_tier=swap.winner_tier,
            loser_tier=swap.loser_tier,
            gap=round(swap.gap, 4),
        )
        for swap in result.swaps[:_MOST]
    )


def _changed(settings: Mapping[str, Mapping[str, Any]]) -> tuple[ExplainedSetting, ...]:
    """Return the settings that differ from the default, without process settings, which only an operator may see."""
    return tuple(
        ExplainedSetting(name=name, value=row["value"], origin=str(row["origin"]))
        for name, row in settings.items()
        if name in SearchSettings.model_fields and row["value"] != _DEFAULTS[name]
    )


def _difference(result: SearchResult, mask: Mask | None) -> Difference | None:
    """Return the changes by the second stage; None if the result lacks the data."""
    try:
        return compare(result, mask=mask).difference
    except InvalidRequest:
        return None


def explained_record(record: OwnedRecord, *, demo: bool) -> Explanation:
    """Return an explanation from the ledger entry alone, which names the missing parts of the record.

    Raises:
        LedgerCorrupt: it cannot be read.
    """
    from context_engine.audit.review.account import account_of

    account = account_of(record.entry, record.index, record.ledger)
    entry, counts = account.entry, account.entry["counts"]
    return Explanation(
        search_id=entry["id"],
        time=entry["time"],
        domain=entry["domain"],
        question=None,
        question_missing=account.question_missing,
        persona=None,
        as_of=None,
        status=entry["status"],
        decision=entry["decision"],
        recorded=True,
        sources=tuple(map(_source, entry["sources"])),
        funnel=tuple(
            ExplainedStage(name=name, entered=entered, left=left) for name, (entered, left) in counts["stages"].items()
        ),
        outcomes={str(outcome): counts[outcome] for outcome in Outcome},
        scope_threshold=None,
        shown=tuple(_recorded_shown(rank, chunk) for rank, chunk in enumerate(entry["chunks"], 1)),
        not_shown=(),
        swaps=(),
        swap_count=counts["swaps"],
        settings=(),
        notices=tuple(ExplainedNotice(code=code, subject=subject, message=None) for code, subject in entry["notices"]),
        comparison=None,
        missing=tuple(f"{part.kind} {part.why}" for part in account.missing),
        demo=demo,
    )


def _source(source: Mapping[str, Any]) -> ExplainedSource:
    return ExplainedSource(
        source_id=source["id"],
        title="",
        authority_tier=None,
        state=source["state"],
        candidates=source["chunks"],
        elapsed_ms=source["ms"],
        problem=source.get("error"),
    )


def _recorded_shown(rank: int, chunk: Mapping[str, Any]) -> ChunkShown:
    return ChunkShown(
        rank=rank,
        namespace=chunk["source"],
        source_id=chunk["source"],
        chunk_id=chunk["chunk"],
        doc_id=chunk.get("document"),
        title=None,
        section=None,
        authority_tier=chunk["tier"],
        relevance=None,
        absolute=None,
        boost=None,
        rerank_score=None,
        final_score=chunk["final"],
        flags=tuple(chunk.get("flags", ())),
        why=f"final score {chunk['final']:.4f}, tier {chunk['tier']}",
    )
