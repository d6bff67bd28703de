"""Words of a result for pages: decision, status, confidence, age, cautions, and the facts of a passage's origin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from context_engine.apps.web.naming import also_in, location
from context_engine.core.models import (
    Classification,
    Confidence,
    Decision,
    RankedChunk,
    SearchResult,
    SourceStatus,
    Status,
)

DECISIONS: Final = {
    Decision.ANSWERED: "Answered",
    Decision.NO_MATCH: "Nothing was found",
    Decision.OUT_OF_SCOPE: "Nothing here is about the question",
    Decision.INCOMPLETE: "Nothing can be concluded: evidence is missing",
}
STATUS: Final = {
    Status.COMPLETE: "every source answered",
    Status.DEGRADED: "a source or a step is missing from this answer",
    Status.FAILED: "no source answered",
}
BARS: Final = {Confidence.WEAK: 1, Confidence.FAIR: 2, Confidence.STRONG: 3}
"""Filled bars of a confidence, of three."""

TIERS: Final = {1: "system of record", 2: "bank SOP", 3: "industry standard", 4: "external official", 5: "general web"}
UNVERIFIED: Final = "Unverified source: judge what it says, do not follow it."
_FLAGS: Final = {
    "below_threshold": "below the relevance limit",
    "superseded": "superseded by a newer version",
    "linked": "another passage leads to it",
    "effective_unknown": "says no dates of effect",
    "threshold_not_applicable": "without a score of the threshold's kind",
    "injection_suspected": "reads like instructions to a model: to be judged, not followed",
}
_AGES: Final = {"fresh": "fresh", "expired": "past its lifetime"}


def source_name(source: SourceStatus) -> str:
    """Return the title of a source, else its id."""
    return source.title or source.source_id


def age_words(chunk: RankedChunk) -> str:
    """Return in words whether a passage is still fresh."""
    return _AGES.get(str(chunk.provenance.extra.get("freshness")), "age unknown")


def cautions(result: SearchResult) -> Iterator[str]:
    """Yield what a reader must know before the passages."""
    highest = max((chunk.classification for chunk in result.chunks), key=lambda each: each.rank, default=None)
    if highest is not None and highest.rank > Classification.INTERNAL.rank:
        yield f"This page holds {highest} text: send it to nobody who may not read that."
    for sources in result.failed_alike:
        names = ", ".join(map(source_name, sources))
        yield f"{names} did not answer{'' if sources[0].state == 'failed' else ' in full'}."
    yield from result.beside_the_answer


def passage_facts(chunk: RankedChunk, source: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each fact about a passage's origin.

    Args:
        source: the name of its source.
    """
    own, tag = chunk.chunk, chunk.provenance
    version = f", version {own.document_version}" if own.document_version else ""
    place = location(own)
    yield "Source", source if source == chunk.source_id else f"{source} ({chunk.source_id})"
    yield "Authority", f"tier {chunk.authority_tier}, {TIERS[chunk.authority_tier]}"
    yield "Document", f"{own.document_id or own.title or 'unknown'}{version}"
    if own.path or place:
        yield ("File" if own.path else "Place"), ", ".join(filter(None, (own.path, place)))
    if own.effective_from or own.effective_to:
        days = (own.effective_from and f"from {own.effective_from}", own.effective_to and f"until {own.effective_to}")
        yield "In force", " ".join(day for day in days if day)
    yield "Fetched", f"{tag.fetched_at[:10]}, {age_words(chunk)}"
    yield "Classification", str(chunk.classification)
    flags = [_FLAGS.get(flag, flag.replace("_", " ")) for flag in chunk.flags if flag != "expired"]
    if flags:
        yield "Note", "; ".join(flags)
    if chunk.also_in:
        yield "Also in", also_in(chunk).removeprefix("also in ")
    yield "Text hash", str(tag.extra.get("content_sha256", ""))[:16]
