"""What is refused before any source is called."""

from __future__ import annotations

from collections.abc import Iterable

from context_engine.core.engine.recall import SourceBulkhead
from context_engine.core.models import DomainSpec, ScoreKind, SearchRequest, Settings, SourceSpec
from context_engine.errors import InvalidRequest, SourceError, nearest

__all__ = ["check_similarity_threshold", "sources_to_search"]


def sources_to_search(domain: DomainSpec, settings: Settings, request: SearchRequest) -> tuple[SourceSpec, ...]:
    """Return all sources of the domain, or those the settings name.

    Raises:
        InvalidRequest: a source that the domain does not have, or no source at all.
    """
    known = [source.id for source in domain.sources]
    for name in (*(settings.sources or ()), *request.require_sources):
        if name not in known:
            raise InvalidRequest(f"domain {domain.domain!r} has no source {name!r}.{nearest(name, known)}")
    if settings.sources is None:
        return tuple(domain.sources)
    if not settings.sources:
        raise InvalidRequest(f"sources is empty: name some of {', '.join(known)}, or leave it out for all of them")
    return tuple(source for source in domain.sources if source.id in settings.sources)


def check_similarity_threshold(sources: Iterable[SourceBulkhead | SourceError], settings: Settings) -> None:
    """Refuse a threshold that no opened source (or, strictly, that some of them) can be tested on.

    Raises:
        InvalidRequest: such a threshold.
    """
    opened = [source for source in sources if isinstance(source, SourceBulkhead)]
    if settings.similarity_threshold is None or not opened:
        return
    kind = ScoreKind(settings.similarity_kind)
    without = [source.source_id for source in opened if kind not in source.source.score_kinds]
    if len(without) == len(opened) or (without and settings.strict_thresholds):
        raise InvalidRequest(
            f"similarity_threshold is a {kind} threshold, and source(s) {', '.join(without)} give no {kind} score: "
            "set similarity_kind to a kind they give, or leave the threshold out and use min_relevance_score"
        )
