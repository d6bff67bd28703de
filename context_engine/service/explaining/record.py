"""What a record still explains of an answer, after parts of it were erased or where its question was not kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from context_engine.core.models import Outcome
from context_engine.service.contract.explanation import (
    ChunkShown,
    ExplainedNotice,
    ExplainedSource,
    ExplainedStage,
    Explanation,
)
from context_engine.service.records import OwnedRecord


def explained_record(found: OwnedRecord, *, demo: bool) -> Explanation:
    """Return what the entry of a search tells, and what of its record is missing.

    Raises:
        LedgerCorrupt: it cannot be read.
    """
    from context_engine.audit.review.account import account_of

    account = account_of(found.entry, found.index, found.ledger)
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
        shown=tuple(_shown(rank, one) for rank, one in enumerate(entry["chunks"], 1)),
        not_shown=(),
        swaps=(),
        swap_count=counts["swaps"],
        settings=(),
        notices=tuple(ExplainedNotice(code=code, subject=subject, message=None) for code, subject in entry["notices"]),
        comparison=None,
        missing=tuple(f"{one.kind} {one.why}" for one in account.missing),
        demo=demo,
    )


def _source(one: Mapping[str, Any]) -> ExplainedSource:
    return ExplainedSource(
        source_id=one["id"],
        title="",
        authority_tier=None,
        state=one["state"],
        candidates=one["chunks"],
        elapsed_ms=one["ms"],
        problem=one.get("error"),
    )


def _shown(rank: int, one: Mapping[str, Any]) -> ChunkShown:
    return ChunkShown(
        rank=rank,
        namespace=one["source"],
        chunk_id=one["chunk"],
        doc_id=one.get("document"),
        title=None,
        section=None,
        authority_tier=one["tier"],
        relevance=None,
        absolute=None,
        boost=None,
        rerank_score=None,
        final_score=one["final"],
        flags=tuple(one.get("flags", ())),
        why=f"final score {one['final']:.4f}, tier {one['tier']}",
    )
