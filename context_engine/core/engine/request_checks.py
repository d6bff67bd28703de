"""What is refused before any source is asked."""

from __future__ import annotations

from collections.abc import Sequence

from context_engine.core.engine.recall import SourceBulkhead
from context_engine.core.models import DomainSpec, ScoreKind, SearchRequest, Settings, SourceSpec
from context_engine.errors import InvalidRequest, nearest

__all__ = ["check_threshold", "chosen_sources"]


def chosen_sources(domain: DomainSpec, settings: Settings, request: SearchRequest) -> list[SourceSpec]:
    """Return the sources to ask: all of the domain, or those the settings name."""
    known = [source.id for source in domain.sources]
    for name in (*(settings.sources or ()), *request.require_sources):
        if name not in known:
            raise InvalidRequest(f"domain {domain.domain!r} has no source {name!r}.{nearest(name, known)}")
    if settings.sources is None:
        return list(domain.sources)
    if not settings.sources:
        raise InvalidRequest(f"sources is empty: name some of {', '.join(known)}, or leave it out for all of them")
    return [source for source in domain.sources if source.id in settings.sources]


def check_threshold(lanes: Sequence[SourceBulkhead], settings: Settings) -> None:
    """Refuse a threshold that no source (or, strictly, that some source) can be tested on."""
    if settings.similarity_threshold is None or not lanes:
        return
    kind = ScoreKind(settings.similarity_kind)
    without = [lane.source_id for lane in lanes if kind not in lane.source.score_kinds]
    if len(without) == len(lanes) or (without and settings.strict_thresholds):
        raise InvalidRequest(
            f"similarity_threshold is a {kind} threshold, and source(s) {', '.join(without)} give no {kind} score: "
            "set similarity_kind to a kind they give, or leave the threshold out and use min_relevance_score"
        )
