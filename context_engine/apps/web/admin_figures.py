"""What an operator sees of a service: its sources and stores, its searches by day, and who may read what."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from cachetools import TTLCache

from context_engine.audit.review.overview import DayFigures, Overview
from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import DomainSpec, SourceSpec
from context_engine.core.policy.access import OpenAccess
from context_engine.core.policy.access_review import AccessMatrix, access_matrix, holders_in_rules
from context_engine.core.protocols import LEAST_RECALL
from context_engine.errors import ContextEngineError
from context_engine.ingest.kept_reports import KeptReport, KeptReports

if TYPE_CHECKING:
    from context_engine.service.deployment import Deployment
    from context_engine.wiring.embedded_base import BaseStats

logger = logging.getLogger(__name__)
DAYS: Final = 30
_KEPT_S: Final = 60.0


class SourceLine(NamedTuple):
    """A source in the table of sources.

    Attributes:
        documents, chunks: in the embedded base; None if another system holds them.
        problem: why it cannot be searched now; None if it can, or was not examined yet.
        calls, failed: since the configuration was loaded.
        p95_ms: of its last recorded calls; None if none is recorded.
        ingested: the report of its last ingest, if it is kept here.
        recall: the watched recall of approximate searches, 0 to 1; None if none was measured.
    """

    domain: str
    spec: SourceSpec
    documents: int | None
    chunks: int | None
    problem: str | None
    calls: int
    failed: int
    p95_ms: float | None
    ingested: KeptReport | None
    recall: float | None

    @property
    def recall_is_low(self) -> bool:
        """Whether the index of vectors misses too many neighbours."""
        return self.recall is not None and self.recall < LEAST_RECALL


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFigures:
    """The recorded searches of the last days with one.

    Attributes:
        days: each day from the first of them to today, oldest first.
        tiers: number of chunks shown by tier.
        notices: number of searches with each notice, the most frequent first.
    """

    days: tuple[tuple[str, DayFigures], ...]
    total: int
    degraded: int
    stale: int
    tiers: Mapping[int, int]
    notices: tuple[tuple[str, int], ...]


def searches_of(overview: Overview, today: date) -> SearchFigures:
    """Return the figures of the last 30 days."""
    first = today - timedelta(days=DAYS - 1)
    recorded = {day: each for day, each in overview.days(DAYS).items() if day >= first.isoformat()}
    tiers, notices = Counter[int](), Counter[str]()
    for each in recorded.values():
        tiers.update(each.tiers)
        notices.update(each.notices)
    return SearchFigures(
        days=tuple(_every_day(recorded, today)),
        total=sum(each.searches for each in recorded.values()),
        degraded=sum(each.degraded for each in recorded.values()),
        stale=sum(each.stale for each in recorded.values()),
        tiers=dict(sorted(tiers.items())),
        notices=tuple(notices.most_common()),
    )


def _every_day(recorded: Mapping[str, DayFigures], today: date) -> Iterator[tuple[str, DayFigures]]:
    day = date.fromisoformat(min(recorded, default=today.isoformat()))
    while day <= today:
        yield day.isoformat(), recorded.get(day.isoformat(), DayFigures())
        day += timedelta(days=1)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed.

    Args:
        values: at least one.
        share: in (0, 1].
    """
    return sorted(values)[ceil(share * len(values)) - 1]


def source_lines(
    deployment: Deployment,
    problems: Mapping[tuple[str, str], str | None],
    overview: Overview | None,
    base: BaseStats | None,
) -> list[SourceLine]:
    """Return a line for every source, by domain.

    Args:
        problems: of the last examination.
        overview: of the ledger, if searches are recorded.
        base: of the embedded base, if there is one.
    """
    from context_engine.wiring.embedded_base import base_path, in_embedded_base

    ingests = KeptReports(base_path(deployment.setup.data_dir(deployment.data_dir))).last()
    recalls = deployment.engine.watched_recall()
    tally, times = deployment.engine.tally.read(), {} if overview is None else overview.call_times()
    lines = []
    for name, domain in sorted(deployment.setup.registry.domains.items()):
        for spec in domain.sources:
            source_stats = base.sources.get(spec.id) if base is not None and in_embedded_base(spec) else None
            outcomes = {end: n for (of, source, end), n in tally.calls.items() if (of, source) == (name, spec.id)}
            known = times.get((name, spec.id))
            lines.append(
                SourceLine(
                    domain=name,
                    spec=spec,
                    documents=None if source_stats is None else source_stats.documents,
                    chunks=None if source_stats is None else source_stats.chunks,
                    problem=problems.get((name, spec.id)),
                    calls=sum(outcomes.values()),
                    failed=sum(count for end, count in outcomes.items() if end not in ("ok", "empty", "partial")),
                    p95_ms=percentile(known, 0.95) if known else None,
                    ingested=ingests.get(spec.id),
                    recall=recalls.get((name, spec.id)),
                )
            )
    return lines


def last_ingests(lines: Sequence[SourceLine]) -> list[KeptReport]:
    """Return the reports of the last ingests of all sources, each once, the newest first."""
    known = [line.ingested for line in lines if line.ingested is not None]
    reports = {(report.at, report.domain, report.adapter): report for report in known}
    return [reports[key] for key in sorted(reports, reverse=True)]


def matrix_of(deployment: Deployment) -> AccessMatrix | None:
    """Return who may read what; None if no rule is in force, so that everybody may read everything."""
    setup = deployment.setup
    if isinstance(setup.access, OpenAccess):
        return None
    domains: list[DomainSpec] = [domain for _, domain in sorted(setup.registry.domains.items())]
    holders, principals = holders_in_rules(domains), setup.config.principals.named.values()
    return access_matrix(domains, setup.access, holders=holders, principals=principals)


class BaseFacts:
    """The statistics of the embedded base, kept for a minute because counting takes time. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: TTLCache[str, BaseStats | None] = TTLCache(8, _KEPT_S)

    def of(self, deployment: Deployment) -> BaseStats | None:
        """Return the statistics; None if there is no base, or it cannot be read."""
        from context_engine.wiring.embedded_base import base_as_it_is, base_path

        path = base_path(deployment.setup.data_dir(deployment.data_dir))
        with self._lock:
            if str(path) not in self._kept:
                try:
                    with base_as_it_is(path) as base:
                        self._kept[str(path)] = base.stats() if base.exists() else None
                except ContextEngineError as error:  # the sources show it as their problem
                    logger.warning("the base could not be counted: %s", error)
                    self._kept[str(path)] = None
            stats: BaseStats | None = self._kept[str(path)]
            return stats


def today() -> date:
    """Return the day in UTC, as the ledger counts days."""
    return datetime.now(UTC).date()
