"""Quality over time: the recorded searches, answers and judgements of each domain, on a chart for each figure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.audit.ledger.look_up import Criteria
from context_engine.audit.record.entry import fetch
from context_engine.audit.record.exact import Unreadable, read_json
from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import Event, QualitySettings, utc_text
from context_engine.errors import LedgerCorrupt
from context_engine.insight.quality import (
    ChartRule,
    Count,
    Excursion,
    QualityChart,
    QualityOutcome,
    charted,
    mean_delay,
)

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger

FIGURES: Final[Mapping[str, str]] = {
    "degraded": "searches in which a source failed",
    "not_answered": "searches without an answer in the sources",
    "out_of_scope": "searches whose question was out of scope",
    "recall_low": "searches for which a vector index missed too many neighbours",
    "unsupported": "answers with a sentence that its quotes do not support",
    "thumbs_down": "judgements of readers that were thumbs down",
}
"""What is watched, as the share of its outcomes that are bad."""

_THUMBS: Final = "thumbs_down"
_SHOWN_DAYS: Final = 30


class QualityLine(NamedTuple):
    """One figure of one domain.

    Attributes:
        recent: its last hundred outcomes.
        past: outcomes that they are compared with.
        compares: whether there is enough past to alarm.
        delay: outcomes after which a doubled share is noticed on average; infinity if it cannot be told.
        days: outcomes by day, oldest first.
        excursions: oldest first; the last goes on unless it has ended.
    """

    domain: str
    figure: str
    recent: Count
    past: Count
    compares: bool
    delay: float
    days: tuple[tuple[str, Count], ...]
    excursions: tuple[Excursion, ...]

    @property
    def alarmed(self) -> bool:
        """Whether an excursion goes on."""
        return bool(self.excursions) and self.excursions[-1].ended is None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "domain": self.domain,
            "figure": self.figure,
            "recent": self.recent._asdict(),
            "past": self.past._asdict(),
            "compares": self.compares,
            "delay": None if self.delay == float("inf") else round(self.delay),
            "alarmed": self.alarmed,
            "excursions": [excursion_dict(excursion) for excursion in self.excursions],
            "days": [{"day": day, **count._asdict()} for day, count in self.days],
        }


def excursion_dict(excursion: Excursion) -> dict[str, Any]:
    """Return the published form of an excursion, with the shares and how many times the past's share it is."""
    past, share = excursion.past.share, excursion.outcomes.share
    return {
        **excursion._asdict(),
        "outcomes": excursion.outcomes._asdict(),
        "past": excursion.past._asdict(),
        "share": round(share, 4),
        "past_share": round(past, 4),
        "times": round(share / past, 1) if past else None,
    }


def excursion_event(domain: str, figure: str, excursion: Excursion) -> Event:
    """Return the event of an alarm; its id is the same whenever the same records are read."""
    at = datetime.fromisoformat(excursion.alarmed)
    about = {"domain": domain, "figure": figure, "means": FIGURES[figure], **excursion_dict(excursion)}
    return Event(f"quality-{domain}-{figure}-{excursion.alarmed}", "quality_fell", domain, at, about)


def opened_watch(settings: QualitySettings, now: datetime) -> QualityWatch:
    """Return a watch that has read nothing yet, as the settings want it.

    Args:
        now: aware.
    """
    rule = ChartRule(run_length=settings.quality_run_length)
    return QualityWatch(rule, past_begin(now, settings.quality_past_days))


def past_begin(now: datetime, days: int) -> datetime:
    """Return the Monday, UTC, on which the past begins: at least `days` before this week, the same for all of it."""
    today = now.astimezone(UTC).date()
    monday = today - timedelta(days=today.weekday(), weeks=ceil(days / 7))
    return datetime(monday.year, monday.month, monday.day, tzinfo=UTC)


