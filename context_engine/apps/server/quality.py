"""Watches quality in the service: reads the new records at an interval and reports alarms."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from context_engine.core.concurrency.calls import EXECUTOR
from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import Settings, utc_text
from context_engine.errors import AuditOff, ConfigError, ContextEngineError
from context_engine.insight.quality_watch import FIGURES, QualityLine, QualityWatch, excursion_event, opened_watch
from context_engine.service.deployment import Deployment, LiveDeployment
from context_engine.service.judgements import votes

logger = logging.getLogger(__name__)
_TELLS: Final = timedelta(days=1)
"""An older alarm is not reported. After a start, younger ones are reported again under the same id."""

_LOOKS_FOR_SETTING_S: Final = 60.0


class QualityCheck:
    """Watches the quality of a service by its records. Thread-safe.

    Args:
        live: the deployment in force.
    """

    def __init__(self, live: LiveDeployment) -> None:
        self._live, self._lock = live, Lock()
        self._watch: QualityWatch | None = None
        self._looking: Future[None] | None = None
        self._told: set[str] = set()

    def lines(self, domain: str | None = None) -> list[QualityLine]:
        """Return the figures as of the last look."""
        return [] if self._watch is None else self._watch.lines(domain)

    def look(self) -> Future[None]:
        """Read the new records in the background; return the future of the look that runs now."""
        with self._lock:
            if self._looking is None or self._looking.done():
                self._looking = EXECUTOR.submit(self._look, "context-engine-quality")
            return self._looking

    def _look(self) -> None:
        try:
            with self._live.use() as deployment:
                self._read(deployment)
                if deployment.settings.quality_check_s:
                    self._tell(deployment)
        except AuditOff:
            self._watch = None
        except ContextEngineError as error:
            logger.warning("the quality of searches could not be watched: %s", error)

    def _read(self, deployment: Deployment) -> None:
        settings, now = deployment.settings, datetime.now(UTC)
        ledger, watch = deployment.ledger.opened(), self._watch
        fresh = opened_watch(settings, now)
        if watch is None or (watch.since, watch.rule) != (fresh.since, fresh.rule):
            watch = fresh
        watch.read_on(ledger, votes(deployment.setup.data_dir(deployment.data_dir)))
        self._watch = watch

    def _tell(self, deployment: Deployment) -> None:
        """Log the new alarms and send their events."""
        since = utc_text(datetime.now(UTC) - _TELLS)
        alarms = [] if self._watch is None else self._watch.alarms()
        for domain, figure, excursion in alarms:
            event = excursion_event(domain, figure, excursion)
            if event.event_id in self._told or excursion.alarmed < since:
                continue
            self._told.add(event.event_id)
            logger.warning(
                "quality of %s: %s rose from %.1f %% to %.1f %% since %s (%d of %d, searches %s to %s)",
                domain,
                FIGURES[figure],
                100 * excursion.past.share,
                100 * excursion.outcomes.share,
                excursion.since,
                *excursion.outcomes,
                excursion.first_id,
                excursion.last_id,
            )
            try:
                deployment.events.opened().send(event)
            except ConfigError as error:
                logger.error("the alarm was not sent: %s", error)


class WatchedService(Protocol):
    """A service whose quality is watched."""

    quality: QualityCheck

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        ...

    @property
    def of_first(self) -> bool:
        """Whether this process does what one of several workers shall do."""
        ...


@asynccontextmanager
async def watching(service: WatchedService) -> AsyncIterator[None]:
    """Look at the new records every `quality_check_s` while the context is open; of several workers the first does."""
    if not service.of_first:
        yield
        return
    task = asyncio.create_task(_watch(service))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _watch(service: WatchedService) -> None:
    while True:
        seconds = service.settings.quality_check_s
        await asyncio.sleep(seconds or _LOOKS_FOR_SETTING_S)
        if seconds and service.settings.quality_check_s:
            with suppress(Exception):  # the look has logged it
                await asyncio.wrap_future(service.quality.look())
