"""Events in a file: one line each, once each, for its owner alone."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from context_engine.adapters.events import EventContext
from context_engine.adapters.events.file import FileSink, open_file
from context_engine.core.engine import SystemClock
from context_engine.core.models import Event
from context_engine.errors import ConfigError

AT = datetime(2026, 3, 2, 10, tzinfo=UTC)


def event(event_id: str = "e1", **data: object) -> Event:
    return Event(event_id, "answer_changed", "s1", AT, data)


def context(folder: Path) -> EventContext:
    def no_connection(name: str) -> object:
        raise ConfigError(f"unknown connection {name!r}")

    return EventContext(
        connection=no_connection,  # type: ignore[arg-type]
        webhook_key=lambda: None,
        data_dir=folder,
        source="bank",
        clock=SystemClock(),
    )


def test_an_event_is_a_line_of_cloudevents_that_only_its_owner_reads(tmp_path: Path) -> None:
    file = tmp_path / "log" / "events.jsonl"
    open_file({"path": str(file)}, context(tmp_path)).send(event(count=2))
    assert json.loads(file.read_text()) == {
        "specversion": "1.0",
        "id": "e1",
        "source": "bank",
        "type": "context-engine.answer_changed",
        "subject": "s1",
        "time": "2026-03-02T10:00:00Z",
        "datacontenttype": "application/json",
        "data": {"count": 2},
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_event_that_was_sent_before_is_not_written_again(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "events.jsonl", "bank")
    for name in ("é1", "e2", "é1", "e"):
        sink.send(event(name))
    written = [json.loads(line)["id"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert written == ["é1", "e2", "e"]


def test_a_line_that_a_crash_cut_off_does_not_spoil_the_next(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"specversion":"1.0","id":"e')
    FileSink(file, "bank").send(event("e2"))
    assert json.loads(file.read_text().splitlines()[1])["id"] == "e2"


def test_the_path_is_absolute_and_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is relative") as refused:
        open_file({"path": "events.jsonl"}, context(tmp_path))
    assert refused.value.key == "path"
    with pytest.raises(ConfigError, match="events cannot be written"):
        FileSink(tmp_path, "bank").send(event())
