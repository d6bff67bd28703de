"""The watch in the service: an alarm is told once, in the log and as an event, and only while it is young."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from context_engine.apps.server.quality import QualityCheck
from context_engine.core.models import utc_text
from context_engine.insight.quality import Count, Excursion
from context_engine.insight.quality_watch import QualityWatch
from context_engine.service.deployment import Deployment, LiveDeployment
from tests.unit.service.small_bank import CLERK, searched, small_bank


def excursion(age: timedelta) -> Excursion:
    at = utc_text(datetime.now(UTC) - age)
    return Excursion(at, at, "s-1", "s-9", outcomes=Count(9, 30), past=Count(5, 900))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("watched")


@pytest.fixture(scope="module")
def bank(folder: Path) -> Iterator[Deployment]:
    events = {"event_sinks": {"file": {"path": str(folder / "events.jsonl")}}}
    settings = {"audit": {"audit_mode": "required"}, "quality": {"quality_check_s": 60.0}, "events": events}
    deployment = small_bank(folder, settings=settings)
    yield deployment
    deployment.close()


def sent(folder: Path) -> list[dict[str, object]]:
    file = folder / "events.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_young_alarm_is_told_once_and_an_old_one_never(
    bank: Deployment, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    alarms = [("ORM", "degraded", excursion(timedelta(hours=1))), ("ORM", "thumbs_down", excursion(timedelta(days=2)))]
    monkeypatch.setattr(QualityWatch, "alarms", lambda _: alarms)
    check = QualityCheck(LiveDeployment(lambda: bank))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            check.look().result(30)
    (event,) = sent(folder)
    assert (event["type"], event["subject"]) == ("context-engine.quality_fell", "ORM")
    (told,) = [record.getMessage() for record in caplog.records if "quality of ORM" in record.getMessage()]
    assert told == (
        f"quality of ORM: searches in which a source failed rose from 0.6 % to 30.0 % since {alarms[0][2].since} "
        "(9 of 30, searches s-1 to s-9)"
    )
    again = QualityCheck(LiveDeployment(lambda: bank))
    again.look().result(30)
    assert len(sent(folder)) == 1, "after a start the same id is sent again, and the file knows it"


def test_a_look_reads_what_was_recorded_and_what_was_judged(bank: Deployment) -> None:
    check = QualityCheck(LiveDeployment(lambda: bank))
    assert check.lines() == []
    searched(bank, CLERK)
    check.look().result(30)
    (line, *_) = check.lines("ORM")
    assert (line.figure, line.recent) == ("degraded", Count(0, 1))
    searched(bank, CLERK)
    check.look().result(30)
    assert check.lines("ORM")[0].recent == Count(0, 2)


def test_without_records_there_is_nothing_to_watch(tmp_path: Path) -> None:
    bank = small_bank(tmp_path, settings={"audit": {"audit_mode": "off"}})
    check = QualityCheck(LiveDeployment(lambda: bank))
    check.look().result(30)
    assert check.lines() == []
    bank.close()
