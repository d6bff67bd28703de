"""The sources of an engine: each is opened on its first use and closed with the engine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from context_engine.core.concurrency.awaiting import close
from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine.recall import SourceBulkhead, as_source_error
from context_engine.core.models import DomainSpec, ScoreKind, SearchRequest, Settings, SourceSpec
from context_engine.core.protocols import Clock, RecallWatched, Source
from context_engine.core.ranking.scope import how_to_get
from context_engine.errors import ConfigError, ContextEngineError, InvalidRequest, SourceError, SourceNotFound, nearest

logger = logging.getLogger(__name__)
OpenSource = Callable[[DomainSpec, SourceSpec], Source]
OpenedSource = tuple[SourceSpec, SourceBulkhead | SourceError]
"""A source ready to be called, or the error if it could not be opened."""


class SourcePool:
    """Opens sources and keeps them open. Safe for many threads.

    Args:
        open_source: opens a source; it must not wait for the network.
    """

    def __init__(self, open_source: OpenSource, clock: Clock) -> None:
        self._open_source, self._clock = open_source, clock
        self._opened: dict[tuple[str, str], SourceBulkhead] = {}
        self._lock = Lock()
        self._opening: dict[tuple[str, str], Lock] = {}
        self._closed = False

    def sources(self, domain: DomainSpec, settings: Settings, request: SearchRequest) -> list[OpenedSource]:
        """Return the sources of a search, in the order of the manifest: all of the domain, or those the settings name.

        A source that could not be opened is tried again the next time.

        Raises:
            ConfigError: the configuration of a source is unusable.
            ContextEngineError: the pool is closed.
            InvalidRequest: a source that the domain does not have, or a threshold for a score that no source gives.
        """
        sources = [(spec, self._source(domain, spec)) for spec in _chosen(domain, settings, request)]
        in_call = "similarity_threshold" in request.overrides
        opened = [source for _, source in sources if isinstance(source, SourceBulkhead)]
        _check_threshold(opened, settings, in_call=in_call)
        return sources

    def source(self, domain: DomainSpec, source_id: str) -> SourceBulkhead:
        """Return one source of a domain.

        Raises:
            ConfigError: its configuration is unusable.
            ContextEngineError: the pool is closed.
            SourceError: the domain has no such source, or it cannot be opened.
        """
        spec = next((source for source in domain.sources if source.id == source_id), None)
        if spec is None:
            raise SourceNotFound(f"domain {domain.domain!r} has no such source", source_id=source_id)
        opened = self._source(domain, spec)
        if isinstance(opened, SourceError):
            raise opened
        return opened

    def left_alone(self) -> dict[tuple[str, str], bool]:
        """Return for each domain and opened source whether it is left alone because it was too slow."""
        with self._lock:
            return {key: source.is_left_alone for key, source in self._opened.items()}

    def watched_recall(self) -> dict[tuple[str, str], float]:
        """Return the recall of approximate searches for each domain and opened source whose store watches it."""
        with self._lock:
            stores = {key: getattr(source.source, "store", None) for key, source in self._opened.items()}
        watching = {key: store for key, store in stores.items() if isinstance(store, RecallWatched)}
        return {key: recall for key, store in watching.items() if (recall := store.watched_recall()) is not None}

    def close(self) -> None:
        """Close every source that was opened; may be called twice."""
        with self._lock:
            sources, self._opened, self._closed = list(self._opened.values()), {}, True
        for source in sources:
            _close(source)

    def _source(self, domain: DomainSpec, spec: SourceSpec) -> SourceBulkhead | SourceError:
        key = (domain.domain, spec.id)
        with self._lock:
            if self._closed:
                raise _closed()
            opening = self._opening.setdefault(key, Lock())
        with opening:
            if (source := self._opened.get(key)) is not None:
                return source
            try:
                source = SourceBulkhead(spec.id, self._open_source(domain, spec), self._clock, spec.classification)
            except ConfigError:
                raise
            except Exception as error:  # noqa: BLE001  the other sources are searched nevertheless
                return as_source_error(error, spec.id)
            return self._keep(key, source)

    def _keep(self, key: tuple[str, str], source: SourceBulkhead) -> SourceBulkhead:
        with self._lock:
            if not self._closed:
                self._opened[key] = source
                return source
        _close(source)
        raise _closed()


def _chosen(domain: DomainSpec, settings: Settings, request: SearchRequest) -> tuple[SourceSpec, ...]:
    """Return all sources of the domain, or those the settings name by id or namespace."""
    known = [source.id for source in domain.sources]
    for name in request.require_sources:
        if name not in known:
            raise InvalidRequest(f"domain {domain.domain!r} has no source {name!r}.{nearest(name, known)}")
    if settings.sources is None:
        return tuple(domain.sources)
    if not settings.sources:
        raise InvalidRequest(
            f"sources is empty: name some of {', '.join(domain.names)}, or leave it out for all of them"
        )
    for problem in filter(None, map(domain.unknown_name, settings.sources)):
        raise InvalidRequest(problem)
    return domain.named(settings.sources)


def _check_threshold(opened: Sequence[SourceBulkhead], settings: Settings, *, in_call: bool) -> None:
    """Refuse a call's threshold for a score that no source gives, and with `strict_thresholds` any that a source lacks.

    Otherwise a threshold from a persona, a domain or a file is not refused: the candidates pass, flagged, with a
    notice.
    """
    if settings.similarity_threshold is None or not opened:
        return
    kind = ScoreKind(settings.similarity_kind)
    without = [source.source_id for source in opened if kind not in source.source.score_kinds]
    if without and (settings.strict_thresholds or (in_call and len(without) == len(opened))):
        kinds_given = sorted({str(kind) for source in opened for kind in source.source.score_kinds})
        listed = f" (they give {', '.join(kinds_given)})" if kinds_given else ""
        raise InvalidRequest(
            f"similarity_threshold is a {kind} threshold, and source(s) {', '.join(without)} give no {kind} score"
            f"{listed}: {how_to_get(kind, settings)}, or leave the threshold out and use min_relevance_score"
        )


def _closed() -> ContextEngineError:
    return ContextEngineError("the engine is closed: make a new one")


def _close(source: SourceBulkhead) -> None:
    try:
        close(source.source)
    except Exception:
        logger.exception("source %s could not be closed", source.source_id)
