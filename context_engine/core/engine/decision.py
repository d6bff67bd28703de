"""What the sources did, and what may be concluded from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from context_engine.core.engine.retriever import Recalled
from context_engine.core.engine.stage_two_output import StageTwoOutput
from context_engine.core.models import Decision, RankedChunk, SearchRequest, SourceStatus, Status


class MissingEvidence(NamedTuple):
    """Required evidence that is not in the answer."""

    tiers: tuple[int, ...]
    sources: tuple[str, ...]


class Conclusion(NamedTuple):
    """What may be concluded from an answer.

    Attributes:
        missing: required evidence that is not there.
        by_keywords: every source that answered was searched by a few keywords of each chunk alone.
    """

    status: Status
    decision: Decision
    missing: MissingEvidence
    by_keywords: bool


def conclude(request: SearchRequest, recalled: Recalled, output: StageTwoOutput) -> Conclusion:
    """Return what may be concluded from what the sources did and stage 2 found."""
    statuses, answers = recalled.statuses, recalled.answers
    missing = missing_evidence(output.chunks, request.require_tiers, request.require_sources)
    by_keywords = bool(answers) and all(answer.by_keywords for answer in answers)
    decision = decide(
        required_missing=bool(missing.tiers or missing.sources),
        in_scope=output.in_scope,
        returned=len(output.chunks),
        any_failed=any(status.state in ("failed", "partial") for status in statuses),
        found=output.scope_tested,
        by_keywords=by_keywords,
    )
    status = overall_status(statuses, rerank_failed=output.rerank_failed is not None)
    return Conclusion(status, decision, missing, by_keywords)


def overall_status(sources: Sequence[SourceStatus], *, rerank_failed: bool = False) -> Status:
    """Return failed if no source answered, degraded if one did in part or not or the reranker failed, else complete."""
    states = [source.state for source in sources]
    if all(state == "failed" for state in states):
        return Status.FAILED
    incomplete = "failed" in states or "partial" in states
    return Status.DEGRADED if incomplete or rerank_failed else Status.COMPLETE


def missing_evidence(
    chunks: Iterable[RankedChunk], require_tiers: Sequence[int], require_sources: Sequence[str]
) -> MissingEvidence:
    """Return the required tiers and sources that no returned chunk, nor one merged into it, comes from."""
    tiers: set[int] = set()
    sources: set[str] = set()
    for chunk in chunks:
        tiers.update([chunk.authority_tier, *(member.authority_tier for member in chunk.also_in)])
        sources.update([chunk.source_id, *(member.source_id for member in chunk.also_in)])
    return MissingEvidence(
        tuple(sorted(set(require_tiers) - tiers)),
        tuple(sorted(set(require_sources) - sources)),
    )


def decide(
    *, required_missing: bool, in_scope: bool, returned: int, any_failed: bool, found: int, by_keywords: bool = False
) -> Decision:
    """Return the decision; the first rule that applies.

    1. Required evidence is missing: incomplete.
    2. A source failed, or a part of it, and nothing relevant was found: incomplete, because what is missing might have
       answered.
    3. There were candidates and none was relevant enough: out_of_scope; no_match where nothing but keywords was
       compared, which say what a text is called, not what it is about.
    4. Something is returned: answered.
    5. Else: no_match.

    Args:
        required_missing: a required tier or source gave nothing that is returned.
        in_scope: the best candidate reached the scope threshold.
        returned: chunks returned.
        any_failed: a source did not answer, or not in full.
        found: candidates that were tested against the scope threshold.
        by_keywords: every source that answered was searched by a few keywords of each chunk alone.
    """
    if required_missing:
        return Decision.INCOMPLETE
    relevant = returned > 0 and in_scope
    if any_failed and not relevant:
        return Decision.INCOMPLETE
    if found and not in_scope:
        return Decision.NO_MATCH if by_keywords else Decision.OUT_OF_SCOPE
    return Decision.ANSWERED if returned else Decision.NO_MATCH
