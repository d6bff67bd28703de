"""What a search could not see, in words: nobody may take an answer for whole that lacks a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from context_engine.core.models import Decision, SearchResult, SourceStatus, Status

_REGISTER_TIER: Final = 1


class MissingKnowledge(NamedTuple):
    """A title, and what a model and its readers must know."""

    title: str
    content: str


def missing_sources(result: SearchResult) -> list[SourceStatus]:
    """Return the sources that did not answer, or answered in part."""
    return [one for one in result.sources if one.state in ("failed", "partial")]


def without_register(result: SearchResult) -> SearchResult:
    """Return a result with the decision `incomplete` where a tier-1 source failed, whole or in part.

    What a system of record would have said is not known then, and may be the opposite. One that answered and found
    nothing changes nothing.
    """
    if any(one.authority_tier == _REGISTER_TIER for one in missing_sources(result)):
        return replace(result, decision=Decision.INCOMPLETE)
    return result


def missing_sources_warnings(result: SearchResult) -> list[str]:
    """Return one sentence for each source that is missing, and one for all that failed in the same way."""
    alone = [_sentence([one]) for one in missing_sources(result) if one.error is None]
    return alone + [_sentence(group) for group in result.failed_alike]


def missing_knowledge(result: SearchResult) -> MissingKnowledge | None:
    """Return what stands before the passages of a degraded search; None where the search is whole."""
    if result.status is Status.COMPLETE:
        return None
    missing = missing_sources(result)
    if missing:
        return of_missing_sources(missing, "these passages")
    return MissingKnowledge(
        "Ranking incomplete",
        "Ranking incomplete: a stage of the search failed. These passages are ranked without it: tell the reader so.",
    )


def of_missing_sources(missing: Sequence[SourceStatus], where: str) -> MissingKnowledge:
    """Return what is to be said of sources that are missing.

    Args:
        where: what they are missing from.
    """
    names = ", ".join(one.title or one.source_id for one in missing) or "a part of the search"
    title = f"Knowledge incomplete: {names} unavailable"
    return MissingKnowledge(title, f"{title}. What it holds is missing from {where}: tell the reader so.")


def _sentence(sources: Sequence[SourceStatus]) -> str:
    first = sources[0]
    did = "did not answer" if first.state == "failed" else "answered only in part"
    names = ", ".join(f"{one.title or one.source_id} (tier {one.authority_tier})" for one in sources)
    message = str(first.error["message"]) if first.error else "no reason is known"
    return f"{names} {did}: {message if len(sources) == 1 else first.problem}"
