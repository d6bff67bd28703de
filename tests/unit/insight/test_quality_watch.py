"""The watch over records: which outcome each record is, the same charts however it is read, and its events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.look_up import Criteria
from context_engine.core.models import QualitySettings, utc_text
from context_engine.insight.quality import ChartRule, Count
from context_engine.insight.quality_watch import (
    QualityWatch,
    excursion_event,
    opened_watch,
    outcomes_of,
    past_begin,
)

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
RULE = ChartRule(run_length=1000, least_past=50)
DAMAGED = b"{"
Entry = dict[str, Any]


def search(number: int, *, status: str = "complete", decision: str = "answered", domain: str = "NPA") -> Entry:
    time = utc_text(MONDAY + timedelta(minutes=number))
    more = {"domain": domain, "status": status, "decision": decision, "notices": []}
    return {"kind": "search", "id": f"s{number}", "time": time, **more}


class ListedLedger:
    """The part of a ledger that the watch reads."""

    minimum_index = 0

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.read, self.all = 0, [json.dumps(entry).encode() for entry in entries]

    @property
    def size(self) -> int:
        return len(self.all)

    def integrate(self) -> None:
        pass

    def rows(self, criteria: Criteria) -> list[Any]:
        assert criteria.since is not None and criteria.log_order
        times = [json.loads(entry)["time"] for entry in self.all if entry != DAMAGED]
        later = [index for index, time in enumerate(times) if time >= utc_text(criteria.since)]
        return [SimpleNamespace(index=index) for index in later[:1]]

    def entries(self, start: int, end: int) -> Iterator[Any]:
        for entry in self.all[start:end]:
            self.read += 1
            yield SimpleNamespace(entry=entry)


def watched(entries: Sequence[Entry], since: datetime = MONDAY, thumbs: Sequence[Entry] = ()) -> QualityWatch:
    watch = QualityWatch(RULE, since)
    watch.read_on(cast(Ledger, ListedLedger(entries)), thumbs)
    return watch


@pytest.mark.parametrize(
    ("entry", "bad"),
    [
        (search(1), {"degraded": False, "not_answered": False, "out_of_scope": False, "recall_low": False}),
        (
            search(1, status="degraded", decision="out_of_scope") | {"notices": [["ann_recall_low", "kb"]]},
            {"degraded": True, "not_answered": True, "out_of_scope": True, "recall_low": True},
        ),
        ({"kind": "refusal", "error": {"code": "all_sources_failed"}}, {"degraded": True, "not_answered": True}),
        ({"kind": "refusal", "error": {"code": "not_permitted"}}, {}),
        ({"kind": "answer", "sentences": [{"verdict": "supported"}, {"verdict": "partly"}]}, {"unsupported": True}),
        ({"kind": "answer", "sentences": [{"verdict": "supported"}]}, {"unsupported": False}),
        ({"kind": "answer", "sentences": []}, {}),
        ({"kind": "fetch"}, {}),
        (search(2) | {"part_of": "s1"}, {}),
        ({"kind": "refusal", "error": {"code": "all_sources_failed"}, "part_of": "s1"}, {}),
        ({"kind": "answer", "sentences": [{"verdict": "partly"}], "part_of": "job-20260302-090000-0a1b2c"}, {}),
    ],
)
def test_a_record_is_an_outcome_of_each_figure_that_it_says_something_about(entry: Entry, bad: Entry) -> None:
    assert dict(outcomes_of(entry)) == bad


def test_each_domain_and_figure_has_its_own_line() -> None:
    lines = watched([search(1), search(2, status="degraded"), search(3, domain="ORM")]).lines()
    assert [(line.domain, line.figure) for line in lines] == [
        *(("NPA", figure) for figure in ("degraded", "not_answered", "out_of_scope")),
        *(("ORM", figure) for figure in ("degraded", "not_answered", "out_of_scope")),
    ]
    assert lines[0].recent == Count(1, 2)
    assert lines[0].days == (("2026-03-02", Count(1, 2)),)


def test_only_records_since_the_day_are_read_and_each_once() -> None:
    ledger = ListedLedger([search(number) for number in range(10)])
    watch = QualityWatch(RULE, MONDAY + timedelta(minutes=4))
    watch.read_on(cast(Ledger, ledger))
    watch.read_on(cast(Ledger, ledger))
    assert (ledger.read, watch.lines("NPA")[0].recent) == (6, Count(0, 6))


def test_a_clock_that_was_set_back_hides_no_record() -> None:
    """The log goes on while the time goes back; what is then dated before the day is not read."""
    watch = watched([search(minute) for minute in (10, 11, 5, -3, 12)])
    assert watch.lines("NPA")[0].recent == Count(0, 4)


def test_a_restart_changes_nothing() -> None:
    entries = [search(number, status="degraded" if number > 200 else "complete") for number in range(260)]
    ledger, growing = ListedLedger(entries), QualityWatch(RULE, MONDAY)
    for size in (10, 150, 205, 260):
        ledger.all = [json.dumps(entry).encode() for entry in entries[:size]]
        growing.read_on(cast(Ledger, ledger))
    assert growing.lines() == watched(entries).lines()
    assert growing.alarms() == watched(entries).alarms() != []


def test_an_event_tells_since_when_how_much_and_which_searches() -> None:
    entries = [search(number, status="degraded" if number > 200 else "complete") for number in range(230)]
    ((domain, figure, excursion),) = watched(entries).alarms()
    event = excursion_event(domain, figure, excursion)
    assert (event.kind, event.subject) == ("quality_fell", "NPA")
    assert (event.data["figure"], event.data["first_id"]) == ("degraded", "s201")
    assert (event.data["share"], event.data["past_share"], event.data["times"]) == (1.0, 0.0, None)
    assert json.dumps(event.envelope("bank"))
    (longer,) = watched(entries[:225]).alarms()
    assert excursion_event(*longer).event_id == event.event_id


def test_thumbs_are_a_figure_of_their_own() -> None:
    def thumb(hour: int, grade: int) -> Entry:
        at = utc_text(MONDAY + timedelta(hours=hour))
        return {"domain": "NPA", "grade": grade, "at": at, "search_id": "s1", "by": "p"}

    watch = watched([], thumbs=[thumb(3, 0), thumb(1, 2), thumb(-1, 0)])
    (line,) = watch.lines()
    assert (line.figure, line.recent) == ("thumbs_down", Count(1, 2))
    watch.read_on(None, [thumb(3, 2)])
    assert watch.lines()[0].recent == Count(0, 1)


def test_a_damaged_entry_counts_as_nothing() -> None:
    ledger = ListedLedger([search(1)])
    ledger.all.append(DAMAGED)
    watch = QualityWatch(RULE, MONDAY)
    watch.read_on(cast(Ledger, ledger))
    assert watch.lines()[0].recent == Count(0, 1)


@pytest.mark.parametrize("day", range(7))
def test_the_past_begins_on_the_same_monday_for_a_whole_week(day: int) -> None:
    begin = past_begin(MONDAY + timedelta(days=day, hours=5), 90)
    assert begin == past_begin(MONDAY, 90)
    assert begin.weekday() == 0
    assert MONDAY - begin >= timedelta(days=90)


def test_the_settings_say_how_far_back_and_how_rarely() -> None:
    watch = opened_watch(QualitySettings(quality_past_days=14, quality_run_length=1000), MONDAY)
    assert (watch.rule.run_length, watch.since) == (1000, MONDAY - timedelta(days=14))
