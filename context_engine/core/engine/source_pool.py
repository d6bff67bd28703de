"""The sources of an engine: each is opened once, on its first use, and closed with the engine."""

from __future__ import annotations

import logging
from collections.abc import Callable

from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine.recall import SourceBulkhead, as_source_error
from context_engine.core.models import DomainSpec, SourceSpec
from context_engine.core.protocols import Clock, Source
from context_engine.errors import ConfigError, ContextEngineError, SourceError

__all__ = ["OpenSource", "SourcePool"]

logger = logging.getLogger(__name__)

OpenSource = Callable[[DomainSpec, SourceSpec], Source]


class SourcePool:
    """Safe for many threads.

    Args:
        open_source: opens a source; it must not wait for the network.
        clock: the time.
    """

    def __init__(self, open_source: OpenSource, clock: Clock) -> None:
        self._open_source, self._clock = open_source, clock
        self._opened: dict[tuple[str, str], SourceBulkhead] = {}
        self._lock = Lock()
        self._opening: dict[tuple[str, str], Lock] = {}
        self._closed = False

    def get(self, domain: DomainSpec, spec: SourceSpec) -> SourceBulkhead | SourceError:
        """Return a source ready to be called, or why it cannot be opened; that is tried again the next time.

        Raises:
            ConfigError: its configuration cannot be used.
            ContextEngineError: the pool is closed.
        """
        key = (domain.domain, spec.id)
        with self._lock:
            if self._closed:
                raise _closed()
            opening = self._opening.setdefault(key, Lock())
        with opening:
            if (source := self._opened.get(key)) is not None:
                return source
            try:
                source = SourceBulkhead(spec.id, self._open_source(domain, spec), self._clock)
            except ConfigError:
                raise
            except Exception as error:  # noqa: BLE001  one source that cannot be opened never takes the others down
                return as_source_error(error, spec.id)
            return self._keep(key, source)

    def close(self) -> None:
        """Close every source that was opened; may be called twice."""
        with self._lock:
            sources, self._opened, self._closed = list(self._opened.values()), {}, True
        for source in sources:
            _close(source)

    def _keep(self, key: tuple[str, str], source: SourceBulkhead) -> SourceBulkhead:
        with self._lock:
            if not self._closed:
                self._opened[key] = source
                return source
        _close(source)
        raise _closed()


def _closed() -> ContextEngineError:
    return ContextEngineError("the engine is closed: make a new one")


def _close(source: SourceBulkhead) -> None:
    try:
        source.source.close()
    except Exception:
        logger.exception("source %s could not be closed", source.source_id)