def outcomes_of(entry: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield each figure that a record has an outcome of, and whether it is bad.

    A search that is a part of a workflow or of a job has none: only a question that somebody asks counts.
    """
    kind = entry.get("kind")
    if entry.get("part_of"):
        return
    if kind == "search":
        decision = entry.get("decision")
        yield "degraded", entry.get("status") != "complete"
        yield "not_answered", decision != "answered"
        yield "out_of_scope", decision == "out_of_scope"
        yield "recall_low", any(code == "ann_recall_low" for code, _ in entry.get("notices") or ())
    elif kind == "refusal" and (entry.get("error") or {}).get("code") == "all_sources_failed":
        yield "degraded", True
        yield "not_answered", True
    elif kind == "answer" and entry.get("sentences"):
        yield "unsupported", any(sentence["verdict"] != "supported" for sentence in entry["sentences"])


class QualityWatch:
    """The charts of every domain over the records since a day. Thread-safe; one thread at a time reads on.

    The same records give the same charts, whether they are read at once or as they are written.

    Args:
        rule: of every chart.
        since: records and judgements before this moment are not read.
    """

    def __init__(self, rule: ChartRule, since: datetime) -> None:
        self.rule, self.since = rule, since
        self._lock, self._reading = Lock(), Lock()
        self._next: int | None = None
        self._charts: dict[tuple[str, str], QualityChart] = {}

    def read_on(self, ledger: Ledger | None, thumbs: Iterable[Mapping[str, Any]] = ()) -> None:
        """Read the records that are new, and the judgements.

        Args:
            ledger: None if nothing is recorded.
            thumbs: judgements that count, as `service.judging.votes` gives them.

        Raises:
            AuditError: the ledger cannot be read.
        """
        with self._reading:
            if ledger is not None:
                self._read(ledger)
            judged = _judged(thumbs, utc_text(self.since))
            with self._lock:
                for domain, outcomes in judged.items():
                    self._charts[domain, _THUMBS] = charted(outcomes, self.rule)

    def lines(self, domain: str | None = None) -> list[QualityLine]:
        """Return each figure that has outcomes, by domain; a low recall only if it occurred.

        Args:
            domain: only of this one; None: of all.
        """
        order = list(FIGURES)
        with self._lock:
            charts = sorted(self._charts.items(), key=lambda item: (item[0][0], order.index(item[0][1])))
            wanted = [(name, figure, chart) for (name, figure), chart in charts if domain in (None, name)]
            return [_line(name, figure, chart) for name, figure, chart in wanted if _is_shown(figure, chart)]

    def alarms(self) -> list[tuple[str, str, Excursion]]:
        """Return every excursion with its domain and figure, in the order of the alarms."""
        with self._lock:
            every = [(*key, each) for key, chart in self._charts.items() for each in chart.excursions]
        return sorted(every, key=lambda item: item[2].alarmed)

    def _read(self, ledger: Ledger) -> None:
        ledger.integrate()
        if self._next is None:
            first = ledger.rows(Criteria(since=self.since, log_order=True, limit=1))
            self._next = max(first[0].index, ledger.minimum_index) if first else ledger.size
        start, end, begin = self._next, ledger.size, utc_text(self.since)
        for stored in ledger.entries(start, end):
            entry = None if stored.entry is None else _entry(stored.entry, ledger)
            if entry is not None and str(entry.get("time")) >= begin:
                self._note(entry)
        self._next = max(start, end)

    def _note(self, entry: Mapping[str, Any]) -> None:
        domain, record_id = entry.get("domain"), str(entry.get("search") or entry.get("id"))
        if not domain:
            return
        with self._lock:
            for figure, bad in outcomes_of(entry):
                chart = self._charts.setdefault((domain, figure), QualityChart(self.rule))
                chart.add(QualityOutcome(str(entry["time"]), record_id, bad))


def _entry(data: bytes, ledger: Ledger) -> Mapping[str, Any] | None:
    """Return an entry with the sentences that were cut from it; None if it is damaged."""
    try:
        entry: dict[str, Any] = json.loads(data)
        if "sentences" in (entry.get("more") or {}):
            cut = fetch(ledger, [bytes.fromhex(entry["addenda"]["account"])], entry["id"])
            entry |= {} if not cut else read_json(next(iter(cut.values())))
        return entry
    except (ValueError, KeyError, TypeError, Unreadable, LedgerCorrupt):
        return None


def _judged(thumbs: Iterable[Mapping[str, Any]], since: str) -> dict[str, list[QualityOutcome]]:
    judged: dict[str, list[QualityOutcome]] = {}
    for row in sorted(thumbs, key=lambda row: str(row.get("at", ""))):
        if str(row.get("at", "")) >= since:
            outcome = QualityOutcome(str(row["at"]), str(row.get("search_id", "")), not row.get("grade"))
            judged.setdefault(str(row.get("domain")), []).append(outcome)
    return judged


def _is_shown(figure: str, chart: QualityChart) -> bool:
    return figure != "recall_low" or any(count.bad for count in chart.days.values())


def _line(domain: str, figure: str, chart: QualityChart) -> QualityLine:
    share = chart.past.share
    return QualityLine(
        domain=domain,
        figure=figure,
        recent=chart.recent,
        past=chart.past,
        compares=chart.compares,
        delay=mean_delay(share, min(2 * share, 1.0), chart.rule) if 0.0 < share < 0.5 else float("inf"),
        days=tuple(sorted(chart.days.items()))[-_SHOWN_DAYS:],
        excursions=tuple(chart.excursions),
    )
