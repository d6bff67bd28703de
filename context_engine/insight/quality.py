"""A control chart for a share: how the outcomes of a domain compare with its own past, one after the other.

Each outcome is good or bad. The chart is a CUSUM of log-likelihood ratios (Page 1954; for shares with a known share of
each outcome, Steiner, Cook, Farewell and Treasure 2000): with assumed share p of bad outcomes and odds ratio R it adds
x ln R - ln(1 - p + R p) for each outcome x (1 bad, 0 good), and never falls below 0. Three charts with different R run
side by side, so that small and large shifts are both seen soon.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from math import log, sqrt
from typing import Final, NamedTuple

SHIFTS: Final = (1.5, 2.5, 5.0)
"""Odds ratios that the charts look for."""

_LIMIT_Z: Final = 1.2816  # one-sided 90 %
_WEEKDAY_WEIGHT: Final = 200
"""Outcomes of the whole past that are added to those of a weekday, so that few outcomes move its share little."""

_RECENT: Final = 100


class ChartRule(NamedTuple):
    """When a chart alarms.

    Attributes:
        run_length: outcomes between two false alarms, at least on average; above 1.
        least_past: outcomes that must be known before anything is compared with them.
    """

    run_length: float = 50_000.0
    least_past: int = 500

    @property
    def height(self) -> float:
        """The value of a chart from which it alarms.

        While nothing changes, each CUSUM is at most the logarithm of its Shiryaev-Roberts statistic, whose mean grows
        by at most 1 with each outcome (Lorden 1971; Pollak 1985). The sum over the charts reaches exp(height) = charts
        times run_length after run_length outcomes on average, or later.
        """
        return log(len(SHIFTS) * self.run_length)


USUAL: Final = ChartRule()
"""One false alarm of a figure in 50,000 outcomes."""


class QualityOutcome(NamedTuple):
    """One outcome of a stream.

    Attributes:
        time: UTC, ISO 8601.
        record_id: of the search.
    """

    time: str
    record_id: str
    bad: bool


class Count(NamedTuple):
    """Bad outcomes among all."""

    bad: int = 0
    total: int = 0

    @property
    def share(self) -> float:
        """The share of bad outcomes; 0 without outcomes."""
        return self.bad / self.total if self.total else 0.0

    def plus(self, bad: int, total: int = 1) -> Count:
        """Return the sum."""
        return Count(self.bad + bad, self.total + total)


class Excursion(NamedTuple):
    """A time in which the share of bad outcomes is above the past.

    Attributes:
        alarmed: when the chart alarmed, UTC.
        since: time of the first outcome that raised the chart.
        first_id, last_id: the first and the last search.
        outcomes: those since then.
        past: those that they are compared with.
        ended: when the chart was back at zero, or the excursion became the past; None: not yet.
    """

    alarmed: str
    since: str
    first_id: str
    last_id: str
    outcomes: Count
    past: Count
    ended: str | None = None


def upper_limit(share: float, total: float) -> float:
    """Return the upper 90 % confidence limit of a share (Wilson 1927).

    Args:
        share: observed, in [0, 1].
        total: number of outcomes; above 0.
    """
    z2 = _LIMIT_Z**2 / total
    return (share + z2 / 2 + sqrt(z2) * sqrt(share * (1 - share) + z2 / 4)) / (1 + z2)


def mean_delay(past: float, now: float, rule: ChartRule = USUAL) -> float:
    """Return the most outcomes that pass on average between a shift and its alarm (Wald 1947, with the last step).

    Args:
        past: assumed share of bad outcomes, in (0, 1).
        now: share since the shift, in (0, 1]; infinity if no chart rises with it.
    """
    rises = ((now * log(ratio) - log(1 - past + ratio * past), log(ratio)) for ratio in SHIFTS)
    return min(((rule.height + step) / rise for rise, step in rises if rise > 0), default=float("inf"))


class _Past:
    """Outcomes by weekday."""

    def __init__(self) -> None:
        self.days = [Count()] * 7
        self.all = Count()

    def add(self, weekday: int, bad: int, total: int = 1) -> None:
        self.days[weekday] = self.days[weekday].plus(bad, total)
        self.all = self.all.plus(bad, total)

    def join(self, other: _Past) -> None:
        for weekday, count in enumerate(other.days):
            self.add(weekday, *count)

    def assumed(self, weekday: int) -> float:
        """Return the share to assume: that of a weekday, drawn towards that of all days, with room for its error."""
        day = self.days[weekday]
        share = (day.bad + _WEEKDAY_WEIGHT * self.all.share) / (day.total + _WEEKDAY_WEIGHT)
        return upper_limit(share, self.all.total)


@dataclass(slots=True)
class _Cusum:
    """One CUSUM and what raised it since it last stood at zero."""

    ratio: float
    value: float = 0.0
    since: str = ""
    first_id: str = ""
    count: Count = field(default_factory=Count)

    def add(self, outcome: QualityOutcome, assumed: float, most: float) -> None:
        step = outcome.bad * log(self.ratio) - log(1 - assumed + self.ratio * assumed)
        value = self.value + step
        if value <= 0.0:
            self.value, self.count = 0.0, Count()
            return
        if self.value == 0.0:
            self.since, self.first_id = outcome.time, outcome.record_id
        self.value, self.count = min(value, most), self.count.plus(outcome.bad)


class QualityChart:
    """The chart of one figure of a domain; outcomes are added in order of time.

    Outcomes become part of the past when all charts are at zero: what may begin an excursion is not compared with
    itself. Those of an excursion do not, unless it has lasted as long as the past: then it is the past from then on.

    Attributes:
        rule: when it alarms.
        days: outcomes of each day, as 2026-03-02.
        excursions: oldest first; the last may not have ended.
    """

    def __init__(self, rule: ChartRule = USUAL) -> None:
        self.rule, self._past, self._waiting = rule, _Past(), _Past()
        self._charts = [_Cusum(ratio) for ratio in SHIFTS]
        self._alarming: _Cusum | None = None
        self._recent: deque[bool] = deque(maxlen=_RECENT)
        self.days: dict[str, Count] = {}
        self.excursions: list[Excursion] = []

    @property
    def past(self) -> Count:
        """The outcomes that new ones are compared with."""
        return self._past.all

    @property
    def compares(self) -> bool:
        """Whether there is enough past to alarm."""
        return self.past.total >= self.rule.least_past

    @property
    def recent(self) -> Count:
        """The last hundred outcomes."""
        return Count(sum(self._recent), len(self._recent))

    @property
    def alarmed(self) -> bool:
        """Whether an excursion is going on."""
        return self._alarming is not None

    def add(self, outcome: QualityOutcome) -> Excursion | None:
        """Add an outcome; return the excursion if it alarms, once for each."""
        weekday, bad = datetime.fromisoformat(outcome.time).weekday(), int(outcome.bad)
        day = outcome.time[:10]
        self.days[day] = self.days.get(day, Count()).plus(bad)
        self._recent.append(outcome.bad)
        if not self.compares:
            self._past.add(weekday, bad)
            return None
        assumed = self._past.assumed(weekday)
        for chart in self._charts:
            chart.add(outcome, assumed, self.rule.height)
        self._waiting.add(weekday, bad)
        if self._alarming is not None:
            self._follow(outcome, self._alarming)
            return None
        return self._settled(outcome)

    def _settled(self, outcome: QualityOutcome) -> Excursion | None:
        """Alarm, or let what has proved quiet join the past."""
        highest = max(self._charts, key=lambda chart: chart.value)
        if highest.value >= self.rule.height:
            self._alarming, self._waiting = highest, _Past()
            excursion = Excursion(
                alarmed=outcome.time,
                since=highest.since,
                first_id=highest.first_id,
                last_id=outcome.record_id,
                outcomes=highest.count,
                past=self.past,
            )
            self.excursions.append(excursion)
            return excursion
        if highest.value == 0.0:
            self._past.join(self._waiting)
            self._waiting = _Past()
        return None

    def _follow(self, outcome: QualityOutcome, alarming: _Cusum) -> None:
        """Continue an excursion; it ends when its chart is back at zero, and all begin anew."""
        last = self.excursions[-1]
        stays = self._waiting.all.total >= self.past.total
        if alarming.value > 0.0 and not stays:
            outcomes = last.outcomes.plus(int(outcome.bad))
            self.excursions[-1] = last._replace(last_id=outcome.record_id, outcomes=outcomes)
            return
        self.excursions[-1] = last._replace(ended=outcome.time)
        self._past = self._waiting if stays else self._past
        self._alarming, self._waiting = None, _Past()
        self._charts = [_Cusum(ratio) for ratio in SHIFTS]


def charted(outcomes: Iterable[QualityOutcome], rule: ChartRule = USUAL) -> QualityChart:
    """Return the chart of outcomes in order of time."""
    chart = QualityChart(rule)
    for outcome in outcomes:
        chart.add(outcome)
    return chart
