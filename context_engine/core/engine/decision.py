"""What the sources did, and what may be concluded from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from context_engine.core.models import Decision, RankedChunk, SourceStatus, Status

__all__ = ["MissingEvidence", "decide", "missing_evidence", "overall_status"]


class MissingEvidence(NamedTuple):
    """Required evidence that is not in the answer."""

    tiers: tuple[int, ...]
    sources: tuple[str, ...]


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
